"""Slow steps are found, and what is not slow is not."""

import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.capture.slowsteps import SlowStepDetector, SlowSteps
from tpuprof.errors import UsageError


def found(times, rule=None):
    detector = SlowStepDetector(rule or SlowSteps())
    return [n for n, time in enumerate(times) if detector.add(time)]


def noisy(count, *, spread=0.03, seed=1):
    draw = random.Random(seed)
    return [100.0 * (1 + draw.gauss(0, spread)) for _ in range(count)]


def test_one_planted_slow_step_is_found():
    times = noisy(60)
    times[37] = 250.0
    assert found(times) == [37]


def test_steady_noise_and_slow_drift_are_not():
    assert found(noisy(2000, spread=0.1)) == []
    assert found([time * (1 + n / 100) for n, time in enumerate(noisy(2000))]) == []


def test_the_first_steps_compile():
    times = noisy(60)
    times[0] = times[3] = 50_000.0
    assert found(times) == []


def test_a_spread_that_is_wide_calls_for_more():
    times = [100.0 if n % 2 else 300.0 for n in range(60)] + [410.0]
    assert found(times) == [16, 18, 20, 22, 24]  # until the two kinds of steps are known
    times = [100.0 + 3 * (n % 40) for n in range(60)] + [350.0]
    assert found(times) == []
    assert found(times, SlowSteps(deviations=0)) == [60]


def test_a_program_that_becomes_slower_for_good_is_told_a_few_times_only():
    times = noisy(50) + [3 * time for time in noisy(200, seed=2)]
    assert found(times, SlowSteps(settle=6)) == [50, 51, 52, 53, 54]
    times[150] = 900.0
    assert found(times, SlowSteps(settle=6)) == [50, 51, 52, 53, 54, 150]


def test_slow_steps_do_not_raise_the_bar():
    times = noisy(200)
    planted = list(range(30, 200, 7))
    for n in planted:
        times[n] = 300.0
    assert found(times) == planted


@settings(max_examples=60)
@given(st.lists(st.floats(1.0, 1000.0), max_size=120), st.integers(3, 20))
def test_the_same_as_by_sorting_everything_anew(times, history):
    rule = SlowSteps(ratio=1.3, deviations=3, skip_first=2, history=history, least=3, settle=4)
    window, run, expected, flags = [], [], [], []
    for n, time in enumerate(times):
        if n < 2:
            continue
        middle = median(window) if window else 0.0
        spread = 1.4826 * median([abs(value - middle) for value in window]) if window else 0.0
        flags = [*flags, len(window) >= 3 and time > 1.3 * middle and time > middle + 3 * spread][-history:]
        if flags[-1] and sum(flags) <= len(flags) / 4:
            run.append(time)
            if len(run) == 4:
                window, run = run, []
            else:
                expected.append(n)
        else:
            run = []
            window = [*window, time][-history:]
    assert found(times, rule) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ratio": 1.0}, "ratio=1.0 would call every other step slow. Take more than 1"),
        ({"ratio": float("inf")}, "ratio=inf is not a number above 0"),
        ({"deviations": -1}, "deviations=-1 is not a number above 0"),
        ({"active": 0}, "active=0 is not a whole number of at least 1"),
        ({"least": 100}, "least=100 is more than history=64. No step could ever"),
        ({"cooldown": -1}, "cooldown=-1 is not a whole number"),
    ],
)
def test_rules_that_are_none(values, message):
    with pytest.raises(UsageError, match=message):
        SlowSteps(**values)
