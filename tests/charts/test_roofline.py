"""The roofline chart: points where they belong, roofs and ridge as the hardware has them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.charts.samples import HOSTILE, MS, OPS, ROOFLINE, layers_of, op, rows
from tpuprof.charts import roofline_chart, themed
from tpuprof.charts.points import roofline_points
from tpuprof.charts.roofline import MOST_POINTS


def spec_of(ops: list[dict[str, Any]], roofline: dict[str, Any] = ROOFLINE) -> dict[str, Any]:
    drawing = roofline_chart(ops, roofline)
    assert drawing.chart is not None, drawing.caption
    return themed(drawing.chart)


def points_of(spec: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (layer,) = layers_of(spec, "point")
    return {row["name"]: row for row in rows(spec, layer)}


def test_points_stand_at_their_intensity_and_rate() -> None:
    points = points_of(spec_of(OPS))
    assert set(points) == {"dot.1", "add.1", "mul.1"}
    places = {name: (row["intensity"], row["rate"], row["memory"]) for name, row in points.items()}
    assert places["dot.1"] == pytest.approx((400, 8e13, "HBM"))
    assert places["add.1"] == pytest.approx((0.5, 5e11, "HBM"))
    assert places["mul.1"] == pytest.approx((2, 1e12, "VMEM"))
    assert points["dot.1"]["kind"] == "matmul"
    assert "at 80.0 % of it" in points["dot.1"]["about"]


def test_roofs_and_ridge() -> None:
    spec = spec_of(OPS)
    lines = {row["roof"]: row for layer in layers_of(spec, "rule") for row in rows(spec, layer)}
    assert set(lines) == {
        "HBM 1 TB/s", "VMEM 10 TB/s", "bf16, fp16 100 TFLOP/s", "int8 200 TFLOP/s", "bf16 ridge 100 FLOP/B",
    }  # fmt: skip
    assert lines["bf16 ridge 100 FLOP/B"]["x"] == 100
    hbm = lines["HBM 1 TB/s"]
    assert hbm["y"] == pytest.approx(hbm["x"] * 1e12)
    assert (hbm["x2"], hbm["y2"]) == pytest.approx((200, 2e14))  # up to the highest peak
    level = lines["int8 200 TFLOP/s"]
    assert level["y"] == level["y2"] == 2e14
    assert level["x"] == pytest.approx(20)  # from the roof of the fastest memory


def test_axes_are_logarithmic_and_hold_every_point_and_the_ridge() -> None:
    spec = spec_of(OPS)
    (layer,) = layers_of(spec, "point")
    encoding = spec["layer"][layer]["encoding"]
    for axis, values in (("x", [0.5, 2, 400, 100]), ("y", [5e11, 1e12, 8e13, 2e14])):
        scale = encoding[axis]["scale"]
        assert scale["type"] == "log"
        assert scale["domain"][0] < min(values) <= max(values) < scale["domain"][1]
    assert encoding["color"]["scale"]["domain"] == ["matmul", "elementwise"]
    assert encoding["size"]["scale"]["domain"] == [0, 10 * MS]


def test_says_what_it_cannot_show() -> None:
    caption = roofline_chart(OPS, ROOFLINE).caption
    # Of 19 ms of compute (the collective is none) the kernel takes 1, the copy 2.
    assert "5.3 % in ops whose cost is not known and 10.5 % in ops that compute nothing cannot be shown." in caption
    assert caption.startswith("3 ops. ")


def test_ops_of_the_same_work_are_one_point() -> None:
    layers = [op(f"dot.{at}", "matmul", 10 + at, 4e11, 1e9, roofline_efficiency=0.5) for at in range(8)]
    other = op("dot.99", "matmul", 10, 4e11, 1e9, module="jit_g(2)")
    drawing = roofline_chart([*layers, other], ROOFLINE)
    points = points_of(spec_of([*layers, other]))
    assert set(points) == {"dot.7", "dot.99"}
    assert points["dot.7"]["ops"] == 8
    assert points["dot.7"]["self_ps"] == sum(10 + at for at in range(8)) * MS
    assert points["dot.7"]["rate"] == pytest.approx(8 * 2 * 4e11 / 0.108)
    assert points["dot.7"]["efficiency"] == "50.0 %"
    assert drawing.caption.startswith("2 points for 9 ops: those of the same work are one.")


def test_many_points_are_bounded_with_the_total_stated() -> None:
    many = [op(f"dot.{at}", "matmul", 1 + at % 7, 1e10 + at * 1e7, 1e8) for at in range(1000)]
    drawing = roofline_chart(many, ROOFLINE)
    assert len(points_of(spec_of(many))) == MOST_POINTS
    assert drawing.caption.startswith(f"{MOST_POINTS} of 1,000 points, with ")


def test_an_op_without_time_does_not_stretch_the_axes() -> None:
    speck = op("speck", "elementwise", 1e-6, 1.0, 1e9)
    assert set(points_of(spec_of([*OPS, speck]))) == {"dot.1", "add.1", "mul.1"}


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, None, "1", True, 10**400])
def test_odd_numbers_are_left_out(value: Any) -> None:
    odd = [op("odd.1", "matmul", 1, value, 1e9), op("odd.2", "matmul", 1, 1e9, value),
           {**op("odd.3", "matmul", 1, 1e9, 1e9), "self_ps": value},
           op("odd.4", "matmul", 1, 1.7e308, 1e-300)]  # fmt: skip
    assert set(points_of(spec_of([*OPS, *odd]))) == {"dot.1", "add.1", "mul.1"}


def test_without_hardware_or_costs_there_is_a_sentence() -> None:
    nothing = roofline_chart(OPS, {"peaks": None, "bandwidths": None, "reason": "The run is on CPUs."})
    assert (nothing.chart, nothing.caption) == (None, "No roofline chart: The run is on CPUs.")
    assert roofline_chart(OPS, {}).caption == "No roofline chart: The peaks of the hardware are not known."
    no_hbm = roofline_chart(OPS, {**ROOFLINE, "bandwidths": {"vmem": 1e13}})
    assert no_hbm.chart is None
    empty = roofline_chart([], ROOFLINE)
    assert empty.caption == "No roofline chart: no op has a known number of operations and bytes."
    unknown = roofline_chart([op("k", "custom_kernel", 1, None, None)], ROOFLINE)
    assert unknown.caption.endswith("100.0 % in ops whose cost is not known cannot be shown.")


def test_hostile_names_are_short_data() -> None:
    (point,) = points_of(spec_of([op(HOSTILE, "matmul", 1, 4e10, 1e8)])).values()
    assert len(point["name"]) == 80
    assert not {"\x1b", "\u202e", "\n"} & set(point["name"])
    spec = spec_of([op(HOSTILE, "matmul", 1, 4e10, 1e8, module=HOSTILE)], {**ROOFLINE, "peak_dtype": HOSTILE})
    for layer in spec["layer"]:  # in the data only, nowhere that Vega would evaluate
        assert "alert" not in str([layer["mark"], layer["encoding"]])
    assert "alert" not in str({key: value for key, value in spec.items() if key not in ("layer", "datasets", "data")})


def test_names_of_the_largest_stand_beside_them_and_tell_programs_apart() -> None:
    same = [
        op("dot.1", "matmul", 9, 4e11, 1e9, module="jit_a(1)"),
        op("dot.1", "matmul", 8, 4e9, 1e9, module="jit_b(2)"),
    ]
    spec = spec_of(same)
    texts = {row["label"] for layer in layers_of(spec, "text") for row in rows(spec, layer) if "label" in row}
    assert texts == {"dot.1 in jit_a", "dot.1 in jit_b"}


def test_a_click_gives_the_place_of_the_point_and_an_op_can_be_marked() -> None:
    ops = [*OPS, op(HOSTILE, "matmul", 30, 4e11, 2e9)]
    drawing = roofline_chart(ops, ROOFLINE, select="picked", marked=("mul.1", "jit_f(1)"))
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    (param,) = spec["params"]
    assert (param["name"], param["select"]) == ("picked", {"type": "point", "fields": ["point"]})
    points, _ = roofline_points(ops)
    scatter, ring = layers_of(spec, "point")
    for row in rows(spec, scatter):
        point = points[row["point"]]
        assert (point["name"], point["module"]) == (row["name"], row["module"])
        assert not {"op", "program", "members"} & set(row)  # names of any length do not go to the browser
    assert points[0]["op"] == HOSTILE
    assert [row["ring"] for row in rows(spec, ring)] == ["mul.1"]
    assert "params" not in spec_of(OPS)


@pytest.mark.parametrize("marked", [("dot.1", "other program"), ("no such op", None)])
def test_an_op_that_is_not_drawn_gets_no_ring(marked: tuple[str, str | None]) -> None:
    drawing = roofline_chart(OPS, ROOFLINE, marked=marked)
    assert len(layers_of(themed(drawing.chart), "point")) == 1  # type: ignore[arg-type]


def test_the_marked_op_is_drawn_however_little_time_it_takes() -> None:
    many = [op(f"dot.{at}", "matmul", 5, 1e10 + at * 1e7, 1e8) for at in range(MOST_POINTS + 50)]
    small = op("small", "matmul", 1, 3e10, 1e8)
    drawing = roofline_chart([*many, small], ROOFLINE, marked=("small", None))
    scatter, ring = layers_of(themed(drawing.chart), "point")  # type: ignore[arg-type]
    assert len(rows(themed(drawing.chart), scatter)) == MOST_POINTS + 1  # type: ignore[arg-type]
    assert [row["ring"] for row in rows(themed(drawing.chart), ring)] == ["small"]  # type: ignore[arg-type]
