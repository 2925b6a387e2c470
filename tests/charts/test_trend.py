"""The chart of a metric over runs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.charts import to_svg
from tpuprof.charts.trend import MOST_RUNS, trend_chart


def series(values: list[float], change: int | None = None, metric: str = "step_p50_ps") -> dict[str, Any]:
    runs = list(range(100, 100 + len(values)))
    edges = [0, *([] if change is None else [change]), len(values)]
    levels = [
        {"first_run": runs[a], "last_run": runs[b - 1], "n_runs": b - a, "p50": sorted(values[a:b])[(b - a) // 2]}
        for a, b in pairwise(edges)
    ]
    changes = [] if change is None else [
        {"first_run": runs[change], "direction": "regressed", "relative": 0.1, "first_commit": "abcdef"}
    ]  # fmt: skip
    rows = [{"run": run, "time_ns": run, "value": value} for run, value in zip(runs, values, strict=True)]
    return {"metric": metric, "values": rows, "levels": levels, "changes": changes}


def spec(drawing: Any) -> dict[str, Any]:
    return drawing.chart.to_dict()


def data(drawing: Any) -> list[list[dict[str, Any]]]:
    return [layer["data"]["values"] for layer in spec(drawing)["layer"]]


def test_every_run_is_a_dot_and_the_change_is_marked_before_its_first_run() -> None:
    drawing = trend_chart(series([100e9] * 10 + [110e9] * 10, 10))
    marks, levels, dots, labels = data(drawing)
    assert [dot["x"] for dot in dots] == list(range(20))
    assert [dot["y"] for dot in dots] == [100.0] * 10 + [110.0] * 10
    assert marks[0]["x"] == 9.5
    assert [(level["x"], level["x2"], level["y"]) for level in levels] == [(-0.4, 9.4, 100.0), (9.6, 19.4, 110.0)]
    assert labels[0]["text"] == "+10.0 % (abcdef)"
    assert drawing.caption == "20 runs, 1 change of level."
    assert to_svg(drawing.chart, "dark").startswith("<svg")


def test_of_a_long_series_the_newest_runs_are_drawn() -> None:
    drawing = trend_chart(series([1e9] * 400 + [2e9] * 100, 400))
    marks, levels, dots, _ = data(drawing)
    assert len(dots) == MOST_RUNS
    assert marks[0]["x"] == MOST_RUNS - 100 - 0.5
    assert [(level["x"], level["x2"]) for level in levels] == [(-0.4, 199.4), (199.6, 299.4)]
    assert drawing.caption.startswith("The newest 300 of 500 runs")


def test_without_two_values_there_is_no_trend() -> None:
    assert trend_chart(series([1.0])).chart is None
    assert trend_chart({"metric": "mfu", "values": []}).caption == "No trend of mfu: no run has it."


def test_shares_are_shown_as_percentages() -> None:
    drawing = trend_chart(series([0.4, 0.5], metric="mfu"))
    assert [dot["y"] for dot in data(drawing)[1]] == [pytest.approx(40), pytest.approx(50)]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8), st.integers(0, 7))
def test_any_values_make_a_chart_or_a_reason(values: list[float], change: int) -> None:
    drawing = trend_chart(series(values, change if 0 < change < len(values) else None))
    assert drawing.caption
    if drawing.chart is not None:
        drawing.chart.to_dict()
