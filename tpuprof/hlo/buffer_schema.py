"""The protobuf schema of buffer assignments, written from the public description of the format.

Checked against what jaxlib 0.10 writes for CPU programs and against traces of TPU v5e, TPU v6e and MI300X: those use
no other field, but for an element type per assigned buffer (Assigned 4).
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from tpuprof.protos import ProtoSpec, build_messages

_SPEC: ProtoSpec = {
    "BufferAssignmentProto": {
        1: ("logical_buffers", "repeated LogicalBufferProto"),
        2: ("buffer_aliases", "repeated BufferAliasProto"),
        3: ("buffer_allocations", "repeated BufferAllocationProto"),
        4: ("heap_simulator_traces", "repeated HeapSimulatorTrace"),
        5: ("peak_buffers", "repeated PeakBuffersProto"),
    },
    "LogicalBufferProto": {
        1: ("id", "int64"),
        2: ("size", "int64"),
        3: ("defined_at", "LocationProto"),
        4: ("color", "int64"),
    },
    "LocationProto": {
        2: ("instruction_name", "bytes"),
        3: ("shape_index", "repeated packed int64"),
        4: ("instruction_id", "int64"),
    },
    "BufferAliasProto": {1: ("source_buffer_id", "int64"), 2: ("location", "LocationProto")},
    "BufferAllocationProto": {
        1: ("index", "int64"),
        2: ("size", "int64"),
        3: ("is_thread_local", "bool"),
        5: ("is_entry_computation_parameter", "bool"),
        6: ("parameter_number", "int64"),
        7: ("maybe_live_out", "bool"),
        8: ("color", "int64"),
        9: ("assigned", "repeated AssignedProto"),
        10: ("parameter_shape_index", "repeated packed int64"),
        11: ("is_tuple", "bool"),
        12: ("is_constant", "bool"),
        13: ("is_parameter_aliased_with_output", "bool"),
    },
    "AssignedProto": {1: ("logical_buffer_id", "int64"), 2: ("offset", "int64"), 3: ("size", "int64")},
    "HeapSimulatorTrace": {
        1: ("events", "repeated HeapEventProto"),
        2: ("whole_module_simulation", "bool"),
        3: ("buffer_allocation_index", "int64"),
    },
    "HeapEventProto": {
        1: ("kind", "int32"),
        2: ("buffer_id", "int64"),
        3: ("computation_name", "bytes"),
        4: ("instruction_name", "bytes"),
        5: ("share_with_canonical_id", "int64"),
    },
    # In 2026 writers, for each allocation the buffers that are live when it is fullest. Where an allocation was merged
    # from several, or holds the values of a loop, the list is no moment that exists: it is not used.
    "PeakBuffersProto": {1: ("allocation_index", "int64"), 2: ("buffer_ids", "repeated packed int64")},
}


@cache
def messages() -> Any:
    """The message classes by name."""
    return SimpleNamespace(**build_messages("tpuprof.hlo.buffers", _SPEC))
