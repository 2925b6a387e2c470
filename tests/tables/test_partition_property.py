"""The partition of random small traces against brute force, and what must not change it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.oracle import PARTS, Core, Span, divide
from tests.tables.random_traces import ZOO, Truth, truths
from tpuprof.testing import Event, Layout, Stat, TraceBuilder

few = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
fewer = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Rows = dict[tuple[str, int], dict[str, int]]


def partition_of(trace: TraceBuilder, layout: Layout | None = None) -> Rows:
    """Per device and step the row of the partition, with the start counted from the first step of all."""
    with tempfile.TemporaryDirectory() as directory:
        loaded: Any = tpuprof.load(trace.write(Path(directory), layout))
        records: list[dict[str, Any]] = loaded.partition.to_dict("records")
    first = min(row["start_ps"] for row in records)
    return {
        (row["device"], row["step"]): {
            **{name: int(row[f"{name}_ps"]) for name in (*PARTS, "hidden_collective", "hidden_dma")},
            "idle_dma_in_flight": int(row["idle_dma_in_flight_ps"]),
            "start": int(row["start_ps"]) - first,
            "duration": int(row["duration_ps"]),
        }
        for row in records
    }


def expected_of(truth: Truth) -> Rows:
    """The same by brute force from what the trace was built of; no host work could explain any idle time."""
    first = min(start for windows in truth.windows.values() for start, _ in windows.values())
    rows: Rows = {}
    for device, windows in truth.windows.items():
        for step, (start, end) in windows.items():
            row = divide(truth.cores[device], start, end)
            row["start"], row["duration"] = start - first, end - start
            rows[device, step] = row
    return rows


@few
@given(truths())
def test_parts_equal_brute_force_and_sum_to_the_window(truth: Truth) -> None:
    found = partition_of(truth.trace)
    assert found == expected_of(truth)
    assert all(sum(row[part] for part in PARTS) == row["duration"] for row in found.values())


def shuffled(trace: TraceBuilder, rng: random.Random) -> TraceBuilder:
    rng.shuffle(trace.hosts[0].planes)
    for plane in trace.hosts[0]:
        rng.shuffle(plane.lines)
    return trace


def later(trace: TraceBuilder, rng: random.Random) -> TraceBuilder:
    """The whole session some time later, on another clock origin."""
    ns = rng.randrange(1, 10**15)
    environment = trace.hosts[0]["Task Environment"]
    trace.hosts[0].drop_plane("Task Environment")
    start, stop = (environment.stats[name] for name in ("profile_start_time", "profile_stop_time"))
    trace.hosts[0].add_task_environment(start.value + ns, stop.value + ns)  # pyright: ignore
    return trace


def enclosed(trace: TraceBuilder, _: random.Random) -> TraceBuilder:
    """All ops of every TPU inside one more loop."""
    for plane in trace.hosts[0]:
        if "XLA Ops" in plane:
            events = plane["XLA Ops"].events
            begin, end = min(e.start_ps for e in events), max(e.end_ps for e in events)
            meta: dict[str, Stat] = {"program_id": ZOO.id, "hlo_category": "while"}
            events.insert(0, Event("while.12", begin, end - begin, ZOO.instruction("while.12"), meta))
    return trace


@pytest.mark.parametrize("change", [shuffled, later, enclosed])
@fewer
@given(truth=truths(), seed=st.integers(0, 2**32))
def test_what_must_not_change_the_partition(
    change: Callable[[TraceBuilder, random.Random], TraceBuilder], truth: Truth, seed: int
) -> None:
    changed = change(truth.trace.copy(), random.Random(seed))
    assert partition_of(changed) == partition_of(truth.trace)


@fewer
@given(truths(), st.integers(1, 1000), st.integers(1, 1000), st.sampled_from([None, 1, 2, 3]))
def test_ids_and_chunks_do_not_change_the_partition(truth: Truth, first: int, step: int, chunk: int | None) -> None:
    assert partition_of(truth.trace, Layout(first, step, chunk)) == partition_of(truth.trace)


# The oracle itself, on the instants that the definition names one by one.
ASYNC = (Span(0, 10, "collective"),)


@pytest.mark.parametrize(
    ("core", "part"),
    [
        (Core((Span(0, 10, "matmul"), Span(0, 10, "elementwise")), ASYNC), "matmul"),
        (Core((Span(0, 10, "collective"), Span(0, 10, "host_transfer"))), "collective_exposed"),
        (Core((), ASYNC), "collective_exposed"),
        (Core((), ASYNC, (Span(0, 10, "barrier"),)), "collective_exposed"),
        (Core((Span(0, 10, "dma_wait"),), ASYNC), "dma_wait"),
        (Core((Span(0, 10, "host_transfer"), Span(0, 10, "dma_wait"))), "host_transfer"),
        (Core((), (Span(0, 10, "dma"),), (Span(0, 10, "barrier"),)), "barrier_wait"),
        (Core((), (Span(0, 10, "dma"),)), "idle"),
    ],
)
def test_the_oracle_applies_the_first_rule_that_holds(core: Core, part: str) -> None:
    found = divide(core, 2, 9)
    assert {name: found[name] for name in PARTS if found[name]} == {part: 7}


def test_the_oracle_knows_the_hidden_time_of_f19() -> None:
    core = Core(
        (Span(0, 400, "elementwise"), Span(600, 900, "elementwise")),
        (Span(100, 700, "collective"), Span(100, 700, "dma")),
    )
    found = divide(core, 0, 1000)
    assert (found["elementwise"], found["collective_exposed"], found["idle"]) == (700, 200, 100)
    assert (found["hidden_collective"], found["hidden_dma"], found["idle_dma_in_flight"]) == (400, 400, 0)
    without_collective = divide(Core(core.ops, core.in_flight[1:]), 0, 1000)
    assert (without_collective["idle"], without_collective["idle_dma_in_flight"]) == (300, 200)
