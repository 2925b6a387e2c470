"""Graph launches that the trace does not resolve, kernels that carry marks, and recordings that work covers in part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tpuprof.quality import Quality
from tpuprof.testing import PlaneBuilder, Program, TraceBuilder

US = 1_000_000
START_NS = 1_700_000_000_000_000_000


def entry(trace: TraceBuilder, folder: Path, quality_id: str) -> Quality | None:
    found = [q for q in tpuprof.load(trace.write(folder)).quality if q.id == quality_id]
    assert len(found) <= 1
    return found[0] if found else None


# --- graph launches


def gpu_with_graphs(
    rows: Sequence[tuple[str, int, dict[str, Any]]], calls: Sequence[tuple[str, int, int]], threads: int = 1
) -> TraceBuilder:
    """A GPU with rows of 100 us at these times, and host calls (name, start, correlation)."""
    trace = TraceBuilder()
    host = trace.add_host("hostA")
    stream = host.add_gpu(0).add_line("Stream #1(Kernel)")
    for name, start, stats in rows:
        stream.event(name, start, 100, stats=stats)
    for thread in range(threads):
        line = host.add_thread(f"thread {thread}")
        for name, start, correlation in calls[thread::threads]:
            line.event(name, start, 5, stats={"correlation_id": correlation})
    return trace


def test_kernels_of_a_graph_that_name_their_ops_are_no_matter(tmp_path: Path) -> None:
    rows = [("gemm", 10, {"correlation_id": 1, "hlo_op": "dot.1"}), ("add", 200, {"correlation_id": 2})]
    trace = gpu_with_graphs(rows, [("cuGraphLaunch", 0, 1), ("cuLaunchKernel", 5, 2)])
    assert entry(trace, tmp_path, "opaque_launch") is None


@pytest.mark.parametrize("call", ["cuGraphLaunch", "cudaGraphLaunch", "hipGraphLaunch", "cudaGraphLaunch_ptsz"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_launch_without_any_row_is_told(call: str, threads: int, tmp_path: Path) -> None:
    rows = [("gemm", 10, {"correlation_id": 1, "hlo_op": "dot.1"}), ("gemm", 900, {"correlation_id": 3, "hlo_op": "d"})]
    found = entry(
        gpu_with_graphs(rows, [(call, 0, 1), (call, 300, 2), (call, 890, 3)], threads), tmp_path, "opaque_launch"
    )
    assert found is not None
    assert (found.severity, found.count) == ("warning", 1)
    assert found.message.startswith(
        "Of 1 of 3 graph launches the device shows nothing: their work looks like idle time."
    )
    assert found.message.endswith("XLA_FLAGS=--xla_gpu_enable_command_buffer=")
    assert (found.scope["unseen"], found.scope["hosts"]) == (1, ["hostA"])


def test_a_launch_behind_the_last_row_may_be_cut_off(tmp_path: Path) -> None:
    rows = [("gemm", 10, {"correlation_id": 1, "hlo_op": "dot.1"})]
    trace = gpu_with_graphs(rows, [("cuGraphLaunch", 0, 1), ("cuGraphLaunch", 300, 2)])
    assert entry(trace, tmp_path, "opaque_launch") is None


@pytest.mark.parametrize("name", ["CudaGraphExec:12", "CUDA Graph", "hipGraphLaunch", "cuda_graph"])
def test_a_row_for_a_whole_graph_is_told(name: str, tmp_path: Path) -> None:
    rows = [(name, 10, {"correlation_id": 1}), (name, 200, {"correlation_id": 2})]
    found = entry(
        gpu_with_graphs(rows, [("cuGraphLaunch", 0, 1), ("cuGraphLaunch", 190, 2)]), tmp_path, "opaque_launch"
    )
    assert found is not None
    assert (found.severity, found.count, found.scope["opaque_ps"]) == ("warning", 2, 200 * US)
    assert "2 device row(s) stand for a whole graph each, 200 us in all" in found.message


def test_kernels_without_an_op_are_a_hint_only(tmp_path: Path) -> None:
    rows = [("gemm", 10, {"correlation_id": 1}), ("cuda_graph_attention", 200, {"correlation_id": 1})]
    found = entry(gpu_with_graphs(rows, [("cuGraphLaunch", 0, 1)]), tmp_path, "opaque_launch")
    assert found is not None
    assert (found.severity, found.count, found.scope["unnamed_ps"], found.scope["opaque_rows"]) == (
        "info",
        2,
        200 * US,
        0,
    )
    assert "2 kernel(s) of graphs, 200 us in all, do not name their op" in found.message


def test_graphs_change_no_total(tmp_path: Path) -> None:
    rows = [("CudaGraphExec:12", 10, {"correlation_id": 1})]
    trace = tpuprof.load(gpu_with_graphs(rows, [("cuGraphLaunch", 0, 1)]).write(tmp_path))
    mean = trace.breakdown()
    assert mean is not None
    assert mean["parts"]["other_compute_ps"] == 100 * US


def test_no_device_row_at_all_is_not_about_graphs(tmp_path: Path) -> None:
    trace = gpu_with_graphs([], [("cuGraphLaunch", 0, 1)])
    assert entry(trace, tmp_path, "opaque_launch") is None


# --- instrumented kernels

KERNEL = Program(
    "jit_f",
    3,
    """\
