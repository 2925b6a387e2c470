"""Threads over cores: the same numbers, in the same order, and the first error."""

from __future__ import annotations

import threading
from pathlib import Path

import pandas as pd
import pytest

import tpuprof
from tpuprof.tables import build, per_core
from tpuprof.testing import TraceBuilder

TABLES = ("ops", "modules", "steps", "partition", "segments", "gaps", "collectives", "arrivals")


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Lets threads be used however small the run is, and records which ones were."""
    used: set[str] = set()
    nest = build.nest

    def seen(*arguments: object) -> object:
        used.add(threading.current_thread().name)
        return nest(*arguments)

    monkeypatch.setattr(per_core, "THREADS_FROM_ROWS", 1)
    monkeypatch.setattr(per_core, "usable_cores", lambda: 3)
    monkeypatch.setattr(build, "nest", seen)
    return used


def pod(folder: Path) -> Path:
    """Two hosts of two cores each, of which each has times of its own."""
    trace = TraceBuilder()
    for h, host in enumerate(("hostA", "hostB")):
        added = trace.add_host(host)
        for ordinal in range(2):
            tpu = added.add_tpu(ordinal)
            steps, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
            late = 10 * h + 5 * ordinal
            for step in range(4):
                at = 1000 * step
                steps.event(str(step), at, 1000)
                ops.event("while.1", at, 900, meta={"hlo_category": "while"})
                ops.event("fusion.1", at, 400 + late, meta={"hlo_category": "loop fusion"})
                ops.event("all-reduce.3", at + 700, 150 - late, meta={"hlo_category": "all-reduce"})
    return trace.write(folder)


def test_threads_change_no_table(tmp_path: Path, threaded: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = pod(tmp_path)
    in_threads = tpuprof.load(path)
    assert threaded
    assert all(name != threading.main_thread().name for name in threaded)
    threaded.clear()
    monkeypatch.setattr(per_core, "THREADS_FROM_ROWS", 1 << 60)
    alone = tpuprof.load(path)
    assert threaded == {threading.main_thread().name}
    assert in_threads.quality == alone.quality
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(in_threads, name), getattr(alone, name))


def test_results_come_in_the_order_of_the_cores(threaded: set[str]) -> None:
    gate = threading.Event()

    def slow_first(core: int) -> int:
        if core == 0:
            assert gate.wait(10)
        else:
            gate.set()
        return core * core

    assert per_core.per_core(slow_first, 10, [0, 1, 2]) == [0, 1, 4]


def test_the_first_cores_error_is_raised(threaded: set[str]) -> None:
    def fails(core: int) -> None:
        raise ValueError(f"core {core}")

    with pytest.raises(ValueError, match="core 0"):
        per_core.per_core(fails, 10, [0, 1, 2])


def test_small_runs_use_no_threads() -> None:
    names = per_core.per_core(lambda _: threading.current_thread().name, per_core.THREADS_FROM_ROWS - 1, [0, 1])
    assert set(names) == {threading.main_thread().name}


def test_no_core_at_all() -> None:
    assert per_core.per_core(lambda core: core, 1 << 40, []) == []
