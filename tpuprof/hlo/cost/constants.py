"""Arrays that a kernel is given as constants, followed through copies and loops that keep them."""

from __future__ import annotations

from tpuprof.hlo.cost.values import Values
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.literals import Number
from tpuprof.hlo.module import Computation, HloModule

_SAME = frozenset({"bitcast", "copy", "copy-done", "copy-start", "opt-barrier", "optimization-barrier", "reshape"})
_MAX_STEPS = 100


def constant_values(
    module: HloModule, values: Values, computation: Computation, value: Instruction
) -> tuple[Number, ...] | None:
    """The elements of a small constant array that a value is a copy of; null if it is none."""
    index: list[int] = []  # which parts of tuples are still to be taken, the next one last
    for _ in range(_MAX_STEPS):
        if value.opcode == "constant" and not index:
            return value.values
        if value.opcode == "get-tuple-element" and value.operands and value.tuple_index is not None:
            index.append(value.tuple_index)
        elif value.opcode == "tuple" and index and index[-1] < len(value.operands):
            value = computation.instruction(value.operands[index.pop()])
            continue
        elif value.opcode in ("parameter", "while") and index:
            loop = value if value.opcode == "while" else _loop_around(module, computation)
            if loop is None or not values.is_kept(loop, index[-1]):
                return None
            computation, value = module.computation(loop.computation), loop
        elif value.opcode not in _SAME:
            return None
        if not value.operands:
            return None
        value = computation.instruction(value.operands[0])
    return None


def _loop_around(module: HloModule, computation: Computation) -> Instruction | None:
    callers = module.callers.get(computation.name, ())
    return callers[0] if len(callers) == 1 and callers[0].opcode == "while" else None
