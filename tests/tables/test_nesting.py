"""Nesting, self times and overruns of the rows of a line."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.tables.nesting import SILENT_OVERRUN_PS, Nesting, nest
from tpuprof.tables.rows import Rows

US = 1_000_000


def run(
    spans: list[tuple[int, int]],
    containers: tuple[int, ...] = (),
    *,
    sequential: bool = True,
    lanes: list[int] | None = None,
) -> Nesting:
    """Nests rows that are given in order of (start, longer first), in microseconds."""
    start = np.array([a * US for a, _ in spans], np.int64)
    duration = np.array([(b - a) * US for a, b in spans], np.int64)
    lane = np.array(lanes if lanes is not None else [0] * len(spans), np.int32)
    rows = Rows.make(lane, np.zeros(len(spans), np.int32), start, duration)
    container = np.array([i in containers for i in range(len(spans))], np.bool_)
    return nest(rows, container, sequential)


def test_a_container_keeps_only_the_time_that_its_children_leave() -> None:
    found = run([(0, 900), (0, 400), (400, 700), (750, 900)], containers=(0,))
    assert (found.self_ps // US).tolist() == [50, 400, 300, 150]
    assert found.parent.tolist() == [-1, 0, 0, 0]
    assert found.overruns == 0


def test_an_op_that_runs_into_the_next_one_is_cut_at_its_start() -> None:
    found = run([(0, 3_400_000), (400, 700), (700, 900)])
    assert (found.duration // US).tolist() == [400, 300, 200]
    assert (found.overruns, found.excess_ps) == (1, 3_399_600 * US)


def test_an_overrun_inside_a_container_is_cut_too_and_the_container_is_not() -> None:
    found = run([(0, 900), (0, 500), (400, 700)], containers=(0,))
    assert (found.duration // US).tolist() == [900, 400, 300]
    assert (found.self_ps // US).tolist() == [200, 400, 300]


def test_rounding_is_cut_without_a_word() -> None:
    rows = Rows.make(
        0, np.zeros(2, np.int32), np.array([0, 10_000]), np.array([10_000 + SILENT_OVERRUN_PS, 1_000], np.int64)
    )
    found = nest(rows, np.zeros(2, np.bool_), True)
    assert found.duration.tolist() == [10_000, 1_000]
    assert found.overruns == 0


def test_equal_starts_are_no_overrun() -> None:
    found = run([(0, 400), (0, 300)])
    assert (found.duration // US).tolist() == [400, 300]
    assert found.overruns == 0


def test_an_instant_inside_an_op_does_not_cut_it() -> None:
    found = run([(0, 400), (100, 100)])
    assert (found.duration // US).tolist() == [400, 0]


def test_lines_do_not_mix() -> None:
    found = run([(0, 400), (100, 200)], lanes=[0, 1])
    assert (found.duration // US).tolist() == [400, 100]
    assert found.parent.tolist() == [-1, -1]


def test_on_a_thread_an_op_may_hold_another_one() -> None:
    found = run([(0, 100), (20, 30)], sequential=False)
    assert (found.duration // US).tolist() == [100, 10]
    assert (found.self_ps // US).tolist() == [90, 10]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12), st.booleans())
def test_cut_ops_of_a_line_do_not_overlap_unless_they_start_together(pairs: list[tuple[int, int]], boxed: bool) -> None:
    spans = sorted(((a, a + d) for a, d in pairs), key=lambda p: (p[0], -p[1]))
    if boxed:
        spans = [(0, 100), *spans]
    found = run(spans, containers=(0,) if boxed else ())
    first = 1 if boxed else 0
    ends = [a * US + int(d) for (a, _), d in zip(spans, found.duration, strict=True)]
    for i in range(first, len(spans)):
        for j in range(i + 1, len(spans)):
            if spans[j][0] > spans[i][0] and spans[j][1] > spans[j][0]:
                assert ends[i] <= spans[j][0] * US
    assert bool((found.duration >= 0).all())
    assert bool((found.self_ps >= 0).all())
