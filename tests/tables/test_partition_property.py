"""The partition of random small traces against brute force."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.oracle import PARTS, Core, Span, divide
from tests.tables.random_traces import Truth, cpu_truths, truths
from tpuprof.testing import TraceBuilder

few = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Rows = dict[tuple[str, int], dict[str, int]]


def partition_of(trace: TraceBuilder) -> Rows:
    """Per device and step the row of the partition, with the start counted from the first step of all."""
    with tempfile.TemporaryDirectory() as directory:
        loaded: Any = tpuprof.load(trace.write(Path(directory)))
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
@given(st.one_of(truths(), cpu_truths()))
def test_parts_equal_brute_force_and_sum_to_the_window(truth: Truth) -> None:
    found = partition_of(truth.trace)
    assert found == expected_of(truth)
    assert all(sum(row[part] for part in PARTS) == row["duration"] for row in found.values())


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
