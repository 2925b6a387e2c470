"""The CPU backend: ops of several devices on several threads. Times are microseconds per step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.accuracy.truth import Case
from tests.tables.oracle import Core, Span
from tpuprof.testing import LineBuilder, Program, Stat, TraceBuilder

SESSION_START_NS = 1_764_000_000_000_000_000
STEPS = 8
PROGRAM = Program("jit_train", 7, Path(__file__).with_name("cpu.hlo.txt").read_text(encoding="utf-8"))
KINDS = {"ynn_fusion": "matmul", "tanh.1": "elementwise", "all-reduce.1": "collective"}

Work = tuple[int, str, int, int]  # thread, op, start within the step, duration


def _devices(
    name: str, what: str, length: int, works: tuple[tuple[Work, ...], ...], by_hand: Mapping[str, float]
) -> Case:
    trace = TraceBuilder("2025_11_24_16_00_00")
    host = trace.add_host("host0")
    python = host.add_thread("python")
    threads = [host.add_thread(f"tf_XLAEigen/{100 + n}") for n in range(4)]
    cores: dict[str, list[Span]] = {f"host0/CPU:{ordinal}": [] for ordinal in range(len(works))}
    for step in range(STEPS):
        at = 1_000 + step * length
        python.step(step, at - 20, length - 10)
        python.event("TfrtCpuExecutable::Execute", at - 15, 5, stats={"run_id": step + 1})
        for ordinal, (device, work) in enumerate(zip(cores, works, strict=True)):
            for thread, op, start, duration in work:
                _op(threads[thread], op, at + start, duration, step + 1, ordinal)
                cores[device].append(Span((at + start) * 1_000_000, (at + start + duration) * 1_000_000, KINDS[op]))
                if op == "all-reduce.1":
                    wait: dict[str, Stat] = {"name": "all-reduce.1", "id": step, "num_threads": 2}
                    threads[thread].event("Rendezvous", at + start + 1, duration - 2, stats=wait)
    host.add_program(PROGRAM)
    host.add_task_environment(SESSION_START_NS, SESSION_START_NS + 60_000_000_000)
    starts = [(1_000 + step * length) * 1_000_000 for step in range(STEPS - 1)]
    windows = tuple((start, start + length * 1_000_000) for start in starts)
    return Case(
        name, what, trace, {device: Core(tuple(done)) for device, done in cores.items()},
        dict.fromkeys(cores, windows), by_hand, occasions=STEPS * len(works),
    )  # fmt: skip


def _op(thread: LineBuilder, name: str, start: int, duration: int, run: int, ordinal: int) -> None:
    thread.cpu_op(name, start, duration, PROGRAM, run_id=run, device_ordinal=ordinal)


def one_device() -> Case:
    work = ((0, "ynn_fusion", 0, 200), (1, "tanh.1", 150, 100), (0, "all-reduce.1", 260, 50))
    truth = {"step": 350, "matmul": 200, "compute": 250, "collective exposed": 50, "idle": 50}
    return _devices(
        "ops of one device on two threads", "A matmul is called `ynn_fusion`; two threads overlap.", 350, (work,), truth
    )


def two_devices() -> Case:
    works: tuple[tuple[Work, ...], ...] = (
        ((0, "ynn_fusion", 0, 100), (0, "tanh.1", 100, 20), (0, "all-reduce.1", 120, 150)),
        ((1, "ynn_fusion", 0, 220), (1, "tanh.1", 220, 20), (1, "all-reduce.1", 240, 30)),
    )
    truth = {"step": 300, "matmul": 160, "compute": 180, "collective exposed": 90, "idle": 30}
    return _devices(
        "Rendezvous of two devices", "The early device waits in `Rendezvous`, inside its all-reduce.", 300, works, truth
    )


def waiting_thread_works() -> Case:
    work = ((0, "ynn_fusion", 0, 100), (0, "all-reduce.1", 100, 120), (0, "tanh.1", 130, 40))
    truth = {"step": 250, "matmul": 100, "compute": 140, "collective exposed": 80, "collective hidden": 40, "idle": 30}
    return _devices(
        "a waiting thread runs another op", "The row of the all-reduce encloses that of a tanh.", 250, (work,), truth
    )


CASES = (one_device, two_devices, waiting_thread_works)
