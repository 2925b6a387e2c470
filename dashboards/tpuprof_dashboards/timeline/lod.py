# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportPrivateUsage=false
"""Level of detail: what a window of a row shows at a given grain, each event either by itself or in one block.

Time is cut into buckets of ``1 << level`` ps that start at multiples of that, wherever the window lies, so that blocks
stay where they are when the view moves. Events of a row are disjoint: of those that start in a bucket only the last can
be as long as a bucket. It stays itself; the shorter ones before it make one block if they are several. So a row gives
at most two entries per bucket, and every event is in exactly one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tpuprof_dashboards.timeline.rows import I64, U8, Row, _add_busy

MAX_LEVEL = 61  # a bucket of 26 days; bucket bounds must fit 64 bits
NO_HITS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """What a window of one row shows.

    Args:
        event: positions of events that are shown by themselves, ascending.
        first: of each block the position of its first event, ascending.
        last: of each block the position behind its last event.
        busy: the sum of the durations of a block's events, in ps.
        colour: the colour with most of that time.
        hits: how many events of a block were searched for.
    """

    event: I64
    first: I64
    last: I64
    busy: I64
    colour: U8
    hits: I64

    def __len__(self) -> int:
        return len(self.event) + len(self.first)


def level_for(span_ps: int, width_px: int) -> int:
    """The level whose buckets are half a pixel to one pixel wide."""
    return min(max(span_ps // max(width_px, 1), 1).bit_length() - 1, MAX_LEVEL)


def aligned(t0: int, t1: int, level: int) -> tuple[int, int]:
    """The window widened to whole buckets."""
    return (t0 >> level) << level, -((-t1 >> level) << level)


def cut(row: Row, t0: int, t1: int, level: int, hits: I64 = NO_HITS) -> Cut:
    """What a row shows of ``[t0, t1)``, widened to whole buckets.

    Args:
        row: the row.
        t0: start, in ps on the trace's clock.
        t1: end.
        level: buckets are ``1 << level`` ps.
        hits: ascending positions of the events that were searched for.
    """
    t0, t1 = aligned(t0, t1, level)
    events = row.events
    room = min(len(events), 2 * max((t1 - t0) >> level, 0) + 2)
    event, first, last, busy, found = (np.empty(room, np.int64) for _ in range(5))
    colour = np.empty(room, np.uint8)
    n_events, n_blocks = _cut(
        events.start, events.end, events.item, row.local, row.sums, hits,
        t0, t1, level, event, first, last, busy, colour, found,
    )  # fmt: skip
    shown = slice(0, n_blocks)
    return Cut(event[:n_events], first[shown], last[shown], busy[shown], row.colours[colour[shown]], found[shown])


def entries(row: Row, t0: int, t1: int, level: int) -> int:
    """How many events and blocks :func:`cut` would give, several times faster."""
    t0, t1 = aligned(t0, t1, level)
    return _entries(row.events.start, row.events.end, t0, t1, level)


@numba.njit("i8(i8[::1], i8[::1], i8)", cache=True, nogil=True)
def _first_in(start, end, t0):  # type: ignore[no-untyped-def] # compiled
    """The first event that is not over at t0; one without any duration is over after its time."""
    i = np.searchsorted(end, t0)
    while i < len(end) and end[i] == t0 and start[i] < t0:
        i += 1
    return i


@numba.njit("i8(i8[::1], i8, i8, i8)", cache=True, nogil=True)
def _first_behind(start, i, edge, guess):  # type: ignore[no-untyped-def] # compiled
    """The first event after i that starts at an edge or behind.

    Gallops from a guess of how many there are before it, which is how many the last bucket had: each probe of an array
    of millions is a miss of the cache.
    """
    n = len(start)
    low = i  # starts before the edge
    high = n  # does not, or is the end
    step = max(guess // 8, 1)
    at = i + max(guess, 1)
    if at < n and start[at] >= edge:
        high = at
        while high - step > low and start[high - step] >= edge:
            high -= step
            step *= 2
        low = max(low, high - step)
    else:
        while at < n and start[at] < edge:
            low = at
            at += step
            step *= 2
        high = min(at, n)
    while high - low > 1:
        middle = (low + high) // 2
        if start[middle] < edge:
            low = middle
        else:
            high = middle
    return high


@numba.njit("i8(i8[::1], i8[::1], i8, i8, i8)", cache=True, nogil=True)
def _entries(start, end, t0, t1, level):  # type: ignore[no-untyped-def] # compiled
    size = np.int64(1) << level
    i = _first_in(start, end, t0)
    count = 0
    guess = 1
    while i < len(start) and start[i] < t1:
        following = _first_behind(start, i, ((start[i] >> level) + 1) << level, guess)
        guess = following - i
        big = end[following - 1] - start[following - 1] >= size
        count += 2 if big and following - i > 1 else 1
        i = following
    return count


@numba.njit(
    "Tuple((i8, i8))(i8[::1], i8[::1], i4[::1], u1[::1], i8[:, ::1], i8[::1], i8, i8, i8,"
    " i8[::1], i8[::1], i8[::1], i8[::1], u1[::1], i8[::1])",
    cache=True,
    nogil=True,
)
def _cut(start, end, item, local, sums, hits, t0, t1, level, event, first, last, busy, colour, found):  # type: ignore[no-untyped-def] # compiled
    n = len(start)
    size = np.int64(1) << level
    i = _first_in(start, end, t0)
    n_events = 0
    n_blocks = 0
    guess = 1
    at_hit = np.searchsorted(hits, i)
    by_colour = np.zeros(sums.shape[1], np.int64)
    while i < n and start[i] < t1:
        following = _first_behind(start, i, ((start[i] >> level) + 1) << level, guess)
        guess = following - i
        stop = following
        if end[following - 1] - start[following - 1] >= size:
            stop -= 1
        if stop - i == 1:
            event[n_events] = i
            n_events += 1
        elif stop > i:
            by_colour[:] = 0
            _add_busy(start, end, item, local, sums, i, stop, by_colour)
            most = local[item[i]]  # events without any duration: the first one's
            total = np.int64(0)
            for c in range(len(by_colour)):
                total += by_colour[c]
                if by_colour[c] > by_colour[most]:
                    most = c
            first[n_blocks] = i
            last[n_blocks] = stop
            busy[n_blocks] = total
            colour[n_blocks] = most
            count = 0
            while at_hit < len(hits) and hits[at_hit] < stop:
                if hits[at_hit] >= i:
                    count += 1
                at_hit += 1
            found[n_blocks] = count
            n_blocks += 1
        if stop < following:
            event[n_events] = following - 1
            n_events += 1
        i = following
    return n_events, n_blocks
