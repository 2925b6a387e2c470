"""What is kept of a run: figures with known answers, nulls that stay null, no secrets, bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpuprof
from tests.history import made
from tpuprof.history import METRICS, run_facts
from tpuprof.history.facts import MAX_OP_GROUPS, REST, op_groups
from tpuprof.history.metrics import metrics_of
from tpuprof.report.build import run_facts as reported
from tpuprof.tables.schemas import PARTS
from tpuprof.testing import TraceBuilder


def load(tmp_path: Path, **changes: Any) -> Any:
    return tpuprof.load(made.write(tmp_path / "logs", **changes))


def figures(trace: Any) -> dict[str, tuple[float | None, str | None]]:
    return {metric.name: (metric.value, metric.reason) for metric in run_facts(trace).metrics}


def test_figures_of_a_run_with_known_truth(tmp_path: Path) -> None:
    found = figures(load(tmp_path, steps_us=(100, 110, 120, 130)))
    us = 1_000_000
    expected = {
        "step_p50_ps": 115 * us, "step_p95_ps": 128.5 * us, "step_mean_ps": 115 * us, "step_min_ps": 100 * us,
        "step_max_ps": 130 * us, "n_steps": 4, "matmul_ps": 60 * us, "collective_exposed_ps": 20 * us,
        "idle_ps": 35 * us, "hidden_collective_ps": 0,
    }  # fmt: skip
    assert {name: found[name][0] for name in expected} == pytest.approx(expected)
    assert found["step_cv"][0] == pytest.approx(np.std([100, 110, 120, 130], ddof=1) / 115)
    assert sum(found[f"{part}_ps"][0] or 0 for part in PARTS) == pytest.approx(115 * us)


def test_every_metric_is_there_with_a_value_or_a_reason(tmp_path: Path) -> None:
    found = figures(load(tmp_path))
    assert list(found) == list(METRICS)
    for name, (value, reason) in found.items():
        assert (value is None) != (reason is None), name
        assert value is None or math.isfinite(value), name
    assert found["mfu"][0] == pytest.approx(2 * 8 * 64 * 64 / (197e12 * 115e-6))
    assert found["memory_peak_bytes"] == (None, "The trace holds no buffer assignment.")
    assert found["recompiles"] == (None, "The host's work was not recorded.")
    assert found["idle_compile_ps"][0] is None


def test_one_step_has_no_spread(tmp_path: Path) -> None:
    found = figures(load(tmp_path, steps_us=(100,)))
    assert found["step_p50_ps"] == (100e6, None)
    assert found["step_cv"] == (None, "It needs two steps.")


def test_without_device_work_all_is_null(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add_host("a").add_thread("main").event("work", 0, 10)
    builder.write(tmp_path)
    facts = run_facts(tpuprof.load(tmp_path))
    found = {metric.name: metric for metric in facts.metrics}
    assert found["step_p50_ps"].value is None
    assert found["matmul_ps"].reason == "No device op was recorded."
    assert found["n_steps"].value == 0.0
    assert (facts.program, facts.hardware, facts.device_kind, facts.platform, facts.window_ps) == (None,) * 5
    assert (facts.steps, facts.op_groups, facts.n_devices) == ((), (), 0)


def test_compilations_are_counted_once_each(tmp_path: Path) -> None:
    builder = made.trace()
    thread = builder["hostA"].add_thread("python", timestamp_ns=made.START_NS)
    # Two calls that compile, the first in two phases, and one that only runs.
    for start, compiles in ((0, ((5, 10), (16, 10))), (100, ((110, 30),)), (200, ())):
        thread.event("PjitFunction(train_step)", start, 60)
        for at, length in compiles:
            thread.event("backend_compile", at, length)
    builder.write(tmp_path)
    assert figures(tpuprof.load(tmp_path))["recompiles"] == (2.0, None)


def test_the_facts_agree_with_the_report(tmp_path: Path) -> None:
    trace = load(tmp_path)
    facts, run = run_facts(trace), reported(trace)
    for name in ("name", "device_kind", "n_devices", "window_ps", "step_source", "n_steps"):
        assert getattr(facts, name) == run[name]
    statistics = trace.step_statistics()
    values = {metric.name: metric.value for metric in facts.metrics}
    assert values["step_p50_ps"] == statistics["p50_ps"]
    assert values["step_cv"] == statistics["cv"]


def test_figures_that_are_not_finite_become_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(tmp_path)
    mean = trace.breakdown()
    mean["parts"]["matmul_ps"] = math.nan
    monkeypatch.setattr(type(trace), "breakdown", lambda _: mean)
    found = {metric.name: metric for metric in metrics_of(trace, np.array([1, 2], np.int64))}
    assert (found["matmul_ps"].value, found["matmul_ps"].reason) == (None, "The figure is not finite.")


def write_sidecar(logs: Path, content: object) -> None:
    (logs / "plugins" / "profile" / "2026_01_01_00_00_00" / "tpuprof.json").write_text(json.dumps(content))


def test_versions_and_flags_of_the_capture_are_kept_without_secrets(tmp_path: Path) -> None:
    logs = made.write(tmp_path)
    write_sidecar(
        logs,
        {
            "complete": True,
            "versions": {"jax": "0.10.2", "jaxlib": "0.10.1", "libtpu": None},
            "environment": {"XLA_FLAGS": "--xla_a=1 --token=hunter2hunter2", "LIBTPU_INIT_ARGS": "--b"},
            "command": ["train.py", "--password", "hunter2"],
        },
    )
    facts = run_facts(tpuprof.load(logs)).facts
    assert facts["versions"] == {"jax": "0.10.2", "jaxlib": "0.10.1"}
    assert facts["environment"] == {"XLA_FLAGS": "--xla_a=1 --token=***", "LIBTPU_INIT_ARGS": "--b"}
    assert facts["complete"] is True
    assert "hunter2" not in json.dumps(facts)


@pytest.mark.parametrize(
    "content",
    [{"versions": 3, "environment": []}, {"versions": {"a": ["x"]}, "environment": {"b": {}}}, {"complete": 7}],
)
def test_a_sidecar_that_anybody_wrote_breaks_nothing(tmp_path: Path, content: object) -> None:
    logs = made.write(tmp_path)
    write_sidecar(logs, content)
    facts = run_facts(tpuprof.load(logs)).facts
    assert json.loads(json.dumps(facts)) == facts
    assert facts["complete"] is None


def test_the_op_table_is_bounded_and_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(tmp_path)
    whole = sum(group.self_ps for group in op_groups(trace))
    assert whole == int(trace.op_stats()["self_ps"].sum())
    assert len(op_groups(trace)) <= MAX_OP_GROUPS
    monkeypatch.setattr("tpuprof.history.facts.MAX_OP_GROUPS", 1)
    first, rest = op_groups(trace)
    assert (first.kind, rest.module, rest.scope, rest.kind) == ("matmul", REST, None, None)
    assert first.self_ps + rest.self_ps == whole


def test_long_runs_keep_their_first_steps_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuprof.history.facts.MAX_STEPS", 3)
    facts = run_facts(load(tmp_path))
    assert [step for step, _ in facts.steps] == [0, 1, 2]
    assert facts.facts["steps_left_out"] == 1
    assert next(metric.value for metric in facts.metrics if metric.name == "step_max_ps") == 130e6


@pytest.mark.real
@pytest.mark.parametrize(
    ("run", "hardware"),
    [("v5e-1-matmul", "1 × TPU v5 Lite, 1 host"), ("v6e-4-host-offload", "4 × TPU v6 Lite, 1 host")],
)
def test_real_runs_can_be_kept(real_traces: Path, run: str, hardware: str) -> None:
    facts = run_facts(tpuprof.load(real_traces / run))
    assert facts.facts["hardware"] == hardware
    assert facts.program is not None
    assert [metric.name for metric in facts.metrics] == list(METRICS)
    assert facts.op_groups
