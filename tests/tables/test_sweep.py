"""Interval algebra against brute force over single picoseconds."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.tables.sweep import Spans, active, boundaries, covered_before, length, overlap, sum_by_window, union

TIME = 40
intervals = st.lists(
    st.tuples(st.integers(0, TIME), st.integers(0, 12)).map(lambda p: (p[0], min(p[0] + p[1], TIME))), max_size=8
)


def spans(pairs: list[tuple[int, int]]) -> Spans:
    return Spans.of([a for a, _ in pairs], [b for _, b in pairs])


def points(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for a, b in pairs for t in range(a, b)}


@given(intervals)
def test_the_union_holds_exactly_the_points_of_the_spans_and_is_disjoint(pairs: list[tuple[int, int]]) -> None:
    joined = union(spans(pairs))
    found = list(zip(joined.start.tolist(), joined.end.tolist(), strict=True))
    assert points(found) == points(pairs)
    assert all(b < c for (_, b), (c, _) in itertools.pairwise(found))
    assert length(spans(pairs)) == len(points(pairs))


@given(intervals, intervals)
def test_a_segment_is_active_exactly_where_a_span_covers_it(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    cuts = boundaries([spans(one), spans(two)])
    covered = active(cuts, spans(one))
    for left, right, on in zip(cuts[:-1].tolist(), cuts[1:].tolist(), covered.tolist(), strict=True):
        assert all((t in points(one)) == on for t in range(left, right))


@given(intervals, intervals)
def test_overlap_counts_the_common_points(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    found = overlap(spans(one), union(spans(two)))
    assert found.tolist() == [len(points([pair]) & points(two)) for pair in one]


@given(intervals, st.integers(0, TIME))
def test_covered_before_counts_the_points_to_the_left(pairs: list[tuple[int, int]], time: int) -> None:
    found = covered_before(union(spans(pairs)), np.array([time]))
    assert found.tolist() == [len([t for t in points(pairs) if t < time])]


def test_sums_of_segments_are_exact_beyond_the_precision_of_floats() -> None:
    big = (1 << 60) + 1
    assert sum_by_window(np.array([big, 1, 2]), np.array([0, 2, 3])).tolist() == [big + 1, 2]


def test_nothing_in_nothing_out() -> None:
    empty = Spans.of([], [])
    assert len(boundaries([empty])) == 0
    assert len(active(np.zeros(0, np.int64), empty)) == 0
    assert length(empty) == 0
    assert overlap(Spans.of([3], [5]), union(empty)).tolist() == [0]
