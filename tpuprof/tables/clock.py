"""The clocks of a trace: from recorded times to integer picoseconds since the trace's origin.

Lines carry a timestamp in ns that is either absolute (since the epoch) or relative to the start of the session; the
session's start is in the plane ``Task Environment``. Device ops may carry a second time, from the device's own
timer. The first is mapped to the host's clock when it is recorded and can be wrong by hundreds of milliseconds, so
that the device's own time wins, and rows without one are moved by the shift of a near op.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tpuprof.formats.xspace import I64, U8, Events, Line, Plane, Space
from tpuprof.tables.rows import CLOCK_DEVICE, CLOCK_HOST, CLOCK_MAPPED, NO_SHIFT, Shift

ABSOLUTE_NS = 10**17  # ns since the epoch in 1973: no session is that long


def session_start_ns(space: Space) -> int | None:
    """When the session began, in ns since the epoch; the earliest absolute line if the file does not say."""
    start, _ = space.task_times_ns()
    if start is not None and start >= ABSOLUTE_NS:
        return start
    absolute = [line.timestamp_ns for _, line in space.lines() if line.timestamp_ns >= ABSOLUTE_NS and len(line.events)]
    return min(absolute) if absolute else None


def origin_ns(spaces: Iterable[Space]) -> int:
    """The trace's origin: the earliest session start of all hosts, 0 where none is known."""
    starts = [start for space in spaces if (start := session_start_ns(space)) is not None]
    return min(starts) if starts else 0


def line_base_ps(line: Line, start_ns: int | None, origin: int) -> int:
    """What to add to a line's ``offset_ps`` to get ps since the origin."""
    if line.timestamp_ns >= ABSOLUTE_NS:
        return (line.timestamp_ns - origin) * 1000
    return (line.timestamp_ns + (0 if start_ns is None else start_ns - origin)) * 1000


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Start, duration and clock of every event of a line."""

    start: I64
    duration: I64
    clock: U8


def device_times(
    plane: Plane, events: Events, base_ps: int
) -> tuple[I64, I64, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """(start, duration, present) by the device's own timer, where an event carries both stats."""
    offset, has_offset = events.int_stat(plane.stat_row("device_offset_ps"))
    duration, has_duration = events.int_stat(plane.stat_row("device_duration_ps"))
    return offset + base_ps, duration, has_offset & has_duration


def sample_shift(plane: Plane, events: Events, base_ps: int) -> Shift:
    """The shift of every op of an op line that carries both clocks."""
    start, _, present = device_times(plane, events, base_ps)
    if not present.any():
        return NO_SHIFT
    host = events.offset_ps[present] + base_ps
    order = np.argsort(host, kind="stable")
    return Shift(host[order], (host - start[present])[order])


def line_times(plane: Plane, events: Events, base_ps: int, shift: Shift, forward: bool) -> Times:
    """Times of a line on the device's clock where there is one.

    Args:
        plane: the device plane.
        events: the line's events.
        base_ps: what to add to offsets.
        shift: the shift sampled on the plane's op line.
        forward: take the shift of the next op (rows that precede their ops, such as module rows and waits)
            rather than of the nearest one.
    """
    host = events.offset_ps + base_ps
    if not shift:
        return Times(host, events.duration_ps, np.full(len(events), CLOCK_HOST, np.uint8))
    start, duration, present = device_times(plane, events, base_ps)
    moved = host - (shift.next_after(host) if forward else shift.nearest(host))
    return Times(
        np.where(present, start, moved),
        np.where(present, duration, events.duration_ps),
        np.where(present, CLOCK_DEVICE, CLOCK_MAPPED).astype(np.uint8),
    )
