"""HLO modules: what XLA compiled, read from HLO text or from HloProto bytes into one model.

`parse_text` and `parse_proto` give a `HloModule`; `to_proto` writes one; `load_hlo` reads files and dump
directories; `parse_instruction_text` reads the single instruction that a trace event carries as its name.
`parse_buffers` and `memory_use` say what a program needs of every memory, over time.
"""

from tpuprof.hlo.buffers import BufferAssignment, parse_buffers
from tpuprof.hlo.dims import ConvDims, DotDims, WindowDim
from tpuprof.hlo.event_text import parse_instruction_text
from tpuprof.hlo.frames import Frame, Metadata, StackFrames
from tpuprof.hlo.groups import ReplicaGroups, parse_replica_groups
from tpuprof.hlo.instruction import Details, Instruction, differences
from tpuprof.hlo.liveness import MemoryUse, memory_use
from tpuprof.hlo.load import load_hlo
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.proto import parse_proto
from tpuprof.hlo.shapes import Layout, Shape, parse_shape
from tpuprof.hlo.text import parse_text
from tpuprof.hlo.writer import to_proto

__all__ = [
    "BufferAssignment",
    "Computation",
    "ConvDims",
    "Details",
    "DotDims",
    "Frame",
    "HloModule",
    "Instruction",
    "Layout",
    "MemoryUse",
    "Metadata",
    "ReplicaGroups",
    "Shape",
    "StackFrames",
    "WindowDim",
    "differences",
    "load_hlo",
    "memory_use",
    "parse_buffers",
    "parse_instruction_text",
    "parse_proto",
    "parse_replica_groups",
    "parse_shape",
    "parse_text",
    "to_proto",
]
