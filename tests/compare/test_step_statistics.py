"""The pieces of the verdict against plain calculations of the same thing."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.accuracy.verdict_noise import noise
from tpuprof.compare.bootstrap import block_length, centre_variance
from tpuprof.compare.centre import centre_of, centres
from tpuprof.compare.noise import RHO, noise_of, weights
from tpuprof.compare.ranks import rank_p, rank_score, shares_p

Array = np.ndarray[Any, np.dtype[np.float64]]
FEW = settings(max_examples=40, deadline=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng([7, seed])


# The centre


def test_the_centre_is_the_mean_where_nothing_stands_out() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.5])
    assert centre_of(values).value == pytest.approx(3.1, abs=1e-9)


def test_one_step_of_any_length_moves_the_centre_by_a_fraction_of_the_spread() -> None:
    values = rng().normal(size=100)
    far = values.copy()
    far[-1] = 1e12
    assert abs(centre_of(far).value - centre_of(values).value) < 0.05


def test_the_centre_holds_until_half_of_the_steps_are_bad() -> None:
    values = rng().normal(size=100)
    values[:40] += 1e9
    assert abs(centre_of(values).value) < 5


def test_equal_values_have_no_spread_and_no_influence() -> None:
    centre = centre_of(np.array([2.0] * 9 + [50.0]))
    assert (centre.value, centre.scale) == (2.0, 0.0)
    assert not centre.influence.any()


def test_a_coarse_timer_has_a_spread() -> None:
    """Six of ten values are equal, so that their median distance is 0."""
    centre = centre_of(np.array([1.0] * 6 + [2.0] * 4))
    assert centre.scale > 0
    assert 1 < centre.value < 2


@FEW
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(-1e6, 1e6))
def test_the_centre_moves_with_its_values_and_stays_among_them(values: list[float], shift: float) -> None:
    array = np.array(values)
    centre = centre_of(array).value
    tolerance = 1e-6 * (1 + abs(shift) + float(np.abs(array).max()))
    assert array.min() - tolerance <= centre <= array.max() + tolerance
    assert centre_of(-array).value == pytest.approx(-centre, abs=tolerance)


def test_many_rows_have_the_centres_of_each() -> None:
    rows = rng().standard_t(2, size=(20, 31))
    assert centres(rows) == pytest.approx([centre_of(row).value for row in rows], abs=1e-9)


def test_the_mean_square_of_influences_is_the_error_of_the_centre() -> None:
    rows = rng().standard_t(3, size=(4000, 60))
    claimed = np.mean([float((centre_of(row).influence ** 2).sum()) / 60**2 for row in rows[:500]])
    assert claimed == pytest.approx(float(centres(rows).var()), rel=0.1)


# Correlated noise


def test_the_likelihood_and_the_variance_are_those_of_the_covariance_matrix() -> None:
    values = rng().normal(size=12)
    influence = values - values.mean()
    n = len(influence)
    log_likelihood, variance = [], []
    for rho in RHO:
        correlation = rho ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))  # of noise with variance 1
        shape = correlation / (1 - rho**2)  # in units of the innovations
        inverse, ones = np.linalg.inv(shape), np.ones(n)
        level = float(ones @ inverse @ influence / (ones @ inverse @ ones))
        rest = float((influence - level) @ inverse @ (influence - level))
        log_likelihood.append(
            -0.5 * np.linalg.slogdet(shape)[1] - 0.5 * math.log(ones @ inverse @ ones) - (n - 1) / 2 * math.log(rest)
        )
        variance.append(rest / (n - 1) / (1 - rho**2) * float(ones @ correlation @ ones) / n**2)
    found = noise_of(influence)
    assert found.log_likelihood - found.log_likelihood[0] == pytest.approx(
        np.array(log_likelihood) - log_likelihood[0], abs=1e-9
    )
    assert found.variance == pytest.approx(variance, rel=1e-9)


def test_a_long_capture_shows_its_correlation() -> None:
    for rho in (0.0, 0.3, 0.7):
        weight = weights([noise_of(centre_of(noise(rng(3), "normal", rho, 3000)).influence)])
        assert float(weight @ RHO) == pytest.approx(rho, abs=0.06)
        assert weight.sum() == pytest.approx(1)


def test_a_short_capture_leaves_it_open() -> None:
    weight = weights([noise_of(centre_of(noise(rng(4), "normal", 0.5, 10)).influence)])
    spread = float(weight @ RHO**2) - float(weight @ RHO) ** 2
    assert spread**0.5 > 0.15


def test_without_noise_there_is_no_correlation() -> None:
    weight = weights([noise_of(np.zeros(9)), noise_of(np.zeros(5))])
    assert weight[0] == 1
    assert weight.sum() == 1


# The block bootstrap


def test_blocks_are_short_for_independent_steps_and_longer_for_correlated_ones() -> None:
    lengths = [
        np.mean([block_length(centre_of(noise(rng(seed), "normal", rho, 400)).influence) for seed in range(10)])
        for rho in (0.0, 0.5, 0.9)
    ]
    assert lengths[0] < 6 < lengths[1] < lengths[2] <= 60


@FEW
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=60))
def test_a_block_is_at_least_a_step_and_at_most_a_third(values: list[float]) -> None:
    influence = np.array(values)
    assert 1 <= block_length(influence) <= max(1, len(values) // 3)


@pytest.mark.parametrize("n", [500, 3000])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_the_bootstrap_finds_the_error_of_the_centre(n: int, rho: float) -> None:
    """Both the resampling and, for long captures, the formula of its limit."""
    found = []
    for seed in range(12):
        values = noise(rng(seed), "normal", rho, n)
        found.append(centre_variance(values, centre_of(values).influence))
    truth = (1 + rho) / (1 - rho) / n
    assert np.mean(found) == pytest.approx(truth, rel=0.25)


def test_the_bootstrap_gives_the_same_twice_and_nothing_without_noise() -> None:
    values = noise(rng(), "skewed", 0.3, 80)
    influence = centre_of(values).influence
    assert centre_variance(values, influence) == centre_variance(values, influence)
    assert centre_variance(values, influence) != centre_variance(values, influence, seed=1)
    assert centre_variance(np.ones(40), np.zeros(40)) == 0


# Ranks and shares


@FEW
@given(st.lists(st.integers(0, 12), min_size=2, max_size=25), st.lists(st.integers(0, 12), min_size=2, max_size=25))
def test_the_rank_test_is_the_one_of_mann_and_whitney(base: list[int], new: list[int]) -> None:
    one, other = np.array(base, np.float64), np.array(new, np.float64)
    score = rank_score(one, other)
    assert score == pytest.approx(-rank_score(other, one), abs=1e-9)
    if len({*base, *new}) == 1:
        assert score == 0
        return
    expected: Any = stats.mannwhitneyu(other, one, method="asymptotic", use_continuity=False)
    assert rank_p(score) == pytest.approx(expected.pvalue, abs=1e-9)


def test_two_shares_are_tested_exactly() -> None:
    for n_base, n_new in ((5, 7), (1, 1), (8, 3)):
        for base, new in product(range(n_base + 1), range(n_new + 1)):
            hits = base + new
            ways = {
                k: math.comb(n_new, k) * math.comb(n_base, hits - k)
                for k in range(max(0, hits - n_base), min(hits, n_new) + 1)
            }
            total = sum(ways.values())
            more = sum(count for k, count in ways.items() if k >= new) / total
            fewer = sum(count for k, count in ways.items() if k <= new) / total
            assert shares_p(base, n_base, new, n_new) == pytest.approx(min(1, 2 * min(more, fewer)))
