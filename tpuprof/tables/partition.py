"""The partition of a step: every picosecond of its window belongs to exactly one part.

At each instant the first rule that holds decides: compute by kind; a collective that runs or is waited for; a host
transfer; a wait for a copy; a wait for peers; idle. Work in flight under compute is reported beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64
from tpuprof.tables.arrays import ints
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.runs import Runs
from tpuprof.tables.schemas import COMPUTE_KINDS, IDLE_CAUSES, PARTS
from tpuprof.tables.steps import CoreSteps
from tpuprof.tables.sweep import BOOL, NO_SPANS, Spans, active, boundaries, overlap, sum_by_window, union
from tpuprof.tables.windows import Windows

_COLLECTIVE, _HOST, _DMA, _BARRIER, _IDLE = (
    PARTS.index(name) for name in ("collective_exposed", "host_transfer", "dma_wait", "barrier_wait", "idle")
)
_LEVEL_OF_KIND = {
    **{kind: level for level, kind in enumerate(COMPUTE_KINDS)},
    "collective": _COLLECTIVE,
    "host_transfer": _HOST,
    "dma_wait": _DMA,
}


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Idle stretches of one core inside steps; ``step`` is a row of the core's steps."""

    step: npt.NDArray[np.intp]
    start: I64
    end: I64
    inside_run: BOOL

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True, eq=False)
class CorePartition:
    """The partition of the steps of one core: ``parts`` has shape (steps, len(PARTS)); all in ps."""

    parts: I64
    hidden_collective: I64
    hidden_dma: I64
    idle_causes: I64  # (steps, len(IDLE_CAUSES)); the device's own causes alone where the host's are unknown
    gaps: Gaps
    compute: Spans  # union-ready spans of all compute on the core


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """The longest stretches of one core's steps that belong to one part and cause, in order of time.

    ``step`` is a row of the core's steps, ``part`` of PARTS, ``cause`` of IDLE_CAUSES and -1 where not idle.
    """

    step: npt.NDArray[np.intp]
    start: I64
    end: I64
    part: npt.NDArray[np.int8]
    cause: npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """What holds in each elementary segment ``[cuts[i], cuts[i + 1])``."""

    cuts: I64
    part: npt.NDArray[np.int8]
    host: list[BOOL]
    collective: BOOL
    dma: BOOL
    in_run: BOOL


def op_levels(core: CoreRecord, infos: Sequence[OpInfo]) -> npt.NDArray[np.int8]:
    """For each op row the part it belongs to (a row of PARTS), -1 for containers."""
    table = np.array([_LEVEL_OF_KIND.get(info.cls.kind, -1) for info in infos] or [0], np.int8)
    return table[core.ops.info]


def sweep_core(
    core: CoreRecord,
    levels: npt.NDArray[np.int8],
    windows: Windows,
    runs: Runs,
    steps: CoreSteps,
    host: Sequence[Spans] = (),
) -> Sweep:
    """Cuts a core's time wherever anything begins or ends, and decides what each piece is.

    Args:
        core: the core's rows, overruns cut.
        levels: the part of each op row, see ``op_levels``.
        windows: collectives and copies of the core.
        runs: executions of programs, which tell gaps inside a program from those between programs.
        steps: disjoint windows in order of start.
        host: what the host did by cause (in the order of IDLE_CAUSES), on the core's clock; empty if unknown.
    """
    start, end, duration = core.ops.start, core.ops.end, core.ops.duration
    by_level = [NO_SPANS] * len(PARTS)
    for level in ints(np.unique(levels[levels >= 0])):
        rows = np.flatnonzero((levels == level) & (duration > 0))
        by_level[level] = Spans(start[rows], end[rows])
    collective = windows.is_collective
    async_collective = windows.spans(collective & windows.asynchronous)
    any_collective = windows.spans(collective)
    dma = windows.spans(~collective)
    barrier = Spans(core.barriers.start, core.barriers.end)
    run = Spans(runs.modules.start, np.maximum(runs.modules.end, runs.modules.start))
    step = Spans(steps.start, steps.end)
    host = [_near_idle(spans, by_level, step) for spans in host]
    cuts = boundaries([*by_level, any_collective, dma, barrier, run, step, *host])
    n = max(len(cuts) - 1, 0)

    part = np.full(n, _IDLE, np.int8)
    undecided = np.ones(n, np.bool_)

    def claim(mask: BOOL, value: int) -> None:
        part[mask & undecided] = value
        undecided[mask] = False

    for level in range(_DMA + 1):
        if len(by_level[level]):
            claim(active(cuts, by_level[level]), level)
    claim(active(cuts, async_collective), _COLLECTIVE)
    claim(active(cuts, barrier), _BARRIER)

    # A done half that was left alone is a wait for a collective or a copy too.
    collective_now = active(cuts, any_collective) | active(cuts, by_level[_COLLECTIVE])
    dma_now = active(cuts, dma) | active(cuts, by_level[_DMA])
    return Sweep(cuts, part, [active(cuts, spans) for spans in host], collective_now, dma_now, active(cuts, run))


