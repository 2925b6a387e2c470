"""Modules with a buffer assignment of the test's choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tpuprof.hlo import HloModule, parse_proto, parse_text, to_proto
from tpuprof.hlo.buffer_schema import messages

TEXT = """HloModule jit_f, is_scheduled=true

ENTRY %main (a: f32[8,4], b: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0:T(8,128)} parameter(0), metadata={op_name="params['w']"}
  %b = f32[8,4]{1,0:T(8,128)} parameter(1)
  %x = f32[8,4]{1,0:T(8,128)} add(%a, %b), metadata={op_name="jit(f)/mlp/add" source_file="m.py" source_line=7}
  %y = f32[8,4]{1,0:T(8,128)} multiply(%x, %x), metadata={op_name="jit(f)/mlp/mul" source_file="m.py" source_line=8}
  %z = f32[8,4]{1,0:T(8,128)} multiply(%x, %y)
  ROOT %r = f32[8,4]{1,0:T(8,128)} add(%z, %b), metadata={op_name="jit(f)/out/add" source_file="m.py" source_line=9}
}
"""
# Two arguments, a result, and x, y, z in 12 KiB of working memory, of which z reuses x's place.
PADDED = 4096
PLACES = {"a": (0, 0), "b": (1, 0), "r": (2, 0), "x": (3, 0), "y": (3, 2 * PADDED), "z": (3, PADDED)}


def module_with(message: Any, text: str = TEXT) -> HloModule:
    """The module of a text with ids as a trace has them, and this assignment."""
    module = parse_proto(to_proto(parse_text(text)))
    return replace(module, buffer_assignment=message.SerializeToString())


def assignment(text: str = TEXT, color: int = 0) -> Any:
    """The assignment that the comment above describes, as a message to be altered."""
    module = parse_proto(to_proto(parse_text(text)))
    message = messages().BufferAssignmentProto()
    message.buffer_allocations.add(index=0, size=PADDED, is_entry_computation_parameter=True, color=color)
    message.buffer_allocations.add(index=1, size=PADDED, is_entry_computation_parameter=True, parameter_number=1)
    message.buffer_allocations.add(index=2, size=PADDED, maybe_live_out=True)
    message.buffer_allocations.add(index=3, size=3 * PADDED)
    for number, (name, (allocation, offset)) in enumerate(PLACES.items()):
        buffer = message.logical_buffers.add(id=number, size=PADDED)
        buffer.defined_at.instruction_id = module.instruction(name).id
        assigned = message.buffer_allocations[allocation].assigned.add(logical_buffer_id=number)
        assigned.offset, assigned.size = offset, PADDED
    return message


def compiled_module(folder: Path, name: str) -> HloModule:
    """A compiled program of the session with the assignment that jax gives out."""
    module = parse_proto((folder / f"{name}.pb").read_bytes())
    return replace(module, buffer_assignment=(folder / f"{name}.buffers").read_bytes())
