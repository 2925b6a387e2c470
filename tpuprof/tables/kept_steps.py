"""What a trimmed run keeps of the whole one: its steps, and how clocks compare.

A part of a run cannot say where its last step ended, which steps were whole, or how certain the mapping of clocks was.
Whoever trims a run writes that into a plane of its own: a line per core, an event per step, named by its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, StatKind, StatValue
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.hostwork import Comparison
from tpuprof.tables.rows import MAX_PS, CoreRecord
from tpuprof.tables.steps import CoreSteps, Steps, StepSource

PLANE = "tpuprof:steps"
_OFFSET = "clock offset"
_FLAGS = ("complete", "closed", "matched", "counted")
_SOURCES: dict[str, StepSource] = {
    "steps_line": "steps_line", "host_annotation": "host_annotation", "module": "module", "none": "none",
}  # fmt: skip


def steps_plane(
    source: str, cores: Sequence[tuple[str, CoreSteps, Comparison]], start_ns: int | None, origin: int
) -> Plane:
    """The plane that keeps steps and clocks.

    Args:
        source: where the steps come from.
        cores: for each core of one host its name without the host, such as ``TPU:0``, its steps, and its clocks.
        start_ns: when the host's session began.
        origin: the origin of the steps' times, in ns since the epoch.
    """
    base = line_base_ps(Line(0, "", 0, Events.empty()), start_ns, origin)
    rows: dict[int, int] = {}
    lines: list[Line] = []
    stats: dict[str, StatValue] = {"source": source}
    for number, (name, steps, clocks) in enumerate(cores, 1):
        stats[f"{name} {_OFFSET}"] = clocks.offset_ps if clocks.reason is None else clocks.reason
        n = len(steps)
        flags = np.stack([steps.complete, steps.closed, steps.matched, steps.counted], axis=1).astype(np.int64)
        events = Events(
            meta=np.array([rows.setdefault(step, len(rows)) for step in ints(steps.number)], np.int32),
            offset_ps=steps.start - base,
            duration_ps=steps.end - steps.start,
            occurrences=None,
            stat_ptr=np.arange(n + 1, dtype=np.int64) * len(_FLAGS),
            stat_key=np.tile(np.arange(len(_FLAGS), dtype=np.int32), n),
            stat_kind=np.full(n * len(_FLAGS), int(StatKind.INT64), np.uint8),
            stat_bits=flags.reshape(-1),
        )
        lines.append(Line(number, name, 0, events))
    metas = tuple(EventMeta(row + 1, str(step), "", {}) for step, row in rows.items())
    return Plane(0, PLANE, tuple(lines), metas, _FLAGS, stats)


def kept_steps(recordings: Sequence[Recording], cores: Sequence[CoreRecord], origin: int) -> Steps | None:
    """The steps that a trimmed run keeps; null if any core's host has none, or if they make no sense."""
    planes = {r.host: (p, session_start_ns(r.space)) for r in recordings if (p := r.space.plane(PLANE)) is not None}
    found: list[CoreSteps] = []
    sources: set[StepSource] = set()
    for core in cores:
        plane, start_ns = planes.get(core.device.host, (None, None))
        line = plane.line(core.device.id.rpartition("/")[2]) if plane is not None else None
        source = _SOURCES.get(str(plane.stats.get("source"))) if plane is not None else None
        steps = _core_steps(plane, line, start_ns, origin) if plane is not None and line is not None else None
        if steps is None or source is None:
            return None
        found.append(steps)
        sources.add(source)
    if len(sources) != 1:
        return None
    numbers = {number for steps in found for number in ints(steps.number[steps.matched])}
    source = sources.pop()
    return Steps(source, tuple(found), 0 if source == "none" else len(numbers), None, (_trimmed(found),))


def kept_clocks(recordings: Sequence[Recording], core: CoreRecord) -> Comparison | None:
    """How the clocks of a core and its host compare by what a trimmed run says; null if it says nothing."""
    planes = [plane for r in recordings if r.host == core.device.host and (plane := r.space.plane(PLANE)) is not None]
    found = planes[0].stats.get(f"{core.device.id.rpartition('/')[2]} {_OFFSET}") if planes else None
    if isinstance(found, str) and found:
        return Comparison(0, found)
    return Comparison(found, None) if isinstance(found, int) and abs(found) < MAX_PS else None


def _core_steps(plane: Plane, line: Line, start_ns: int | None, origin: int) -> CoreSteps | None:
    events = line.events
    labels = [plane.event_meta[row].label if row >= 0 else "" for row in ints(events.meta)]
    if not all(label.lstrip("-").isdecimal() and len(label) < 19 for label in labels):
        return None
    start = events.offset_ps + line_base_ps(line, start_ns, origin)
    length = events.duration_ps
    if bool(((length < 0) | (length >= MAX_PS)).any()) or bool((start[1:] < (start + length)[:-1]).any()):
        return None
    flags = [events.int_stat(plane.stat_row(name))[0] != 0 for name in _FLAGS]
    number = np.array([int(label) for label in labels], np.int64)
    return CoreSteps(number, start, start + length, flags[0], flags[1], np.zeros_like(start), flags[2], flags[3])


def _trimmed(cores: Sequence[CoreSteps]) -> Quality:
    numbers = [number for steps in cores for number in ints(steps.number)]
    which = f"steps {min(numbers)} to {max(numbers)}" if numbers else "no step"
    return Quality(
        "trimmed",
        "info",
        f"This is a part of a longer run: {which}. The steps' windows are those of the whole run; what lies outside "
        "them was left out.",
        None,
        {"first": min(numbers, default=None), "last": max(numbers, default=None)},
    )
