"""Generic asynchronous operations in their short form.

HLO text writes an async-start whose computation holds one operation as that operation: ``slice-start(%p),
slice=…``. The computation itself is then not in the text. It is made here, so that a module looks the same
whichever form it was read from; the names of the computation and of what is in it are then our own.
"""

from __future__ import annotations

import dataclasses

from tpuprof.hlo.instruction import Details, Instruction
from tpuprof.hlo.module import Computation
from tpuprof.hlo.shapes import Shape

_OF_THE_START = "async_execution_thread"


@dataclasses.dataclass(frozen=True, slots=True)
class _Without:
    """The details of an instruction without (or with only) the attributes of the asynchronous start."""

    whole: Instruction
    inner: bool

    def decode(self, shape: Shape) -> Details:
        del shape
        details = self.whole.details
        wanted = {k: v for k, v in details.attributes.items() if (k == _OF_THE_START) != self.inner}
        return dataclasses.replace(details, attributes=wanted)


@dataclasses.dataclass(frozen=True, slots=True)
class _Parameter:
    number: int

    def decode(self, shape: Shape) -> Details:
        del shape
        return Details(attributes={"parameter_number": str(self.number)})


def spell_out(computation: Computation) -> tuple[Computation, list[Computation]]:
    """The computation with short forms replaced by generic ones, and the computations that those call."""
    if not any(each.wrapped_opcode for each in computation.instructions):
        return computation, []
    instructions: list[Instruction] = []
    made: list[Computation] = []
    for each in computation.instructions:
        opcode = each.wrapped_opcode
        if opcode and each.opcode == "async-start" and len(each.shape.tuple_shapes) >= 2:
            wrapped = _wrapped(each, opcode, computation)
            made.append(wrapped)
            each = dataclasses.replace(each, called=(("calls", wrapped.name),), source=_Without(each, inner=False))
        instructions.append(each)
    return dataclasses.replace(computation, instructions=tuple(instructions)), made


def _wrapped(start: Instruction, opcode: str, outer: Computation) -> Computation:
    name = f"async_wrapped.{start.name}"
    parameters = [
        Instruction(f"param_{i}.{start.name}", "parameter", operand.shape, computation=name, source=_Parameter(i))
        for i, operand in enumerate(outer.operands(start))
    ]
    root = dataclasses.replace(
        start,
        name=f"{opcode}.{start.name}",
        opcode=opcode,
        shape=start.shape.tuple_shapes[1],
        operands=tuple(parameter.name for parameter in parameters),
        control_predecessors=(),
        computation=name,
        source=_Without(start, inner=True),
        operand_shapes=(),
        wrapped_opcode="",
    )
    return Computation(name, (*parameters, root), root.name, start.async_execution_thread or "")
