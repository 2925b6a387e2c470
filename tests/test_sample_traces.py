"""The sample traces give the numbers of their manifest, and the hand-built ones can be made again byte for byte."""

from __future__ import annotations

import importlib.util
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.tables.oracle import Core, Span, divide
from tpuprof.report import build_report
from tpuprof.tables.schemas import PARTS
from tpuprof.testing import PlaneBuilder, to_ps

SAMPLES = Path(__file__).resolve().parents[1] / "sample_traces"
MANIFEST: dict[str, Any] = tomllib.loads((SAMPLES / "manifest.toml").read_text(), parse_float=Decimal)
HAND_BUILT = [name for name, entry in MANIFEST.items() if entry["made"].startswith("built by hand")]
CORES = [(name, device) for name in HAND_BUILT for device in MANIFEST[name]["parts_us"]]


def make_module() -> Any:
    spec = importlib.util.spec_from_file_location("sample_traces_make", SAMPLES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(name: str) -> Any:
    return tpuprof.load(SAMPLES / name)


def test_the_manifest_lists_what_make_can_make() -> None:
    make = make_module()
    assert sorted(MANIFEST) == sorted([*make.HAND_BUILT, *make.CAPTURED])


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_module().main(["tpu_loop"]) == 2
    assert "unknown: tpu_loop; the sample traces are tpu_loop_async, tpu_two_hosts, cpu_demo" in capsys.readouterr().err


def test_all_samples_together_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()) < 1_500_000


@pytest.mark.parametrize("name", HAND_BUILT)
def test_hand_built_traces_are_reproduced_byte_for_byte(name: str, tmp_path: Path) -> None:
    fresh = make_module().HAND_BUILT[name]().write(tmp_path)
    kept = SAMPLES / name / fresh.relative_to(tmp_path)
    assert sorted(path.name for path in kept.iterdir()) == sorted(path.name for path in fresh.iterdir())
    for path in fresh.iterdir():
        same = path.read_bytes() == (kept / path.name).read_bytes()
        assert same, f"{path.name} would be written differently now: python sample_traces/make.py {name}"


@pytest.mark.parametrize(("name", "device"), CORES)
def test_the_manifest_itself_adds_up(name: str, device: str) -> None:
    assert sum(MANIFEST[name]["parts_us"][device].values()) == MANIFEST[name]["step_us"]


KINDS = {
    "copy.20": "data_movement",
    "splash_attention.21": "attention",
    "fusion.5": "data_movement",
    "all-gather-start.6": "collective",
    "fusion.7": "matmul",
    "copy-start.8": "data_movement",
    "fusion.9": "elementwise",
    "all-gather-done.6": "collective",
    "copy-done.8": "dma_wait",
    "fusion.10": "matmul",
    "fusion.26": "reduction",
    "all-reduce.27": "collective",
    "fusion.28": "elementwise",
    "broadcast.1": "elementwise",
    "fusion.1": "matmul",
    "fusion.2": "elementwise",
    "all-reduce.3": "collective",
    "fusion.4": "elementwise",
    "all-gather.5": "collective",
    "copy.6": "data_movement",
    "all-gather.6": "collective",
    "async-copy": "dma",
    "barrier-cores": "barrier",
}


def spans_of(plane: PlaneBuilder, line: str) -> tuple[Span, ...]:
    events = [event for event in plane[line] if event.name != "while.25"]
    return tuple(Span(event.start_ps, event.end_ps, KINDS[str(event.name)]) for event in events)


@pytest.mark.parametrize(("name", "device"), CORES)
def test_the_manifest_is_what_brute_force_finds_in_the_events_as_built(name: str, device: str) -> None:
    host, plane_name = device.split("/")
    plane = make_module().HAND_BUILT[name]()[host][f"/device:{plane_name}"]
    core = Core(spans_of(plane, "XLA Ops"), spans_of(plane, "Async XLA Ops"), spans_of(plane, "XLA TraceMe"))
    truth = MANIFEST[name]
    parts = {part: to_ps(us) for part, us in truth["parts_us"][device].items()}
    hidden = {kind: to_ps(us) for kind, us in truth.get("hidden_us", {}).get(device, {}).items()}
    for step in plane["Steps"]:
        found = divide(core, step.start_ps, step.end_ps)
        assert {part: found[part] for part in PARTS if found[part]} == parts
        assert found["hidden_collective"] == hidden.get("collective", 0)
        assert found["hidden_dma"] == hidden.get("dma", 0)


@pytest.mark.parametrize("name", HAND_BUILT)
def test_no_op_was_built_faster_than_its_chip(name: str) -> None:
    report = build_report(load(name))
    assert [entry["message"] for entry in report["quality"] if entry["severity"] == "error"] == []


