"""Exposure of collectives per mesh axis, through a trace whose program names its mesh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tpuprof
from tpuprof.cli.commands import group
from tpuprof.report.build import build_report
from tpuprof.report.collective_groups import collective_groups
from tpuprof.testing import Program, TraceBuilder

US = 1_000_000
CORES, STEPS = 8, 3
MESH = "mesh['data'=4,'model'=2]"
VALUE = "f32[64]{0}"
RINGS = "{{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}"


def all_reduce(number: int, operand: str, groups: str, scope: str = "") -> str:
    """An instruction that sums over groups of global ids."""
    metadata = f', metadata={{op_name="jit(step)/{scope}"}}' if scope else ""
    return (
        f"%all-reduce.{number} = {VALUE} all-reduce({VALUE} %{operand}), channel_id={number}, "
        f"replica_groups={groups}, use_global_device_ids=true, to_apply=%sum{metadata}"
    )


PROGRAM = Program(
    "jit_step",
    11,
    f"""\
HloModule jit_step, is_scheduled=true, num_partitions=8

%sum (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}}

ENTRY %main (a: f32[64]) -> f32[64] {{
  %a = {VALUE} parameter(0)
  %add.1 = {VALUE} add({VALUE} %a, {VALUE} %a)
  {all_reduce(2, "add.1", MESH + " {'data'}", "grads")}
  {all_reduce(3, "all-reduce.2", "[4,2]<=[8]", "mlp")}
  {all_reduce(4, "all-reduce.3", MESH + " {'model','data'}", "mlp")}
  %collective-permute.5 = {VALUE} collective-permute({VALUE} %all-reduce.4), channel_id=9, source_target_pairs={RINGS}
  ROOT {all_reduce(6, "collective-permute.5", "{{0,3},{1,2},{4,7},{5,6}}")}
}}
""",
)
HALF = Program(
    "jit_half",
    12,
    """\
HloModule jit_half, is_scheduled=true, num_partitions=2

