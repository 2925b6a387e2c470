# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
"""Rows of a timeline: events that follow each other, with sums that tell what any stretch of them holds.

A track may nest (a loop around its body, a Python stack) or overlap (copies in flight). It is spread over rows so
that the events of one row are disjoint and in order of time. Then the events of any window are one range, found by
bisection, and what a range holds in time by colour comes from running sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numba
import numpy as np
import numpy.typing as npt

from tpuprof.tables.arrays import ints

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
BOOL = npt.NDArray[np.bool_]

STRIDE = 16
"""Events between two running sums: half a byte per event and colour, and at most 30 events to add up by hand."""

MAX_DEPTH = 256
"""Rows of one track; what nests deeper is counted, not drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events of one track, in any order; times in ps on the trace's clock.

    ``item`` is the row of the timeline's items that says what an event is. ``self_ps`` is the time without children
    (null where it is the whole duration), ``known`` is false where the duration is unknown (null if all are known).
    """

    start: I64
    end: I64
    item: I32
    self_ps: I64 | None = None
    known: BOOL | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: npt.NDArray[np.intp]) -> Events:
        """The events at these positions."""
        return Events(
            self.start[index],
            self.end[index],
            self.item[index],
            None if self.self_ps is None else self.self_ps[index],
            None if self.known is None else self.known[index],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Disjoint events in order of time.

    ``colours`` are the colours on the row, ascending; ``sums[b, c]`` is the time of colour ``colours[c]`` in the first
    ``b * STRIDE`` events; ``local`` maps each of the timeline's colours to its column.
    """

    events: Events
    colours: U8
    local: U8
    sums: I64

    def __len__(self) -> int:
        return len(self.events)


def make_rows(events: Events, colour_of_item: U8) -> tuple[tuple[Row, ...], int]:
    """The rows of a track, outermost first, and how many events lie deeper than ``MAX_DEPTH`` rows.

    Args:
        events: the track's events.
        colour_of_item: for each item of the timeline its colour.
    """
    if not len(events):
        return (), 0
    events = _in_order(events)
    depth = _depths(events.start, events.end, MAX_DEPTH)
    deepest = int(depth.max())
    if deepest == 0 and int(depth.min()) == 0:
        return (_row(events, colour_of_item),), 0
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(deepest + 2))
    rows = [_row(events.take(order[begin:end]), colour_of_item) for begin, end in pairwise(ints(bounds))]
    return tuple(rows), int(bounds[0])


def busy_by_colour(row: Row, first: int, last: int) -> I64:
    """Time of the events ``first`` to ``last`` (excluded) by colour, in the order of ``row.colours``."""
    found = np.zeros(len(row.colours), np.int64)
    _add_busy(row.events.start, row.events.end, row.events.item, row.local, row.sums, first, last, found)
    return found


def _row(events: Events, colour_of_item: U8) -> Row:
    used = np.flatnonzero(np.bincount(events.item, minlength=1))
    colours = np.unique(colour_of_item[used]).astype(np.uint8)
    column = np.zeros(256, np.uint8)
    column[colours] = np.arange(len(colours), dtype=np.uint8)
    local = column[colour_of_item]
    if events.self_ps is not None and np.array_equal(events.self_ps, events.end - events.start):
        events = Events(events.start, events.end, events.item, None, events.known)
    if events.known is not None and bool(events.known.all()):
        events = Events(events.start, events.end, events.item, events.self_ps, None)
    sums = _sums(events.start, events.end, events.item, local, len(colours), STRIDE)
    return Row(events, colours, local, sums)


def _in_order(events: Events) -> Events:
    """In order of (start, longer first), contiguous."""
    start, end = np.ascontiguousarray(events.start), np.ascontiguousarray(events.end)
    item = np.ascontiguousarray(events.item)
    events = Events(start, end, item, events.self_ps, events.known)
    later = start[1:] > start[:-1]
    if bool((later | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))).all()):
        return events
    return events.take(np.lexsort((-end, start)))


@numba.njit("i4[::1](i8[::1], i8[::1], i8)", cache=True, nogil=True)
def _depths(start, end, limit):  # type: ignore[no-untyped-def] # compiled
    """For events in order of (start, longer first) the first row on which each is apart, below those that enclose it.

    -1 where no row is left.
    """
    n = len(start)
    depth = np.empty(n, np.int32)
    reach = np.empty(limit, np.int64)
    used = 0
    for i in range(n):
        lowest = 0
        for r in range(used - 1, -1, -1):
            if reach[r] > start[i] and reach[r] >= end[i]:
                lowest = r + 1
                break
        d = lowest
        while d < used and reach[d] > start[i]:
            d += 1
        if d >= limit:
            depth[i] = -1
            continue
        depth[i] = d
        reach[d] = end[i]
        used = max(used, d + 1)
    return depth


@numba.njit("i8[:, ::1](i8[::1], i8[::1], i4[::1], u1[::1], i8, i8)", cache=True, nogil=True)
def _sums(start, end, item, local, colours, stride):  # type: ignore[no-untyped-def] # compiled
    n = len(start)
    blocks = n // stride
    sums = np.zeros((blocks + 1, colours), np.int64)
    running = np.zeros(colours, np.int64)
    for b in range(blocks):
        for i in range(b * stride, (b + 1) * stride):
            running[local[item[i]]] += end[i] - start[i]
        sums[b + 1] = running
    return sums


@numba.njit("void(i8[::1], i8[::1], i4[::1], u1[::1], i8[:, ::1], i8, i8, i8[::1])", cache=True, nogil=True)
def _add_busy(start, end, item, local, sums, first, last, found):  # type: ignore[no-untyped-def] # compiled
    """Adds the time of events ``first:last`` by colour to ``found``."""
    head = -(-first // STRIDE)
    tail = last // STRIDE
    if head < tail:
        for c in range(len(found)):
            found[c] += sums[tail, c] - sums[head, c]
        for i in range(first, head * STRIDE):
            found[local[item[i]]] += end[i] - start[i]
        for i in range(tail * STRIDE, last):
            found[local[item[i]]] += end[i] - start[i]
    else:
        for i in range(first, last):
            found[local[item[i]]] += end[i] - start[i]
