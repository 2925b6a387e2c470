"""How much memory a program uses from its first instruction to its last, in few enough points to draw."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.errors import HloError
from tpuprof.hlo.buffers import parse_buffers, space_name
from tpuprof.hlo.live_ranges import schedule
from tpuprof.hlo.liveness import memory_use
from tpuprof.tables.build import Built
from tpuprof.tables.memory import ran_programs

MOST_POINTS = 300


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """From an instruction on so many bytes are in use.

    Args:
        position: its place in the schedule, from 0.
        op: its name.
        bytes: in use; of several instructions that became one point the most of any.
    """

    position: int
    op: str
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """The use of one memory by one program over its schedule.

    Args:
        points: in order; each holds until the next.
        positions: how many instructions the schedule has; loops are counted once.
        changes: how many changes of the use the points stand for.
    """

    points: tuple[CurvePoint, ...]
    positions: int
    changes: int


def memory_curve(built: Built, module: str, memory_space: str) -> MemoryCurve | None:
    """The curve of a program that ran; null if its buffers or its schedule are not known, or it uses no such memory.

    Args:
        built: the run's tables.
        module: the program, as ``name(program id)``.
        memory_space: as in table `memory_summary`.
    """
    program = dict(ran_programs(built)).get(module)
    if program is None:
        return None
    platform = built.cores[0].record.device.platform
    try:
        assignment = parse_buffers(program)
        use = None if assignment is None else memory_use(program, assignment)
        if use is None:
            return None
        order = schedule(program).instructions
    except HloError:
        return None
    found = next((s for s in use.spaces if space_name(s.memory_space, platform) == memory_space), None)
    if found is None:
        return None
    points = [CurvePoint(at, order[at].name, size) for at, size in thinned(found.timeline, MOST_POINTS)]
    return MemoryCurve(tuple(points), use.positions, len(found.timeline))


def thinned(timeline: tuple[tuple[int, int], ...], most: int) -> list[tuple[int, int]]:
    """At most ``most`` of the (position, bytes) pairs: of neighbours the one with most bytes, so that no peak is lost.

    Each bucket of neighbours keeps its largest entry at that entry's position, so that the peak stays where it is.
    """
    each = -(-len(timeline) // most)
    if each <= 1:
        return list(timeline)
    buckets = (timeline[at : at + each] for at in range(0, len(timeline), each))
    return [max(bucket, key=lambda entry: (entry[1], -entry[0])) for bucket in buckets]
