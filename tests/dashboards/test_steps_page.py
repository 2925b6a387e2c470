"""Page Steps & stragglers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.harness import SAMPLES, charts, page_test, problems, sample_report, texts
from tests.dashboards.odd import HOSTILE, ODD
from tpuprof.testing import TraceBuilder
from tpuprof.units import format_ps

RUNS = ("tpu_two_hosts", "tpu_loop_async", "cpu_demo")


@pytest.mark.parametrize("run", RUNS)
def test_its_figures_are_those_of_the_report(run: str) -> None:
    steps = sample_report(run)["steps"]
    test = page_test("steps", SAMPLES / run)
    assert problems(test) == []
    shown = {metric.label: metric.value for metric in test.metric}
    for label, key in (("Mean", "mean_ps"), ("p50", "p50_ps"), ("p99", "p99_ps"), ("Longest", "max_ps")):
        assert shown[label] == format_ps(steps[key])


def test_it_says_who_kept_whom_waiting() -> None:
    test = page_test("steps", SAMPLES / "tpu_two_hosts")
    cores, late = (table.value for table in test.dataframe[:2])
    assert next(iter(cores["device"])) == "worker-1/TPU:1"
    assert list(cores["late_ps"]) == [30, 0, 0, 0]
    assert list(cores["mark"]) == ["", "critical", "", ""]
    assert late.to_dict("records")[0] == {
        "step": 1, "device": "worker-1/TPU:1", "late_ps": 30, "late_fraction": 3.75, "op": "all-reduce.3",
        "op_late_ps": 30, "waiting": "worker-0/TPU:0", "wait_ps": 40,
    }  # fmt: skip


@pytest.mark.parametrize("measure", ["work", "late", "junk"])
def test_the_url_says_what_the_heat_map_shows(measure: str) -> None:
    test = page_test("steps", SAMPLES / "tpu_two_hosts", measure=measure)
    assert problems(test) == []
    title = {"work": "own work", "late": "kept others waiting"}.get(measure, "step time")
    assert title in charts(test)[0]


def test_a_step_and_a_core_of_the_url_are_looked_at() -> None:
    test = page_test("steps", SAMPLES / "tpu_loop_async", step="2", device="tpu-vm-0/TPU:1")
    assert problems(test) == []
    assert next(subheader.value for subheader in test.subheader) == "Step 2 of tpu\\-vm\\-0/TPU\\:1"
    assert [button.label for button in test.button] == ["step: 2", "core: tpu\\-vm\\-0/TPU\\:1", "All away"]
    links = [link.proto.query_string for link in test.get("page_link")]
    assert all("step=2" in link and "device=tpu-vm-0%2FTPU%3A1" in link for link in links)
    test = test.button[0].click().run()
    assert test.query_params.get("step") is None
    assert next(subheader.value for subheader in test.subheader) == "Core tpu\\-vm\\-0/TPU\\:1"


@pytest.mark.parametrize("value", ["٣", "9" * 400])
def test_what_the_run_lacks_is_said(value: str) -> None:
    test = page_test("steps", SAMPLES / "tpu_loop_async", step=value, device="nobody")
    assert problems(test) == []
    assert "This selection has no step" in texts(test)
    assert "and no core `nobody`" in texts(test)


@pytest.mark.parametrize("run", ODD)
def test_odd_runs_are_shown_or_say_why_not(odd: Path, run: str) -> None:
    test = page_test("steps", odd, run=run)
    assert problems(test) == []
    expected = {"no_devices": "no device work", "no_steps": "No steps were found in this run",
                "one_step": "1 core by 1 step", "hostile": "2 cores by 6 steps"}[run]  # fmt: skip
    assert expected in texts(test)
    assert HOSTILE not in texts(test)


def test_a_hostile_core_is_a_filter_like_any_other(odd: Path) -> None:
    test = page_test("steps", odd, run="hostile", device=f"{HOSTILE}/TPU:1", step="3")
    assert problems(test) == []
    assert "Step 3 of" in texts(test)
    assert HOSTILE not in texts(test)
    assert not any(HOSTILE in button.label for button in test.button)


def test_where_waits_are_not_known_there_is_a_reason(odd: Path) -> None:
    test = page_test("steps", odd, run="one_step", measure="late")
    assert problems(test) == []
    assert "No heat map: kept others waiting is not known for any step." in texts(test)
    assert "no collectives" in texts(test)


def test_a_pod_is_shown_in_bounded_size(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at in range(64):
        host = builder.add_host(f"worker-{at}")
        for core in range(2):
            plane = host.add_tpu(core)
            steps, ops = plane.add_line("Steps"), plane.add_line("XLA Ops")
            for step in range(12):
                steps.event(str(step), step * 100, 100)
                ops.event("fusion.1", step * 100, 80 + (at == 63 and step == 7) * 15)
    builder.write(tmp_path)
    test = page_test("steps", tmp_path, measure="work")
    assert problems(test) == []
    assert "128 cores by 12 steps. 516 cells, each the longest of 3 cores by 1 step." in texts(test).replace("\\", "")
    (cells,) = [chart for chart in charts(test) if '"name": "heat"' in chart]
    assert len(cells) < 300_000
    assert "worker-63/TPU:0, step 7: 95 us" in cells
    assert len(test.dataframe[0].value) == 128
