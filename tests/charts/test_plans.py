"""Charts of plans: what is drawn of hand-made rows, and what the caption says of the rest."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.charts.plans import cell, load, serve, size, train
from tests.charts.samples import layers_of, rows
from tpuprof.charts import (
    load_chart,
    mesh_map_chart,
    pareto_chart,
    plan_memory_chart,
    plan_steps_chart,
    scaling_chart,
    themed,
)
from tpuprof.charts.panels import spread
from tpuprof.charts.plan_bars import MOST_CANDIDATES
from tpuprof.charts.plan_looks import COLLECTIVES, EXPOSED, MEMORY, TIMES, family_of
from tpuprof.charts.plan_map import MOST_COLUMNS, MOST_ROWS
from tpuprof.palette import LOOKS
from tpuprof.plan.train_step import PARTS


def spec_of(drawing: Any) -> dict[str, Any]:
    assert drawing.chart is not None
    return themed(drawing.chart)


def test_a_step_is_its_parts_and_each_exposed_collective() -> None:
    drawing = plan_steps_chart([train()])
    pieces = rows(spec_of(drawing), 0)
    found = [(row["part"], round(row["x"], 6), round(row["x2"], 6)) for row in pieces]
    assert found == [
        ("matmul", 0, 0.6), ("attention", 0.6, 0.7), ("exposed: weights, gradients", 0.7, 0.8),
        ("exposed: tensor", 0.8, 0.9), ("between slices", 0.9, 0.95), ("pipeline bubble", 0.95, 1.0),
    ]  # fmt: skip
    assert pieces[2]["about"].endswith(": FSDP, gather weights (exposed) 100 ms, 10.0 %")
    heads = rows(spec_of(drawing), 1)
    assert heads[0]["label"] == "1. fsdp=4 tensor=2  ·  remat block-inputs"
    assert heads[0]["text"] == "1 s  ·  MFU 50.0 %"
    (span,) = rows(spec_of(drawing), 3)
    assert (span["x"], span["x2"]) == (0.8, 1.3)
    assert "interval" in drawing.caption


def test_serving_steps_are_drawn_by_the_same_chart() -> None:
    drawing = plan_steps_chart([serve(), serve(2)])
    pieces = rows(spec_of(drawing), 0)
    assert [row["part"] for row in pieces][:5] == [
        "matmuls, compute-bound", "matmuls, reading weights", "reading the cache", "exposed collectives", "overhead",
    ]  # fmt: skip
    assert pieces[4]["x2"] == pytest.approx(20)
    assert rows(spec_of(drawing), 1)[0]["text"] == "20 ms  ·  100 tok/s/chip"
    assert drawing.caption == (
        "2 candidates, the first of the ranking first. The average step of a full server, prompts included."
    )


def test_memory_stands_beside_what_can_be_used() -> None:
    drawing = plan_memory_chart([train(), train(2, usable_bytes=1.6e10)])
    spec = spec_of(drawing)
    assert sum(row["x2"] - row["x"] for row in rows(spec, 0)) == pytest.approx(30)  # GB: the host's are no part
    assert rows(spec, 1)[0]["text"] == "15 GB  ·  94 %"
    marks = rows(spec, 3)
    assert [mark["x"] for mark in marks] == [16, 16]
    assert rows(spec, 4)[0]["label"] == "a program can use 16 GB"
    assert "host's memory is left out" in drawing.caption
    assert rows(spec_of(plan_memory_chart([serve()])), 4)[0]["label"] == "a program can use 15 GB"
    mixed = plan_memory_chart([train(), train(2, usable_bytes=3e10)])
    assert len(spec_of(mixed)["layer"]) == 3
    assert "no line is drawn" in mixed.caption


def test_bars_are_bounded_and_the_caption_says_so() -> None:
    many = [train(rank) for rank in range(1, 31)]
    for drawing in (plan_steps_chart(many), plan_memory_chart(many)):
        assert len(rows(spec_of(drawing), 1)) == MOST_CANDIDATES
        assert drawing.caption.startswith("10 of 30 candidates")


def test_every_part_of_a_plan_has_a_label_and_a_colour_of_the_palette() -> None:
    looks = [*TIMES.values(), *EXPOSED.values(), *MEMORY.values()]
    assert {tone for _, tone in looks} <= set(LOOKS)
    assert set(PARTS) - {"communication", "network"} <= set(TIMES)
    training = [TIMES[name][1] for name in PARTS if name in TIMES and name not in ("overhead", "head")]
    training += [tone for _, tone in EXPOSED.values()]
    assert len(set(training)) == len(training)  # two parts of one step never share a colour
    assert {family_of(name) for name in COLLECTIVES} == set(EXPOSED)


def test_the_map_frames_the_fastest_and_names_why_not() -> None:
    drawing = mesh_map_chart([cell(1, 4, 2.0, 0.3), cell(1, 8, 1.0, 0.05), cell(2, 4, 1.5, 0.6), cell(3, 4, None)])
    spec = spec_of(drawing)
    impossible, filled = (rows(spec, at) for at in range(2))
    every, framed = (rows(spec, at) for at in (5, 6))
    assert len(every) == 4
    assert [row["kind"] for row in impossible] == ["heads"]
    assert "32 heads cannot be split" in impossible[0]["about"]
    strengths = {row["share"]: row["strength"] for row in filled}
    assert strengths["60 %"] == pytest.approx(0.62)
    assert strengths["30 %"] == pytest.approx(0.31)
    assert [(row["share"], row["time"]) for row in framed] == [("5.0 %", "1 s")]
    assert "4 mesh shapes, 3 of them possible" in drawing.caption
    place = {row["about"].partition(":")[0]: (row["x"], row["y"]) for row in (*filled, *impossible)}
    assert place["tensor 1, data and FSDP 4"][0] < place["tensor 1, data and FSDP 8"][0]
    assert place["tensor 1, data and FSDP 4"][1] < place["tensor 2, data and FSDP 4"][1]


def test_a_large_map_keeps_what_is_near_the_fastest() -> None:
    cells = [
        cell(tensor, ways, 1 + abs(tensor - 10) + abs(ways - 20)) for tensor in range(1, 31) for ways in range(1, 41)
    ]
    drawing = mesh_map_chart(cells)
    shown = rows(spec_of(drawing), 1)
    assert len(shown) == MOST_COLUMNS * MOST_ROWS
    assert any(row["best"] for row in shown)
    assert drawing.caption.startswith(f"The {MOST_COLUMNS * MOST_ROWS} mesh shapes near the fastest of 1,200: ")


def test_the_curve_marks_the_first_size_that_communication_binds() -> None:
    points = [size(4, None), size(8, 100.0), size(16, 190.0), size(32, 300.0, "communication"),
              size(64, 320.0, "communication")]  # fmt: skip
    drawing = scaling_chart(points)
    spec = spec_of(drawing)
    assert rows(spec, 0)[0] == {"x": 32, "label": "bound by communication from 32 chips"}
    lines = [[(row["x"], row["y"]) for row in rows(spec, at)] for at in layers_of(spec, "line")]
    assert [(8, 100), (64, 800)] in lines  # in proportion to the chips
    assert [(8, 100), (16, 190), (32, 300), (64, 320)] in lines
    assert [(8, 50), (16, 50), (32, 50), (64, 50)] in lines  # MFU
    assert "On 64 chips each does 40 % of what it does on 8." in drawing.caption
    assert drawing.caption.endswith("Not possible on 4 chips: does not fit: too large.")
    assert "At no size" in scaling_chart([size(8, 100.0), size(16, 190.0)]).caption
    assert spec["resolve"] == {"scale": {"y": "independent"}}


def test_the_front_is_joined_and_other_splits_are_rings() -> None:
    front = [serve(tpot_s=0.01, tokens_per_s_per_chip=50.0), serve(tpot_s=0.04, tokens_per_s_per_chip=80.0, batch=32)]
    beaten = serve(2, "v5e:4x4", tpot_s=0.03, tokens_per_s_per_chip=40.0)
    drawing = pareto_chart(front, [front[0], beaten], 0.03)
    spec = spec_of(drawing)
    line, rings, points = (rows(spec, at) for at in range(3))
    assert [row["y"] for row in line] == [50, 80] == [row["y"] for row in points]
    assert [(row["slice"], round(row["x"])) for row in rings] == [("v5e:4x4", 30)]
    texts = [rows(spec, at)[0]["label"] for at in layers_of(spec, "text")]
    assert texts == ["v5e:2x4, batch 16", "batch 32", "limit 30 ms"]
    assert drawing.caption == (
        "2 points that no other beats in both: up and to the left is better. "
        "Rings: 1 other split at the best batch, beaten by the line."
    )
    far = pareto_chart(front, (), 1e6)  # a limit far away does not squeeze the points
    assert spec_of(far)["layer"][0]["encoding"]["x"]["scale"]["domain"][1] == pytest.approx(50)


def test_without_a_time_per_token_the_first_token_is_the_axis() -> None:
    spec = spec_of(pareto_chart([serve(tpot_s=None), serve(tpot_s=None, ttft_s=0.6, tokens_per_s_per_chip=200.0)]))
    assert spec["layer"][0]["encoding"]["x"]["axis"]["title"].startswith("time to the first token (ms")


def test_load_has_a_panel_for_each_latency_and_its_limit() -> None:
    drawing = load_chart([load(0.9), load(0.1), load(0.5, ttft_p99_s=None)], 1.5, 0.03)
    spec = spec_of(drawing)
    lines = [[row["x"] for row in rows(spec, at)] for at in layers_of(spec, "line")]
    assert lines == [[10, 50, 90], [10, 50, 90], [10, 90], [10, 50, 90]]
    texts = [row["label"] for at in layers_of(spec, "text") for row in rows(spec, at) if "label" in row]
    assert texts == ["limit 1.5 s", "limit 30 ms"]
    assert drawing.caption == (
        "3 simulated loads of one server, random arrivals with a seed. The last is 9 requests/s."
    )
    assert len(layers_of(spec_of(load_chart([load(0.5, tpot_p50_s=None)])), "line")) == 3


def test_labels_that_would_lie_on_each_other_are_moved_apart() -> None:
    assert spread([(10, "b"), (3, "a"), (60, "c")]) == [(3, "a"), (17, "b"), (60, "c")]


BAD = [None, math.nan, -1.0, 10**400]


@pytest.mark.parametrize("bad", BAD, ids=["null", "nan", "negative", "huge"])
def test_what_is_no_number_is_left_out(bad: Any) -> None:
    parts = {"matmul": 0.5, "attention": bad}
    kept = rows(spec_of(plan_steps_chart([train(parts_s=parts, exposed={"x": bad}, low_s=bad, mfu=bad)])), 0)
    assert [row["part"] for row in kept] == ["matmul"]
    held = {"weights": 1e9, "gradients": bad, "total": bad}
    assert len(rows(spec_of(plan_memory_chart([train(memory_bytes=held, usable_bytes=bad)])), 0)) == 1
    assert len(rows(spec_of(mesh_map_chart([cell(1, 1, 1.0, bad), cell(1, 2, bad)])), 1)) == 1
    assert len(rows(spec_of(pareto_chart([serve(), serve(tokens_per_s_per_chip=bad)], [serve(tpot_s=bad)])), 0)) == 1
    spec = spec_of(scaling_chart([size(8, 100.0), size(16, bad), size(32, 300.0, mfu=bad, exposed_fraction=bad)]))
    assert [row["x"] for row in rows(spec, layers_of(spec, "line")[1])] == [8, 32]
    spec_of(load_chart([load(0.5, ttft_p90_s=bad, tpot_p50_s=bad, requests_per_s=bad), load(0.7, load=bad)], bad, bad))


@pytest.mark.parametrize(
    ("drawing", "caption"),
    [
        (plan_steps_chart([]), "No chart of steps: there is no candidate."),
        (plan_steps_chart([{"parts_s": None}]), "No chart of steps: there is no candidate."),
        (plan_memory_chart([{}]), "No chart of memory: there is no candidate."),
        (mesh_map_chart([cell(1, 1, None)]), "No map of mesh shapes: no layout is possible."),
        (scaling_chart([size(4, None)]), "No scaling curve: the job fits none of the sizes."),
        (pareto_chart([]), "No chart of latency against throughput: there is no candidate."),
        (load_chart([]), "No chart of load: no load was simulated."),
    ],
)
def test_without_rows_there_is_a_sentence(drawing: Any, caption: str) -> None:
    assert drawing.chart is None
    assert drawing.caption == caption


def test_one_point_is_a_chart() -> None:
    for drawing in (scaling_chart([size(1, 5.0)]), load_chart([load(0.5)]), pareto_chart([serve()]),
                    mesh_map_chart([cell(1, 1, 1.0, 0.0)])):  # fmt: skip
        assert spec_of(drawing)["layer"]
