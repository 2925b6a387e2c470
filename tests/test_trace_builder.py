"""The builder of small traces: what it writes, read back with plain protobuf and JSON."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tpuprof.errors import UsageError
from tpuprof.formats.xplane_schema import full_messages
from tpuprof.testing import Layout, Program, Ps, Ref, TraceBuilder, Unsigned, to_ps

PROGRAM = Program(
    "jit_f",
    (1 << 64) - 2,
    """\
HloModule jit_f, is_scheduled=true

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4]{1,0:T(8,128)} parameter(0)
  ROOT %negate.1 = f32[8,4]{1,0:T(8,128)} negate(f32[8,4]{1,0:T(8,128)} %a), metadata={op_name="jit(f)/neg{}"}
}
""",
)


def read(data: bytes) -> Any:
    space = full_messages().XSpace()
    space.ParseFromString(data)
    return space


def stats_of(plane: Any, stats: Any) -> dict[str, tuple[str, object]]:
    names = {entry.key: entry.value.name.decode() for entry in plane.stat_metadata}
    found: dict[str, tuple[str, object]] = {}
    for stat in stats:
        field = stat.WhichOneof("value")
        value = getattr(stat, field)
        found[names[stat.metadata_id]] = (field, names[value] if field == "ref_value" else value)
    return found


def small_trace() -> TraceBuilder:
    trace = TraceBuilder()
    tpu = trace.add_host("a").add_tpu(0)
    tpu.add_line("XLA Ops", timestamp_ns=5).op("negate.1", 1, "2.5", PROGRAM, "loop fusion")
    return trace


@pytest.mark.parametrize(
    ("time", "ps"),
    [
        (3, 3_000_000),
        (0.1, 100_000),
        ("0.000001", 1),
        (Decimal("1.25"), 1_250_000),
        (Ps(-5), -5),
        (1_700_000_000_000_000, 1_700_000_000_000_000_000_000),
    ],
)
def test_times_are_exact(time: Any, ps: int) -> None:
    assert to_ps(time) == ps


@pytest.mark.parametrize("time", [0.0000001, "nan", "inf", "soon"])
def test_a_time_that_is_no_whole_number_of_picoseconds_is_refused(time: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a whole number of picoseconds|is no time"):
        to_ps(time)


def test_an_op_has_a_display_name_and_its_instruction_as_name() -> None:
    plane = read(small_trace().to_bytes()).planes[0]
    (line,) = plane.lines
    (event,) = line.events
    (meta,) = plane.event_metadata
    assert (plane.name, plane.id, line.name, line.timestamp_ns) == (b"/device:TPU:0", 2, b"XLA Ops", 5)
    assert (event.offset_ps, event.duration_ps) == (1_000_000, 2_500_000)
    assert meta.value.display_name == b"negate.1"
    assert meta.value.name == b"%negate.1 = f32[8,4]{1,0:T(8,128)} negate(f32[8,4]{1,0:T(8,128)} %a)"
    assert stats_of(plane, meta.value.stats) == {
        "program_id": ("uint64_value", (1 << 64) - 2),
        "hlo_category": ("str_value", b"loop fusion"),
    }


def test_a_program_knows_its_instructions() -> None:
    assert PROGRAM.label == "jit_f(18446744073709551614)"
    assert PROGRAM.scope("negate.1") == "jit(f)/neg{}:"
    assert PROGRAM.shape("negate.1") == "f32[8,4]{1,0:T(8,128)}"
    assert PROGRAM.instruction("absent") == ""
    with pytest.raises(ValueError, match=r"jit_f\(\d+\) does not hold 'nowhere'"):
        PROGRAM.with_text("nowhere", "")


def test_a_program_id_above_int64_becomes_a_negative_key() -> None:
    trace = TraceBuilder()
    trace.add_host("a").add_program(PROGRAM)
    (entry,) = read(trace.to_bytes()).planes[0].event_metadata
    assert (entry.key, entry.value.id, entry.value.name) == (-2, -2, PROGRAM.label.encode())
    assert entry.value.stats[0].bytes_value == PROGRAM.to_proto()


def test_every_kind_of_stat_is_written_in_its_field() -> None:
    trace = TraceBuilder()
    stats = {"d": 0.5, "i": -1, "big": 1 << 63, "u": Unsigned(-1), "s": "é", "b": b"\xff", "r": Ref("text")}
    trace.add_host("a").add_plane("p", stats=stats)
    plane = read(trace.to_bytes()).planes[0]
    assert stats_of(plane, plane.stats) == {
        "d": ("double_value", 0.5),
        "i": ("int64_value", -1),
        "big": ("uint64_value", 1 << 63),
        "u": ("uint64_value", (1 << 64) - 1),
        "s": ("str_value", "é".encode()),
        "b": ("bytes_value", b"\xff"),
        "r": ("ref_value", "text"),
    }


def test_events_share_metadata_only_if_all_of_it_is_equal() -> None:
    trace = TraceBuilder()
    line = trace.add_host("a").add_plane("p").add_line("l")
    line.event("x", 0, 1).event("x", 1, 1).event("x", 2, 1, meta={"v": 1}).event("x", 3, 1, meta={"v": 1.0})
    plane = read(trace.to_bytes()).planes[0]
    assert [event.metadata_id for event in plane.lines[0].events] == [1, 1, 2, 3]


def test_clocks_of_a_tpu_line() -> None:
    trace = TraceBuilder()
    tpu = trace.add_host("a").add_tpu(0)
    tpu.host_minus_device_ps = lambda ps: 7 if ps < 10 else 9
    tpu.add_line("XLA Ops", clock="device").event("x", Ps(1), Ps(5)).event("x", Ps(10), Ps(5))
    tpu.add_line("XLA TraceMe", clock="mapped").event("barrier-cores", Ps(0), Ps(1))
    plane = read(trace.to_bytes()).planes[0]
    ops, barriers = plane.lines
    assert [event.offset_ps for event in ops.events] == [8, 19]
    assert [stats_of(plane, event.stats) for event in ops.events] == [
        {"device_offset_ps": ("uint64_value", start), "device_duration_ps": ("uint64_value", 5)} for start in (1, 10)
    ]
    assert (barriers.events[0].offset_ps, len(barriers.events[0].stats)) == (7, 0)


def test_a_cpu_op_has_a_twin_that_marks_its_end() -> None:
    trace = TraceBuilder()
    thread = trace.add_host("a").add_thread("tf_XLAEigen/1")
    thread.cpu_op("dot.1", 1, 2, PROGRAM, run_id=4, device_ordinal=3).step(7, 0, 9)
    plane = read(trace.to_bytes()).planes[0]
    names = {entry.key: entry.value.name for entry in plane.event_metadata}
    op, end, step = plane.lines[0].events
    assert [names[e.metadata_id] for e in (op, end, step)] == [b"dot.1", b"end: dot.1", b"train"]
    assert (end.offset_ps, end.duration_ps) == (3_000_000, 0)
    facts = stats_of(plane, op.stats)
    # The backend writes these two as references, and readers may rely on that.
    assert facts.pop("hlo_op") == ("ref_value", "dot.1")
    assert facts.pop("hlo_module") == ("ref_value", "jit_f")
    assert {name: facts[name][1] for name in facts} == {
        "program_id": (1 << 64) - 2,
        "run_id": 4,
        "device_ordinal": 3,
    }
    assert stats_of(plane, step.stats)["step_num"] == ("int64_value", 7)


def test_chunks_hold_all_events_once_with_ids_of_their_own() -> None:
    trace = TraceBuilder()
    line = trace.add_host("a").add_plane("p", stats={"s": 1}).add_line("l", timestamp_ns=3)
    for k in range(5):
        line.event(f"op.{k}", k, 1)
    planes = read(trace.to_bytes(layout=Layout(first_id=10, id_step=3, chunk_events=2))).planes
    found = [
        (names[event.metadata_id], event.offset_ps)
        for plane in planes
        for names in [{entry.key: entry.value.name for entry in plane.event_metadata}]
        for chunk in plane.lines
        for event in chunk.events
    ]
    assert found == [(f"op.{k}".encode(), k * 1_000_000) for k in range(5)]
    assert [[entry.key for entry in plane.event_metadata] for plane in planes] == [[10, 13], [10, 13], [10]]
    assert [len(plane.stats) for plane in planes] == [1, 0, 0]


def test_a_copy_is_independent_and_bytes_are_reproducible() -> None:
    trace = small_trace()
    other = trace.copy()
    assert other.to_bytes() == trace.to_bytes()
    other["a"]["/device:TPU:0"]["XLA Ops"].events.clear()
    assert len(trace["a"]["/device:TPU:0"]["XLA Ops"]) == 1


def test_a_wrong_name_says_what_there_is() -> None:
    with pytest.raises(KeyError, match=r"plane '/device:TPU:0' has no line 'Steps'; it has 'XLA Ops'"):
        small_trace()["a"]["/device:TPU:0"]["Steps"]
    with pytest.raises(KeyError, match="the trace has 0 hosts, say which: none"):
        TraceBuilder().to_bytes()


def test_files_of_all_hosts_lie_in_one_session(tmp_path: Path) -> None:
    trace = small_trace()
    trace.add_host("b", hostnames=[]).add_task_environment(1, 2)
    session = trace.write(tmp_path)
    assert session == tmp_path / "plugins" / "profile" / "2026_01_01_00_00_00"
    assert sorted(path.name for path in session.iterdir()) == ["a.xplane.pb", "b.xplane.pb"]
    assert (session / "a.xplane.pb").read_bytes() == trace.to_bytes("a")
    assert list(read(trace.to_bytes("a")).hostnames) == [b"a"]
    assert list(read(trace.to_bytes("b")).hostnames) == []


def test_json_has_the_losses_of_the_real_conversion(tmp_path: Path) -> None:
    trace = small_trace()
    line = trace["a"]["/device:TPU:0"]["XLA Ops"]
    line.events[0].meta["flops"] = 12
    line.event("late", Ps(90_000_000_000_000_001), Ps(1), stats={"blob": b"\x00", "text": Ref("t")})
    trace["a"]["/device:TPU:0"].add_line("Async XLA Ops", timestamp_ns=5).event("async-copy", 0, 1)
    session = trace.write_json(tmp_path)
    text = gzip.decompress((session / "a.trace.json.gz").read_bytes()).decode()
    data = json.loads(text, parse_float=Decimal)
    *_, op, late, last = data["traceEvents"]
    assert op == {
        "ph": "X",
        "pid": 3,
        "tid": 1,
        "ts": 1,
        "dur": Decimal("2.5"),
        "name": "negate.1",
        "args": {
            "long_name": "%negate.1 = f32[8,4]{1,0:T(8,128)} negate(f32[8,4]{1,0:T(8,128)} %a)",
            "hlo_category": "loop fusion",
        },
    }
    assert late["ts"] == Decimal("90000000000.000001")
    assert late["args"] == {"blob": "<opaque bytes>", "text": "t"}
    assert last == {}
    names = {(e["name"], e["args"]["name"]) for e in data["traceEvents"] if e.get("name", "").endswith("_name")}
    assert names == {
        ("process_name", "/device:TPU:0"),
        ("thread_name", "XLA Ops"),
        ("thread_name", "Async XLA Ops"),
    }
    trace.write_json(tmp_path, compress=False)
    assert (session / "a.trace.json").read_text() == text
