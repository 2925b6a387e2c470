"""Stacked bars of steps and cores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.samples import MS, layers_of, rows
from tpuprof.charts import device_parts_chart, step_parts_chart, themed
from tpuprof.charts.partition import MOST_BARS, MOST_DEVICES


def step(number: int, matmul_ms: float = 6, idle_ms: float = 2) -> dict[str, Any]:
    return {"step": number, "parts": {"matmul_ps": matmul_ms * MS, "idle_ps": idle_ms * MS, "attention_ps": 0.0}}


def pieces(drawing: Any) -> list[dict[str, Any]]:
    return rows(themed(drawing.chart), 0)


def test_each_step_is_a_bar_of_its_parts() -> None:
    drawing = step_parts_chart([step(4), step(5, 8)])
    found = [(row["row"], row["part"], row["value"], row["share"]) for row in pieces(drawing)]
    assert found == [
        (0, "matmul", 6, "75.0 %"), (0, "idle", 2, "25.0 %"), (1, "matmul", 8, "80.0 %"), (1, "idle", 2, "20.0 %"),
    ]  # fmt: skip
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    assert spec["layer"][0]["mark"]["type"] == "bar"
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["matmul", "idle"]
    assert spec["layer"][0]["encoding"]["y"]["stack"] == "zero"
    assert not layers_of(spec, "tick")
    assert drawing.caption == "2 steps."


def test_many_steps_are_means_with_the_longest_marked() -> None:
    steps = [step(at, 6, 2 if at != 500 else 52) for at in range(1000)]
    drawing = step_parts_chart(steps)
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    assert len({row["row"] for row in pieces(drawing)}) == 112 <= MOST_BARS
    (layer,) = layers_of(spec, "tick")
    peaks = [row["value"] for row in rows(spec, layer)]
    assert max(peaks) == 58
    assert sorted(peaks)[-2] == 8
    assert drawing.caption == "1,000 steps in 112 bars: each the mean of 9, its longest step as a dash."
    total = sum(row["ps"] * (9 if row["row"] < 111 else 1) for row in pieces(drawing))
    assert total == pytest.approx(sum(sum(row["parts"].values()) for row in steps))


def test_cores_are_sorted_and_bounded() -> None:
    devices = [{"device": f"host/TPU:{at}", "step_ps": 1, "parts": step(0, 6 + at)["parts"]} for at in range(40)]
    drawing = device_parts_chart(devices)
    names = [row["bar"] for row in rows(themed(drawing.chart), 1)]  # type: ignore[arg-type]
    assert names[:2] == ["host/TPU:39", "host/TPU:38"]
    assert len(names) == MOST_DEVICES
    assert drawing.caption == "32 slowest of 40 cores."
    assert device_parts_chart(devices[:1]).caption == "1 core, the slowest first."


def test_without_parts_there_is_a_sentence() -> None:
    for nothing in ([], [{"step": 0, "parts": None}], [{"step": 0, "parts": {"matmul_ps": float("nan")}}]):
        assert step_parts_chart(nothing).caption == "No chart of steps: no step was divided into parts."
        assert device_parts_chart(nothing).caption == "No chart of cores: no step was divided into parts."
        assert step_parts_chart(nothing).chart is None is device_parts_chart(nothing).chart
