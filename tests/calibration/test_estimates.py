"""Fitted numbers: they give the right sum of times, and outliers do not decide them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.calibration.estimates import TRIM, Sample, quantile, reached_share, typical

TIMES = st.floats(1e-6, 1.0)
SAMPLES = st.lists(
    st.builds(Sample, st.just("op"), TIMES, TIMES, st.integers(1, 50)), min_size=1, max_size=30
)  # fmt: skip


@given(st.floats(0.05, 1.0), st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=20))
def test_a_share_that_all_ops_reach_is_found(share: float, ops: list[tuple[float, int]]) -> None:
    found = reached_share([Sample("op", ideal, ideal / share, count) for ideal, count in ops])
    assert found is not None
    assert found.value == pytest.approx(share)
    assert found.samples == len(ops)
    assert found.executions == sum(count for _, count in ops)


@given(SAMPLES, st.floats(0.1, 10.0))
def test_the_estimate_lies_between_the_ops_and_scales_with_them(samples: list[Sample], factor: float) -> None:
    found = reached_share(samples)
    assert found is not None
    shares = [sample.ideal_s / sample.seconds for sample in samples]
    assert min(shares) * (1 - 1e-9) <= found.value <= max(shares) * (1 + 1e-9)
    scaled = reached_share([Sample("op", s.ideal_s * factor, s.seconds, s.count) for s in samples])
    assert scaled is not None
    assert scaled.value == pytest.approx(found.value * factor)
    assert (found.low is None) == (len(samples) == 1)


@given(SAMPLES, st.integers(2, 9))
def test_how_executions_are_listed_does_not_matter(samples: list[Sample], parts: int) -> None:
    whole = reached_share([Sample("op", s.ideal_s, s.seconds, s.count * parts) for s in samples])
    split = reached_share([Sample("op", s.ideal_s, s.seconds, s.count) for s in samples for _ in range(parts)])
    assert whole is not None
    assert split is not None
    assert whole.value == pytest.approx(split.value)


def test_times_add_up_where_ops_differ_and_the_median_would_not() -> None:
    # 60 % of the time at 0.8, 40 % at 0.4, none of it at the ends alone: the middle 80 % are 0.3 at 0.4 and 0.5 at 0.8.
    found = reached_share([Sample("fast", 0.48, 0.6), Sample("slow", 0.16, 0.4)])
    assert found is not None
    assert found.value == pytest.approx((0.5 * 0.8 + 0.3 * 0.4) / 0.8)
    assert (found.low, found.high) == (pytest.approx(0.4), pytest.approx(0.8))


def test_an_op_of_a_twentieth_of_the_time_decides_nothing() -> None:
    good = [Sample("op", 0.07, 0.1) for _ in range(19)]
    for wrong in (Sample("wrong", 1e-9, 0.1), Sample("wrong", 0.0999, 0.1)):
        found = reached_share([*good, wrong])
        assert found is not None
        assert found.value == pytest.approx(0.7)


def test_nothing_comes_of_nothing() -> None:
    assert reached_share([]) is None
    assert reached_share([Sample("zero", 1.0, 0.0), Sample("none", 0.0, 1.0), Sample("never", 1.0, 1.0, 0)]) is None
    assert typical([], 0.0) is None


def test_the_median_of_steps() -> None:
    found = typical([3.0, 1.0, 2.0, 100.0, 2.0], 5.0)
    assert found is not None
    assert (found.value, found.low, found.high, found.samples, found.seconds) == (2.0, 1.0, 100.0, 5, 5.0)
    assert typical([7.0], 1.0).low is None  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 20)), min_size=1, max_size=20), st.floats(0.01, 1.0))
def test_a_quantile_is_that_of_the_values_written_out(pairs: list[tuple[float, int]], at: float) -> None:
    values, weights = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    written = np.sort(np.repeat(values, weights.astype(int)))
    place = min(int(np.ceil(at * len(written) - 1e-9)) - 1, len(written) - 1)
    near = {written[max(place + shift, 0)] for shift in (-1, 0, 1) if place + shift < len(written)}
    assert quantile(values, weights, at) in near
    assert TRIM < 0.5
