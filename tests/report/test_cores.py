"""Cores beside each other: grids of steps, who waits for whom, idle time; against the tables and by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpuprof
from tpuprof.errors import UsageError
from tpuprof.report import build_report
from tpuprof.report.cores import CORE_COLUMNS, LATE_COLUMNS, core_rows, late_rows
from tpuprof.report.facts import group_fraction
from tpuprof.report.idle import idle_mean, idle_rows
from tpuprof.report.key_figures import key_figures, memory_peak, slowest_times, step_figures
from tpuprof.report.step_grid import MEASURES, step_grid
from tpuprof.report.step_parts import step_on_core, step_parts
from tpuprof.tables.schemas import IDLE_CAUSES
from tpuprof.testing import TraceBuilder

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
NAMES = ("tpu_two_hosts", "tpu_loop_async", "cpu_demo")
US = 1_000_000


@cache
def sample(name: str) -> Any:
    return tpuprof.load(SAMPLES / name)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One core, two ops, no steps."""
    builder = TraceBuilder()
    ops = builder.add_host("h").add_tpu(0).add_line("XLA Ops")
    ops.event("fusion.1", 0, 30).event("fusion.2", 40, 60)
    return tpuprof.load(builder.write(tmp_path_factory.mktemp("bare")))


def test_the_core_that_arrives_40_us_late_is_the_one_that_costs_the_others() -> None:
    # worker-1/TPU:1 arrives at 340 us, worker-0/TPU:1 at 310, the others at 300: without it they begin 30 us earlier.
    trace = sample("tpu_two_hosts")
    rows = core_rows(trace)
    assert [(row["device"], row["late_ps"], row["late_steps"]) for row in rows] == [
        ("worker-1/TPU:1", 30 * US, 2), ("worker-0/TPU:0", 0, 0), ("worker-0/TPU:1", 0, 0), ("worker-1/TPU:0", 0, 0),
    ]  # fmt: skip
    assert {row["device"]: row["wait_ps"] for row in rows} == {
        "worker-0/TPU:0": 40 * US, "worker-0/TPU:1": 30 * US, "worker-1/TPU:0": 40 * US, "worker-1/TPU:1": 0,
    }  # fmt: skip
    assert all(tuple(row) == CORE_COLUMNS for row in rows)
    late = late_rows(trace)
    assert [
        (row["step"], row["device"], row["late_ps"], row["op"], row["waiting"], row["wait_ps"]) for row in late
    ] == [
        (step, "worker-1/TPU:1", 30 * US, "all-reduce.3", "worker-0/TPU:0", 40 * US) for step in (1, 2)
    ]  # the first step belongs to the start of the capture
    assert all(tuple(row) == LATE_COLUMNS for row in late)
    assert late[0]["late_fraction"] == 30 / 800


@pytest.mark.parametrize("name", NAMES)
def test_grids_hold_what_the_tables_do(name: str) -> None:
    trace = sample(name)
    parts = {(row.device, row.step): row for row in trace.counted(trace.partition).itertuples()}
    own = ("matmul", "attention", "custom_kernel", "convolution", "reduction", "elementwise", "gather_scatter",
           "data_movement", "other_compute", "host_transfer", "dma_wait")  # fmt: skip
    steady = trace.arrivals[~trace.arrivals["transient"]]
    for measure in MEASURES:
        grid = step_grid(trace, measure)
        assert grid.values_ps.shape == (len(grid.devices), len(grid.steps))
        assert grid.recorded == trace.steps["step"].nunique()
        for (at, device), (column, step) in [(d, s) for d in enumerate(grid.devices) for s in enumerate(grid.steps)]:
            row = parts[device, step]
            if measure in ("wait", "late"):
                table = trace.collectives if measure == "wait" else steady
                mine = table[(table["device"] == device) & (table["step"] == step)][f"{measure}_ps"].dropna()
                expected = int(mine.sum()) if len(mine) else None
            elif measure == "work":
                expected = sum(getattr(row, f"{part}_ps") for part in own)
            else:
                key = {"step": "duration", "exposed": "collective_exposed", "idle": "idle"}[measure]
                expected = getattr(row, f"{key}_ps")
            found = grid.values_ps[at, column]
            assert (np.isnan(found) and expected is None) or found == expected, (measure, device, step)


def test_there_is_no_grid_of_anything_else() -> None:
    with pytest.raises(UsageError, match="There is no measure 'heat' of steps") as caught:
        step_grid(sample("tpu_two_hosts"), "heat")
    assert "step, work, exposed, wait, late, idle" in (caught.value.hint or "")


