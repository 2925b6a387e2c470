"""Real traces: what they are known to reach is what is fitted, and what they cannot tell stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuprof.calibration import Calibration, calibrate
from tpuprof.roofline import HardwareOptions
from tpuprof.trace import load

pytestmark = pytest.mark.real


def _fitted(found: Calibration) -> dict[str, float]:
    return {one.constant: one.value for one in found.fitted}


def _kept(found: Calibration) -> dict[str, str]:
    return {one.constant: one.reason for one in found.kept}


def test_loops_of_v6e(real_traces: Path) -> None:
    found = calibrate([load(str(real_traces / "v6e-4-host-offload"))])
    # Three fusions read and write 10.7 GB in 8.155, 7.976 and 7.918 ms.
    assert _fitted(found)["chips.v6e.memory"] == pytest.approx(0.8185, abs=2e-3)
    assert _fitted(found)["steps.idle_s"] == pytest.approx(1.44e-6, rel=0.1)  # the known gap between runs
    assert _kept(found)["chips.v6e.matmul"] == "no such op ran"
    # Known of this trace: 26.5 to 29.5 GB/s, and hardly anything to compute meanwhile.
    assert "27.29 GB/s in one direction" in _kept(found)["offload.bandwidth_share"]
    assert "longer than computation" in _kept(found)["offload.hidden"]
    assert (found.runs[0].chip, found.runs[0].steps, found.runs[0].devices) == ("v6e", 100, 4)


def test_matmuls_and_sums_of_tpu7x(real_traces: Path) -> None:
    trace = load(str(real_traces / "v7x-2-prefill"))
    found = calibrate([trace], options=HardwareOptions(chip="tpu7x"), axes={"*": "tensor"})
    matmul = next(one for one in found.fitted if one.constant == "chips.tpu7x.matmul")
    # Shapes reach 0.573 to 0.724 of the peak.
    assert matmul.value == pytest.approx(0.667, abs=3e-3)
    assert (matmul.low, matmul.high) == (pytest.approx(0.575, abs=5e-3), pytest.approx(0.729, abs=8e-3))
    assert (matmul.samples, matmul.executions) == (256, 512)
    assert _fitted(found)["collectives.all_reduce"] == pytest.approx(1.0, abs=0.02)
    assert _fitted(found)["overlap.activations"] == 0  # all of them are synchronous
    assert "its cost or the rate is not known" in _kept(found)["chips.tpu7x.attention"]
    assert not calibrate([trace]).fitted  # the trace does not name its chip


def test_a_small_benchmark_tells_nothing(real_traces: Path) -> None:
    found = calibrate([load(str(real_traces / "v5e-1-matmul"))])
    assert not found.fitted
    assert _kept(found)["chips.v5e.matmul"] == "1 op: too short: fixed times decide"
    assert "idle time" in _kept(found)["steps.idle_s"]
