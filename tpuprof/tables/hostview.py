"""What a host did during a core's gaps, by cause and by name, on the core's clock.

The partition gives idle causes per step; this looks at single gaps, for those who want to know which call it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tpuprof.formats.recordings import Recordings
from tpuprof.formats.xspace import I64
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Core
from tpuprof.tables.host import step_annotations
from tpuprof.tables.hostwork import HOST_CAUSES, NamedWork, named_work, on_core
from tpuprof.tables.rows import StepMarks
from tpuprof.tables.sweep import Spans, overlap, union

NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class HostView:
    """A host's named work on the clock of one of its cores."""

    work: NamedWork
    steps: StepMarks | None  # the host's step annotations

    def step_at(self, time: int) -> int | None:
        """The number of the step annotation that holds at a time; null outside all of them."""
        if self.steps is None:
            return None
        rows = np.flatnonzero((self.steps.start <= time) & (self.steps.end > time))
        return int(self.steps.number[rows[-1]]) if len(rows) else None

    def by_cause(self, gaps: Spans) -> I64:
        """For each gap the time of each host cause, shape (gaps, len(HOST_CAUSES)), in ps.

        At each instant the first cause that holds counts, so that rows sum to what the host's work explains.
        """
        columns: list[I64] = []
        before = np.zeros(len(gaps), np.int64)
        for row in range(len(HOST_CAUSES)):
            mask = self.work.cause <= row
            covered = overlap(gaps, union(Spans(self.work.start[mask], self.work.end[mask])))
            columns.append(covered - before)
            before = covered
        return np.stack(columns, axis=1)

    def name_in(self, start: int, end: int, cause: str) -> str | None:
        """The event that says best what the host did there: the innermost one of the cause that covers nearly all of
        what the cause covers; null if there is none."""
        work, row = self.work, HOST_CAUSES.index(cause)
        rows = np.flatnonzero((work.cause == row) & (work.start < end) & (work.end > start))
        if not len(rows):
            return None
        clipped = Spans(np.maximum(work.start[rows], start), np.minimum(work.end[rows], end))
        names = work.name[rows]
        sums = {name: _length(clipped, names == name) for name in ints(np.unique(names))}
        most = max(sums.values())
        good = [name for name, ps in sums.items() if ps >= NEARLY_ALL * most]
        # Of nested calls the inner one is shorter as a whole.
        whole = {name: float((work.end[rows] - work.start[rows])[names == name].sum()) for name in good}
        return work.names[min(good, key=lambda name: (whole[name], work.names[name]))]

    def touches(self, gaps: Spans, cause: str) -> npt.NDArray[np.bool_]:
        """For each gap whether work of the cause ends inside it (or at its ends): the device had run dry when the
        host came back."""
        ends = np.sort(self.work.end[self.work.cause == HOST_CAUSES.index(cause)])
        return np.searchsorted(ends, gaps.end, side="right") > np.searchsorted(ends, gaps.start, side="left")


@dataclass(frozen=True, slots=True, eq=False)
class HostLog:
    """A host's named work and its step annotations, on its own clock."""

    host: str
    work: NamedWork
    steps: StepMarks | None

    def on(self, core: Core) -> HostView | None:
        """The view of one of the host's cores; null where the clocks cannot be compared."""
        if core.clocks.reason is not None:
            return None
        work, offset = self.work, core.clocks.offset_ps
        moved = on_core(Spans(work.start, work.end), core.record, offset)
        steps = None
        if self.steps is not None:
            at = on_core(Spans(self.steps.start, self.steps.end), core.record, offset)
            steps = StepMarks(self.steps.number, at.start, at.end)
        return HostView(NamedWork(work.names, work.name, work.cause, moved.start, moved.end), steps)


def host_log(recordings: Recordings, host: str, origin: int, ahead_ps: int = 0) -> HostLog | None:
    """What a host recorded of itself; null if there is no such host.

    Args:
        recordings: all hosts.
        host: the host's name.
        origin: time zero in ns.
        ahead_ps: how far the host's clock is ahead of the one that its cores were moved to.
    """
    names = [head.host for head in recordings.heads]
    if host not in names:
        return None
    recording = recordings[names.index(host)]  # of a large run this reads one file again
    work, marks = named_work(recording, origin), step_annotations(recording, origin)
    if ahead_ps:
        work = replace(work, start=work.start - ahead_ps, end=work.end - ahead_ps)
        marks = None if marks is None else StepMarks(marks.number, marks.start - ahead_ps, marks.end - ahead_ps)
    return HostLog(host, work, marks)


def _length(spans: Spans, mask: npt.NDArray[np.bool_]) -> int:
    joined = union(Spans(spans.start[mask], spans.end[mask]))
    return int((joined.end - joined.start).sum())
