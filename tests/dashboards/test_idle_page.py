"""Page Idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.harness import SAMPLES, page_test, problems, sample, sample_report, texts
from tests.dashboards.odd import HOSTILE, ODD
from tpuprof.units import format_percent, format_ps

RUNS = ("tpu_two_hosts", "tpu_loop_async", "cpu_demo")


@pytest.mark.parametrize("run", RUNS)
def test_idle_time_and_its_causes_are_those_of_the_report(run: str) -> None:
    breakdown = sample_report(run)["breakdown"]
    test = page_test("idle", SAMPLES / run)
    assert problems(test) == []
    shown = {metric.label: metric.value for metric in test.metric}
    idle = breakdown["parts"]["idle_ps"]
    assert shown["Idle"] == format_percent(idle / breakdown["step_ps"], 1)
    largest = max(breakdown["idle_causes"].items(), key=lambda cause: cause[1])
    assert shown["Largest cause"] == largest[0].removesuffix("_ps").replace("_", " ")
    assert f"Shares of the idle time of the mean step, {format_ps(idle)}." in texts(test).replace("\\", "")


def test_gaps_come_with_what_the_host_did() -> None:
    test = page_test("idle", SAMPLES / "tpu_two_hosts")
    gaps, cores = (table.value for table in test.dataframe[:2])
    first = gaps.to_dict("records")[0]
    assert (first["duration_ps"], first["host_cause"], first["host_call"], first["host_ps"]) == (
        100, "dispatch", "PjitFunction(train_step)", 75,
    )  # fmt: skip
    assert len(gaps) == 12
    assert list(cores.columns) == ["device", "idle_ps", "idle_dispatch_ps", "idle_unexplained_ps"]  # nothing but zeros


def test_a_step_and_a_core_narrow_everything_down() -> None:
    test = page_test("idle", SAMPLES / "tpu_two_hosts", step="1", device="worker-1/TPU:0")
    assert problems(test) == []
    assert {metric.label: metric.value for metric in test.metric}["Gaps"] == "1"
    assert list(test.dataframe[0].value["device"]) == ["worker-1/TPU:0"]
    lost = page_test("idle", SAMPLES / "tpu_two_hosts", step="77", device="</script>")
    assert problems(lost) == []
    assert {metric.label: metric.value for metric in lost.metric}["Gaps"] == "12"
    assert "This selection has no step `77` and no core" in texts(lost)


def test_a_step_that_does_not_count_says_so() -> None:
    trace = sample("cpu_demo")
    (cut,) = set(trace.steps.loc[~trace.steps["counted"], "step"])
    test = page_test("idle", SAMPLES / "cpu_demo", step=str(cut))
    assert problems(test) == []
    assert "This step does not count." in texts(test)


@pytest.mark.parametrize("run", ODD)
def test_odd_runs_are_shown_or_say_why_not(odd: Path, run: str) -> None:
    test = page_test("idle", odd, run=run)
    assert problems(test) == []
    expected = {"no_devices": "No device op was recorded", "no_steps": "10 us in all", "one_step": "10 us per step",
                "hostile": "300 us per step"}[run]  # fmt: skip
    notes = [metric.delta for metric in test.metric]
    assert expected in texts(test).replace("\\", "") or expected in notes
    assert HOSTILE not in texts(test)
    if run == "no_steps":
        assert "Causes on the host are not known" in texts(test)
