"""Tables `memory` and `memory_summary`, and `peak`: built traces with known answers, and the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tpuprof
from tests.hlo.buffer_helper import PADDED, TEXT, assignment
from tpuprof.hlo import parse_text
from tpuprof.tables import memory as memory_tables
from tpuprof.tables.memory import peak, place_of
from tpuprof.testing import Program, TraceBuilder
from tpuprof.trace import Trace

TOTALS = ("arguments_bytes", "output_bytes", "aliased_bytes", "temp_bytes", "constants_bytes", "total_bytes")


def trace_of(folder: Path, *programs: tuple[Program, bytes], device: str = "tpu", text: bool = True) -> Trace:
    """A run of these programs, one after the other, each with the buffer assignment beside it."""
    builder = TraceBuilder()
    host = builder.add_host("hostA")
    plane = host.add_tpu(0) if device == "tpu" else host.add_gpu(0)
    modules, ops = plane.add_line("XLA Modules"), plane.add_line("XLA Ops" if device == "tpu" else "Stream #1(Kernel)")
    for at, (program, buffers) in enumerate(programs):
        modules.module(program, at * 100, 90)
        facts = {"hlo_op": "r", "hlo_module": program.name, "program_id": program.id}
        ops.op("r", at * 100, 90, program, "loop fusion", stats={} if device == "tpu" else facts)
        if text:
            host.add_program(program)
            entry = host["/host:metadata"].entries[-1]
            raw = entry.stats.get("Hlo Proto", b"")
            assert isinstance(raw, bytes)
            # Field 3 of HloProto; messages that follow each other merge.
            length = len(buffers)
            entry.stats["Hlo Proto"] = raw + b"\x1a" + bytes([length & 127 | 128, length >> 7]) + buffers
    return tpuprof.load(builder.write(folder))


def buffers_of(change: Any = None) -> bytes:
    message = assignment()
    if change is not None:
        change(message)
    data: bytes = message.SerializeToString()
    assert len(data) < 1 << 14
    return data


F = Program("jit_f", 7, TEXT)


def test_what_a_program_needs_and_what_is_live_at_its_peak(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, (F, buffers_of()))
    (row,) = trace.memory_summary.to_dict("records")
    assert (row["module"], row["memory_space"]) == ("jit_f(7)", "hbm")
    assert [row[name] for name in TOTALS] == [2 * PADDED, PADDED, 0, 3 * PADDED, 0, 6 * PADDED]
    assert (row["peak_bytes"], row["temp_peak_bytes"], row["live_buffers"]) == (5 * PADDED, 3 * PADDED, 5)
    assert row["padding_bytes"] == 5 * (PADDED - 128)
    assert (row["peak_op"], pd.isna(row["peak_scope"]), pd.isna(row["reason"])) == ("z", True, True)
    live = trace.memory
    assert live["op"].tolist() == ["a", "b", "x", "z", "y"]
    assert live["kind"].tolist() == ["parameter", "parameter", "temp", "temp", "temp"]
    assert live["bytes"].sum() == row["peak_bytes"]
    x = live[live["op"] == "x"].iloc[0]
    assert (x["opcode"], x["scope"], x["source"]) == ("add", "jit(f)/mlp/add", "m.py:7")
    assert (x["shape"], x["unpadded_bytes"], x["offset_bytes"]) == ("f32[8,4]{1,0:T(8,128)}", 128, 0)
    assert live["scope"].iloc[0] == "params['w']"


def test_a_copy_has_the_scope_of_what_it_copies(tmp_path: Path) -> None:
    text = TEXT.replace("%z = f32[8,4]{1,0:T(8,128)} multiply(%x, %y)", "%z = f32[8,4]{1,0:T(8,128)} copy(%y)")
    program = Program("jit_f", 7, text.replace("add(%z, %b)", "add(%z, %x)"))
    live = trace_of(tmp_path, (program, buffers_of())).memory
    assert live.set_index("op")["scope"]["z"] == "jit(f)/mlp/mul"


@pytest.mark.parametrize(
    ("buffers", "text", "reason"),
    [
        (buffers_of(lambda m: m.ClearField("buffer_allocations")), TEXT, "buffers_missing"),
        (buffers_of(lambda m: setattr(m.buffer_allocations[0], "size", -1)), TEXT, "buffers_damaged"),
        (buffers_of(), "", "hlo_missing"),
    ],
)
def test_unknown_memory_is_null_with_a_reason(tmp_path: Path, buffers: bytes, text: str, reason: str) -> None:
    trace = trace_of(tmp_path, (Program("jit_f", 7, text), buffers), text=bool(text))
    (row,) = trace.memory_summary.to_dict("records")
    assert row.pop("module") == "jit_f(7)"
    assert row.pop("reason") == reason
    assert all(pd.isna(value) for value in row.values())
    assert trace.memory.empty
    assert peak(trace) is None


def test_without_a_schedule_totals_are_known_and_peaks_are_not(tmp_path: Path) -> None:
    program = F.with_text(", is_scheduled=true", "")
    trace = trace_of(tmp_path, (program, buffers_of()))
    (row,) = trace.memory_summary.to_dict("records")
    assert (row["total_bytes"], row["reason"]) == (6 * PADDED, "not_scheduled")
    assert pd.isna(row["peak_bytes"])
    found = peak(trace)
    assert found is not None
    assert (found.total_bytes, found.peak_bytes, len(found.live)) == (6 * PADDED, None, 0)


def test_the_peak_of_a_run_is_that_of_the_program_that_needs_most(tmp_path: Path) -> None:
    def larger(message: Any) -> None:
        message.buffer_allocations[3].size = 100 * PADDED

    def in_host_memory(message: Any) -> None:
        larger(message)
        for allocation in message.buffer_allocations:
            allocation.color = 5

    trace = trace_of(
        tmp_path,
        (F, buffers_of()),
        (Program("jit_g", 8, TEXT.replace("jit_f", "jit_g")), buffers_of(larger)),
        (Program("jit_h", 9, TEXT.replace("jit_f", "jit_h")), buffers_of(in_host_memory)),
    )
    assert trace.memory_summary["module"].tolist() == ["jit_f(7)", "jit_g(8)", "jit_h(9)"]
    found = peak(trace)
    assert found is not None
    assert (found.module, found.memory_space, found.total_bytes) == ("jit_g(8)", "hbm", 103 * PADDED)
    assert (found.peak_bytes, found.summary["temp_bytes"]) == (5 * PADDED, 100 * PADDED)
    assert found.live["op"].tolist() == ["a", "b", "x", "z", "y"]
    offloaded = peak(trace, "host")
    assert offloaded is not None
    assert (offloaded.module, offloaded.memory_space) == ("jit_h(9)", "host")
    assert peak(trace, "vmem") is None


def test_rows_are_bounded_and_the_count_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_tables, "MAX_LIVE_ROWS", 2)
    trace = trace_of(tmp_path, (F, buffers_of()))
    assert trace.memory["op"].tolist() == ["a", "b"]
    assert trace.memory_summary["live_buffers"].tolist() == [5]


def test_memory_spaces_have_their_names_on_a_gpu(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, (F, buffers_of(lambda m: setattr(m.buffer_allocations[3], "color", 1))), device="gpu")
    assert trace.devices[0].platform == "gpu"
    assert trace.memory_summary["memory_space"].tolist() == ["hbm", "collective"]


def test_a_run_without_device_work_has_empty_tables(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add_host("hostA").add_thread("python").event("f", 0, 10)
    trace = tpuprof.load(builder.write(tmp_path))
    assert trace.memory.empty
    assert trace.memory_summary.empty
    assert trace.memory_events.empty
    assert trace.allocators.empty
    assert peak(trace) is None


@pytest.mark.real
def test_host_offload_needs_most(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    found = peak(trace)
    assert found is not None
    assert (found.module.partition("(")[0], found.memory_space) == ("jit_f", "hbm")
    assert (found.total_bytes, found.peak_bytes) == (21_474_934_816, 21_474_836_544)
    # A copy that waits for host memory has the name of the argument that it brings.
    assert found.live["scope"].tolist()[1:4] == ["ws[2]", "ws[1]", "ws[0]"]
    host = peak(trace, "host")
    assert host is not None
    assert host.live["aliased"].tolist() == [True] * 3


@pytest.mark.real
def test_the_runtime_reserves_what_the_compiler_assigned(real_traces: Path) -> None:
    """While `jit_f` runs, every chip reserves its working memory and 16 MiB more."""
    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    found = peak(trace)
    assert found is not None
    assert (trace.allocators["max_reserved_bytes"] - found.summary["temp_bytes"]).tolist() == [16 << 20] * 4


@pytest.mark.real
def test_a_json_trace_has_no_memory(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v7x-2-prefill")
    assert set(trace.memory_summary["reason"]) == {"hlo_missing"}
    assert trace.memory.empty


LOOP = """HloModule loop, is_scheduled=true

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[8]{0} get-tuple-element(%p), index=1
  %c = f32[8]{0} copy(%v)
  %next = f32[8]{0} tanh(%c), metadata={op_name="jit(f)/while/body/tanh" source_file="m.py" source_line=4}
  ROOT %t = (s32[], f32[8]{0}) tuple(%i, %next)
}

