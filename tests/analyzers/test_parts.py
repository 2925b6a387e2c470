"""The pieces that analyzers are made of, against brute force and other implementations."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpuprof_analyzers.common import base_name, ordinal, period_of, steps_text, when
from tpuprof_analyzers.independent import independent_ps
from tpuprof_analyzers.steptime import trend, two_classes

from tpuprof.hlo import parse_text
from tpuprof.tables.hostview import HostView
from tpuprof.tables.hostwork import HOST_CAUSES, NamedWork
from tpuprof.tables.rows import StepMarks
from tpuprof.tables.sweep import Spans

INPUT, SYNC = HOST_CAUSES.index("input"), HOST_CAUSES.index("host_sync")


@given(st.integers(2, 30), st.integers(0, 30), st.integers(3, 20))
def test_regular_events_have_their_period(period: int, first: int, count: int) -> None:
    assert period_of([first + n * period for n in range(count)]) == period


@given(st.integers(2, 30), st.integers(1, 8))
def test_one_missed_event_in_ten_does_not_hide_a_period(period: int, missed: int) -> None:
    assert period_of([n * period for n in range(10) if n != missed]) == period


@pytest.mark.parametrize(
    "positions", [[], [3], [3, 7], [1, 2, 3, 4], [1, 4, 9, 11], [0, 8, 16, 20], [0, 8, 16, 24, 27]]
)
def test_too_few_or_irregular_events_have_none(positions: list[int]) -> None:
    assert period_of(positions) is None


@given(st.lists(st.integers(0, 200), min_size=3, unique=True).map(sorted))
def test_a_period_divides_every_distance(positions: list[int]) -> None:
    period = period_of(positions)
    if period is not None:
        assert period > 1
        assert all((b - a) % period == 0 for a, b in itertools.pairwise(positions))


def test_words_for_steps() -> None:
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th",
    ]  # fmt: skip
    assert when([2, 5, 8], 3, 9) == "every 3rd step (steps 2, 5, 8)"
    assert when([1], None, 9) == "1 of 9 steps (step 1)"
    assert when(list(range(9)), None, 9) == "every step"
    assert when(list(range(8)), None, 9) == "8 of 9 steps"
    assert steps_text(list(range(15))) == "steps 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more"
    assert [base_name(n) for n in ("copy.12", "slice_fusion", "fusion.1.2", "7")] == [
        "copy",
        "slice_fusion",
        "fusion",
        "7",
    ]


@given(st.lists(st.integers(1, 50), min_size=12, max_size=60))
def test_the_trend_is_that_of_scipy(times: list[int]) -> None:
    values = np.array(times, np.float64)
    slope, p_value = trend(values)
    assert slope == pytest.approx(float(stats.theilslopes(values, np.arange(len(values))).slope))
    if len(set(times)) > 1:
        other = float(stats.kendalltau(np.arange(len(values)), values, method="asymptotic").pvalue)
        # Ours has the correction for continuity, which makes it larger.
        assert other <= p_value + 1e-12
        assert p_value <= other + 0.12


def test_long_series_are_thinned_without_changing_the_slope() -> None:
    slope, p_value = trend(np.arange(4000, dtype=np.float64) * 3)
    assert slope == pytest.approx(3)
    assert p_value < 1e-9


@given(
    st.lists(st.floats(90, 110), min_size=2, max_size=20),
    st.lists(st.floats(290, 310), min_size=2, max_size=20),
    st.randoms(),
)
def test_two_tight_groups_are_told_apart_in_any_order(light: list[float], heavy: list[float], random: object) -> None:
    values = [*light, *heavy]
    random.shuffle(values)  # type: ignore[attr-defined]
    assert two_classes(np.array(values)) == min(heavy)


@given(st.lists(st.floats(95, 105), min_size=1, max_size=30))
def test_one_group_is_no_two(values: list[float]) -> None:
    assert two_classes(np.array(values)) is None


PROGRAM = """
HloModule m, is_scheduled=true

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8] get-tuple-element(%p), index=1
  %square = f32[8] multiply(%x, %x)
  ROOT %t = (s32[], f32[8]) tuple(%i, %square)
}

