"""Collectives far below their bound, and small ones that could be joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.analyzers.builtin import analyzer
from tests.roofline.made import US, Op, run_builder, run_of
from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.roofline import HardwareOptions
from tpuprof.trace import Trace, load

SUM = """%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add.9 = f32[] add(%x, %y)
}
"""
LARGE = 1 << 20
SMALL = 256


def program(names: list[str], elements: int, groups: str = "{{0,1,2,3}}", cores: int = 4) -> str:
    """A program of all-reduces, each of the one before."""
    shape = f"f32[{elements}]"
    lines = [
        f"  {'ROOT ' if name == names[-1] else ''}%{name} = {shape}{{0}} all-reduce(%{before}), "
        f"replica_groups={groups}, use_global_device_ids=true, channel_id={number + 1}, to_apply=%sum"
        for number, (before, name) in enumerate(zip(["a", *names], names, strict=False))
    ]
    return "\n".join([
        f"HloModule jit_f, is_scheduled=true, num_partitions={cores}", "", SUM,
        f"ENTRY %main (a: {shape}) -> {shape} {{", f"  %a = {shape}{{0}} parameter(0)", *lines, "}", "",
    ])  # fmt: skip


def result(trace: Trace, **hardware: Any) -> AnalysisResult:
    return analyzer("collective_rates").run(Context(trace, hardware=HardwareOptions(**hardware)))


def rules(trace: Trace, **hardware: Any) -> dict[str, Finding]:
    return {finding.rule: finding for finding in result(trace, **hardware).findings}


def evidence(finding: Finding) -> dict[str, Any]:
    return {item.name: item.value for item in finding.evidence}


def reduce_run(directory: Path, us: float, *, step_us: float = 1000, cores: int = 4, **more: Any) -> Trace:
    ops: list[Op] = [("all-reduce.1", 0, round(us * US), "all-reduce")]
    text = program(["all-reduce.1"], LARGE, **more)
    return run_of(directory, text, ops, round(step_us * US), cores=cores)


def bound_ps() -> float:
    """2x2 chips of v5e receive over two links of 45 GB/s each, twice for an all-reduce."""
    return 2 * 3 / 4 * 4 * LARGE / 90e9 * 1e12


def test_an_all_reduce_far_below_its_bound(tmp_path: Path) -> None:
    found = rules(reduce_run(tmp_path, 400))
    assert set(found) == {"TPU305"}
    finding = found["TPU305"]
    assert finding.impact_ps == pytest.approx(400 * US - bound_ps())
    assert finding.severity == "warning"
    (row,) = evidence(finding)["collectives"]
    assert (row["op"], row["bytes"], row["count"], row["participants"]) == ("all-reduce.1", 4 * LARGE, 16, 4)
    assert row["transfer_ps"] == 400 * US
    assert row["bound_ps"] == pytest.approx(bound_ps())
    assert row["regime"] in finding.message
    assert finding.scope["op"] == "all-reduce.1"


@pytest.mark.parametrize("us", [75, 139])
def test_more_than_half_of_the_bound_is_silent(us: float, tmp_path: Path) -> None:
    assert rules(reduce_run(tmp_path, us)) == {}


def test_below_the_floor_is_silent(tmp_path: Path) -> None:
    assert rules(reduce_run(tmp_path, 160, step_us=9000)) == {}


def test_waiting_for_a_late_core_is_no_slow_transfer(tmp_path: Path) -> None:
    builder = run_builder(
        program(["all-reduce.1"], LARGE), [("all-reduce.1", 0, 400 * US, "all-reduce")], 1000 * US, cores=4
    )
    # Core 3 comes 300 us later than the others, and all leave together.
    for event in builder["h"]["/device:TPU:3"]["XLA Ops"]:
        event.start_ps += 300 * US
        event.duration_ps = 100 * US
    assert rules(load(builder.write(tmp_path))) == {}


def test_pairs_that_share_links_are_told(tmp_path: Path) -> None:
    # On 2x4 chips two hops apart: both pairs of a row of four use the link in its middle.
    text = program(["all-reduce.1"], LARGE, "{{0,4},{1,5},{2,6},{3,7}}", 8)
    trace = run_of(tmp_path, text, [("all-reduce.1", 0, 400 * US, "all-reduce")], 1000 * US, cores=8)
    finding = rules(trace)["TPU305"]
    (row,) = evidence(finding)["collectives"]
    assert (row["regime"], row["shared"]) == ("line", 2.0)
    assert "2 groups share the busiest link" in finding.message
    assert "does not close to a ring" in finding.suggestion
    assert "neighbours" in finding.suggestion


def many_run(directory: Path, count: int, us: float = 10, step_us: float = 1000) -> Trace:
    names = [f"all-reduce.{n}" for n in range(1, count + 1)]
    ops: list[Op] = [(name, round(n * us * US), round(us * US), "all-reduce") for n, name in enumerate(names)]
    return run_of(directory, program(names, SMALL), ops, round(step_us * US), cores=4)


def test_many_small_all_reduces_could_be_one(tmp_path: Path) -> None:
    found = rules(many_run(tmp_path, 16))
    assert set(found) == {"TPU306"}
    finding = found["TPU306"]
    (row, *_) = evidence(finding)["collectives"]
    spare = 0.0 if row["regime"] == "latency" else row["bound_ps"]
    assert finding.impact_ps == pytest.approx(16 * (10 * US - spare) * 15 / 16)
    (group,) = evidence(finding)["sets"]
    assert (group["kind"], group["per_step"], group["participants"]) == ("all_reduce", 16, 4)
    assert "16 all reduce(s) per step" in finding.message


def test_one_small_collective_cannot_be_joined(tmp_path: Path) -> None:
    assert rules(many_run(tmp_path, 1, us=100)) == {}


def test_few_small_ones_are_below_the_floor(tmp_path: Path) -> None:
    assert rules(many_run(tmp_path, 2)) == {}


def test_unknown_hardware_gives_a_reason(tmp_path: Path) -> None:
    ops: list[Op] = [("all-reduce.1", 0, 400 * US, "all-reduce")]
    trace = run_of(tmp_path, program(["all-reduce.1"], LARGE), ops, 1000 * US, cores=4, kind="TPU v9x")
    found = result(trace)
    assert found.findings == ()
    assert "TPU v9x is not a known device" in found.unmet[0]
    assert set(rules(trace, chip="v5e")) == {"TPU305"}


def test_without_hlo_nothing_is_said(tmp_path: Path) -> None:
    builder = run_builder(
        program(["all-reduce.1"], LARGE), [("all-reduce.1", 0, 400 * US, "all-reduce")], 1000 * US, cores=4
    )
    builder["h"].drop_plane("/host:metadata")
    for core in range(4):
        for event in builder["h"][f"/device:TPU:{core}"]["XLA Ops"]:
            event.text = None
    found = result(load(builder.write(tmp_path)))
    assert found.findings == ()
    assert found.unmet


def test_a_run_of_compute_alone_has_no_reasons(tmp_path: Path) -> None:
    trace = run_of(tmp_path, program(["all-reduce.1"], LARGE), [("fusion.1", 0, 400 * US, "loop fusion")], 1000 * US)
    assert result(trace) == AnalysisResult()


@pytest.mark.real
def test_collectives_near_their_bound_are_silent(real_traces: Path) -> None:
    v7x = tpuprof.load(real_traces / "v7x-2-prefill")
    assert rules(v7x, chip="tpu7x") == {}
    # Its all-reduces take more than the links between the cores need, but not twice as much.
    assert result(v7x, chip="tpu7x").unmet == ()
