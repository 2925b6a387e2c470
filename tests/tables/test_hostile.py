"""Damaged and strange traces: what cannot be true is left out and said, and never becomes a plausible number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpuprof
from tpuprof.formats.xplane_reader import read_xplane
from tpuprof.testing import Program, Ps, TraceBuilder

US = 1_000_000
TABLES = ("events", "ops", "modules", "steps", "partition", "gaps", "collectives", "host_events")
PARTS = ("elementwise_ps", "idle_ps", "collective_exposed_ps", "matmul_ps")
FUSION = {"hlo_category": "loop fusion"}
PROGRAM = Program(
    "jit_f",
    5,
    """\
HloModule jit_f, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %all-reduce.1 = f32[8] all-reduce(%p), replica_groups=[1,2]<=[2], to_apply=%add, metadata={op_name="jit(f)/psum"}
}
""",
)


def three_steps(steps: list[tuple[Any, ...]] | None = None, *, timestamp_ns: int = 0) -> TraceBuilder:
    """Three steps of 100 us on one TPU core, each with one op of 80 us at its begin."""
    trace = TraceBuilder()
    plane = trace.add_host("h").add_tpu(0)
    marks = plane.add_line("Steps", timestamp_ns=timestamp_ns)
    ops = plane.add_line("XLA Ops", timestamp_ns=timestamp_ns)
    for name, start, duration in steps or [(str(k), 100 * k, 100) for k in range(3)]:
        marks.event(name, start, duration)
    for k in range(3):
        ops.event("loop_fusion.1", 100 * k, 80, meta=FUSION)
    return trace


def load(trace: TraceBuilder, tmp_path: Path) -> Any:
    trace.write(tmp_path)
    return tpuprof.load(tmp_path)


def parts(trace: Any) -> list[tuple[int, int, int, int]]:
    """(step, start, elementwise, idle) of every step, in us."""
    frame = trace.partition
    return [
        (int(step), int(start) // US, int(busy) // US, int(idle) // US)
        for step, start, busy, idle in zip(
            frame["step"], frame["start_ps"], frame["elementwise_ps"], frame["idle_ps"], strict=True
        )
    ]


def entry(trace: Any, wanted: str) -> Any:
    (found,) = [quality for quality in trace.quality if quality.id == wanted]
    return found


def test_every_table_of_a_trace_without_cores_is_there_and_empty(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.add_host("h").add_thread("python").event("main", 0, 10)
    loaded = load(trace, tmp_path)
    assert {name: len(getattr(loaded, name)) for name in TABLES} == {
        **dict.fromkeys(TABLES, 0),
        "events": 1,
        "host_events": 1,
    }
    assert len(loaded.op_stats()) == 0


@pytest.mark.parametrize("timestamp_ns", [2**62, -(2**62), 9_223_372_036_854_775, 9_223_372_036_854_776, -(2**63)])
def test_a_line_far_from_all_others_is_left_out(tmp_path: Path, timestamp_ns: int) -> None:
    trace = three_steps(timestamp_ns=1_764_000_000_000_000_000 if timestamp_ns > 10**17 else 0)
    plane = trace["h"]["/device:TPU:0"]
    plane.add_line("XLA TraceMe", timestamp_ns=timestamp_ns).event("barrier-cores", 0, 1)
    loaded = load(trace, tmp_path)
    assert parts(loaded) == [(k, 100 * k, 80, 20) for k in range(3)]
    found = entry(loaded, "bad_time")
    assert (found.severity, found.count) == ("error", 1)
    assert "1 event(s) of h start more than 26 days from the begin" in found.message
    assert "/device:TPU:0" in found.message


@pytest.mark.parametrize("start_ps", [2**63 - 1, -(2**63), 2**61 + 1, -(2**61) - 1])
def test_an_op_months_away_neither_stretches_nor_wraps_a_step(tmp_path: Path, start_ps: int) -> None:
    trace = three_steps()
    trace["h"]["/device:TPU:0"]["XLA Ops"].event("loop_fusion.2", Ps(start_ps), 5, meta=FUSION)
    loaded = load(trace, tmp_path)
    assert parts(loaded) == [(k, 100 * k, 80, 20) for k in range(3)]
    assert entry(loaded, "bad_time").count == 1
    assert "loop_fusion.2" not in set(loaded.ops["op"])


def test_without_steps_a_wild_op_does_not_become_the_window(tmp_path: Path) -> None:
    trace = TraceBuilder()
    ops = trace.add_host("h").add_tpu(0).add_line("XLA Ops")
    ops.event("loop_fusion.1", 0, 8, meta=FUSION).event("loop_fusion.2", Ps(-(2**63)), Ps(2**63 - 1), meta=FUSION)
    loaded = load(trace, tmp_path)
    assert parts(loaded) == [(0, 0, 8, 0)]
    assert entry(loaded, "bad_time").count == 1


def test_a_trace_on_the_epochs_clock_loses_nothing(tmp_path: Path) -> None:
    loaded = load(three_steps(timestamp_ns=2**63 - 1), tmp_path)
    assert parts(loaded) == [(k, 100 * k, 80, 20) for k in range(3)]
    assert loaded.quality == ()


def test_taking_events_keeps_their_stats() -> None:
    trace = TraceBuilder()
    line = trace.add_host("h").add_tpu(0).add_line("XLA Ops")
    for k in range(5):
        line.event("f", k, 1, stats={"a": k, "b": 10 * k} if k % 2 else {"a": k})
    plane = read_xplane(trace.to_bytes()).space.planes[0]
    taken = plane.lines[0].events.take(np.array([4, 1, 2], np.intp))
    assert [plane.event_stats(taken, row) for row in range(3)] == [{"a": 4}, {"a": 1, "b": 10}, {"a": 2}]
    assert taken.offset_ps.tolist() == [4 * US, US, 2 * US]
    assert len(plane.lines[0].events.take(np.array([], np.intp))) == 0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("train", 100, 100), "no number"),
        (("", 100, 100), "no number"),
        (("99999999999999999999", 100, 100), "beyond any step number"),
        (("\u0663", 100, 100), "a digit, but not one that a runtime writes"),
        (("1", 100, Ps(-5)), "negative length"),
        (("1", 100, Ps(2**63 - 1)), "impossible length"),
    ],
)
def test_a_step_row_that_cannot_be_read_is_counted(tmp_path: Path, row: tuple[Any, ...], reason: str) -> None:
    loaded = load(three_steps([("0", 0, 100), row, ("2", 200, 100)]), tmp_path)
    assert parts(loaded) == [(0, 0, 160, 40), (2, 200, 80, 20)], reason
    found = entry(loaded, "step_rows_unreadable")
    assert (found.severity, found.count) == ("warning", 1)
    assert "1 row(s) of the line Steps of h/TPU:0 are left out" in found.message


def test_a_damaged_instruction_costs_its_scope_and_not_the_trace(tmp_path: Path) -> None:
    trace = TraceBuilder()
    host = trace.add_host("h")
    host.add_tpu(0).add_line("XLA Ops").op("all-reduce.1", 0, 10, PROGRAM, "all-reduce")
    host.add_program(PROGRAM)
    file = trace.write(tmp_path) / "h.xplane.pb"
    data = file.read_bytes()
    name = b"\x0bjit(f)/psum"  # with its length in front, which then runs out of the instruction
    assert data.count(name) == 1
    file.write_bytes(data.replace(name, b"\x7f" + name[1:]))
    loaded = tpuprof.load(tmp_path)
    assert list(loaded.ops["kind"]) == ["collective"]
    assert list(loaded.partition["collective_exposed_ps"]) == [10 * US]
    assert loaded.ops["scope"].isna().all()
    assert entry(loaded, "hlo_unreadable").message.startswith("A part of the HLO of program 5 cannot be read: ")


def test_replica_groups_of_an_unknown_form_are_unknown(tmp_path: Path) -> None:
    trace = _one_collective("replica_groups=[1,2]<=[2]", "replica_groups=new{form}")
    loaded = load(trace, tmp_path)
    assert loaded.collectives["participants"].isna().all()
    assert list(loaded.collectives["kind"]) == ["all_reduce"]
    assert list(loaded.partition["collective_exposed_ps"]) == [10 * US]


def _one_collective(old: str = "", new: str = "") -> TraceBuilder:
    trace = TraceBuilder()
    host = trace.add_host("h")
    ops = host.add_tpu(0).add_line("XLA Ops")
    text = PROGRAM.instruction("all-reduce.1").replace(old, new) if old else PROGRAM.instruction("all-reduce.1")
    ops.event("all-reduce.1", 0, 10, text=text)
    return trace


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"complete": false, "errors": 5}', '{"complete": false, "errors": "x"}']
)
def test_a_sidecar_of_any_form_is_no_obstacle(tmp_path: Path, text: str) -> None:
    session = three_steps().write(tmp_path)
    (session / "tpuprof.json").write_text(text)
    loaded = tpuprof.load(tmp_path)
    assert [q.id for q in loaded.quality] == ["sidecar_unreadable" if text[0] == "[" else "capture_incomplete"]


def test_why_a_capture_ended_early_is_said_in_one_sentence(tmp_path: Path) -> None:
    session = three_steps().write(tmp_path)
    sidecar = {"complete": False, "errors": ["The program ended inside the window."]}
    (session / "tpuprof.json").write_text(json.dumps(sidecar))
    assert entry(tpuprof.load(tmp_path), "capture_incomplete").message == (
        "The capture ended before its window did (The program ended inside the window). The last step may be cut."
    )
