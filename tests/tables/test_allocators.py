"""Tables `memory_events` and `allocators`: what hosts record when device memory is taken and given back."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import tpuprof
from tpuprof.tables.allocators import taken_over_time
from tpuprof.testing import Stat, TraceBuilder, Unsigned
from tpuprof.trace import Trace

US = 1_000_000


def stats(allocated: int, *, reserved: int = 0, capacity: int = 1000, **others: Stat) -> dict[str, Stat]:
    return {
        "bytes_allocated": allocated,
        "bytes_available": capacity - allocated - reserved,
        "bytes_reserved": reserved,
        "peak_bytes_in_use": 900,
        "fragmentation": allocated / 1000,
        **others,
    }


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    builder = TraceBuilder()
    host = builder.add_host("hostA")
    tpu = host.add_tpu(0)
    ops = tpu.add_line("XLA Ops")
    for step in range(2):
        ops.event("fusion.1", 100 + 100 * step, 50, meta={"hlo_category": "loop fusion"})
    python = host.add_thread("python")
    python.step(4, 90, 80).step(5, 190, 80)
    bfc: dict[str, Stat] = {"allocator_name": "GPU_0_bfc", "requested_bytes": 90, "allocation_bytes": 100}
    python.event("MemoryAllocation", 10, 0, stats=stats(100, **bfc))
    python.event("MemoryAllocation", 200, 0, stats=stats(400, **bfc, tf_op="f/dot", shape="f32[25]"))
    other = host.add_thread("worker")
    other.event("MemoryDeallocation", 210, 0, stats=stats(200, reserved=150, **bfc))
    other.event("MemoryAllocation", 120, 0, stats=stats(10, reserved=700, index_on_host=1))
    other.event("MemoryAllocation", 130, 0, stats=stats(20, index_on_host=Unsigned(1)))
    other.event("SomethingElse", 140, 0, stats=stats(999, **bfc))
    return tpuprof.load(builder.write(tmp_path))


def test_events_in_order_of_time(trace: Trace) -> None:
    events = trace.memory_events
    assert [(at - events["start_ps"].iloc[0]) // US for at in events["start_ps"]] == [0, 110, 120, 190, 200]
    assert events["event"].tolist() == ["allocate", "allocate", "allocate", "allocate", "release"]
    assert events["allocator"].tolist() == ["GPU_0_bfc", "device 1", "device 1", "GPU_0_bfc", "GPU_0_bfc"]
    assert events["allocated_bytes"].tolist() == [100, 10, 20, 400, 200]
    assert events["step"].isna().tolist() == [True, False, False, False, False]
    assert events["step"].tolist()[1:] == [4, 4, 5, 5]
    assert events["bytes"].isna().tolist() == [False, True, True, False, False]
    last = events.iloc[3]
    assert (last["op"], last["shape"], last["bytes"], last["requested_bytes"]) == ("f/dot", "f32[25]", 100, 90)
    assert last["fragmentation"] == 0.4


def test_the_fullest_moment_counts_what_is_reserved(trace: Trace) -> None:
    device, bfc = trace.allocators.to_dict("records")
    assert (device["allocator"], device["allocations"], device["releases"]) == ("device 1", 2, 0)
    assert (device["max_bytes"], device["max_reserved_bytes"], device["capacity_bytes"]) == (710, 700, 1000)
    assert (device["first_bytes"], device["last_bytes"], device["max_step"]) == (710, 20, 4)
    assert (bfc["allocator"], bfc["allocations"], bfc["releases"]) == ("GPU_0_bfc", 2, 1)
    assert (bfc["max_bytes"], bfc["max_step"], bfc["process_peak_bytes"]) == (400, 5, 900)
    assert bfc["max_at_ps"] - trace.memory_events["start_ps"].iloc[0] == 190 * US
    assert bfc["max_fragmentation"] == 0.4


def test_a_selection_of_steps_keeps_their_events(trace: Trace) -> None:
    chosen = trace.select(steps=[5])
    assert chosen.memory_events["allocated_bytes"].tolist() == [400, 200]
    assert chosen.allocators["allocator"].tolist() == ["GPU_0_bfc"]


def test_values_that_cannot_be_true_are_null(tmp_path: Path) -> None:
    builder = TraceBuilder()
    thread = builder.add_host("hostA").add_thread("python")
    thread.event("MemoryAllocation", 0, 0, stats={"bytes_allocated": -5, "fragmentation": 7.0})
    thread.event("MemoryAllocation", 1, 0, stats={"bytes_allocated": Unsigned(1 << 63), "bytes_available": 1 << 62})
    thread.event("MemoryDeallocation", 2, 0)
    trace = tpuprof.load(builder.write(tmp_path))
    events = trace.memory_events
    assert events["allocator"].tolist() == ["unknown"] * 3
    assert events[["allocated_bytes", "available_bytes", "fragmentation"]].isna().all(axis=None)
    (row,) = trace.allocators.to_dict("records")
    assert (row["allocations"], row["releases"]) == (2, 1)
    assert all(pd.isna(row[name]) for name in ("max_bytes", "max_at_ps", "capacity_bytes", "max_fragmentation"))


@pytest.mark.real
def test_a_gpu_with_two_allocators(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "mi300-gemm" / "tw003.xplane.pb")
    assert len(trace.memory_events) == 162
    rows = trace.allocators.set_index("allocator")
    assert rows.index.tolist() == ["GPU_0_bfc", "xla_gpu_host_bfc"]
    assert rows["max_bytes"].tolist() == [482_345_216, 256]
    assert rows["process_peak_bytes"].tolist() == [738_197_504, 256]
    assert (rows["allocations"] + rows["releases"]).sum() == 162


@pytest.mark.real
def test_a_trace_without_such_events_has_none(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v5e-1-matmul")
    assert trace.memory_events.empty
    assert trace.allocators.empty


def test_what_was_taken_over_time(trace: Trace) -> None:
    taken = taken_over_time(trace.memory_events)
    assert taken["allocator"].tolist() == ["GPU_0_bfc", "device 1", "device 1", "GPU_0_bfc", "GPU_0_bfc"]
    assert taken["taken_bytes"].tolist() == [100, 710, 20, 400, 350]
    assert taken["start_ps"].tolist() == trace.memory_events["start_ps"].tolist()
    assert taken.groupby("allocator")["taken_bytes"].max().to_dict() == {
        row["allocator"]: row["max_bytes"] for row in trace.allocators.to_dict("records")
    }
    assert len(taken_over_time(trace.memory_events.iloc[:0])) == 0
