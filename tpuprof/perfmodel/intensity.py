"""Arithmetic intensity of work whose shape fixes it: tiles, elementwise work, attention.

Formulas: scaling book, chapters "Rooflines", "Transformers", "Inference".
"""

from __future__ import annotations

import math

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step

_ROOFLINES = "scaling book, rooflines"
_ATTENTION = "scaling book, Transformer arithmetic and inference"
_ATTENTION_READS = "queries, keys and values are read and the output is written once; scores stay on the chip"


def tile_intensity(rows: int, columns: int, dtype: str) -> Derivation:
    """The intensity of a matmul that is computed in output tiles, which caps it however large the matmul is.

    Raises:
        UsageError: a size is below 1, or the type is unknown.
    """
    size = packed_bytes(dtype, 1)
    value = 2 * counted("The rows of a tile", rows) * counted("The columns of a tile", columns)
    inputs = {
        "bm": Quantity(rows, "element"), "bn": Quantity(columns, "element"), "b": Quantity(size, "B/element"),
    }  # fmt: skip
    assumed = ("both inputs are read again for every tile", "writing the output is left out")
    return Derivation(
        value / (size * (rows + columns)), "FLOP/B", "2*bm*bn / (b*(bm + bn))", inputs, None, assumed, source=_ROOFLINES
    )


def elementwise(
    elements: int, dtype: str, reads: int = 1, writes: int = 1, flops_per_element: float = 1
) -> dict[str, Derivation]:
    """``bytes``, ``flops`` and ``intensity`` of elementwise work on arrays of one size and type.

    Args:
        elements: of one array.
        reads: input arrays.
        writes: output arrays.
        flops_per_element: operations per output element.

    Raises:
        UsageError: a count is negative, nothing is moved, or the type is unknown.
    """
    if reads < 0 or writes < 0 or reads + writes < 1:
        raise UsageError(f"{reads} inputs and {writes} outputs move nothing.", hint="Give at least one array.")
    size = packed_bytes(dtype, 1)
    counted("The number of elements", elements)
    inputs = {
        "N": Quantity(elements, "element"), "b": Quantity(size, "B/element"), "reads": Quantity(reads, "array"),
        "writes": Quantity(writes, "array"), "f": Quantity(flops_per_element, "FLOP/element"),
    }  # fmt: skip
    moved = Derivation(elements * size * (reads + writes), "B", "N * b * (reads + writes)", inputs, source=_ROOFLINES)
    work = Derivation(not_negative("FLOPs per element", flops_per_element) * elements, "FLOP", "N * f", inputs)
    return {
        "intensity": Derivation(
            flops_per_element / (size * (reads + writes)), "FLOP/B", "f / (b * (reads + writes))", inputs,
            None, ("every array is moved once",), (work.as_step("operations"), moved.as_step("bytes")), _ROOFLINES,
        ),
        "bytes": moved,
        "flops": work,
    }  # fmt: skip


def attention_intensity(queries: float, keys: float, group: float = 1) -> Derivation:
    """The intensity of bf16 attention of some query positions over some key positions, FLOP/B.

    Args:
        queries: query tokens T; 1 in decode.
        keys: key and value tokens S; may be infinite, and then the answer is the limit.
        group: query heads per KV head G; 1 is multi-head attention; may be infinite.

    Raises:
        UsageError: a number is below 1 or not a number.
    """
    for name, value in (("The number of queries", queries), ("The number of keys", keys), ("The group", group)):
        if not value >= 1:
            raise UsageError(f"{name} is {value}; it must be at least 1.")
    inputs = {
        "T": Quantity(queries, "token"), "S": Quantity(keys, "token"), "G": Quantity(group, "query head per KV head")
    }  # fmt: skip
    # T*S*G / (T*G + S), divided by the product so that each of the numbers may be infinite.
    inverse = 1 / keys + 1 / (queries * group)
    value = 1 / inverse if inverse else math.inf
    regime = "decode" if queries == 1 else "prefill"
    return Derivation(
        value, "FLOP/B", "T*S*G / (T*G + S)", inputs, regime, (_ATTENTION_READS, "2 bytes per element"), (), _ATTENTION
    )


def attention_crossover(intensity: float, group: float = 1) -> Derivation:
    """The prompt length from which prefill attention is bound by arithmetic, tokens.

    Args:
        intensity: critical intensity of the chip, FLOP/B.
        group: query heads per KV head; may be infinite.

    Raises:
        UsageError: the intensity is not above zero, or the group below 1.
    """
    if not group >= 1:
        raise UsageError(f"The group is {group}; it must be at least 1.")
    value = positive("The intensity", intensity) * (1 + 1 / group)
    inputs = {"I": Quantity(intensity, "FLOP/B"), "G": Quantity(group, "query head per KV head")}
    step = Step("intensity of prefill, S = T", "T*G / (G + 1)", intensity, "FLOP/B")
    return Derivation(value, "token", "I * (G + 1) / G", inputs, "prefill", (_ATTENTION_READS,), (step,), _ATTENTION)