def partition(sweep: Sweep, steps: CoreSteps) -> CorePartition:
    """Divides the windows of a core's steps, which are disjoint and in order of start."""
    cuts, part, in_run = sweep.cuts, sweep.part, sweep.in_run
    length = np.diff(cuts)
    computing = part < len(COMPUTE_KINDS)
    idle = part == _IDLE
    first = _segment_bounds(cuts, steps)

    def total(mask: BOOL) -> I64:
        if not len(steps):
            return np.zeros(0, np.int64)
        return sum_by_window(np.where(mask, length, 0), first)[::2]

    causes = _causes(sweep, idle)
    return CorePartition(
        parts=np.stack([total(part == value) for value in range(len(PARTS))], axis=1),
        hidden_collective=total(computing & sweep.collective),
        hidden_dma=total(computing & sweep.dma),
        idle_causes=np.stack([total(causes == cause) for cause in range(len(IDLE_CAUSES))], axis=1),
        gaps=_gaps(cuts, idle, in_run, steps),
        compute=Spans(cuts[:-1][computing], cuts[1:][computing]) if len(part) else NO_SPANS,
    )


def segments(sweep: Sweep, steps: CoreSteps) -> Segments:
    """The same division as ``partition`` makes, as a timeline."""
    cuts, part = sweep.cuts, sweep.part
    cause = _causes(sweep, part == _IDLE)
    step = np.searchsorted(steps.start, cuts[:-1], side="right") - 1
    inside = np.zeros(len(part), np.bool_)
    if len(steps):
        inside = (step >= 0) & (cuts[:-1] < steps.end[np.maximum(step, 0)])
    rows = np.flatnonzero(inside)
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.diff(rows) > 1
    for column in (step, part, cause):
        new[1:] |= column[rows[1:]] != column[rows[:-1]]
    heads = rows[new]
    tails = rows[np.append(np.flatnonzero(new)[1:], len(rows)) - 1] if len(rows) else rows
    return Segments(step[heads], cuts[heads], cuts[tails + 1], part[heads], cause[heads])


def _near_idle(spans: Spans, by_level: Sequence[Spans], steps: Spans) -> Spans:
    """The spans that are not wholly inside busy time: only those can explain idle time."""
    if not len(spans) or not len(steps):
        return NO_SPANS
    busy = union(Spans(np.concatenate([s.start for s in by_level]), np.concatenate([s.end for s in by_level])))
    keep = overlap(spans, busy) < spans.end - spans.start
    keep &= (spans.end > steps.start[0]) & (spans.start < steps.end[-1])
    return Spans(spans.start[keep], spans.end[keep])


def _causes(sweep: Sweep, idle: BOOL) -> npt.NDArray[np.int8]:
    """The cause of each idle segment, -1 elsewhere: the first that holds, the host's before the device's own."""
    cause = np.full(len(idle), -1, np.int8)
    left = idle.copy()
    nothing = np.zeros_like(idle)
    masks = [*(sweep.host or [nothing] * (len(IDLE_CAUSES) - 3)), sweep.dma, sweep.in_run, ~nothing]
    for number, mask in enumerate(masks):
        cause[left & mask] = number
        left &= ~mask
    return cause


def _segment_bounds(cuts: I64, steps: CoreSteps) -> npt.NDArray[np.intp]:
    """First segment of each step and of what follows it, alternating, so that even sums are the steps'."""
    bounds = np.empty(2 * len(steps) + 1, np.intp)
    if not len(steps):
        return bounds
    bounds[0:-1:2] = np.searchsorted(cuts, steps.start)
    bounds[1::2] = np.searchsorted(cuts, steps.end)
    bounds[-1] = len(cuts) - 1
    return bounds


def _gaps(cuts: I64, idle: BOOL, in_run: BOOL, steps: CoreSteps) -> Gaps:
    """Maximal idle stretches within each step."""
    if not len(steps) or len(cuts) < 2:
        return Gaps(np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    step = np.searchsorted(steps.start, cuts[:-1], side="right") - 1
    inside = (step >= 0) & (cuts[:-1] < steps.end[np.maximum(step, 0)])
    rows = np.flatnonzero(idle & inside)
    if not len(rows):
        return Gaps(np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    new = np.ones(len(rows), np.bool_)
    new[1:] = (np.diff(rows) > 1) | (step[rows[1:]] != step[rows[:-1]])
    heads = np.flatnonzero(new)
    tails = np.append(heads[1:], len(rows)) - 1
    wholly = np.minimum.reduceat(in_run[rows].astype(np.int8), heads).astype(np.bool_)
    return Gaps(step[rows[heads]], cuts[rows[heads]], cuts[rows[tails] + 1], wholly)
