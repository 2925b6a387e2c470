"""Memory over the schedule of a program: a known answer, and that thinning keeps the peak."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tests.hlo.buffer_helper import PADDED
from tests.tables.test_memory import F, buffers_of, trace_of
from tpuprof.tables.memory_curve import memory_curve, thinned

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "cpu_demo"


def test_the_curve_of_a_known_program(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, (F, buffers_of()))
    curve = memory_curve(trace.built, "jit_f(7)", "hbm")
    assert curve is not None
    peak = max(curve.points, key=lambda point: point.bytes)
    assert (peak.op, peak.bytes) == ("z", 5 * PADDED)
    assert curve.points[0].bytes == 2 * PADDED  # the arguments are there from the start
    assert curve.changes == len(curve.points)


def test_the_peak_of_a_real_program_is_that_of_its_table() -> None:
    trace = tpuprof.load(SAMPLE)
    (row,) = trace.memory_summary.to_dict("records")
    curve = memory_curve(trace.built, row["module"], row["memory_space"])
    assert curve is not None
    peak = max(curve.points, key=lambda point: (point.bytes, -point.position))
    assert (peak.bytes, peak.op) == (row["peak_bytes"], row["peak_op"])
    assert peak.position < curve.positions


def test_without_a_program_its_buffers_or_that_memory_there_is_no_curve(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "a", (F, buffers_of()))
    assert memory_curve(trace.built, "jit_g(8)", "hbm") is None
    assert memory_curve(trace.built, "jit_f(7)", "vmem") is None
    bare = trace_of(tmp_path / "b", (F, b""), text=False)
    assert memory_curve(bare.built, "jit_f(7)", "hbm") is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 10**12)), min_size=1, max_size=200), st.integers(1, 50))
def test_thinning_is_bounded_and_keeps_the_peak_where_it_is(steps: list[tuple[int, int]], most: int) -> None:
    position, timeline = 0, []
    for gap, size in steps:
        timeline.append((position, size))
        position += gap
    few = thinned(tuple(timeline), most)
    assert len(few) <= most
    assert set(few) <= set(timeline)
    assert few == sorted(few)
    peak = max(timeline, key=lambda entry: (entry[1], -entry[0]))
    assert peak in few
