"""What a trimmed run keeps of the whole one: its steps, and how clocks compare.

A part of a run cannot say where its last step ended, which steps were whole, or how certain the mapping of clocks was.
Whoever trims a run writes that into a plane of its own: a line per core, an event per step, named by its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, StatKind, StatValue
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.hostwork import Comparison
from tpuprof.tables.moving import move_steps
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


@dataclass(frozen=True, slots=True, eq=False)
class KeptHost:
    """What one host's file says of the whole run, by the core's name without the host; times on the file's origin."""

    source: StepSource
    steps: Mapping[str, CoreSteps]
    clocks: Mapping[str, Comparison]

    def later(self, by: int) -> KeptHost:
        """The same with all times later."""
        return replace(self, steps={name: move_steps(steps, by) for name, steps in self.steps.items()})


def kept_host(recording: Recording, origin: int) -> KeptHost | None:
    """What a trimmed file keeps of the whole run; null if it keeps nothing. What makes no sense is left out."""
    plane = recording.space.plane(PLANE)
    source = _SOURCES.get(str(plane.stats.get("source"))) if plane is not None else None
    if plane is None or source is None:
        return None
    start_ns = session_start_ns(recording.space)
    steps = {
        line.name: found for line in plane.lines if (found := _core_steps(plane, line, start_ns, origin)) is not None
    }
    clocks = {
        name.removesuffix(f" {_OFFSET}"): found
        for name, value in plane.stats.items()
        if name.endswith(_OFFSET) and (found := _comparison(value)) is not None
    }
    return KeptHost(source, steps, clocks)


def kept_steps(hosts: Mapping[str, KeptHost], cores: Sequence[CoreRecord]) -> Steps | None:
    """The steps that a trimmed run keeps; null if those of a core are missing, or if hosts disagree on the source."""
    found: list[CoreSteps] = []
    for core in cores:
        host = hosts.get(core.device.host)
        steps = host.steps.get(_name(core)) if host is not None else None
        if steps is None:
            return None
        found.append(steps)
    sources: set[StepSource] = {hosts[core.device.host].source for core in cores}
    if len(sources) != 1:
        return None
    numbers = {number for steps in found for number in ints(steps.number[steps.matched])}
    source = sources.pop()
    return Steps(source, tuple(found), 0 if source == "none" else len(numbers), None, (_trimmed(found),))


def kept_clocks(hosts: Mapping[str, KeptHost], core: CoreRecord) -> Comparison | None:
    """How the clocks of a core and its host compare by what a trimmed run says; null if it says nothing."""
    host = hosts.get(core.device.host)
    return host.clocks.get(_name(core)) if host is not None else None


def _name(core: CoreRecord) -> str:
    return core.device.id.rpartition("/")[2]


def _comparison(value: StatValue) -> Comparison | None:
    if isinstance(value, str) and value:
        return Comparison(0, value)
    return Comparison(value, None) if isinstance(value, int) and abs(value) < MAX_PS else None


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
