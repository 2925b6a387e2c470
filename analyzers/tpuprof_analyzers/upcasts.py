"""Ops that write to memory what they read, in a wider type."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction
from tpuprof.hlo.shapes import DTYPE_BITS, Shape
from tpuprof.tables.rows import OpInfo

_FLOATS = ("bf16", "f16", "f32", "f64")
_UNCHANGED = frozenset({"bitcast", "copy", "reshape", "transpose", "tuple", "parameter", "get-tuple-element"})
_MAX_STEPS = 64
LARGE_BYTES = 1 << 20
"""Smaller arrays are not worth a cast elsewhere."""


@dataclass(frozen=True, slots=True)
class Widened:
    """What an op widens.

    Args:
        narrow, wide: the types before and after, of the largest array.
        extra_bytes: what is written beyond the narrow form.
        alone: the op does nothing else.
    """

    narrow: str
    wide: str
    extra_bytes: int
    alone: bool


def widened(info: OpInfo) -> Widened | None:
    """What an op writes to HBM as a wider float than it had before; null if nothing large, or nothing is known.

    Only the end of the op counts: a result that is a conversion, not one that was computed in the wider type.
    """
    instruction = info.instruction
    if instruction is None:
        return None
    try:
        if instruction.opcode == "convert":
            source = _source(instruction, info.program)
            return _total([(source, instruction.shape)], alone=True)
        if instruction.opcode == "fusion" and info.program is not None and instruction.computation:
            return _fused(instruction, info.program)
    except (HloError, KeyError):  # a damaged program: nothing is known
        return None
    return None


def _source(convert: Instruction, program: HloModule | None) -> Shape | None:
    if convert.operand_shapes and convert.operand_shapes[0] is not None:
        return convert.operand_shapes[0]
    if program is None or not convert.computation or not convert.operands:
        return None
    return program.computation(convert.computation).instruction(convert.operands[0]).shape


def _fused(fusion: Instruction, program: HloModule) -> Widened | None:
    called = program.called(fusion)
    if len(called) != 1:
        return None
    inside = called[0]
    by_name = {each.name: each for each in inside.instructions}
    root = inside.root
    results = [by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
    # The layout, and with it the memory, of a result stands at the fusion.
    shapes = list(fusion.shape.leaves())
    pairs: list[tuple[Shape | None, Shape]] = []
    for result, shape in zip(results, shapes, strict=False):
        convert = _through(result, by_name)
        if convert.opcode == "convert" and convert.operands:
            pairs.append((by_name[convert.operands[0]].shape, shape))
    other = [each.opcode for each in inside.instructions if each.opcode not in _UNCHANGED and each.opcode != "convert"]
    return _total(pairs, alone=not other and len(pairs) == len(shapes))


def _through(result: Instruction, by_name: dict[str, Instruction]) -> Instruction:
    current = result
    for _ in range(_MAX_STEPS):
        if current.opcode not in ("bitcast", "copy", "reshape", "transpose") or not current.operands:
            break
        current = by_name[current.operands[0]]
    return current


def _total(pairs: list[tuple[Shape | None, Shape]], *, alone: bool) -> Widened | None:
    found: list[tuple[int, str, str]] = []
    for source, target in pairs:
        if source is None or source.dtype not in _FLOATS or target.dtype not in _FLOATS:
            continue
        if target.layout is not None and target.layout.memory_space:
            continue  # not in HBM
        more, elements = DTYPE_BITS[target.dtype] - DTYPE_BITS[source.dtype], target.elements
        if more > 0 and elements is not None and elements * more // 8 >= LARGE_BYTES:
            found.append((elements * more // 8, source.dtype, target.dtype))
    if not found:
        return None
    _, narrow, wide = max(found)
    return Widened(narrow, wide, sum(extra for extra, _, _ in found), alone and len(found) == len(pairs))