@pytest.mark.parametrize("name", HAND_BUILT)
def test_what_was_recorded(name: str) -> None:
    trace, truth = load(name), MANIFEST[name]
    assert trace.name == truth["session"]
    assert trace.hosts == tuple(truth["hosts"])
    assert [device.id for device in trace.devices] == list(truth["parts_us"])
    assert {device.kind for device in trace.devices} == {truth["device_kind"]}
    assert trace.step_source == truth["step_source"]
    assert trace.n_steps == truth["n_steps"]
    assert trace.outside_steps_ps == to_ps(truth["outside_steps_us"])
    offset = truth.get("clock_offset_us", 0)
    # The session of 20 ms is longer than the work in it.
    told = [entry for entry in trace.quality if entry.id != "lead_in"]
    assert [entry.id for entry in told] == (["host_clock_offset"] if offset else [])
    assert [entry.scope["offset_ps"] for entry in told] == ([{trace.hosts[1]: to_ps(offset)}] if offset else [])


@pytest.mark.parametrize(("name", "device"), CORES)
def test_every_step_is_divided_as_it_was_built(name: str, device: str) -> None:
    table, truth = load(name).partition, MANIFEST[name]
    rows = table[table["device"] == device].to_dict("records")
    parts = {part: to_ps(us) for part, us in truth["parts_us"][device].items()}
    hidden = {kind: to_ps(us) for kind, us in truth.get("hidden_us", {}).get(device, {}).items()}
    assert len(rows) == truth["n_steps"]
    for row in rows:
        assert row["duration_ps"] == to_ps(truth["step_us"])
        assert {part: row[f"{part}_ps"] for part in PARTS} == {part: parts.get(part, 0) for part in PARTS}
        assert row["hidden_collective_ps"] == hidden.get("collective", 0)
        assert row["hidden_dma_ps"] == hidden.get("dma", 0)


@pytest.mark.parametrize("name", HAND_BUILT)
def test_ops_are_what_they_were_built_as(name: str) -> None:
    rows = {row["name"]: row for row in load(name).op_stats().to_dict("records")}
    for op, truth in MANIFEST[name]["ops"].items():
        found = {
            "kind": rows[op]["kind"],
            "occurrences": rows[op]["occurrences"],
            "total_ps": rows[op]["total_ps"],
        }
        expected = {
            "kind": truth["kind"],
            "occurrences": truth["occurrences"],
            "total_ps": to_ps(truth["total_us"]),
        }
        assert found == expected
        assert rows[op]["kind_source"] == "hlo"


def test_the_cpu_capture_has_its_devices_steps_and_collectives() -> None:
    trace, truth = load("cpu_demo"), MANIFEST["cpu_demo"]
    assert trace.hosts == tuple(truth["hosts"])
    assert [device.id for device in trace.devices] == truth["devices"]
    assert {device.platform for device in trace.devices} == {"cpu"}
    assert trace.step_source == truth["step_source"]
    assert trace.n_steps == len(truth["steps"])
    rows = trace.collectives.groupby(["device", "step", "kind"], observed=True).size()
    assert rows.to_dict() == {
        (device, step, kind): count
        for device in truth["devices"]
        for step in truth["steps"]
        for kind, count in truth["collectives_per_step"].items()
    }


def test_the_cpu_capture_is_divided_exactly_and_its_matmuls_are_found() -> None:
    trace = load("cpu_demo")
    table = trace.partition
    assert len(table) == 16
    assert (table[[f"{part}_ps" for part in PARTS]].sum(axis=1) == table["duration_ps"]).all()
    assert (table["matmul_ps"] > 0).all()
    assert (table["collective_exposed_ps"] > 0).all()


def test_the_cpu_capture_tells_nothing_of_the_machine_it_was_made_on() -> None:
    text = b"".join(path.read_bytes() for path in (SAMPLES / "cpu_demo").rglob("*") if path.is_file())
    assert b"tpuprof/capture/demo_program.py" in text
    assert b"/tpuprof/capture" not in text
    assert b"/home/" not in text


def test_every_op_of_the_cpu_capture_has_its_program_and_the_scope_that_the_hlo_states() -> None:
    trace = load("cpu_demo")
    assert trace.ops["module"].notna().all()
    assert (trace.ops["kind_source"] == "hlo").all()
    (module,) = trace.programs.values()
    bare = set(trace.ops.loc[trace.ops["scope"].isna(), "op"])
    for name in set(trace.ops["op"]):
        stated = [module.instruction(name)]
        while stated[-1].opcode == "fusion":
            stated.append(module.computation(stated[-1].called_by_role("calls")[0]).root)
        assert (name in bare) == (not any(each.metadata.op_name for each in stated)), name
    assert 0 < trace.ops.loc[trace.ops["scope"].isna(), "self_ps"].sum() < 0.1 * trace.ops["self_ps"].sum()
