# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
"""Which op each picosecond of a step belongs to: the partition, op by op.

Self times of ops that run side by side (streams, threads) add up to more than the step, and a collective in flight
beside an empty op line has no op at all. Here every elementary segment of the partition goes to one op of the part
that it was given to, so that what ops claim sums to the partition, part by part, to the picosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64
from tpuprof.tables.build import Core
from tpuprof.tables.partition import sweep_core
from tpuprof.tables.schemas import PARTS
from tpuprof.tables.sweep import BOOL

COLLECTIVE = PARTS.index("collective_exposed")
LAST_OF_OPS = PARTS.index("dma_wait")
"""The parts up to this row of PARTS belong to ops; what follows belongs to nobody (waits for peers, idle)."""


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What ops of one core claim of its chosen steps.

    Args:
        of_row: ps per op row of the core.
        of_window: ps per row of its windows: exposed collectives in flight while the op line is empty.
        unclaimed: ps by part (a row of PARTS) that no op claims: all of barrier waits and idle, 0 elsewhere.
    """

    of_row: I64
    of_window: I64
    unclaimed: I64


def claims(core: Core, chosen: BOOL) -> Claims:
    """Divides the chosen steps of a core among its ops.

    Of several ops of one part at once, the one that started last claims the time: on one thread it is the inner one.

    Args:
        core: the core.
        chosen: for each of its steps whether it counts.
    """
    ops, windows, steps = core.record.ops, core.windows, core.steps
    sweep = sweep_core(core.record, core.levels, windows, core.runs, steps)
    length = np.diff(sweep.cuts)
    begin = sweep.cuts[:-1]
    inside = _inside(begin, steps.start[chosen], steps.end[chosen])
    of_row, of_window = np.zeros(len(ops), np.int64), np.zeros(len(windows), np.int64)
    unclaimed = np.zeros(len(PARTS), np.int64)
    for level in range(len(PARTS)):
        segments = np.flatnonzero((sweep.part == level) & inside)
        if not len(segments):
            continue
        if level <= LAST_OF_OPS:
            rows = np.flatnonzero((core.levels == level) & (ops.duration > 0))
            segments = _give(of_row, rows, ops.start, ops.end, begin, length, segments)
        if level == COLLECTIVE:
            rows = np.flatnonzero(windows.is_collective & windows.asynchronous)
            segments = _give(of_window, rows, windows.start, windows.end, begin, length, segments)
        unclaimed[level] = length[segments].sum()
    return Claims(of_row, of_window, unclaimed)


def starts_inside(start: I64, core: Core, chosen: BOOL) -> BOOL:
    """Whether each time lies in one of the chosen steps."""
    return _inside(start, core.steps.start[chosen], core.steps.end[chosen])


def _inside(times: I64, start: I64, end: I64) -> BOOL:
    if not len(start):
        return np.zeros(len(times), np.bool_)
    at = np.searchsorted(start, times, side="right") - 1
    return (at >= 0) & (times < end[np.maximum(at, 0)])


def _give(
    total: I64,
    rows: npt.NDArray[np.intp],
    start: I64,
    end: I64,
    begin: I64,
    length: I64,
    segments: npt.NDArray[np.intp],
) -> npt.NDArray[np.intp]:
    """Adds the length of each segment to the row that claims it; returns the segments that none claims."""
    rows = rows[np.argsort(start[rows], kind="stable")]
    owner = last_started(start[rows], end[rows], begin[segments])
    taken = owner >= 0
    np.add.at(total, rows[owner[taken]], length[segments[taken]])
    return segments[~taken]


@numba.njit("i8[::1](i8[::1], i8[::1], i8[::1])", cache=True, nogil=True)
def last_started(start, end, times):  # type: ignore[no-untyped-def] # compiled
    """For each time, both in order, the interval that started last among those that hold it; -1 for none."""
    owner = np.full(len(times), -1, np.int64)
    stack = np.empty(len(start), np.int64)
    depth = 0
    following = 0
    for i in range(len(times)):
        while following < len(start) and start[following] <= times[i]:
            stack[depth] = following
            depth += 1
            following += 1
        while depth > 0 and end[stack[depth - 1]] <= times[i]:
            depth -= 1
        if depth > 0:
            owner[i] = stack[depth - 1]
    return owner