%condition (c: (s32[], f32[8])) -> pred[] {
  %c = (s32[], f32[8]) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %ten = s32[] constant(10)
  ROOT %less = pred[] compare(%n, %ten), direction=LT
}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (v: f32[8], w: f32[8]) -> (f32[8], f32[8], (s32[], f32[8])) {
  %v = f32[8] parameter(0)
  %w = f32[8] parameter(1)
  %before = f32[8] add(%v, %v)
  %gradient = f32[8] all-reduce(%before), replica_groups={{0,1}}, to_apply=%sum
  %beside = f32[8] multiply(%w, %w)
  %after = f32[8] add(%gradient, %beside)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8]) tuple(%zero, %w)
  %loop = (s32[], f32[8]) while(%start), condition=%condition, body=%body
  ROOT %out = (f32[8], f32[8], (s32[], f32[8])) tuple(%after, %before, %loop)
}
"""
TIMES = {"before": 1.0, "beside": 10.0, "after": 100.0, "square": 1000.0}


def test_compute_that_neither_feeds_nor_needs_an_op() -> None:
    program = parse_text(PROGRAM)
    assert independent_ps(program, "gradient", TIMES) == 10.0 + 1000.0
    assert independent_ps(program, "beside", TIMES) == 1.0 + 1000.0
    assert independent_ps(program, "after", TIMES) == 1000.0
    assert independent_ps(program, "no-such-op", TIMES) is None


events = st.lists(
    st.tuples(st.integers(0, len(HOST_CAUSES) - 1), st.integers(0, 3), st.integers(0, 60), st.integers(1, 30)),
    max_size=12,
)
gaps = st.lists(st.integers(0, 90), min_size=2, max_size=10, unique=True).map(sorted)


def view_of(rows: list[tuple[int, int, int, int]]) -> HostView:
    cause, name, start, length = (np.array(column, np.int64) for column in zip(*rows, strict=True)) if rows else (
        np.zeros(0, np.int64) for _ in range(4)
    )  # fmt: skip
    return HostView(NamedWork(("a", "b", "c", "d"), name, cause, start, start + length), None)


@settings(max_examples=300)
@given(events, gaps)
def test_causes_of_gaps_are_those_of_brute_force(rows: list[tuple[int, int, int, int]], cuts: list[int]) -> None:
    spans = Spans.of(cuts[:-1:2], cuts[1::2])
    found = view_of(rows).by_cause(spans)
    for row, (start, end) in enumerate(zip(spans.start.tolist(), spans.end.tolist(), strict=True)):
        truth = [0] * len(HOST_CAUSES)
        for instant in range(start, end):
            running = [cause for cause, _, at, length in rows if at <= instant < at + length]
            if running:
                truth[min(running)] += 1
        assert found[row].tolist() == truth


@given(events, gaps)
def test_touched_gaps_are_those_of_brute_force(rows: list[tuple[int, int, int, int]], cuts: list[int]) -> None:
    spans = Spans.of(cuts[:-1:2], cuts[1::2])
    ends = [at + length for cause, _, at, length in rows if cause == SYNC]
    truth = [any(a <= e <= b for e in ends) for a, b in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
    assert view_of(rows).touches(spans, "host_sync").tolist() == truth


def test_the_innermost_call_that_covers_the_gap_is_named() -> None:
    #       a outer loader, b the one that really reads, c a short piece of it
    view = view_of([(INPUT, 0, 0, 100), (INPUT, 1, 5, 90), (INPUT, 2, 40, 10)])
    assert view.name_in(10, 90, "input") == "b"
    assert view.name_in(0, 100, "input") == "b", "ninety of a hundred is nearly all"
    assert view.name_in(42, 48, "input") == "c"
    assert view.name_in(100, 120, "input") is None
    assert view.name_in(10, 90, "host_sync") is None


def test_steps_of_the_host() -> None:
    marks = StepMarks(np.array([4, 5]), np.array([0, 100]), np.array([90, 200]))
    view = HostView(view_of([]).work, marks)
    assert [view.step_at(time) for time in (0, 89, 90, 100, 199, 200)] == [4, 4, None, 5, 5, None]
    assert view_of([]).step_at(0) is None


def test_no_page_names_what_does_not_exist() -> None:
    pages = Path(__file__).parents[2] / "analyzers" / "tpuprof_analyzers" / "rules"
    text = " ".join(path.read_text(encoding="utf-8") for path in pages.glob("TPU*.md"))
    import jax

    assert hasattr(jax, "log_compiles")
    for name in ("jax_explain_cache_misses", "jax_compilation_cache_dir"):
        assert name in text
        assert hasattr(jax.config, name)