HloModule jit_f, is_scheduled=true

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %my_kernel.1 = f32[64]{0} custom-call(f32[64]{0} %a), custom_call_target="tpu_custom_call"
  ROOT %add.2 = f32[64]{0} add(f32[64]{0} %my_kernel.1, f32[64]{0} %a)
}
""",
)


def kernel_trace() -> tuple[TraceBuilder, PlaneBuilder]:
    trace = TraceBuilder()
    host = trace.add_host("hostA")
    host.add_program(KERNEL)
    tpu = host.add_tpu(0)
    ops = tpu.add_line("XLA Ops")
    for at in (0, 500):
        ops.op("my_kernel.1", at, 300, KERNEL, "custom-call").op("add.2", at + 300, 100, KERNEL, "loop fusion")
    return trace, tpu


def test_scopes_inside_a_kernel_are_told(tmp_path: Path) -> None:
    trace, tpu = kernel_trace()
    tpu.add_line("XLA TraceMe").event("load block", 50, 20).event("dot", 100, 100).event("barrier-cores", 150, 5)
    found = entry(trace, tmp_path, "instrumented_kernel")
    assert found is not None
    assert (found.severity, found.count) == ("warning", 1)
    assert found.scope == {"ops": ["my_kernel.1"], "marks": 2, "fraction": 300 / 800}
    assert found.message.startswith(
        "2 mark(s) of the tracer lie inside 1 kernel(s), 37.5% of the compute time: my_kernel.1."
    )


@pytest.mark.parametrize("name", ["bundle.7", "trace-marker", "Trace Marker.3"])
def test_marks_on_the_op_line_are_told(name: str, tmp_path: Path) -> None:
    trace, tpu = kernel_trace()
    tpu["XLA Ops"].event(name, 600, 0)
    found = entry(trace, tmp_path, "instrumented_kernel")
    assert found is not None
    assert found.scope["marks"] == 1


@pytest.mark.parametrize(
    ("name", "at"),
    [("barrier-cores", 50), ("dependency-wait", 50), ("Trace Buffers Dropped", 50), ("P state", 50), ("scope", 0),
     ("scope", 450), ("scope", 400), ("scope", 10_000)],
)  # fmt: skip
def test_other_rows_of_the_tracer_are_no_instrumentation(name: str, at: int, tmp_path: Path) -> None:
    trace, tpu = kernel_trace()
    tpu.add_line("XLA TraceMe").event(name, at, 1)
    assert entry(trace, tmp_path, "instrumented_kernel") is None


# --- lead-in


def recorded(first: int, last: int, length: int, hosts: int = 1) -> TraceBuilder:
    """Work from ``first`` to ``last`` us in a recording of ``length`` us; every further host begins 1 us later."""
    trace = TraceBuilder()
    for number in range(hosts):
        host = trace.add_host(f"host{number}")
        host.add_task_environment(START_NS, START_NS + length * 1000)
        ops = host.add_tpu(number).add_line("XLA Ops")
        ops.event("fusion.1", first + number, 10, meta={"hlo_category": "loop fusion"})
        ops.event("fusion.2", last - 10, 10, meta={"hlo_category": "loop fusion"})
    return trace


def test_a_lead_in_is_told(tmp_path: Path) -> None:
    found = entry(recorded(400, 900, 1000), tmp_path, "lead_in")
    assert found is not None
    assert (found.severity, found.count) == ("info", 1)
    assert found.scope == {
        "host": "host0",
        "recorded_ps": 1000 * US,
        "before_ps": 400 * US,
        "after_ps": 100 * US,
        "covered": 0.5,
    }
    assert found.message == (
        "Device work covers 50.0% of the 1 ms for which host0 was recorded: it begins 400 us after the start and ends "
        "100 us before the end."
    )


def test_of_several_hosts_the_one_that_is_covered_least_is_named(tmp_path: Path) -> None:
    found = entry(recorded(400, 900, 1000, hosts=3), tmp_path, "lead_in")
    assert found is not None
    assert (found.count, found.scope["host"]) == (3, "host2")
    assert found.message.endswith("; 3 hosts have such a lead-in or lead-out.")


@pytest.mark.parametrize(
    ("first", "last", "length"),
    [(20, 980, 1000), (0, 2000, 1000), (2000, 3000, 1000), (0, 960, 1000)],
)
def test_work_that_covers_the_recording_or_is_on_another_clock_is_no_matter(
    first: int, last: int, length: int, tmp_path: Path
) -> None:
    assert entry(recorded(first, last, length), tmp_path, "lead_in") is None


def test_a_file_that_does_not_say_how_long_it_is_has_no_lead_in(tmp_path: Path) -> None:
    trace = recorded(400, 900, 1000)
    trace["host0"].drop_plane("Task Environment")
    assert entry(trace, tmp_path, "lead_in") is None
    backwards = recorded(400, 900, 1000)
    backwards["host0"].drop_plane("Task Environment")
    backwards["host0"].add_task_environment(START_NS, START_NS - 5)
    assert entry(backwards, tmp_path / "b", "lead_in") is None


# --- the window that was asked for


def captured(folder: Path, trigger: object, **notes: object) -> Quality | None:
    """The entry for three steps of 1000 us, captured as the notes say."""
    trace = TraceBuilder()
    tpu = trace.add_host("hostA").add_tpu(0)
    steps, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
    for number in range(3):
        steps.event(str(number), 1000 * number, 1000)
        ops.event("fusion.1", 1000 * number, 1000, meta={"hlo_category": "loop fusion"})
    path = trace.write(folder)
    (path / "tpuprof.json").write_text(json.dumps({"trigger": trigger, **notes}))
    found = [q for q in tpuprof.load(path).quality if q.id == "window_not_covered"]
    return found[0] if found else None


def test_fewer_steps_than_asked_for_are_told(tmp_path: Path) -> None:
    found = captured(tmp_path, "launcher: steps 10:15")
    assert found is not None
    assert (found.severity, found.scope) == ("warning", {"asked_steps": 5, "steps": 3})
    assert found.message == (
        "The capture was asked for 5 steps; the trace holds 3. Data may have been dropped, or the program did "
        "something else meanwhile."
    )


@pytest.mark.parametrize("trigger", ["steps 10:15", "grab: 0.005 s of time"])
def test_all_ways_to_capture_are_held_to_their_word(trigger: str, tmp_path: Path) -> None:
    assert captured(tmp_path, trigger) is not None


def test_a_window_that_the_budget_shortened_is_covered(tmp_path: Path) -> None:
    notes = {"first_step": 10, "stop_step": 13, "stop_step_wanted": 15}
    assert captured(tmp_path, "launcher: steps 10:15", **notes) is None
    assert captured(tmp_path / "b", "launcher: steps 10:15", **{**notes, "stop_step": 15}) is not None


def test_less_time_than_asked_for_is_told(tmp_path: Path) -> None:
    found = captured(tmp_path, "launcher: 0.005 s of time")
    assert found is not None
    assert found.scope == {"asked_ps": 5_000 * US, "covered_ps": 3_000 * US}
    assert found.message.startswith("The capture was asked for 5 ms; device work covers 3 ms from its first op to its ")


@pytest.mark.parametrize(
    "trigger",
    ["launcher: steps 10:13", "launcher: steps 10:12", "launcher: 0.003 s of time", "launcher: 0.00315 s of time",
     "context manager", None, 7, [], "launcher: steps 13:10", "launcher: 1e9 s of time"],
)  # fmt: skip
def test_a_window_that_is_covered_or_unknown_is_no_matter(trigger: object, tmp_path: Path) -> None:
    assert captured(tmp_path, trigger) is None


def test_a_capture_that_ended_early_says_so_alone(tmp_path: Path) -> None:
    assert captured(tmp_path, "launcher: steps 10:15", complete=False) is None
