"""Operations on single elements: which opcode does how many per element of its result."""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod

from tpuprof.hlo.cost.windows import valid_pairs
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.shapes import Shape

# One operation per element of the result. Integer and logical ones count too: the vector unit does them all alike.
COUNTED = frozenset({
    "abs", "add", "and", "ceil", "clamp", "compare", "complex", "count-leading-zeros", "divide", "floor", "imag",
    "is-finite", "maximum", "minimum", "multiply", "mulhi", "negate", "not", "or", "popcnt", "real",
    "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "stochastic-convert", "subtract", "xor",
})  # fmt: skip
# One transcendental per element of the result; random numbers are counted as such for want of a better measure.
TRANSCENDENTAL = frozenset({
    "acos", "acosh", "asin", "asinh", "atan2", "atanh", "cbrt", "cosine", "cosh", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rng", "rng-bit-generator", "rsqrt", "sine",
    "sinh", "sqrt", "tan", "tanh",
})  # fmt: skip
# They move, make or rename values and compute nothing. A change of type is no arithmetic.
MOVES = frozenset({
    "bitcast-convert", "broadcast", "collective-broadcast", "collective-broadcast-start", "collective-permute",
    "collective-permute-start", "all-gather", "all-gather-start", "all-to-all", "ragged-all-to-all", "concatenate",
    "convert", "copy", "copy-start", "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "gather",
    "get-dimension-size", "infeed", "iota", "outfeed", "pad", "recv", "reshape", "reverse",
    "rng-get-and-update-state", "send", "set-dimension-size", "slice", "transpose",
})  # fmt: skip
# Nothing happens at run time, or it happens elsewhere (the work of a pair at its start, of a loop in its body).
NOTHING = frozenset({
    "add-dependency", "after-all", "all-gather-done", "all-reduce-done", "async-done", "async-update", "bitcast",
    "call", "collective-permute-done", "collective-broadcast-done", "conditional", "constant", "copy-done", "domain",
    "get-tuple-element", "opt-barrier", "optimization-barrier", "parameter", "partition-id", "recv-done",
    "replica-id", "send-done", "tuple", "while",
})  # fmt: skip
# They apply a computation to single elements.
APPLIED = frozenset({
    "all-reduce", "all-reduce-start", "map", "reduce", "reduce-scatter", "reduce-window", "scatter",
    "select-and-scatter",
})  # fmt: skip


def applications(instruction: Instruction, operands: list[Shape]) -> tuple[tuple[str, int], ...] | None:
    """How often an instruction of `APPLIED` applies which role's computation; null if the shapes do not tell.

    A reduction of n values to one applies it n - 1 times. Of a window only the positions on real input count.

    Raises:
        HloError: an attribute cannot be read.
    """
    if not operands:
        return None
    given, made = operands[0].elements, _first(instruction.shape).elements
    if given is None or made is None:
        return None
    opcode = instruction.opcode
    if opcode == "map":
        return (("to_apply", made),)
    if opcode == "reduce":
        return (("to_apply", max(0, given - made)),)
    if opcode in ("all-reduce", "all-reduce-start", "reduce-scatter"):
        # Each device adds a share of the data of all the others, which sums up to about the whole once.
        return (("to_apply", sum(shape.elements or 0 for shape in operands)),)
    if opcode == "reduce-window":
        pairs = _window_pairs(instruction, operands[0], _first(instruction.shape))
        return None if pairs is None else (("to_apply", max(0, pairs - made)),)
    if opcode == "scatter":
        count = (len(operands) - 1) // 2
        updates = operands[-1].elements if count else None
        return None if updates is None else (("to_apply", updates),)
    source = operands[1].elements if len(operands) > 1 else None  # select-and-scatter
    pairs = _window_pairs(instruction, operands[0], operands[1]) if len(operands) > 1 else None
    return None if source is None or pairs is None else (("select", max(0, pairs - source)), ("scatter", source))


def special(instruction: Instruction, operands: list[Shape]) -> float | None:
    """The operations of a sort, FFT, Cholesky decomposition or triangular solve; null for other opcodes.

    Conventions: a sort of n elements makes n log2(n) comparisons; a complex FFT of n values 5 n log2(n) operations,
    a real one half of that; a Cholesky decomposition n^3 / 3; a triangular solve n^2 per right-hand side.
    """
    count = _COUNTS.get(instruction.opcode)
    if (
        count is None
        or not operands
        or not all(shape.is_array and min(shape.dims, default=0) >= 0 for shape in operands)
    ):
        return None
    return count(instruction, operands)


def _sort(instruction: Instruction, operands: list[Shape]) -> float | None:
    elements, dims = operands[0].elements, operands[0].dims
    axis = instruction.dimensions[0] if instruction.dimensions else len(dims) - 1
    if elements is None or not 0 <= axis < len(dims):
        return None
    return elements * log2(dims[axis]) if elements and dims[axis] > 1 else 0


def _fft(instruction: Instruction, operands: list[Shape]) -> float | None:
    lengths = instruction.fft_length
    kind = instruction.attributes.get("fft_type", "")
    real = _first(instruction.shape) if kind == "IRFFT" else operands[0]
    elements, points = real.elements, prod(lengths)
    if elements is None or not lengths or points < 1:
        return None
    return elements * log2(points) * (2.5 if kind in ("RFFT", "IRFFT") else 5)


def _cholesky(instruction: Instruction, operands: list[Shape]) -> float | None:
    del instruction
    elements, dims = operands[0].elements, operands[0].dims
    return elements * dims[-1] / 3 if elements is not None and len(dims) >= 2 else None


def _triangular_solve(instruction: Instruction, operands: list[Shape]) -> float | None:
    del instruction
    if len(operands) < 2 or not operands[0].dims or operands[1].elements is None:
        return None
    return operands[1].elements * operands[0].dims[-1]


_COUNTS: dict[str, Callable[[Instruction, list[Shape]], float | None]] = {
    "sort": _sort,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}
SPECIAL = frozenset(_COUNTS)


def _window_pairs(instruction: Instruction, operand: Shape, result: Shape) -> int | None:
    window = instruction.window
    if len(window) != len(operand.dims) or len(window) != len(result.dims):
        return None
    total = 1
    for dim, inputs, outputs in zip(window, operand.dims, result.dims, strict=True):
        pairs = valid_pairs(dim, inputs, outputs)
        if pairs is None:
            return None
        total *= pairs
    return total


def _first(shape: Shape) -> Shape:
    return next((leaf for leaf in shape.leaves() if leaf.is_array), shape)
