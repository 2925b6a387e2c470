"""What a trace itself states of the cost of an op: FLOPs and bytes of the compiler's own cost model, per execution.

TPU runtimes write these figures on the op's metadata, newer ones on the events. They are static estimates of the
compiler, never measurements. They serve where the HLO is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tpuprof.protos import ProtoSpec, build_messages

STATED_STATS = ("flops", "model_flops", "bytes_accessed", "raw_bytes_accessed", "memory_access_breakdown")
MAX_COUNT = 1 << 62  # of FLOPs or bytes; a larger figure is no estimate of anything
_MAX_BREAKDOWN = 1 << 16
_SPACES = {1: "hbm", 2: "cmem", 3: "vmem"}

# Field numbers as in XProf's op_metrics.proto, of which this is all that op metadata holds.
_SPEC: ProtoSpec = {
    "MemoryAccessBreakdown": {1: ("accesses", "repeated MemoryAccess")},
    "MemoryAccess": {1: ("operation", "int64"), 2: ("space", "uint64"), 3: ("bytes", "uint64")},
}


@dataclass(frozen=True, slots=True)
class StatedCost:
    """The cost of one execution of an op as the trace states it; null where it states nothing.

    Args:
        flops: operations of the algorithm (``model_flops``, else ``flops``).
        bytes: bytes read and written by memory space (``hbm``, ``vmem``, ``cmem``); null if only a sum over all
            memories is stated.
        bytes_accessed: bytes read and written in all memories together.
    """

    flops: int | None = None
    bytes: tuple[tuple[str, int], ...] | None = None
    bytes_accessed: int | None = None


def stated_cost(stats: Mapping[str, Any]) -> StatedCost | None:
    """The cost in an op's stats; null if they hold none, or none that can be true."""
    flops = _count(stats.get("model_flops"))
    if flops is None:
        flops = _count(stats.get("flops"))
    accessed = _count(stats.get("raw_bytes_accessed"))
    if accessed is None:
        accessed = _count(stats.get("bytes_accessed"))
    spaces = _by_space(stats.get("memory_access_breakdown"), accessed)
    if flops is None and accessed is None and spaces is None:
        return None
    return StatedCost(flops, spaces, accessed)


def _by_space(data: object, accessed: int | None) -> tuple[tuple[str, int], ...] | None:
    """Bytes by memory space. An empty breakdown beside a number of bytes says nothing: copies to and from the host
    carry one."""
    if not isinstance(data, bytes) or len(data) > _MAX_BREAKDOWN or (not data and accessed):
        return None
    message = _message()()
    try:
        message.ParseFromString(data)
    except Exception:  # protobuf's own error class moved between versions
        return None
    sums: dict[str, int] = {}
    for access in message.accesses:
        space = _SPACES.get(access.space)
        if space is not None:
            sums[space] = sums.get(space, 0) + int(access.bytes)
    if any(total > MAX_COUNT for total in sums.values()):
        return None
    return tuple(sorted(sums.items()))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else None


@cache
def _message() -> Any:
    return build_messages("tpuprof.stated_cost", _SPEC)["MemoryAccessBreakdown"]
