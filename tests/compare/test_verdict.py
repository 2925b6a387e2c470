"""Verdicts: known cases, what never gets one, and what must not change it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpuprof
from tests.accuracy.verdict_noise import KINDS, capture
from tpuprof.compare.verdict import Samples, Thresholds, Verdict, judge, read_samples, samples_of
from tpuprof.errors import UsageError
from tpuprof.testing import Program, TraceBuilder

FEW = settings(max_examples=25, deadline=None)
OPPOSITE = {"regressed": "improved", "improved": "regressed"}
PS = 1e12
PROGRAM = Program("jit_f", 7, "")


def seconds(values: Sequence[float], label: str = "", hardware: str | None = None) -> Samples:
    return Samples(tuple(value * PS for value in values), label, hardware)


def drawn(
    n: int, *, sd: float = 0.01, level: float = 1.0, seed: int = 0, kind: str = "normal", rho: float = 0
) -> Samples:
    return capture(np.random.default_rng([11, seed]), kind=kind, rho=rho, sd=sd, n=n, level=level)


def times(samples: Samples, factor: float) -> Samples:
    return replace(samples, step_ps=tuple(value * factor for value in samples.step_ps))


# Known cases


@pytest.fixture(scope="module")
def steady() -> list[float]:
    draw = random.Random(28)
    return [0.400 * (1 + 0.01 * draw.uniform(-1, 1)) for _ in range(499)]


def as_csv(path: Path, values: Sequence[float]) -> Samples:
    path.write_text("step_time_s\n" + "".join(f"{value!r}\n" for value in values))
    return read_samples(path)


def test_one_long_last_step_changes_nothing(steady: list[float], tmp_path: Path) -> None:
    base, new = as_csv(tmp_path / "base.csv", [*steady, 0.400]), as_csv(tmp_path / "new.csv", [*steady, 0.807])
    verdict = judge([base], [new])
    assert verdict.verdict == "unchanged"
    assert verdict.effect is not None
    assert abs(verdict.effect.relative) < 1e-4
    assert abs(verdict.effect.absolute_ps) < 0.004 * 0.400 * PS
    assert "1 of 500 steps of the new side stands far out; the centre bounds its weight." in verdict.notes
    assert "less than the smallest change that matters, 1.00 %" in verdict.reason


def test_every_step_8_percent_longer(steady: list[float], tmp_path: Path) -> None:
    base = as_csv(tmp_path / "base.csv", [*steady, 0.400])
    new = as_csv(tmp_path / "new.csv", [*(value * 1.08 for value in steady), 0.400 * 1.08])
    verdict = judge([base], [new])
    assert verdict.verdict == "regressed"
    assert verdict.effect is not None
    assert verdict.effect.relative == pytest.approx(0.08, abs=0.005)
    assert verdict.effect.absolute_ps == pytest.approx(0.032 * PS, rel=0.01)
    assert verdict.effect.ci_low is not None
    assert verdict.effect.ci_high is not None
    assert 0.07 < verdict.effect.ci_low < 0.08 < verdict.effect.ci_high < 0.09
    assert verdict.p_value is not None
    assert verdict.p_value < 1e-6
    assert verdict.reason.startswith("+8.00 % (99 % interval +7.")
    assert (verdict.n_base, verdict.n_new, verdict.captures_base, verdict.captures_new) == (500, 500, 1, 1)
    assert verdict.steps_needed is None


@pytest.fixture(scope="module")
def jobs() -> tuple[list[Samples], list[Samples]]:
    """Eight jobs on machines of very different speed; the new run of each is 8 % slower."""
    draw = random.Random(28)
    base, new = [], []
    for job in range(8):
        factor = 1 + draw.uniform(-0.26, 0.26)
        for side, change in ((base, 1.0), (new, 1.08)):
            steps = [0.400 * factor * (1 + 0.01 * draw.uniform(-1, 1)) * change for _ in range(50)]
            side.append(seconds(steps, f"job {job}"))
    return base, new


def test_pairs_see_through_the_difference_of_machines(jobs: tuple[list[Samples], list[Samples]]) -> None:
    verdict = judge(*jobs, paired=True)
    assert verdict.verdict == "regressed"
    assert verdict.samples == "pairs"
    assert verdict.effect is not None
    assert verdict.effect.relative == pytest.approx(0.08, abs=0.01)


def test_without_pairs_the_difference_of_machines_hides_it(jobs: tuple[list[Samples], list[Samples]]) -> None:
    verdict = judge(*jobs)
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith("noise too high: captures of one side differ by more than would show a change of")
    assert verdict.samples == "captures"
    assert verdict.steps_needed is None
    assert verdict.captures_needed is not None
    assert verdict.captures_needed > 20


def test_captures_run_into_one_are_no_regression_either(jobs: tuple[list[Samples], list[Samples]]) -> None:
    base, new = (Samples(tuple(step for job in side for step in job.step_ps)) for side in jobs)
    assert judge([base], [new]).verdict == "cannot_tell"


def test_three_steps_a_side(steady: list[float]) -> None:
    verdict = judge([seconds(steady[:3])], [seconds(steady[3:6])])
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason == "not enough samples: 3 and 3 steps; each side needs 8"
    assert verdict.steps_needed == 8
    assert verdict.p_value is None
    assert verdict.effect is not None
    assert verdict.effect.ci_low is None


# What never gets a verdict


def test_one_step_per_side() -> None:
    verdict = judge([seconds([0.4])], [seconds([0.8])])
    assert (verdict.verdict, verdict.reason) == ("cannot_tell", "one step per side: noise cannot be told from change")
    assert verdict.effect is not None
    assert verdict.effect.relative == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("base", "new", "reason"),
    [
        ([], [], "no samples: the base and the new side have no steps"),
        ([seconds([])], [drawn(20)], "no samples: the base side has no steps"),
        ([drawn(20)], [], "no samples: the new side has no steps"),
        ([seconds([0.4] * 9 + [0])], [drawn(20)], "steps without time: 1 step of the base side took 0 ps, so its"),
        ([drawn(20)], [seconds([0] * 9)], "steps without time: 9 steps of the new side took 0 ps"),
        ([drawn(20)], [seconds([0.4])], "not enough samples: 20 and 1 steps; each side needs 8"),
        ([seconds([0.4] * 9, hardware="A")], [seconds([0.4] * 9, hardware="B")], "unlike hardware: A and B"),
        ([seconds([0.4] * 7), seconds([0.4])], [seconds([0.4] * 9)], "not enough samples: a capture has 1 step; each"),
    ],
)
def test_no_verdict(base: list[Samples], new: list[Samples], reason: str) -> None:
    verdict = judge(base, new)
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith(reason)
    assert verdict.p_value is None


def test_pairs_without_a_partner() -> None:
    with pytest.raises(UsageError, match="as many captures on both sides; there are 2 and 1"):
        judge([drawn(20)] * 2, [drawn(20)], paired=True)
    verdict = judge([drawn(20), seconds([])], [seconds([]), drawn(20)], paired=True)
    assert verdict.reason == "no samples: no pair has steps on both sides"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"relative": -0.1}, "The threshold relative is -0.1. It has to be at least 0."),
        ({"absolute_ps": float("nan")}, "The threshold absolute_ps is nan."),
        ({"alpha": 0.0}, "The threshold alpha is 0.0. It has to be between 0 and 1."),
        ({"min_steps": 3}, "The threshold min_steps is 3. It has to be at least 4."),
        ({"capture_spread": float("inf")}, "The threshold capture_spread is inf."),
    ],
)
def test_thresholds_that_make_no_sense(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as error:
        Thresholds(**wrong)  # pyright: ignore[reportArgumentType]
    assert str(error.value).startswith(message)


# Thresholds


def test_a_change_below_the_relative_threshold_is_none() -> None:
    base = drawn(200, sd=0.001)
    verdict = judge([base], [times(base, 1.006)])
    assert verdict.verdict == "unchanged"
    assert verdict.p_value is not None
    assert verdict.p_value < 0.01  # sure, and too small to matter
    assert judge([base], [times(base, 1.006)], Thresholds(relative=0.004)).verdict == "regressed"


def test_a_change_below_the_absolute_threshold_is_none() -> None:
    base = times(drawn(200, sd=0.001), 1e-6)  # 400 ns
    new = times(base, 1.05)  # 20 ns more
    assert judge([base], [new]).verdict == "unchanged"
    assert judge([base], [new], Thresholds(absolute_ps=10_000)).verdict == "regressed"


def test_an_interval_that_reaches_the_threshold_is_no_pass() -> None:
    base = drawn(20, sd=0.01, seed=1)
    verdict = judge([base], [times(base, 1.005)])
    assert verdict.verdict == "cannot_tell"
    assert verdict.effect is not None
    assert verdict.effect.ci_high is not None
    assert verdict.effect.ci_high > 0.01


def test_a_sure_change_around_the_threshold_is_too_close() -> None:
    base = drawn(100, sd=0.005)
    verdict = judge([base], [times(base, 1.008)])
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith(
        "too close: there is a change, but it may or may not reach 1.00 % (99 % interval +0."
    )


@pytest.mark.parametrize("kind", list(KINDS))
def test_more_of_what_is_needed_settles_it(kind: str) -> None:
    few = judge([drawn(10, sd=0.02, seed=1, kind=kind)], [drawn(10, sd=0.02, seed=2, kind=kind, level=1.05)])
    assert few.verdict == "cannot_tell"
    many = [few.steps_needed or 0, few.captures_needed or 0]
    assert max(many) > 1
    count = few.captures_needed or 3
    sides = [
        [drawn(10, sd=0.02, seed=100 * side + at, kind=kind, level=1 + 0.05 * side) for at in range(max(2 * count, 6))]
        for side in (0, 1)
    ]
    assert judge(sides[0], sides[1]).verdict == "regressed"


def test_the_steps_needed_are_enough_or_nearly() -> None:
    told = 0
    for seed in range(10):
        base, new = drawn(10, seed=seed), drawn(10, seed=seed + 50, level=1.02)
        few = judge([base], [new])
        if few.verdict == "cannot_tell" and few.steps_needed is not None:
            n = 2 * few.steps_needed
            told += judge([drawn(n, seed=seed)], [drawn(n, seed=seed + 50, level=1.02)]).verdict == "regressed"
        else:
            told += few.verdict == "regressed" or few.captures_needed is not None
    assert told >= 9


# Several captures


def test_the_scatter_of_captures_counts_not_their_steps() -> None:
    """Each capture is steady, but captures of the base differ by 5 %; the new ones lie among them."""
    base = [drawn(100, sd=0.001, seed=at, level=level) for at, level in enumerate((1.0, 1.05, 0.97, 1.02))]
    new = [drawn(100, sd=0.001, seed=at + 9, level=1.04) for at in range(4)]
    verdict = judge(base, new)
    assert verdict.verdict == "cannot_tell"
    assert judge(base[:1], new[:1]).verdict == "regressed"  # a single capture cannot show it, and says so
    assert any("One capture cannot show" in note for note in judge(base[:1], new[:1]).notes)


def test_a_history_of_captures_judges_a_single_new_one() -> None:
    base = [drawn(20, seed=at, level=1 + 0.003 * (-1) ** at) for at in range(10)]
    assert judge(base, [drawn(20, seed=50, level=1.05)]).verdict == "regressed"
    assert judge(base, [drawn(20, seed=50, level=1.002)]).verdict != "regressed"


def test_captures_that_agree_by_chance_are_no_surer_than_their_steps() -> None:
    base = [times(drawn(20, sd=0.05, seed=at), 1.0) for at in range(3)]
    centred = [times(c, 0.4e12 / float(np.exp(np.mean(np.log(c.step_ps))))) for c in base]
    verdict = judge(centred, [times(c, 1.012) for c in centred])
    assert verdict.verdict == "cannot_tell"


def test_few_pairs_are_judged_by_their_steps() -> None:
    base = [drawn(30, seed=1), times(drawn(30, seed=2), 1.5)]
    verdict = judge(base, [times(drawn(30, seed=3), 1.05), times(drawn(30, seed=4), 1.5 * 1.05)], paired=True)
    assert (verdict.verdict, verdict.samples) == ("regressed", "steps")
    assert any("One or two pairs cannot show" in note for note in verdict.notes)


# Drift, outliers, correlation


def test_drift_is_told_and_holds_back_the_verdict() -> None:
    ramp = 1 + 0.04 * np.linspace(0, 1, 100)
    base = drawn(100, sd=0.002, seed=1)
    new = Samples(tuple(float(v) for v in np.array(drawn(100, sd=0.002, seed=2).step_ps) * ramp), "run\x07 2")
    verdict = judge([base], [new])
    assert verdict.verdict == "cannot_tell"
    assert any(note.startswith("The step time drifts by +3.9 %") and "(run\ufffd 2)" in note for note in verdict.notes)
    assert "\x07" not in "".join(verdict.notes)


def test_a_drift_that_alone_prevents_a_verdict_is_the_reason() -> None:
    ramp = 1 + 0.02 * np.linspace(-0.5, 0.5, 300)
    sides = [
        Samples(tuple(float(v) for v in np.array(drawn(300, sd=0.004, seed=seed).step_ps) * ramp)) for seed in (1, 2)
    ]
    verdict = judge([sides[0]], [sides[1]], Thresholds(relative=0.02, capture_spread=0.0))
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith("drift: the step time drifts within a capture, which may have made the difference")
    assert verdict.steps_needed is None


def test_more_outliers_are_no_pass() -> None:
    """15 % of the new steps take three times as long; the typical step is the same."""
    base = drawn(200, sd=0.002, seed=1)
    new = [step * (3 if at % 7 == 3 else 1) for at, step in enumerate(drawn(200, sd=0.002, seed=2).step_ps)]
    verdict = judge([base], [Samples(tuple(new))])
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith("outliers differ: the typical step changed by +0.")
    assert "29 of 200 steps stand out (base: 0 of 200), which moves the mean by +29." in verdict.reason


def test_faster_steps_with_more_outliers_are_no_improvement() -> None:
    base = drawn(200, sd=0.002, seed=1)
    new = [step * (3 if at % 7 == 3 else 0.95) for at, step in enumerate(drawn(200, sd=0.002, seed=2).step_ps)]
    verdict = judge([base], [Samples(tuple(new))], Thresholds(capture_spread=0.0))
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith("outliers differ")


def test_correlated_steps_count_for_fewer() -> None:
    pair = [drawn(60, seed=seed, rho=0.8, sd=0.01) for seed in (5, 6)]
    shuffled = [Samples(tuple(random.Random(1).sample(side.step_ps, 60))) for side in pair]
    wide, narrow = judge([pair[0]], [pair[1]]).effect, judge([shuffled[0]], [shuffled[1]]).effect
    assert wide is not None
    assert narrow is not None
    assert wide.ci_high is not None
    assert wide.ci_low is not None
    assert narrow.ci_high is not None
    assert narrow.ci_low is not None
    assert wide.ci_high - wide.ci_low > 1.8 * (narrow.ci_high - narrow.ci_low)
    assert any("Neighbouring steps are correlated" in note for note in judge([pair[0]], [pair[1]]).notes)


# What must not change a verdict


def sides_of(data: st.DataObject) -> tuple[list[Samples], list[Samples]]:
    kinds = st.sampled_from(sorted(KINDS))
    sizes = st.integers(8, 30)
    level = data.draw(st.sampled_from([0.9, 0.97, 1.0, 1.03, 1.1, 2.0]))
    sd = data.draw(st.sampled_from([0.0, 0.001, 0.01, 0.05]))
    counts = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
    seeds = iter(range(data.draw(st.integers(0, 1000)) * 10, 1 << 30))
    base, new = (
        [
            drawn(data.draw(sizes), sd=sd, seed=next(seeds), kind=data.draw(kinds), level=level if side else 1.0)
            for _ in range(counts[side])
        ]
        for side in (0, 1)
    )
    return base, new


def alike(one: Verdict, other: Verdict) -> None:
    assert (one.verdict, one.reason.partition(":")[0][-12:]) == (other.verdict, other.reason.partition(":")[0][-12:])
    assert one.effect is not None
    assert other.effect is not None
    assert one.effect.relative == pytest.approx(other.effect.relative, rel=1e-6, abs=1e-9)
    assert one.effect.ci_low == pytest.approx(other.effect.ci_low, rel=1e-5, abs=1e-8)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-5, abs=1e-12)


@FEW
@given(st.data())
def test_exchanging_the_sides_exchanges_the_words_and_mirrors_the_effect(data: st.DataObject) -> None:
    base, new = sides_of(data)
    one, other = judge(base, new), judge(new, base)
    assert other.verdict == OPPOSITE.get(one.verdict, one.verdict)
    assert one.effect is not None
    assert other.effect is not None
    assert (1 + one.effect.relative) * (1 + other.effect.relative) == pytest.approx(1)
    assert one.effect.absolute_ps == pytest.approx(-other.effect.absolute_ps, rel=1e-6, abs=1)
    assert one.effect.ci_low is not None
    assert other.effect.ci_high is not None
    assert (1 + one.effect.ci_low) * (1 + other.effect.ci_high) == pytest.approx(1)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-6, abs=1e-12)
    assert (one.steps_needed, one.captures_needed) == (other.steps_needed, other.captures_needed)


@FEW
@given(st.data(), st.sampled_from([1e-6, 0.37, 1e3]))
def test_units_cancel(data: st.DataObject, factor: float) -> None:
    base, new = sides_of(data)
    limits = Thresholds(absolute_ps=0)
    scaled = [[times(c, factor) for c in side] for side in (base, new)]
    alike(judge(base, new, limits), judge(scaled[0], scaled[1], limits))


@FEW
@given(st.data(), st.randoms(use_true_random=False))
def test_the_order_of_captures_does_not_matter(data: st.DataObject, shuffle: random.Random) -> None:
    base, new = sides_of(data)
    other = [shuffle.sample(side, len(side)) for side in (base, new)]
    alike(judge(base, new), judge(other[0], other[1]))


@FEW
@given(st.data())
def test_the_same_captures_twice_are_no_change(data: st.DataObject) -> None:
    base, _ = sides_of(data)
    for paired in (False, True):
        verdict = judge(base, base, paired=paired)
        assert verdict.verdict in ("unchanged", "cannot_tell")
        assert verdict.effect is not None
        assert verdict.effect.relative == 0
        assert verdict.p_value == pytest.approx(1)


@FEW
@given(st.data())
def test_a_capture_at_the_level_of_its_side_moves_no_centre(data: st.DataObject) -> None:
    base, new = sides_of(data)
    before = judge(base, new)
    assert before.effect is not None
    first = judge([seconds([0.4] * 8)], base).effect
    assert first is not None
    level = 0.4 * (1 + first.relative)
    after = judge([*base, seconds([level] * 8)], new).effect
    assert after is not None
    assert after.relative == pytest.approx(before.effect.relative, rel=1e-6, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e24), min_size=0, max_size=14),
    st.lists(st.floats(0, 1e24), min_size=0, max_size=14),
    st.integers(1, 3),
)
def test_any_times_get_a_verdict_with_numbers_in_it(base: list[float], new: list[float], captures: int) -> None:
    verdict = judge([Samples(tuple(base))] * captures, [Samples(tuple(new))])
    assert verdict.reason
    if verdict.p_value is not None:
        assert 0 <= verdict.p_value <= 1
        assert verdict.effect is not None
        assert verdict.effect.ci_low is not None
        assert verdict.effect.ci_high is not None
        assert -1 <= verdict.effect.ci_low <= verdict.effect.relative <= verdict.effect.ci_high
    if 0 in base or 0 in new:
        assert verdict.verdict == "cannot_tell"


def test_equal_steps_are_compared_by_their_length() -> None:
    base = [seconds([0.4] * 10)]
    assert judge(base, base).verdict == "unchanged"
    assert judge(base, [seconds([0.42] * 10)]).verdict == "regressed"
    assert judge(base, [seconds([0.38] * 10)]).verdict == "improved"
    assert judge([seconds([1e12] * 10)], [seconds([1e-12] * 10)]).verdict == "improved"


def test_the_same_input_gives_the_same_verdict_within_a_third_of_a_second() -> None:
    base, new = drawn(500, seed=1), drawn(500, seed=2, level=1.03)
    first = judge([base], [new])
    start = time.process_time()
    assert judge([base], [new]) == first
    assert time.process_time() - start < 0.3


# From traces


def test_the_steps_of_a_trace_are_samples(tmp_path: Path) -> None:
    builder = TraceBuilder()
    host = builder.add_host("a")
    for device, ends in enumerate(((0, 100, 220, 330, 440), (0, 105, 215, 345, 440))):  # us; each begins the next
        tpu = host.add_tpu(device)
        marks, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        for number, (start, end) in enumerate(pairwise(ends)):
            marks.step(number, start, end - start)
            ops.op("fusion.1", start, end - start, PROGRAM)
    trace = tpuprof.load(builder.write(tmp_path))
    samples = samples_of(trace)
    longest = {0: 105e6, 1: 120e6, 2: 130e6, 3: 110e6}
    counted = sorted(set(trace.steps.loc[trace.steps["counted"], "step"]))
    assert len(counted) >= 2
    assert samples.step_ps == tuple(longest[step] for step in counted)
    assert samples.hardware == "TPU v5 lite"
    assert samples.label == trace.name
    assert judge([samples], [samples]).verdict == "cannot_tell"


def test_a_trace_without_steps_has_no_samples(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add_host("a").add_thread("main").event("work", 0, 5)
    samples = samples_of(tpuprof.load(builder.write(tmp_path)))
    assert samples.step_ps == ()
    assert judge([samples], [samples]).reason.startswith("no samples")


@pytest.mark.real
@pytest.mark.slow
def test_a_real_run_against_itself_is_no_change(real_traces: Path) -> None:
    samples = samples_of(tpuprof.load(real_traces / "v6e-4-host-offload"))
    assert len(samples.step_ps) > 50
    verdict = judge([samples], [samples])
    assert verdict.verdict in ("unchanged", "cannot_tell")
    assert verdict.effect is not None
    assert verdict.effect.relative == 0
    assert judge([samples], [times(samples, 1.1)]).verdict == "regressed"


@pytest.mark.parametrize("paired", [False, True])
def test_a_capture_that_is_given_twice_is_no_evidence_of_its_own(paired: bool) -> None:
    rng = random.Random(5)
    base, new = (
        Samples(tuple(4e11 * scale * (1 + 0.02 * rng.gauss(0, 1)) for _ in range(20)), label)
        for scale, label in ((1.0, "a.csv"), (1.02, "b.csv"))
    )
    assert judge([base], [new]).reason.startswith("noise too high")
    for sides in (([base] * 3, [new] * 3), ([base, replace(base, label="copy.csv"), new], [new, base, base])):
        told = judge(*sides, paired=paired)
        assert told.verdict == "cannot_tell"
        assert told.reason.startswith("the same capture twice: on the base side a.csv")
    assert "on the new side b.csv" in judge([base], [new, new]).reason
    assert not judge([base], [base]).reason.startswith("the same capture")
