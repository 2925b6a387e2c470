"""The steps of a trimmed run, as they were in the whole one.

A part of a run cannot say where its last step ended or which steps were whole, so whoever trims a run writes the
steps into a plane of its own: a line per core, an event per step, named by its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, StatKind
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.rows import MAX_PS, CoreRecord
from tpuprof.tables.steps import CoreSteps, Steps, StepSource

PLANE = "tpuprof:steps"
_FLAGS = ("complete", "closed", "matched", "counted")
_SOURCES: dict[str, StepSource] = {
    "steps_line": "steps_line", "host_annotation": "host_annotation", "module": "module", "none": "none",
}  # fmt: skip


def steps_plane(source: str, cores: Sequence[tuple[str, CoreSteps]], start_ns: int | None, origin: int) -> Plane:
    """The plane that keeps steps.

    Args:
        source: where the steps come from.
        cores: the steps of each core of one host by its name without the host, such as ``TPU:0``.
        start_ns: when the host's session began.
        origin: the origin of the steps' times, in ns since the epoch.
    """
    base = line_base_ps(Line(0, "", 0, Events.empty()), start_ns, origin)
    rows: dict[int, int] = {}
    lines: list[Line] = []
    for number, (name, steps) in enumerate(cores, 1):
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
    return Plane(0, PLANE, tuple(lines), metas, _FLAGS, {"source": source})


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
