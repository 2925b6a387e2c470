"""Real sharded programs with a fault planted in each: the finding names it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.analyzers.builtin import ROOT, builtin
from tests.capture.support import child_environment
from tpuprof.report import build_report
from tpuprof.trace import Trace

PROGRAM = Path(__file__).with_name("planted.py")
Findings = dict[str, dict[str, Any]]
pytestmark = pytest.mark.slow


@pytest.fixture
def planted(tmp_path: Path) -> Callable[[str], tuple[Trace, Findings]]:
    """Runs the program with a fault: the trace, and the findings by rule."""

    def run(fault: str) -> tuple[Trace, Findings]:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), fault, str(tmp_path)],
            env=child_environment(
                JAX_PLATFORMS="cpu",
                XLA_FLAGS="--xla_force_host_platform_device_count=4",
                PYTHONPATH=str(ROOT),
            ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        trace = tpuprof.load(tmp_path)
        assert len(trace.devices) == 4
        assert trace.n_steps == 24
        return trace, {f["rule"]: f for f in build_report(trace, builtin())["findings"]}

    return run


def host_causes(findings: Findings) -> list[str]:
    """The rules that name a cause on the host, by impact.

    Steps that merely differ are no cause; collectives are left out because threads that share a busy processor wait in
    them for any time.
    """
    return [rule for rule in findings if rule.startswith("TPU4") and not rule.startswith("TPU44")]


def test_a_sleeping_input_pipeline_is_found_with_its_period(planted: Any) -> None:
    _, findings = planted("input")
    assert "TPU421" in host_causes(findings)[:2]  # launches on a busy machine may cost as much
    found = findings["TPU421"]
    assert found["evidence"]["period_steps"] == 8
    assert found["evidence"]["steps"] == [7, 15, 23]
    assert "every 8th step (steps 7, 15, 23)" in found["message"]
    assert "next_batch" in found["scope"]["host_call"]
    # Three sleeps of 400 ms over 23 steps are 52.2 ms per step, nearly all of it idle time.
    assert 0.8 * 52.2e9 < found["impact_ps"] < 1.5 * 52.2e9
    assert "TPU431" not in findings
    assert "TPU406" not in findings, "the same stall is not reported twice"


def test_reading_the_loss_in_every_step_is_found(planted: Any) -> None:
    _, findings = planted("host_sync")
    found = findings["TPU401"]
    assert "TPU401" in host_causes(findings)[:2]  # launches on a busy machine may cost as much
    assert found["scope"]["host_call"] == "np.asarray(jax.Array)"
    assert found["evidence"]["steps"] >= 0.8 * found["evidence"]["of_steps"]
    assert found["impact_ps"] > 9e9, "the 10 ms that the program takes to write the value down"
    assert {"TPU421", "TPU431", "TPU311"}.isdisjoint(findings)


def test_a_shape_that_changes_is_found_with_function_and_step(planted: Any) -> None:
    _, findings = planted("recompile")
    assert "TPU431" in host_causes(findings)[:2]  # launches on a busy machine may cost as much
    found = findings["TPU431"]
    assert found["scope"]["function"] == "train_step"
    assert found["evidence"]["period_steps"] == 8
    assert [row["step"] for row in found["evidence"]["compilations"]] == [7, 15, 23]
    assert {row["function"] for row in found["evidence"]["compilations"]} == {"train_step"}
    (programs,) = (row for row in found["evidence"]["programs"] if row["function"] == "jit_train_step")
    assert programs["programs"] == 4
    assert "parameter 1 from f32[64,512] to f32[57,512]" in programs["changed_inputs"]
    assert "TPU421" not in findings


def test_a_device_with_more_work_is_found(planted: Any) -> None:
    trace, findings = planted("straggler")
    found = findings["TPU311"]
    assert found["scope"]["device"].endswith("CPU:2")
    assert found["evidence"]["more_work"][0]["part"] == "matmul"
    assert found["evidence"]["cores"][0]["device"] == trace.devices[2].id
    # What the others lose is exposed in the collective (the first step is left out of one of the two).
    assert found["impact_ps"] <= 1.2 * findings["TPU301"]["impact_ps"]
    assert {"TPU401", "TPU421", "TPU431"}.isdisjoint(findings)


def test_without_a_fault_none_is_found(planted: Any) -> None:
    _, findings = planted("none")
    assert {"TPU401", "TPU406", "TPU421", "TPU431"}.isdisjoint(findings)


def test_a_gather_that_could_overlap_is_found_with_its_place(planted: Any) -> None:
    _, findings = planted("overlap")
    rows = findings["TPU303"]["evidence"]["collectives"]
    (gather,) = (row for row in rows if row["kind"] == "all_gather")
    assert gather["scope"].endswith("/all_gather")
    assert "planted.py:" in gather["source"]
    # Eight matmuls do not need what is gathered; no more can be hidden than they take.
    assert 0 < gather["could_hide_ps"] <= gather["independent_compute_ps"]
    assert findings["TPU303"]["impact_ps"] <= findings["TPU301"]["impact_ps"]
