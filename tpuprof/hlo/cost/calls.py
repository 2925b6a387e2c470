"""What a custom call costs: by the user, by the kernel's own statement, by a family that is known, or unknown."""

from __future__ import annotations

import re

from tpuprof.hlo.cost.attention import attention_cost, is_attention
from tpuprof.hlo.cost.configs import amount, mapping
from tpuprof.hlo.cost.contraction import type_key
from tpuprof.hlo.cost.formulas import CallCost, CustomCall, RegisteredFormula
from tpuprof.hlo.cost.gemm import convolution_cost, gemm_cost
from tpuprof.hlo.cost.model import Source
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.shapes import Shape
from tpuprof.hlo.targets import FREE_TARGETS

_NAME_IN_CONFIG = re.compile(r'name"?\s*[:=]\s*"([^"]{1,200})"')
_SMALL_CONFIG = 20_000  # a longer one holds the kernel itself; names in it are those of its values
# Halves of what is counted elsewhere, and marks.
_FREE = FREE_TARGETS | {"AsyncCollectiveDone", "AsyncCollectiveStart", "LayoutConstraint", "annotate_device_placement"}

_INDICES = frozenset({"pred", "s16", "s32", "s64", "u16", "u32", "u64"})

Found = tuple[CallCost, Source]


def custom_call(instruction: Instruction, operands: tuple[Shape, ...]) -> CustomCall:
    """A custom call as formulas see it."""
    last = instruction.metadata.op_name.rstrip("/").split("/")[-3:]
    names = [instruction.name, *last]
    if len(instruction.backend_config) <= _SMALL_CONFIG:
        names += _NAME_IN_CONFIG.findall(instruction.backend_config)
    results = tuple(leaf for leaf in instruction.shape.leaves() if leaf.is_array)
    return CustomCall(instruction, instruction.custom_call_target or "", operands, results, tuple(filter(None, names)))


def call_cost(call: CustomCall, formulas: tuple[RegisteredFormula, ...]) -> Found | str:
    """The cost of a custom call and where it comes from, or why it is not known."""
    for formula in formulas:
        if not formula.matches(call):
            continue
        try:
            found = formula.function(call)
        except Exception as error:  # whatever a user's function does, the others go on
            return f"The cost formula {formula.name!r} failed: {type(error).__name__}: {error}"[:300]
        if found is not None:
            nonsense = f"The cost formula {formula.name!r} gave {found!r}."
            return (found, "user") if _makes_sense(found) else nonsense[:300]
    if call.target in _FREE:
        return CallCost(bytes_read={}, bytes_written={}), "hlo"
    attention, stated = attention_cost(call), _stated(call)
    if attention is not None and (attention.family == "splash_attention" or stated is None):
        return attention, "formula"  # what a kernel states of itself leaves the mask out
    if stated is not None:
        return stated, "cost_estimate"
    for known in (gemm_cost, convolution_cost):
        found = known(call)
        if found is not None:
            return found, "formula"
    if is_attention(call):
        return "The shapes of this attention kernel do not tell how much it computes."
    return f"No cost is known for custom calls to {call.target!r}."


def _makes_sense(found: object) -> bool:
    """Whether what a user's function gave is a cost with finite numbers that are not negative."""
    if not isinstance(found, CallCost):
        return False
    numbers: list[object] = [found.matmul_flops, found.vector_flops, found.transcendentals]
    for moved in (found.bytes_read, found.bytes_written):
        numbers += [] if moved is None else moved.values()
    return all(amount(number) is not None for number in numbers)


def _stated(call: CustomCall) -> CallCost | None:
    """The estimate that a Pallas kernel was given; its numbers are texts."""
    config = mapping(call.instruction.backend_config_json)
    numbers = mapping(mapping(config.get("custom_call_config", config)).get("cost_estimate"))
    flops = amount(numbers.get("flops"))
    if flops is None:
        return None
    moved, transcendentals = amount(numbers.get("bytes_accessed")), amount(numbers.get("transcendentals"))
    note = "By the kernel's own estimate."
    if is_attention(call):
        note += " Attention kernels state all pairs of queries and keys, also under a causal mask."
    return CallCost(
        matmul_flops=flops,
        dtype=_operand_type(call),
        transcendentals=transcendentals or 0,
        # The estimate does not part reads from writes.
        bytes_read=None if moved is None else {"hbm": int(moved)},
        bytes_written=None if moved is None else {},
        note=note,
        family="attention" if is_attention(call) else None,
        bound="upper" if is_attention(call) else "exact",
    )


def _operand_type(call: CustomCall) -> str:
    """The type of the largest operand that can be multiplied on a matrix unit."""
    arrays = [shape for shape in call.operands if shape.elements and len(shape.dims) >= 2]
    arrays = [shape for shape in arrays if shape.dtype not in _INDICES] or arrays
    largest = max(arrays, key=lambda shape: shape.elements or 0, default=None)
    return type_key(largest.dtype, largest.dtype) if largest is not None else "unknown"
