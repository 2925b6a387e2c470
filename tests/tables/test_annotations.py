"""Which step annotations count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tpuprof
from tpuprof.testing import Program, TraceBuilder

STEP = Program("jit_step", 7)
OP = "add.1"


def run(tmp_path: Path, *annotations: tuple[int, int, int, int]) -> Any:
    """A CPU run of three programs, launched at 100, 1100 and 2100 us and running for 500 us each.

    Annotations are (thread, step number, start, duration).
    """
    host = TraceBuilder()
    one = host.add_host("h")
    threads = {thread: one.add_thread(f"thread-{thread}") for thread in sorted({a[0] for a in annotations})}
    worker = one.add_thread("tf_XLAPjRtCpuClient")
    for k in range(3):
        launch = 100 + 1000 * k
        next(iter(threads.values())).event("Execute (jit_step)", launch, 50, stats={"run_id": 500 + k})
        worker.cpu_op(OP, launch + 100, 500, STEP, run_id=500 + k)
    for thread, number, start, duration in annotations:
        threads[thread].step(number, start, duration)
    host.write(tmp_path)
    return tpuprof.load(tmp_path)


def windows(trace: Any) -> list[tuple[int, int]]:
    steps = trace.steps
    return [(int(n), int(s) // 1_000_000) for n, s in zip(steps["step"], steps["start_ps"], strict=True)]


PLAIN = [(0, k, 1000 * k, 900) for k in range(3)]


def test_each_annotation_takes_the_work_launched_inside_it(tmp_path: Path) -> None:
    trace = run(tmp_path, *PLAIN)
    assert trace.step_source == "host_annotation"
    assert windows(trace) == [(0, 200), (1, 1200), (2, 2200)]
    assert [entry.id for entry in trace.quality if entry.id == "no_device_work"] == []


def test_an_annotation_inside_one_of_the_same_step_says_nothing_new(tmp_path: Path) -> None:
    trace = run(tmp_path, *PLAIN, *((0, k, 1000 * k + 10, 800) for k in range(3)))
    assert windows(trace) == [(0, 200), (1, 1200), (2, 2200)]
    assert {entry.id for entry in trace.quality} <= {"hlo_missing"}


def test_the_same_steps_on_a_second_thread_are_the_same_steps(tmp_path: Path) -> None:
    trace = run(tmp_path, *PLAIN, *((1, k, 1000 * k + 30, 900) for k in range(3)))
    assert windows(trace) == [(0, 200), (1, 1200), (2, 2200)]
    assert {entry.id for entry in trace.quality} <= {"hlo_missing"}


def test_numbers_that_start_again_are_numbered_in_order(tmp_path: Path) -> None:
    trace = run(tmp_path, (0, 5, 0, 900), (0, 6, 1000, 900), (0, 5, 2000, 900))
    assert windows(trace) == [(0, 200), (1, 1200), (2, 2200)]
    assert "step_numbers_repeat" in {entry.id for entry in trace.quality}


def test_an_annotation_without_device_work_is_named(tmp_path: Path) -> None:
    trace = run(tmp_path, *PLAIN, (0, 3, 3000, 900))
    assert windows(trace) == [(0, 200), (1, 1200), (2, 2200)]
    (entry,) = [entry for entry in trace.quality if entry.id == "no_device_work"]
    assert entry.scope["steps"] == [3]
    assert entry.message.startswith("Step 3 of h/CPU:0 holds no device op")


def test_annotations_without_device_work_are_named_in_one_entry(tmp_path: Path) -> None:
    trace = run(tmp_path, *PLAIN, *((0, k, 1000 * k, 900) for k in (3, 4, 5, 7)))
    (entry,) = [entry for entry in trace.quality if entry.id == "no_device_work"]
    assert entry.count == 4
    assert entry.scope["steps"] == [3, 4, 5, 7]
    assert "4 steps of h/CPU:0 hold no device op: 3 to 5, 7." in entry.message


def test_the_thread_that_does_the_work_does_not_say_when_it_was_launched(tmp_path: Path) -> None:
    """jax on one CPU device: the host runs ahead, and only the device's thread states the run."""
    trace = ran_ahead(tmp_path, executions=3)
    assert [(n, s) for n, s in windows(trace)] == [(0, 5000), (1, 6000), (2, 7000)]
    assert list(trace.partition["elementwise_ps"]) == [500_000_000] * 3
    assert "no_device_work" not in {entry.id for entry in trace.quality}


def test_work_that_cannot_be_shared_out_in_order_is_assigned_by_time_and_says_so(tmp_path: Path) -> None:
    trace = ran_ahead(tmp_path, executions=4)
    assert {"steps_by_time", "no_device_work"} <= {entry.id for entry in trace.quality}


def ran_ahead(tmp_path: Path, executions: int) -> Any:
    """Annotations of three steps at 0, 100 and 200 us; the work follows from 5 ms on, a millisecond apart."""
    host = TraceBuilder()
    one = host.add_host("h")
    main, worker = one.add_thread("python"), one.add_thread("tf_XLAPjRtCpuClient")
    for k in range(3):
        main.step(k, 100 * k, 90)
    for k in range(executions):
        at = 5000 + 1000 * k
        worker.cpu_op(OP, at, 500, STEP, run_id=500 + k)
        worker.event("ThunkExecutor::Execute (wait for completion)", at + 500, 1, stats={"run_id": 500 + k})
    host.write(tmp_path)
    return tpuprof.load(tmp_path)
