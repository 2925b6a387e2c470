"""The cost of a lone instruction, such as a trace event carries in its name: without the computations that it calls."""

from __future__ import annotations

from dataclasses import replace

from tpuprof.errors import HloError
from tpuprof.hlo.cost.calls import custom_call
from tpuprof.hlo.cost.elements import APPLIED, MOVES, NOTHING, applications
from tpuprof.hlo.cost.formulas import RegisteredFormula, formulas
from tpuprof.hlo.cost.model import FREE, OpCost, unknown_cost
from tpuprof.hlo.cost.operation import custom_cost, finished, moved
from tpuprof.hlo.cost.work import Work, WorkTable
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.shapes import Shape

_WITHOUT_BODY = frozenset({"async-start", "fusion", "map"})
_ONE_OPERATION = "What it applies to elements is taken to be one operation."
_WHOLE = "Operands are counted as a whole; the instruction may read less of them."


def instruction_cost(instruction: Instruction, *, user_formulas: tuple[RegisteredFormula, ...] | None = None) -> OpCost:
    """What can be known of an instruction without its program.

    Shapes of operands must stand next to them, as they do in the names of trace events. Of a fusion only the bytes
    are known, with its operands as a whole: an upper bound, and the note says so. A reduction is taken to apply one
    operation.

    Args:
        instruction: from `parse_instruction_text`.
        user_formulas: formulas for custom calls; null for those registered and installed.

    Raises:
        UsageError: an installed formula cannot be loaded.
    """
    if instruction.opcode == "async-start":
        instruction = _unwrapped(instruction)
    if instruction.truncated:
        return unknown_cost("The text of the instruction is cut off.")
    if instruction.opcode in NOTHING:
        return FREE
    shapes = instruction.operand_shapes or (None,) * len(instruction.operands)
    if any(shape is None for shape in shapes):
        return unknown_cost("The shapes of its operands do not stand in the instruction's text.")
    operands = [shape for shape in shapes if shape is not None]
    if instruction.opcode == "custom-call":
        try:
            call = custom_call(instruction, tuple(operands))
        except HloError as error:
            return unknown_cost(error.what)
        return custom_cost(call, formulas() if user_formulas is None else user_formulas, {})
    work = Work()
    _work(work, instruction, operands)
    read, written = moved(instruction, operands)
    applied = _ONE_OPERATION if instruction.opcode in APPLIED else None
    note = _WHOLE if instruction.opcode in _WITHOUT_BODY else applied
    return finished(instruction, work, read, written, note)


def _unwrapped(start: Instruction) -> Instruction:
    """The move that an asynchronous start wraps, as an instruction; the start itself if that is not known."""
    # XLA names a start after what it wraps.
    wrapped = start.wrapped_opcode or start.name.partition("-start")[0]
    parts = start.shape.tuple_shapes
    if wrapped not in MOVES or len(parts) < 2:
        return start
    return replace(start, opcode=wrapped, shape=parts[1], wrapped_opcode="")


def _work(work: Work, instruction: Instruction, operands: list[Shape]) -> None:
    if instruction.opcode in _WITHOUT_BODY:
        work.reasons.append(f"What the {instruction.opcode} does stands in a computation that is not at hand.")
        return
    if instruction.opcode in APPLIED:
        try:
            times = applications(instruction, operands)
        except HloError as error:
            work.reasons.append(error.what)
            return
        if times is None:
            work.reasons.append(f"The shapes of the {instruction.opcode} do not tell how often it applies.")
        else:
            work.vector += sum(number for _, number in times)
        return
    alone = HloModule("", (Computation("", (instruction,), instruction.name),), "")
    WorkTable(alone).instruction(work, instruction, dict(zip(instruction.operands, operands, strict=True)))