ENTRY %main (a: f32[64]) -> f32[128] {
  %a = f32[64]{0} parameter(0)
  %s = (f32[64]{0}, f32[128]{0}) all-gather-start(f32[64]{0} %a), replica_groups={}, dimensions={0}
  ROOT %d = f32[128]{0} all-gather-done((f32[64]{0}, f32[128]{0}) %s)
}
""",
)
# op, begin, length, axes
COLLECTIVES = (
    ("all-reduce.2", 100, 200, "data"),
    ("all-reduce.3", 300, 50, "model"),
    ("all-reduce.4", 350, 30, "model,data"),
    ("collective-permute.5", 400, 70, "data"),
    ("all-reduce.6", 500, 10, None),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = TraceBuilder()
    host = trace.add_host("hostA")
    host.add_program(PROGRAM)
    for ordinal in range(CORES):
        tpu = host.add_tpu(ordinal)
        steps, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        for step in range(STEPS):
            at = 1000 * step
            steps.event(str(step), at, 1000)
            ops.op("add.1", at, 100, PROGRAM, "loop fusion")
            for name, begin, length, _ in COLLECTIVES:
                ops.op(name, at + begin, length, PROGRAM, name.rsplit(".", 1)[0])
    return trace.write(tmp_path_factory.mktemp("mesh"))


def test_every_collective_has_the_axes_that_its_program_states(path: Path) -> None:
    table = tpuprof.load(path).collectives
    axes = {op: set(rows["mesh_axes"].astype("object").where(rows["mesh_axes"].notna(), None))
            for op, rows in table.groupby("op", observed=True)}  # fmt: skip
    assert axes == {op: {expected} for op, _, _, expected in COLLECTIVES}


def test_exposure_by_axis_sums_to_that_of_all(path: Path) -> None:
    trace = tpuprof.load(path)
    rows = {row["name"]: row for row in collective_groups(trace, "axis")}
    assert list(rows) == ["data", "model", "model,data", "(axes unknown)"]
    assert rows["data"] == {
        "name": "data", "instructions": 2, "count": 2 * CORES * STEPS, "unmatched": 0,
        "window_ps": 270 * US * CORES * STEPS, "exposed_ps": 270 * US * CORES * STEPS, "hidden_ps": 0, "wait_ps": 0,
        "exposed_per_step_ps": 270 * US, "exposed_fraction": 270 / 360,
    }  # fmt: skip
    assert rows["(axes unknown)"]["exposed_per_step_ps"] == 10 * US
    assert sum(row["exposed_ps"] for row in rows.values()) == int(trace.collectives["exposed_ps"].sum())
    mean = trace.breakdown()
    assert mean is not None
    assert sum(row["exposed_per_step_ps"] for row in rows.values()) == mean["parts"]["collective_exposed_ps"]


def test_other_groupings(path: Path) -> None:
    trace = tpuprof.load(path)
    scopes = {row["name"]: row["exposed_per_step_ps"] for row in collective_groups(trace, "scope")}
    assert scopes == {"jit(step)/grads": 200 * US, "(no scope)": 80 * US, "jit(step)/mlp": 80 * US}
    kinds = {row["name"]: row["instructions"] for row in collective_groups(trace, "kind")}
    assert kinds == {"all_reduce": 4, "collective_permute": 1}
    (module,) = collective_groups(trace, "module")
    assert (module["name"], module["exposed_fraction"]) == ("jit_step(11)", 1.0)
    assert [row["name"] for row in collective_groups(trace, "source")] == ["(no source)"]
    with pytest.raises(tpuprof.errors.UsageError, match="Choose one of kind, axis, scope, source, module"):
        collective_groups(trace, "mesh")


def test_the_report_states_axes(path: Path) -> None:
    report = build_report(tpuprof.load(path), [])
    assert {row["name"]: row["mesh_axes"] for row in report["collectives"]} == {
        op: axes for op, _, _, axes in COLLECTIVES
    }


def test_the_finding_names_the_axes(path: Path) -> None:
    (finding,) = (f for f in build_report(tpuprof.load(path))["findings"] if f["rule"] == "TPU301")
    assert "by mesh axis data 270 us, model 50 us, model,data 30 us" in finding["message"]
    assert finding["evidence"]["mesh_axes"] == {"data": 270 * US, "model": 50 * US, "model,data": 30 * US}
    assert finding["evidence"]["collectives"][0]["mesh_axes"] == "data"


@pytest.mark.parametrize("form", ["table", "md", "csv", "jsonl"])
def test_the_command_shows_axes(path: Path, form: str) -> None:
    result = CliRunner().invoke(group, ["collectives", str(path), "--by", "axis", "--format", form])
    assert result.exit_code == 0, result.output
    assert "model,data" in result.output
    assert "(axes unknown)" in result.output
    listed = CliRunner().invoke(group, ["collectives", str(path)])
    assert "model,data" in listed.output


def test_json_of_the_command(path: Path) -> None:
    result = CliRunner().invoke(group, ["collectives", str(path), "--by", "axis", "--top", "1", "--json"])
    document = json.loads(result.stdout)
    assert (document["by"], document["total"], len(document["collectives"])) == ("axis", 4, 1)
    assert document["collectives"][0]["name"] == "data"


def test_a_program_without_a_mesh_shows_no_column(tmp_path: Path) -> None:
    trace = TraceBuilder()
    host = trace.add_host("hostA")
    host.add_program(HALF)
    ops = host.add_tpu(0).add_line("XLA Ops")
    ops.event("all-reduce.2", 100, 100, meta={"hlo_category": "all-reduce"})
    ops.op("s", 250, 10, HALF)
    path = trace.write(tmp_path)
    loaded = tpuprof.load(path)
    assert loaded.collectives["mesh_axes"].isna().all()
    assert "axes" not in CliRunner().invoke(group, ["collectives", str(path)]).output
    (row,) = collective_groups(loaded, "axis")
    assert row["name"] == "(axes unknown)"
    assert (row["unmatched"], row["count"], row["exposed_ps"]) == (1, 2, 100 * US)


def test_no_collectives(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.add_host("hostA").add_tpu(0).add_line("XLA Ops").event("fusion.1", 0, 100)
    path = trace.write(tmp_path)
    assert collective_groups(tpuprof.load(path), "axis") == []
    assert "No mesh axis groups." in CliRunner().invoke(group, ["collectives", str(path), "--by", "axis"]).output
