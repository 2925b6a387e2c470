"""Change points: series whose changes are known, series without any, and the rates at which both are judged wrongly."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tpuprof.history.changepoints import (
    MAX_VALUES,
    MIN_SEGMENT,
    change_points,
    levels,
    noise,
    pending_change,
)

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def noisy(n: int, seed: int, *, spread: float = 0.01, rho: float = 0.0, level: float = 100.0) -> Floats:
    """A level with AR(1) noise whose standard deviation is this fraction of it."""
    generator = np.random.default_rng(seed)
    shocks = generator.standard_normal(n)
    series = np.empty(n)
    series[0] = shocks[0]
    for at in range(1, n):
        series[at] = rho * series[at - 1] + math.sqrt(1 - rho**2) * shocks[at]
    return level * (1 + spread * series)


def indices(values: Floats | list[float], **options: float) -> list[int]:
    return [change.index for change in change_points(values, **options)]  # pyright: ignore[reportArgumentType]


def brute_force_split(values: Floats) -> int:
    """The split with the least sum of absolute deviations from the two medians."""
    costs = {
        at: sum(abs(v - float(np.median(part))) for part in (values[:at], values[at:]) for v in part)
        for at in range(MIN_SEGMENT, len(values) - MIN_SEGMENT + 1)
    }
    return min(costs, key=lambda at: (costs[at], at))


class TestKnownAnswers:
    def test_a_clean_step(self) -> None:
        (change,) = change_points([100.0] * 10 + [105.0] * 8)
        assert (change.index, change.earliest, change.latest) == (10, 10, 10)
        assert (change.before, change.after) == (100.0, 105.0)
        assert change.relative == pytest.approx(0.05)
        assert change.p_value == 0.001

    def test_a_step_down(self) -> None:
        (change,) = change_points([105.0] * 10 + [100.0] * 8)
        assert change.index == 10
        assert change.relative == pytest.approx(-5 / 105)

    def test_three_values_are_a_level_and_two_are_not(self) -> None:
        assert indices([100.0] * 20 + [110.0] * 3) == [20]
        assert indices([100.0] * 20 + [110.0] * 2) == []
        assert indices([110.0] * 3 + [100.0] * 20) == [3]

    def test_several_steps(self) -> None:
        assert indices([100.0] * 12 + [110.0] * 12 + [95.0] * 12 + [130.0] * 12) == [12, 24, 36]

    def test_a_change_that_was_taken_back(self) -> None:
        changes = change_points([100.0] * 15 + [108.0] * 10 + [100.0] * 15)
        assert [change.index for change in changes] == [15, 25]
        assert [round(change.after) for change in changes] == [108, 100]

    def test_a_step_from_zero_has_no_relative_size(self) -> None:
        (change,) = change_points([0.0] * 10 + [3.0] * 10)
        assert (change.index, change.relative) == (10, None)

    def test_negative_levels(self) -> None:
        (change,) = change_points([-100.0] * 10 + [-90.0] * 10)
        assert change.relative == pytest.approx(0.1)

    @pytest.mark.parametrize(
        "values", [[], [1.0], [1.0] * 5, [1.0] * 50, [0.0] * 50, [1.0, 9.0] * 2, [1.0, 1.0, 9.0, 9.0]]
    )
    def test_nothing_to_find(self, values: list[float]) -> None:
        assert change_points(values) == ()

    def test_a_change_below_the_smallest_effect_is_none(self) -> None:
        values = [100.0] * 15 + [100.5] * 15
        assert indices(values) == []
        assert indices(values, min_effect=0.004) == [15]
        assert indices(values, min_effect=0.0) == [15]

    def test_the_smallest_effect_counts_from_level_to_level(self) -> None:
        # Two steps of 0.7 %: neither is of interest, and the whole way of 1.4 % is one change.
        values = [100.0] * 15 + [100.7] * 15 + [101.4] * 15
        changes = change_points(values)
        assert len(changes) == 1
        assert changes[0].relative is not None
        assert changes[0].relative >= 0.01

    def test_levels(self) -> None:
        values = [100.0] * 10 + [105.0] * 8
        assert levels(values, change_points(values)) == ((0, 10, 100.0), (10, 18, 105.0))
        assert levels([1.0, 2.0, 9.0], ()) == ((0, 3, 2.0),)
        assert levels([], ()) == ()


class TestNoise:
    def test_a_step_in_noise_is_found_at_its_place(self) -> None:
        values = noisy(60, 1)
        values[35:] *= 1.05
        (change,) = change_points(values)
        assert change.index == 35
        assert change.relative == pytest.approx(0.05, abs=0.01)

    @pytest.mark.parametrize("seed", range(6))
    def test_outliers_are_no_changes(self, seed: int) -> None:
        values = noisy(50, seed)
        values[[7, 20, 21, 33, 48]] *= [5, 0.2, 3, 2, 4]
        assert change_points(values) == ()

    @pytest.mark.parametrize("seed", range(6))
    def test_outliers_do_not_hide_a_change_or_move_it_far(self, seed: int) -> None:
        values = noisy(50, seed)
        values[30:] *= 1.06
        values[[7, 28, 40, 41]] *= [5, 3, 0.2, 4]
        (change,) = change_points(values)
        assert abs(change.index - 30) <= 1

    def test_an_outlier_beside_a_step_does_not_become_the_first_bad_run(self) -> None:
        values = [100.0] * 20 + [90.0] + [110.0] * 15
        (change,) = change_points(values)
        assert change.index in (20, 21)
        assert change.after == 110.0

    def test_where_values_are_mostly_equal_small_jitter_is_no_change(self) -> None:
        values = [100.0] * 40
        values[10] = values[25] = 103.0
        assert change_points(values) == ()

    def test_a_slow_drift_is_told_as_steps_in_its_direction(self) -> None:
        values = noisy(80, 3, spread=0.002) * np.linspace(1.0, 1.1, 80)
        changes = change_points(values)
        assert changes
        assert all(change.after > change.before for change in changes)

    @pytest.mark.parametrize("rho", [0.0, 0.5])
    def test_noise_is_measured_past_steps(self, rho: float) -> None:
        found = []
        for seed in range(10):
            values = noisy(400, seed, rho=rho)
            values[100:] += 10
            values[300:] -= 25
            found.append(noise(values))
        sigma, correlation = np.mean(found, axis=0)
        assert sigma == pytest.approx(1.0, abs=0.1)
        assert correlation == pytest.approx(rho, abs=0.1)

    def test_noise_of_what_has_none(self) -> None:
        assert noise([]) == noise([1.0, 2.0]) == noise([3.0] * 9) == (0.0, 0.0)


class TestRates:
    """Simulations with fixed seeds; the figures in the documentation come from longer ones."""

    @pytest.mark.parametrize(("n", "rho", "most"), [(12, 0.0, 3), (30, 0.0, 3), (60, 0.0, 3), (60, 0.3, 7)])
    def test_false_alarms_are_rare(self, n: int, rho: float, most: int) -> None:
        # One in a hundred of independent values; correlated ones are told less well apart from changes.
        alarms = sum(bool(change_points(noisy(n, seed, rho=rho, spread=0.03), min_effect=0.0)) for seed in range(150))
        assert alarms <= most

    @pytest.mark.parametrize(
        ("n", "at", "effect", "spread", "least"),
        [(12, 6, 0.10, 0.01, 0.95), (30, 15, 0.05, 0.01, 0.97), (50, 45, 0.05, 0.01, 0.95), (50, 47, 0.10, 0.01, 0.95),
         (120, 90, 0.03, 0.01, 0.95)],
    )  # fmt: skip
    def test_changes_are_found_near_their_place(
        self, n: int, at: int, effect: float, spread: float, least: float
    ) -> None:
        hits = inside = 0
        for seed in range(60):
            values = noisy(n, 1000 + seed, spread=spread)
            values[at:] *= 1 + effect
            near = [change for change in change_points(values) if abs(change.index - at) <= 3]
            hits += bool(near)
            inside += any(change.earliest <= at <= change.latest for change in near)
        assert hits >= least * 60
        assert inside >= 0.95 * hits


class TestProperties:
    @given(st.lists(st.floats(-1e12, 1e12), max_size=40))
    @settings(max_examples=60, deadline=None)
    def test_any_series_gives_ordered_changes_between_levels_of_enough_values(self, values: list[float]) -> None:
        changes = change_points(values)
        cuts = [0, *(change.index for change in changes), len(values)]
        assert all(b - a >= MIN_SEGMENT for a, b in pairwise(cuts)) or not changes
        for change in changes:
            assert change.earliest <= change.index <= change.latest < len(values)
            assert change.before != change.after
            assert 0.0 < change.p_value <= 0.01
        assert changes == change_points(values)

    @given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-3, 1.0, 1e6, 1e15]))
    @settings(max_examples=20, deadline=None)
    def test_units_do_not_matter(self, seed: int, scale: float) -> None:
        values = noisy(40, seed)
        values[25:] *= 1.04
        assert indices(values) == indices(values * scale)

    @given(st.integers(0, 10**6))
    @example(822)  # its first value of the new level is far from that too, but on the other side
    @settings(max_examples=20, deadline=None)
    def test_read_backwards_the_change_is_found_too(self, seed: int) -> None:
        values = noisy(40, seed)
        values[20:] *= 1.2
        # Beside it noise may be called a change, in one direction or the other: that is what alpha allows.
        assert 20 in indices(values)
        assert 20 in indices(values[::-1])

    @given(st.integers(0, 10**6), st.integers(8, 22))
    @settings(max_examples=30, deadline=None)
    def test_a_single_change_lies_where_two_medians_fit_best(self, seed: int, at: int) -> None:
        values = noisy(30, seed)
        values[at:] *= 1.1
        changes = change_points(values)
        if len(changes) == 1:
            assert abs(changes[0].index - brute_force_split(values)) <= 1


class TestPending:
    def test_one_or_two_values_at_the_end_wait_for_more(self) -> None:
        values = list(noisy(20, 2))
        one = pending_change([*values, 110.0], ())
        assert one is not None
        assert (one.index, one.value) == (20, 110.0)
        two = pending_change([*values, 110.0, 112.0], ())
        assert two is not None
        assert (two.index, two.value) == (20, 111.0)
        assert two.level == pytest.approx(100, abs=1)

    def test_values_within_noise_or_the_effect_do_not(self) -> None:
        values = list(noisy(20, 2))
        assert pending_change([*values, 102.0], ()) is None
        assert pending_change([100.0] * 20 + [100.5], ()) is None
        assert pending_change([100.0] * 20 + [101.5], ()) is not None

    def test_values_on_both_sides_are_one_at_most(self) -> None:
        found = pending_change([*noisy(20, 2), 90.0, 110.0], ())
        assert found is not None
        assert found.index == 21

    def test_it_starts_from_the_last_level(self) -> None:
        values = [100.0] * 12 + [110.0] * 6
        changes = change_points(values)
        assert pending_change(values, changes) is None
        found = pending_change([*values, 120.0], change_points([*values, 120.0]))
        assert found is not None
        assert found.level == 110.0

    @pytest.mark.parametrize("n", [6, 10, 30])
    def test_noise_alone_is_seldom_pending(self, n: int) -> None:
        found = sum(pending_change(list(noisy(n, seed, spread=0.02)), ()) is not None for seed in range(300))
        assert found <= 12

    def test_too_few_values(self) -> None:
        assert pending_change([], ()) is None
        assert pending_change([1.0, 9.0], ()) is None
        assert pending_change([1.0, 1.0, 1.0, 9.0], ()) is None


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1.0, math.nan], {}, "values must be finite"),
        ([1.0, math.inf], {}, "values must be finite"),
        ([1.0] * (MAX_VALUES + 1), {}, "at most 2000 values can be searched, not 2001"),
        ([1.0], {"alpha": 0.0}, "alpha must lie between"),
        ([1.0], {"alpha": 1.0}, "alpha must lie between"),
        ([1.0], {"min_effect": -0.1}, "min_effect must not be negative"),
        ([1.0], {"min_effect": math.nan}, "min_effect must not be negative"),
        ([1.0], {"alpha": 0.001}, "too few permutations"),
    ],
)
def test_what_makes_no_sense_is_refused(values: list[float], options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change_points(values, **options)  # pyright: ignore[reportArgumentType]


def test_long_series_take_little_time() -> None:
    import time

    values = noisy(MAX_VALUES, 0)
    values[700:] *= 1.05
    values[1500:] *= 0.9
    began = time.perf_counter()
    assert indices(values) == [700, 1500]
    assert time.perf_counter() - began < 5