@pytest.mark.parametrize("name", NAMES)
def test_means_of_cores_and_steps_are_those_of_the_report(name: str) -> None:
    trace = sample(name)
    report = build_report(trace)
    breakdown, cores = report["breakdown"], {row["device"]: row for row in core_rows(trace)}
    assert {core["device"]: core["step_ps"] for core in breakdown["per_device"]} == {
        device: row["step_ps"] for device, row in cores.items()
    }
    for core in breakdown["per_device"]:
        assert cores[core["device"]]["idle_ps"] == pytest.approx(core["parts"]["idle_ps"])
        assert cores[core["device"]]["exposed_ps"] == pytest.approx(core["parts"]["collective_exposed_ps"])
    assert [device for device, row in cores.items() if row["critical"]] == [report["critical_device"]]
    mean = idle_mean(trace)
    assert mean is not None
    assert mean["idle_causes"] == pytest.approx(breakdown["idle_causes"])
    assert (mean["idle_ps"], mean["step_ps"]) == pytest.approx((breakdown["parts"]["idle_ps"], breakdown["step_ps"]))
    by_core = idle_rows(trace)
    assert np.mean([row["idle_ps"] for row in by_core]) == pytest.approx(mean["idle_ps"])
    for row in [*by_core, {**mean, **{f"idle_{name}": ps for name, ps in mean["idle_causes"].items()}}]:
        known = [row[f"idle_{cause}_ps"] for cause in IDLE_CAUSES]
        if None in known:
            left = row["idle_ps"] - sum(ps for ps in known if ps is not None)
            assert row["idle_not_known_ps"] == pytest.approx(left)
        else:
            assert row["idle_not_known_ps"] is None
    assert [row["idle_ps"] for row in by_core] == sorted((row["idle_ps"] for row in by_core), reverse=True)
    bars = step_parts(trace)
    assert np.mean([bar["parts"]["matmul_ps"] for bar in bars]) == pytest.approx(breakdown["parts"]["matmul_ps"])
    figures = key_figures(trace, report)
    assert figures["p50_ps"] == report["steps"]["p50_ps"]
    assert figures["idle_fraction"] == group_fraction(breakdown["parts"], breakdown["step_ps"], "idle")
    assert figures["exposed_fraction"] == breakdown["parts"]["collective_exposed_ps"] / breakdown["step_ps"]
    assert step_figures(trace)["p95_ps"] == np.percentile(slowest_times(trace), 95)
    assert len(slowest_times(trace)) == report["steps"]["count"]


def test_idle_time_can_be_narrowed_down() -> None:
    trace = sample("cpu_demo")
    step, device = int(trace.steps["step"].iloc[-1]), "vm/CPU:1"
    (row,) = trace.partition[(trace.partition["device"] == device) & (trace.partition["step"] == step)].to_dict(
        "records"
    )
    if not trace.steps[(trace.steps["device"] == device) & (trace.steps["step"] == step)]["counted"].iloc[0]:
        assert idle_mean(trace, step, device) is None
        step = int(trace.counted(trace.partition)["step"].iloc[0])
        (row,) = trace.partition[(trace.partition["device"] == device) & (trace.partition["step"] == step)].to_dict(
            "records"
        )
    found = idle_mean(trace, step, device)
    assert found is not None
    assert found["idle_ps"] == row["idle_ps"]
    assert found["idle_causes"]["dispatch_ps"] == row["idle_dispatch_ps"]
    assert idle_mean(trace, None, "nobody/TPU:7") is None


def test_a_step_of_a_core_stands_beside_its_peers_and_means() -> None:
    trace = sample("tpu_loop_async")
    bars = step_on_core(trace, 2, "tpu-vm-0/TPU:1")
    assert [bar["device"] for bar in bars] == [
        "step 2 of it",
        "step 2, all cores",
        "its mean step",
        "mean step, all cores",
    ]
    assert [bar["parts"]["matmul_ps"] / US for bar in bars] == [428, 424, 428, 424]
    assert all(sum(bar["parts"].values()) == pytest.approx(bar["step_ps"]) for bar in bars)
    assert [bar["device"] for bar in step_on_core(trace, 2, "")][:2] == ["tpu-vm-0/TPU:0", "tpu-vm-0/TPU:1"]
    assert [bar["device"] for bar in step_on_core(trace, None, "tpu-vm-0/TPU:0")] == [
        "its mean step",
        "mean step, all cores",
    ]
    assert step_on_core(trace, 99, "") == []
    assert step_on_core(trace, None, "nobody") == []


def test_without_steps_cores_are_compared_by_what_was_recorded(bare: Any) -> None:
    (core,) = core_rows(bare)
    assert (core["step_ps"], core["work_ps"], core["idle_ps"], core["late_ps"]) == (100 * US, 90 * US, 10 * US, None)
    assert late_rows(bare) == []
    assert slowest_times(bare) == []
    assert step_figures(bare)["p95_ps"] is None
    assert key_figures(bare, build_report(bare))["p50_ps"] is None


def test_where_no_memory_is_known_there_is_a_reason(bare: Any) -> None:
    peak, reason = memory_peak(bare)
    assert peak is None
    assert reason == "No program is known."
    peak, reason = memory_peak(sample("tpu_two_hosts"))
    assert (peak, reason) == (None, "The program's HLO comes without its buffer assignment.")
    assert memory_peak(sample("cpu_demo"))[0] == sample("cpu_demo").memory_summary["peak_bytes"].max()


def test_without_devices_there_is_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add_host("h").add_thread("main").event("work", 0, 5)
    trace: Any = tpuprof.load(builder.write(tmp_path))
    assert core_rows(trace) == late_rows(trace) == idle_rows(trace) == step_parts(trace) == []
    assert idle_mean(trace) is None
    assert step_grid(trace, "late").values_ps.shape == (0, 0)
