"""Real traces against themselves: nothing changed, all of it matched, and it takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tpuprof.compare import comparability, differences, explain

pytestmark = pytest.mark.real
V5E = "v5e-1-matmul/plugins/profile/2026_05_18_09_57_44"


@pytest.mark.parametrize("name", ["v6e-4-host-offload", "v7x-2-prefill", "mi300-gemm", V5E])
def test_a_trace_against_itself(real_traces: Path, name: str) -> None:
    trace = tpuprof.load(real_traces / name)
    found = explain(trace, trace)
    assert found.step_delta_ps == 0
    assert found.residual_ps == 0
    assert found.matched_time_fraction == 1.0
    assert found.changed == ()
    assert comparability(trace, trace) == []
    assert differences(trace, trace, found) == []
    parts = trace.breakdown()
    assert parts is not None
    assert sum(row.base_ps for row in found.rows) == pytest.approx(parts["step_ps"], rel=1e-9)


def test_a_tpu_trace_and_its_json(real_traces: Path) -> None:
    (json,) = (real_traces / V5E).glob("*.trace.json.gz")
    (xplane,) = (real_traces / V5E).glob("*.xplane.pb")
    one, other = tpuprof.load(xplane), tpuprof.load(json)
    found = explain(one, other)
    assert found.matched_time_fraction == 1.0
    assert found.step_delta_ps == pytest.approx(0, abs=1)
    assert comparability(one, other) == []
    assert differences(one, other, found) == []


def test_the_offload_of_the_first_half_against_the_second(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    steps = sorted(set(trace.steps.loc[trace.steps["counted"], "step"]))
    found = explain(trace.select(steps=steps[:50]), trace.select(steps=steps[50:]))
    assert found.step_delta_ps is not None
    assert abs(found.step_delta_ps) < 1e-3 * 784_000_000_000
    assert float(sum(row.delta for row in found.rows)) == found.step_delta_ps
    assert found.matched_time_fraction == 1.0
    assert found.rows[0].kind == "dma_wait"
