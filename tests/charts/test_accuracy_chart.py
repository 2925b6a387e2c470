"""The chart of predictions: points where they belong, the diagonal and its band, names of the worst."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tests.charts.samples import HOSTILE, layers_of, rows
from tpuprof.charts import THEMES, accuracy_chart, themed, to_svg
from tpuprof.charts.accuracy import MOST_POINTS


def row(name: str, measured: Any, predicted: Any, **more: Any) -> dict[str, Any]:
    return {
        "row": name, "chip": "v5e", "model": f"model {name}", "measured": measured, "predicted": predicted,
        "unit": "s", "counts": True,
    } | more  # fmt: skip


ROWS = [row("a", 10.0, 11.0), row("b", 1.0, 0.5, chip="v4"), row("c", 100.0, 100.0), row("d", 3.0, 6.0, counts=False)]


def spec_of(given: list[dict[str, Any]]) -> dict[str, Any]:
    drawing = accuracy_chart(given)
    assert drawing.chart is not None, drawing.caption
    return themed(drawing.chart)


def points_of(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {point["row"]: point for layer in layers_of(spec, "point") for point in rows(spec, layer)}


def test_points_stand_at_what_was_measured_and_predicted() -> None:
    spec = spec_of(ROWS)
    points = points_of(spec)
    assert {name: (p["measured"], p["predicted"]) for name, p in points.items()} == {
        "a": (10.0, 11.0), "b": (1.0, 0.5), "c": (100.0, 100.0), "d": (3.0, 6.0),
    }  # fmt: skip
    assert points["b"]["off"] == "-50.0 %"
    full, hollow = (layer for layer in layers_of(spec, "point"))
    assert {point["row"] for point in rows(spec, full)} == {"a", "b", "c"}
    assert [point["row"] for point in rows(spec, hollow)] == ["d"]
    scale = spec["layer"][full]["encoding"]["color"]["scale"]
    assert scale["domain"] == ["v4", "v5e"]
    assert len(set(scale["range"])) == 2


def test_both_axes_are_the_same_logarithm_and_hold_every_point() -> None:
    spec = spec_of(ROWS)
    (layer, *_) = layers_of(spec, "point")
    x, y = (spec["layer"][layer]["encoding"][axis] for axis in "xy")
    assert x["scale"] == y["scale"]
    assert x["scale"]["type"] == "log"
    assert x["scale"]["domain"][0] < 0.5
    assert x["scale"]["domain"][1] > 100
    assert (x["axis"]["title"], y["axis"]["title"]) == ("measured, seconds per step", "predicted, seconds per step")
    assert set(x["axis"]["values"]) >= {0.5, 1, 2, 5, 10, 20, 50, 100}
    served = spec_of([row("a", 10.0, 11.0, unit="token/s")])
    (layer, *_) = layers_of(served, "point")
    assert served["layer"][layer]["encoding"]["x"]["axis"]["title"] == "measured, generated tokens per second"


def test_the_band_is_fifteen_percent_of_the_diagonal() -> None:
    spec = spec_of(ROWS)
    ends = [end for layer in layers_of(spec, "rule") for end in rows(spec, layer)]
    assert [end["y"] / end["x"] for end in ends] == pytest.approx([1, 1.15, 0.85])
    assert [end["y2"] / end["x2"] for end in ends] == pytest.approx([1, 1.15, 0.85])


def test_the_caption_counts() -> None:
    assert accuracy_chart(ROWS).caption == (
        "4 rows; dashed lines are 15 % off. Median error 10.0 %; 2 of 3 that count are within 15 %. "
        "Hollow: not in the statistics."
    )
    assert accuracy_chart([row("d", 3.0, 6.0, counts=False)]).caption.startswith("1 row; dashed lines")


def test_what_cannot_be_drawn_is_left_out() -> None:
    wrong = (None, 0, -1.0, float("nan"), float("inf"), "1", True, 1e300)
    rest = [made for value in wrong for made in (row("x", value, 1.0), row("y", 1.0, value))]
    assert set(points_of(spec_of([*ROWS, *rest]))) == {"a", "b", "c", "d"}
    assert accuracy_chart([row("x", None, 1.0)]).chart is None
    assert "no row has both" in accuracy_chart([]).caption
    assert set(points_of(spec_of([{"measured": 1.0, "predicted": 2.0}]))) == {""}


def test_many_rows_are_bounded() -> None:
    drawing = accuracy_chart([row(f"r{n}", 10.0, 10.0 + n / 1000) for n in range(MOST_POINTS + 50)])
    assert drawing.chart is not None
    assert len(points_of(themed(drawing.chart))) == MOST_POINTS
    assert drawing.caption.startswith("500 of 550 rows; ")


def test_hostile_names_are_texts() -> None:
    drawing = accuracy_chart([row(HOSTILE, 1.0, 2.0, chip=HOSTILE, model=HOSTILE, unit=HOSTILE), *ROWS])
    assert drawing.chart is not None
    for theme in THEMES:
        made = ElementTree.fromstring(to_svg(drawing.chart, theme))
        assert {element.tag.rpartition("}")[2] for element in made.iter()} <= {
            "svg", "g", "path", "rect", "line", "text", "tspan", "title",
        }  # fmt: skip
