"""Rows: every event is on one of them, apart from the others, below what encloses it; sums are those of addition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuprof_dashboards.timeline import rows as rows_module
from tpuprof_dashboards.timeline.rows import Events, Row, busy_by_colour, make_rows

COLOURS = np.array([3, 3, 7, 0], np.uint8)
Span = tuple[int, int, int]
spans = st.lists(st.tuples(st.integers(-300, 300), st.integers(0, 60), st.integers(0, 3)), max_size=150)


def events(found: list[Span]) -> Events:
    start = np.array([at for at, _, _ in found], np.int64)
    length = np.array([size for _, size, _ in found], np.int64)
    return Events(start, start + length, np.array([item for _, _, item in found], np.int32))


def listed(row: Row) -> list[Span]:
    of = row.events
    return [(int(a), int(b - a), int(i)) for a, b, i in zip(of.start, of.end, of.item, strict=True)]


@given(spans)
def test_every_event_is_on_one_row_and_apart(found: list[Span]) -> None:
    rows, deeper = make_rows(events(found), COLOURS)
    assert deeper == 0
    assert sorted(each for row in rows for each in listed(row)) == sorted(found)
    for row in rows:
        assert (row.events.end[:-1] <= row.events.start[1:]).all()


@given(spans)
def test_what_encloses_an_event_is_above_it(found: list[Span]) -> None:
    rows, _ = make_rows(events(found), COLOURS)
    placed = [(a, a + size, depth) for depth, row in enumerate(rows) for a, size, _ in listed(row)]
    for a, b, depth in placed:
        for c, d, other in placed:
            if c <= a and b <= d and (c, d) != (a, b) and a < d:
                assert other < depth, (a, b, c, d)


@given(spans, st.integers(0, 150), st.integers(0, 150))
def test_time_by_colour_is_that_of_addition(found: list[Span], one: int, other: int) -> None:
    for row in make_rows(events(found), COLOURS)[0]:
        first, last = min(one, other, len(row)), min(max(one, other), len(row))
        expected = dict.fromkeys(row.colours.tolist(), 0)
        for _, length, item in listed(row)[first:last]:
            expected[int(COLOURS[item])] += length
        assert busy_by_colour(row, first, last).tolist() == list(expected.values())


def test_a_loop_is_one_row_above_its_body() -> None:
    rows, _ = make_rows(events([(0, 100, 0), (10, 20, 1), (30, 20, 1), (120, 5, 2)]), COLOURS)
    assert [listed(row) for row in rows] == [[(0, 100, 0), (120, 5, 2)], [(10, 20, 1), (30, 20, 1)]]
    assert rows[0].colours.tolist() == [3, 7]


def test_flights_that_overlap_take_the_first_free_row() -> None:
    rows, _ = make_rows(events([(0, 10, 0), (5, 20, 1), (12, 4, 2), (26, 4, 2)]), COLOURS)
    assert [[start for start, _, _ in listed(row)] for row in rows] == [[0, 26], [5], [12]]


def test_what_nests_too_deep_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_DEPTH", 3)
    rows, deeper = make_rows(events([(at, 100 - 2 * at, 0) for at in range(5)]), COLOURS)
    assert (len(rows), deeper) == (3, 2)


def test_no_events_no_rows() -> None:
    assert make_rows(events([]), COLOURS) == ((), 0)


def test_self_times_and_unknown_durations_go_with_their_events() -> None:
    made = Events(
        np.array([20, 0], np.int64), np.array([25, 10], np.int64), np.array([1, 0], np.int32),
        np.array([5, 4], np.int64), np.array([False, True]),
    )  # fmt: skip
    ((row,), _) = make_rows(made, COLOURS)
    assert row.events.self_ps is not None
    assert row.events.self_ps.tolist() == [4, 5]
    assert row.events.known is not None
    assert row.events.known.tolist() == [True, False]
