"""Events whose time cannot be true, taken out before anything is computed from them.

A damaged line timestamp or offset moves events by months. Sums of such times leave the 64 bits and come out as
plausible numbers; nothing good can be told from them, so they are counted and left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64, Events, Line, Plane
from tpuprof.quality import Quality
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.rows import MAX_PS

_INT64 = np.iinfo(np.int64)
_Mask = np.ndarray[Any, np.dtype[np.bool_]]


def within_bounds(recording: Recording) -> Recording:
    """The recording without events that start more than ``MAX_PS`` from the begin of its session.

    One that loses events says so with the quality entry ``bad_time``.
    """
    start_ns = session_start_ns(recording.space)
    origin = start_ns or 0
    planes: list[Plane] = []
    lost: Counter[str] = Counter()
    for plane in recording.space.planes:
        lines: list[Line] = []
        for line in plane.lines:
            kept = _bounded_line(plane, line, line_base_ps(line, start_ns, origin))
            lost[plane.name] += len(line.events) - len(kept.events)
            lines.append(kept)
        planes.append(replace(plane, lines=tuple(lines)))
    count = lost.total()
    space = replace(recording.space, planes=tuple(planes))
    if not count:
        return replace(recording, space=space)
    names = [name for name, number in lost.items() if number]
    note = Quality(
        "bad_time",
        "error",
        f"{count} event(s) of {recording.host} start more than 26 days from the begin of the trace, which cannot be "
        f"true; they are left out. The file is damaged. Planes: {', '.join(names[:6])}"
        f"{' …' if len(names) > 6 else ''}.",
        count,
        {"host": recording.host, "planes": names},
    )
    return replace(recording, space=space, quality=(*recording.quality, note), partial=True)


def _bounded_line(plane: Plane, line: Line, base: int) -> Line:
    events = line.events
    keep = _near(events.offset_ps, base, MAX_PS) & _device_near(plane, events, base)
    if not keep.all():
        line = replace(line, events=events.take(np.flatnonzero(keep)))
    # The timestamp of a line without events says nothing, but is added to their empty array all the same.
    return line if len(line.events) or abs(base) < MAX_PS else replace(line, timestamp_ns=0)


def _near(offset: I64, base: int, limit: int) -> _Mask:
    """Where ``base + offset`` is within the limit, without ever computing a sum that overflows."""
    low, high = -limit - base, limit - base
    if low > _INT64.max or high < _INT64.min:
        return np.zeros(len(offset), np.bool_)
    return (offset >= max(low, _INT64.min)) & (offset <= min(high, _INT64.max))


def _device_near(plane: Plane, events: Events, base: int) -> _Mask:
    """The same for the device's own timer, whose zero may lie further back."""
    offset, present = events.int_stat(plane.stat_row("device_offset_ps"))
    return ~present | _near(offset, base, 2 * MAX_PS - 1)
