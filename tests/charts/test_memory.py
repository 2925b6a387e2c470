"""Charts of memory and of one op: known numbers, bounded marks, odd values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.charts.samples import HOSTILE, MS, layers_of, rows
from tpuprof.charts import (
    allocators_chart,
    memory_curve_chart,
    memory_needs_chart,
    op_steps_chart,
    op_time_chart,
    themed,
)
from tpuprof.palette import LOOKS

GB = 10**9


def program(name: str, arguments: Any, output: Any, aliased: Any, temp: Any, constants: Any = 0) -> dict[str, Any]:
    return {"module": name, "arguments_bytes": arguments, "output_bytes": output, "aliased_bytes": aliased,
            "temp_bytes": temp, "constants_bytes": constants}  # fmt: skip


def spec_of(drawing: Any) -> dict[str, Any]:
    assert drawing.chart is not None, drawing.caption
    return themed(drawing.chart)


def test_what_programs_need_adds_up_and_stands_under_the_capacity() -> None:
    drawing = memory_needs_chart([program("f", 4 * GB, 3 * GB, 2 * GB, 5 * GB), program("g", GB, 0, 0, 0)], 16 * GB)
    spec = spec_of(drawing)
    pieces = rows(spec, 0)
    first = {row["part"]: row["value"] for row in pieces if row["row"] == 0}
    assert first == {"arguments": 4, "output (not in arguments)": 1, "temp": 5}  # in GB; aliased output counts once
    assert [row["name"] for row in rows(spec, 1)] == ["f", "g"]
    (level,) = [row for layer in layers_of(spec, "rule") for row in rows(spec, layer)]
    assert level == {"level": 16, "text": "capacity 16 GB"}
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] > 16


def test_a_capacity_far_above_what_programs_need_is_said_and_not_drawn() -> None:
    drawing = memory_needs_chart([program("f", GB, 0, 0, 0)], 100 * GB)
    spec = spec_of(drawing)
    assert layers_of(spec, "rule") == []
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] < 2
    assert drawing.caption.endswith("The largest is 1.0 % of the capacity.")


def test_programs_without_figures_are_left_out() -> None:
    assert memory_needs_chart([program("f", None, 1, 1, 1), program("g", 0, 0, 0, 0)]).chart is None
    many = memory_needs_chart([program(f"f{at}", GB + at, 0, 0, 0) for at in range(30)])
    assert len(rows(spec_of(many), 1)) == 12
    assert many.caption.startswith("12 largest of 30 programs.")


def test_the_curve_marks_its_peak_and_a_capacity_that_is_near() -> None:
    points = [{"position": at, "bytes": size, "op": f"op.{at}"} for at, size in enumerate((1, 4 * GB, 2 * GB))]
    drawing = memory_curve_chart(points, 10, 8 * GB)
    spec = spec_of(drawing)
    (dot,) = layers_of(spec, "point")
    assert rows(spec, dot) == [{"x": 1, "value": 4, "text": "peak 4 GB"}]
    assert drawing.caption == "10 instructions. The peak is at op.1."
    assert [row["level"] for layer in layers_of(spec, "rule") for row in rows(spec, layer)] == [8]
    far = memory_curve_chart(points, 10, 100 * GB)
    assert layers_of(spec_of(far), "rule") == []
    assert far.caption.endswith("The peak is 4.0 % of the capacity.")
    assert memory_curve_chart([], 0).chart is None
    assert memory_curve_chart([{"position": 0, "bytes": 0, "op": "x"}], 1).chart is None
    assert memory_curve_chart([{"position": 0, "bytes": math.nan, "op": "x"}], 1).chart is None


def test_allocators_are_lines_of_few_points_that_keep_the_most() -> None:
    events = [{"allocator": f"a{at % 2}", "start_ps": at * MS, "taken_bytes": (at % 977) * 10**6} for at in range(5000)]
    drawing = allocators_chart(events)
    spec = spec_of(drawing)
    drawn = rows(spec, 0)
    assert len(drawn) <= 310
    assert max(row["value"] for row in drawn) == 976
    assert {row["line"] for row in drawn} == {"a0", "a1"}
    assert drawing.caption.startswith("5,000 events;")
    assert "the one with the most is drawn" in drawing.caption
    many = [{"allocator": f"a{at}", "start_ps": 0, "taken_bytes": GB + at} for at in range(40)]
    few = allocators_chart(many)
    assert few.caption.startswith("6 fullest of 40 allocators. 6 events")
    assert {row["line"] for row in rows(spec_of(few), 0)} == {f"a{at}" for at in range(34, 40)}
    assert allocators_chart([{"allocator": "a", "start_ps": None, "taken_bytes": 1}]).chart is None


def test_the_steps_of_an_op_are_bounded_and_keep_the_most() -> None:
    steps = [{"step": at, "mean_ps": MS, "most_ps": 9 * MS if at == 777 else 2 * MS} for at in range(1000)]
    drawing = op_steps_chart(steps, "matmul")
    spec = spec_of(drawing)
    bars = rows(spec, 0)
    assert len(bars) == 112  # 9 steps each
    assert {row["mean"] for row in bars} == {1}
    assert sorted({row["most"] for row in bars}) == [2, 9]
    assert spec["layer"][0]["mark"]["color"] == LOOKS["matmul"].light
    assert drawing.caption.startswith("1,000 steps in 112 bars, each of 9 steps.")
    assert op_steps_chart([]).caption == "No chart by step: no occurrence lies in a step."
    assert op_steps_chart([{"step": 1, "mean_ps": None, "most_ps": 1}]).chart is None
    assert op_steps_chart([{"step": 1, "mean_ps": 0, "most_ps": 0}]).chart is not None


def test_the_durations_of_an_op_are_counted_once() -> None:
    drawing = op_time_chart([at * MS for at in range(1, 101)], "collective")
    spec = spec_of(drawing)
    assert sum(row["count"] for row in rows(spec, 0)) == 100
    assert spec["layer"][0]["mark"]["color"] == LOOKS["collective_exposed"].light
    assert drawing.caption == "100 occurrences on all cores, from 1 ms to 100 ms."
    assert op_time_chart([MS]).caption == "No distribution of durations: it occurs once."
    assert op_time_chart([math.nan]).caption == "No distribution of durations: no duration is known."


@pytest.mark.parametrize("value", [None, math.inf, -1.0, "1", True, 10**400])
def test_odd_values_break_nothing(value: Any) -> None:
    memory_needs_chart([program(HOSTILE, value, value, value, value), program("f", GB, 0, 0, 0)], value)
    memory_curve_chart([{"position": value, "bytes": value, "op": HOSTILE}], 3, value)
    memory_curve_chart([{"position": 0, "bytes": GB, "op": HOSTILE}, {"position": 1, "bytes": value, "op": None}], 3)
    allocators_chart([{"allocator": HOSTILE, "start_ps": value, "taken_bytes": value}], value)
    op_steps_chart([{"step": value, "mean_ps": value, "most_ps": value}], HOSTILE)
    op_time_chart([value, 1, 2], HOSTILE)
