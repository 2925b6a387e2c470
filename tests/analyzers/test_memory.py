"""The memory analyzer: nearly full, padded, not donated; silent otherwise, with its reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tpuprof_analyzers.memory import Memory

import tpuprof
from tests.hlo.buffer_helper import TEXT, assignment
from tests.tables.test_memory import trace_of
from tpuprof.analysis import AnalysisResult
from tpuprof.testing import Program, TraceBuilder
from tpuprof.testing.contract import check_analyzer
from tpuprof.trace import Trace

MIB = 1 << 20


def sized(unit: int, *, dims: str = "8,4") -> tuple[Program, bytes]:
    """The helper's program with buffers of this size: 2 arguments, a result, and 3 of working memory."""
    message = assignment()
    for allocation in message.buffer_allocations:
        allocation.size = allocation.size // 4096 * unit
        for assigned in allocation.assigned:
            assigned.size, assigned.offset = unit, assigned.offset // 4096 * unit
    return Program("jit_f", 7, TEXT.replace("8,4", dims)), message.SerializeToString()


def run(trace: Trace) -> AnalysisResult:
    result = check_analyzer(Memory(), trace)
    assert result is not None
    return result


def rules(result: AnalysisResult) -> list[str]:
    return [finding.rule for finding in result.findings]


def with_capacity(folder: Path, program: tuple[Program, bytes], capacity: int) -> Trace:
    """The run, with one event of the allocator of device 0."""
    builder = TraceBuilder()
    host = builder.add_host("hostA")
    plane = host.add_tpu(0)
    plane.add_line("XLA Modules").module(program[0], 0, 90)
    plane.add_line("XLA Ops").op("r", 0, 90, program[0], "loop fusion")
    stats: dict[str, Any] = {"index_on_host": 0, "bytes_allocated": 0, "bytes_available": capacity}
    host.add_thread("python").event("MemoryAllocation", 1, 0, stats=stats)
    host.add_program(program[0])
    entry = host["/host:metadata"].entries[-1]
    raw, buffers = entry.stats["Hlo Proto"], program[1]
    assert isinstance(raw, bytes)
    entry.stats["Hlo Proto"] = raw + b"\x1a" + bytes([len(buffers) & 127 | 128, len(buffers) >> 7]) + buffers
    return tpuprof.load(builder.write(folder))


@pytest.mark.parametrize(("capacity", "found"), [(600, True), (666, True), (667, False), (1000, False)])
def test_a_program_that_takes_nine_tenths_is_told(tmp_path: Path, capacity: int, found: bool) -> None:
    """It needs 6 x 100 MiB."""
    trace = with_capacity(tmp_path, sized(100 * MIB, dims="5120,5120"), capacity * MIB)
    result = run(trace)
    assert ("TPU511" in rules(result)) is found
    if found:
        finding = next(f for f in result.findings if f.rule == "TPU511")
        assert (finding.severity, finding.impact_ps) == ("warning", None)
        assert finding.scope == {"module": "jit_f(7)", "memory_space": "hbm"}
        assert "629.1 MB" in finding.message


def test_without_a_capacity_that_question_is_open(tmp_path: Path) -> None:
    result = run(trace_of(tmp_path, sized(MIB, dims="512,512")))
    assert result.unmet == ("How much memory a device has is not recorded.",)
    assert result.findings == ()


def test_padding_is_told_with_the_array_that_has_most(tmp_path: Path) -> None:
    result = run(trace_of(tmp_path, sized(100 * MIB, dims="1024,1024")))
    finding = next(f for f in result.findings if f.rule == "TPU512")
    assert "(96.00 %) is padding" in finding.message
    assert "104.9 MB for 4.194 MB of elements" in finding.message
    assert {e.name: e.value for e in finding.evidence}["padding_bytes"] == 5 * 96 * MIB
    assert "TPU512" not in rules(run(trace_of(tmp_path / "small", sized(MIB))))


def test_arguments_beside_results_of_their_shape_are_told(tmp_path: Path) -> None:
    text = TEXT.replace("add(%z, %b)", "custom-call(%x, %y, %z)").replace(
        "8,4", "5120,5120"
    )  # everything is needed for the result, which is then live at the peak
    result = run(trace_of(tmp_path, (Program("jit_f", 7, text), sized(100 * MIB)[1])))
    finding = next(f for f in result.findings if f.rule == "TPU513")
    assert "1 argument(s) of jit_f(7) with 104.9 MB" in finding.message
    assert "The largest is params['w']" in finding.message


def test_unknown_memory_is_no_finding(tmp_path: Path) -> None:
    result = run(trace_of(tmp_path, (Program("jit_f", 7), b""), text=False))
    assert result.findings == ()
    assert result.unmet == ("The memory of no program that ran is known (hlo_missing).",)


@pytest.mark.real
def test_the_offload_run_fits(real_traces: Path) -> None:
    """It needs 21.5 of 33.6 GB, and its arguments are donated."""
    result = run(tpuprof.load(real_traces / "v6e-4-host-offload"))
    assert result == AnalysisResult()
