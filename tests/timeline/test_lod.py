"""Level of detail against brute force: nothing vanishes, nothing is told twice, sums are exact, blocks stay put."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tpuprof_dashboards.timeline.lod import Cut, aligned, cut, entries, level_for
from tpuprof_dashboards.timeline.overview import BUCKETS, busy_shares
from tpuprof_dashboards.timeline.rows import Events, Row, make_rows

from tests.timeline.made import events_of

COLOURS = np.array([4, 9, 2], np.uint8)
Gap = tuple[int, int, int]
gaps = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 80), st.integers(0, 2)), min_size=1, max_size=200)
windows = st.tuples(st.integers(-200, 4000), st.integers(1, 5000), st.integers(0, 9))


def row_of(found: list[Gap], start: int = -100) -> Row:
    pause, length, item = (np.array(column, np.int64) for column in zip(*found, strict=True))
    alone = length == 0  # at the start of a longer one it would go below it
    begin = start + np.cumsum(pause + length + alone) - length - alone
    ((row,), deeper) = make_rows(Events(begin, begin + length, item.astype(np.int32)), COLOURS)
    assert deeper == 0
    return row


def inside(row: Row, t0: int, t1: int) -> list[int]:
    """Events that touch [t0, t1); one without any duration if it lies in it."""
    start, end = row.events.start.tolist(), row.events.end.tolist()
    return [n for n, (a, b) in enumerate(zip(start, end, strict=True)) if a < t1 and (b > t0 or a >= t0)]


def told(found: Cut) -> list[int]:
    blocks = [n for a, b in zip(found.first, found.last, strict=True) for n in range(int(a), int(b))]
    return sorted([*found.event.tolist(), *blocks])


@given(gaps, windows)
def test_every_event_of_a_window_is_told_once(found: list[Gap], window: tuple[int, int, int]) -> None:
    t0, span, level = window
    row = row_of(found)
    shown = cut(row, t0, t0 + span, level)
    assert told(shown) == inside(row, *aligned(t0, t0 + span, level))


@given(gaps, windows)
def test_blocks_sum_what_they_hold(found: list[Gap], window: tuple[int, int, int]) -> None:
    t0, span, level = window
    row = row_of(found)
    shown = cut(row, t0, t0 + span, level)
    for first, last, busy, colour in zip(shown.first, shown.last, shown.busy, shown.colour, strict=True):
        assert last - first >= 2
        lengths = (row.events.end - row.events.start)[first:last].tolist()
        assert int(busy) == sum(lengths)
        by_colour = Counter[int]()
        for item, length in zip(row.events.item[first:last].tolist(), lengths, strict=True):
            by_colour[int(COLOURS[item])] += length
        assert by_colour[int(colour)] == max(by_colour.values())


@given(gaps, windows)
def test_entries_are_bounded_by_the_buckets_and_known_before(found: list[Gap], window: tuple[int, int, int]) -> None:
    t0, span, level = window
    row = row_of(found)
    shown = cut(row, t0, t0 + span, level)
    low, high = aligned(t0, t0 + span, level)
    assert len(shown) == entries(row, t0, t0 + span, level) <= 2 * ((high - low) >> level) + 1
    starts = row.events.start
    for first, last in zip(shown.first, shown.last, strict=True):
        assert starts[first] >> level == starts[last - 1] >> level
        assert int((row.events.end - starts)[first:last].max()) < 1 << level


@given(gaps, windows, st.integers(0, 3000))
def test_blocks_do_not_depend_on_the_window(found: list[Gap], window: tuple[int, int, int], moved: int) -> None:
    t0, span, level = window
    row = row_of(found)
    here, there = (cut(row, at, at + span, level) for at in (t0, t0 + moved))
    low, high = aligned(t0 + moved, t0 + span, level)
    both = [
        {(int(a), int(b)) for a, b in zip(c.first, c.last, strict=True) if low <= row.events.start[a] < high}
        for c in (here, there)
    ]
    assert both[0] == both[1]


@given(gaps)
def test_every_event_that_takes_time_is_by_itself_somewhere(found: list[Gap]) -> None:
    row = row_of(found)
    shown = cut(row, -200, 30_000, 0)
    lasting = np.flatnonzero(row.events.end > row.events.start).tolist()
    assert set(lasting) <= set(shown.event.tolist())


@given(gaps, windows, st.sets(st.integers(0, 199)))
def test_blocks_count_what_was_searched_for(found: list[Gap], window: tuple[int, int, int], hits: set[int]) -> None:
    t0, span, level = window
    row = row_of(found)
    wanted = sorted(n for n in hits if n < len(row))
    shown = cut(row, t0, t0 + span, level, np.array(wanted, np.int64))
    for first, last, count in zip(shown.first, shown.last, shown.hits, strict=True):
        assert count == sum(first <= n < last for n in wanted)


def test_a_window_in_words() -> None:
    row = row_of([(0, 10, 0), (0, 2, 1), (0, 3, 2), (1, 4, 2), (12, 40, 0)], start=0)
    # Buckets of 16 ps: in the first one the events at 0, 10, 12 and 16-20; the one at 32 is longer than a bucket.
    shown = cut(row, 0, 100, 4)
    assert shown.event.tolist() == [3, 4]
    assert (shown.first.tolist(), shown.last.tolist()) == ([0], [3])
    assert (shown.busy.tolist(), shown.colour.tolist()) == ([15], [4])


def test_events_without_duration_make_a_block_of_the_first_ones_colour() -> None:
    row = row_of([(5, 0, 2), (0, 0, 1)], start=0)
    shown = cut(row, 0, 10, 3)
    assert (shown.busy.tolist(), shown.colour.tolist()) == ([0], [2])


def test_buckets_are_half_a_pixel_to_one() -> None:
    for span, width in [(10**12, 1600), (1, 1600), (1600, 1600), (3199, 1600), (5, 0)]:
        size = 1 << level_for(span, width)
        assert size <= max(span / max(width, 1), 1) < 2 * size


def test_millions_of_events_take_few_entries() -> None:
    ((row,), _) = make_rows(events_of(np.random.default_rng(3), 1_000_000, 3), COLOURS)
    start, end = int(row.events.start[0]), int(row.events.end[-1])
    shown = cut(row, start, end, level_for(end - start, 1000))
    assert len(shown) < 4100
    assert len(shown.event) + int((shown.last - shown.first).sum()) == 1_000_000


def test_the_strip_above_says_how_busy_each_part_is() -> None:
    busy = row_of([(0, 480, 0), (480, 480, 0)], start=0)
    idle = row_of([(960, 480, 0)], start=0)
    shares = busy_shares([[busy], [idle, idle]], 0, 1440)
    assert shares.shape == (BUCKETS,)
    third = BUCKETS // 3
    np.testing.assert_allclose(shares, [0.5] * third + [0.0] * third + [1.0] * third, atol=1e-9)
    assert busy_shares([], 0, 10).tolist() == [0.0] * BUCKETS
