"""Heat maps of cores by steps: every cell the largest of what it stands for, however many there are."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.charts.samples import HOSTILE, MS, layers_of, rows
from tpuprof.charts import heat_chart, themed
from tpuprof.charts.heat import MOST_CELLS, MOST_COLUMNS, MOST_ROWS, PICKED
from tpuprof.palette import LOOKS

BLUE = LOOKS["matmul"].light


def spec_of(drawing: Any) -> dict[str, Any]:
    return themed(drawing.chart)


def cells(drawing: Any) -> list[dict[str, Any]]:
    return rows(spec_of(drawing), 0)


def names(count: int) -> list[str]:
    return [f"host-{at // 2}/TPU:{at % 2}" for at in range(count)]


def test_a_cell_per_core_and_step() -> None:
    drawing = heat_chart(names(2), [7, 8, 9], [[1 * MS, 2 * MS, 3 * MS], [2 * MS, None, 2 * MS]], "step time", BLUE)
    found = [(cell["row"], cell["column"], cell["device"], cell["step"], cell["value"]) for cell in cells(drawing)]
    assert found == [
        (0, 0, "host-0/TPU:0", 7, 1), (0, 1, "host-0/TPU:0", 8, 2), (0, 2, "host-0/TPU:0", 9, 3),
        (1, 0, "host-0/TPU:1", 7, 2), (1, 2, "host-0/TPU:1", 9, 2),
    ]  # fmt: skip
    assert drawing.caption == "2 cores by 3 steps."
    layer = spec_of(drawing)["layer"][0]
    shade = layer["encoding"]["fillOpacity"]
    assert (layer["mark"]["fill"], shade["scale"]["domain"], shade["scale"]["range"][1]) == (BLUE, [1, 3], 1)
    legend = [row["text"] for at in layers_of(spec_of(drawing), "text")[3:] for row in rows(spec_of(drawing), at)]
    assert legend == ["1", "1.5", "2", "2.5", "3", "step time (ms)"]


def test_a_click_gives_the_core_and_the_step() -> None:
    (param,) = spec_of(heat_chart(["a"], [1, 2], [[1, 2]], "idle", BLUE))["params"]
    assert (param["name"], param["select"]["fields"]) == (PICKED, ["device", "step"])


@given(
    st.integers(1, 70), st.integers(1, 130), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 1.0]),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_of_many_the_largest_of_each_group_is_kept(n_devices: int, n_steps: int, seed: int, gaps: float) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    values = rng.integers(1, 10**9, (n_devices, n_steps)).astype(float)
    values[rng.random(values.shape) < gaps] = math.nan
    drawing = heat_chart(names(n_devices), list(range(n_steps)), values.tolist(), "step time", BLUE)
    if np.isnan(values).all():
        assert drawing.chart is None
        return
    found = cells(drawing)
    height, width = max(-(-n_devices // MOST_ROWS), 1), 0
    n_rows = -(-n_devices // height)
    width = -(-n_steps // min(MOST_COLUMNS, MOST_CELLS // n_rows))
    assert len(found) <= MOST_CELLS
    expected: dict[tuple[int, int], float] = {}
    for at in range(n_devices):
        for step in range(n_steps):
            if not math.isnan(values[at, step]):
                place = (at // height, step // width)
                expected[place] = max(expected.get(place, 0.0), values[at, step])
    assert {(cell["row"], cell["column"]): cell["ps"] for cell in found} == expected
    for cell in found:  # and it names the core and step that the value is of
        assert values[names(n_devices).index(cell["device"]), cell["step"]] == cell["ps"]


def test_a_pod_is_binned_and_the_caption_says_so() -> None:
    values = [[float(1000 + at + step) for step in range(500)] for at in range(128)]
    drawing = heat_chart(names(128), list(range(500)), values, "step time", BLUE)
    assert drawing.caption == "128 cores by 500 steps. 989 cells, each the longest of 3 cores by 22 steps."
    texts = [row["text"] for row in rows(spec_of(drawing), 1)]
    assert texts[0] == "host-0/TPU:0 +2"
    assert texts[-1] == "host-63/TPU:0 +1"


def test_one_very_long_step_leaves_contrast_among_the_others() -> None:
    values = [[float(100 + step) for step in range(100)]]
    values[0][50] = 10_000.0
    drawing = heat_chart(["a"], list(range(100)), values, "step time", BLUE)
    scale = spec_of(drawing)["layer"][0]["encoding"]["fillOpacity"]["scale"]
    assert scale["domain"] == [100, 199]
    assert scale["clamp"]
    assert drawing.caption == "1 core by 100 steps. Colours end at 199 ps; some cells are longer."


def test_equal_values_are_of_middle_strength() -> None:
    scale = spec_of(heat_chart(["a"], [1, 2], [[8.0, 8.0]], "idle", BLUE))["layer"][0]["encoding"]["fillOpacity"][
        "scale"
    ]
    assert scale["domain"] == [0, 16]
    assert heat_chart(["a"], [1], [[0.0]], "idle", BLUE).chart is not None


def test_the_marked_cell_is_framed_also_within_a_group() -> None:
    drawing = heat_chart(["a", "b"], [4, 5], [[1.0, 2.0], [3.0, 4.0]], "idle", BLUE, ("b", 4))
    spec = spec_of(drawing)
    first, frame = layers_of(spec, "rect")
    assert first == 0
    assert [(cell["device"], cell["step"]) for cell in rows(spec, frame)] == [("b", 4)]
    values = [[float(at) for at in range(500)]] * 3
    spec = spec_of(heat_chart(["a", "b", "c"], list(range(500)), values, "idle", BLUE, ("c", 13)))
    (cell,) = rows(spec, layers_of(spec, "rect")[1])
    assert cell["row"] == 2
    assert cell["column"] == 13 // 5
    assert len(layers_of(spec_of(heat_chart(["a"], [1, 2], [[1.0, 2.0]], "idle", BLUE, ("z", 1))), "rect")) == 1


@pytest.mark.parametrize("values", [[], [[None, None]], [[math.nan, math.inf]], [[1e40, -math.inf]]])
def test_where_nothing_is_known_there_is_a_sentence(values: Any) -> None:
    devices = ["a"] * len(values)
    drawing = heat_chart(devices, [1, 2] if values else [], values, "idle", BLUE)
    assert drawing.chart is None
    assert drawing.caption == "No heat map: idle is not known for any step."


def test_long_and_hostile_names() -> None:
    drawing = heat_chart([HOSTILE, "x" * 300 + "-w-17/TPU:3"], [1], [[1.0], [2.0]], "idle", BLUE)
    texts = [row["text"] for row in rows(spec_of(drawing), 1)]
    assert all(len(text) <= 27 for text in texts)
    assert texts[1].endswith("-w-17/TPU:3")
