"""Collectives against their bounds, and the distribution of step times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tests.charts.samples import HOSTILE, MS, layers_of, rows
from tpuprof.charts import collectives_chart, step_time_chart, themed
from tpuprof.charts.collectives import MOST_ROWS
from tpuprof.report import build_report, render_report


def collective(name: str, predicted: float | None, transfer: float | None, window: float = 8.0) -> dict[str, Any]:
    return {
        "name": name, "kind": "all_reduce", "count": 12, "window_ps": window * MS, "exposed_ps": MS,
        "transfer_ps": None if transfer is None else transfer * MS,
        "predicted_ps": None if predicted is None else predicted * MS, "expected_ps": None, "regime": "ring",
        "prediction_reason": None if predicted is not None else "Its groups are not known.",
    }  # fmt: skip


def test_measured_and_predicted_times_in_a_row() -> None:
    drawing = collectives_chart([collective("all-reduce.1", 2, 4), collective("all-reduce.2", 2, None)])
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    (layer,) = layers_of(spec, "point")
    found = {(row["row"], row["what"]): row["value"] for row in rows(spec, layer)}
    assert found == {
        (0, "least the links allow"): 2, (0, "measured"): 4, (1, "least the links allow"): 2, (1, "measured"): 8,
    }  # fmt: skip
    assert [row["share"] for row in rows(spec, 0)] == ["50.0 % of the bound", "25.0 % of the bound"]
    scale = spec["layer"][layer]["encoding"]["x"]["scale"]
    assert (scale["type"], scale["domain"]) == ("log", [1, 16])
    assert spec["layer"][layer]["encoding"]["x"]["axis"]["values"] == [1, 2, 3, 5, 10]


def test_the_number_of_rows_is_bounded_and_the_total_stated() -> None:
    many = [collective(f"all-reduce.{at}", 2, 4) for at in range(50)] + [collective("unknown", None, 3)]
    drawing = collectives_chart(many)
    assert len(rows(themed(drawing.chart), 0)) == MOST_ROWS  # type: ignore[arg-type]
    assert drawing.caption.startswith("16 of 51 collectives, ")
    assert "For 1 no prediction or no measured time is known." in drawing.caption


def test_without_collectives_or_predictions_there_is_a_sentence() -> None:
    assert collectives_chart([]).caption == "No chart of collectives: none was recorded."
    unknown = collectives_chart([collective("all-reduce.1", None, 3)])
    assert unknown.chart is None
    assert unknown.caption == (
        "No chart of collectives: what they should take is not known. Its groups are not known."
    )  # fmt: skip
    assert collectives_chart([collective("a", 0.0, 3)]).chart is None  # nothing at zero on a log scale
    assert collectives_chart([{**collective("a", 1.0, None), "window_ps": float("nan")}]).chart is None


def test_hostile_names_of_collectives() -> None:
    spec = themed(collectives_chart([collective(HOSTILE, 2, 4)]).chart)  # type: ignore[arg-type]
    (label,) = [row["label"] for row in rows(spec, 0)]
    assert label.endswith("n ×12")
    assert len(label) <= 30


def test_step_times_are_counted_once_and_percentiles_are_linear() -> None:
    times = [100 * MS + at * MS for at in range(101)]
    drawing = step_time_chart(times)
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    assert sum(row["count"] for row in rows(spec, 0)) == 101
    assert [row["x"] for row in rows(spec, 1)] == pytest.approx([150, 190, 199])
    assert [row["text"] for row in rows(spec, 1)] == ["p50 150 ms", "p90 190 ms", "p99 199 ms"]
    assert spec["layer"][0]["encoding"]["y"]["axis"]["values"] == [0, 2, 4, 6, 8, 10]
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 100 < 200 < high
    assert drawing.caption == "101 steps, each as long as on its slowest core."


@pytest.mark.parametrize("times", [[MS, MS], [0, 0], [1, 10**18], [MS] * 99 + [10**9 * MS]])
def test_odd_distributions_are_drawn(times: list[float]) -> None:
    drawing = step_time_chart(times)
    assert sum(row["count"] for row in rows(themed(drawing.chart), 0)) == len(times)  # type: ignore[arg-type]


def test_one_step_is_no_distribution() -> None:
    assert step_time_chart([MS]).caption == "No distribution of step times: only one complete step was recorded."
    assert step_time_chart([float("nan"), -1]).caption == (
        "No distribution of step times: no complete step was recorded."
    )  # fmt: skip


@pytest.mark.real
def test_real_run_against_its_links(real_traces: Path) -> None:
    report = build_report(tpuprof.load(str(real_traces / "v6e-4-host-offload")), analyzers=())
    spec = themed(collectives_chart(report["collectives"]).chart)  # type: ignore[arg-type]
    assert [(row["label"], row["share"]) for row in rows(spec, 0)] == [("all-reduce ×12", "98.0 % of the bound")]
    text = render_report(report, "html")
    assert text.count("<figure>") == 3
    assert len(text) < 100_000