%condition (q: (s32[], f32[8])) -> pred[] {
  %q = (s32[], f32[8]{0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  ROOT %less = pred[] compare(%j, %j), direction=LT
}

ENTRY %main (a: (s32[], f32[8])) -> f32[8] {
  %a = (s32[], f32[8]{0}) parameter(0), metadata={op_name="arguments"}
  %w = (s32[], f32[8]{0}) while(%a), condition=%condition, body=%body, metadata={op_name="jit(f)/while"}
  ROOT %g = f32[8]{0} get-tuple-element(%w), index=1
}
"""


@pytest.mark.parametrize(
    ("op", "index", "place"),
    [
        ("next", (), ("jit(f)/while/body/tanh", "m.py:4")),
        ("w", (1,), ("jit(f)/while/body/tanh", "m.py:4")),  # what the body makes, not the loop
        ("p", (1,), ("jit(f)/while/body/tanh", "m.py:4")),
        ("q", (1,), ("jit(f)/while/body/tanh", "m.py:4")),
        ("g", (), ("jit(f)/while/body/tanh", "m.py:4")),
        ("c", (), ("jit(f)/while/body/tanh", "m.py:4")),
        ("w", (0,), ("jit(f)/while", None)),  # the body only hands it on
        ("w", (), ("jit(f)/while", None)),
        ("w", (7,), ("jit(f)/while", None)),
        ("a", (), ("arguments", None)),
        ("less", (), (None, None)),
    ],
)
def test_a_value_has_the_place_where_it_was_made(op: str, index: tuple[int, ...], place: tuple[Any, Any]) -> None:
    module = parse_text(LOOP)
    assert place_of(module.instruction(op), module, index) == place


def test_an_unknown_instruction_has_no_place() -> None:
    assert place_of(None, parse_text(LOOP)) == (None, None)
