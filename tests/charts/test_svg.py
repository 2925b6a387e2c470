"""SVG without a browser: shapes and texts, nothing else; the same every time; in the colours of the theme."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pytest

from tests.charts.plans import cell, load, serve, size, train
from tests.charts.samples import HOSTILE, MS, OPS, ROOFLINE, op
from tpuprof import charts
from tpuprof.charts import Drawing, charts_available, drawing, roofline_chart, themed, to_svg
from tpuprof.charts.themes import DARK, VARIABLES
from tpuprof.errors import MissingDependencyError
from tpuprof.palette import LOOKS

NAMESPACE = "{http://www.w3.org/2000/svg}"
RUNGS = [{"name": "measured", "label": HOSTILE, "step_ps": MS, "gain_ps": 0},
         {"name": "without_idle", "label": HOSTILE, "step_ps": MS / 2, "gain_ps": MS / 2}]  # fmt: skip
PARTS = {f"{part}_ps": 1e9 for part in LOOKS}
COLLECTIVE = {"name": HOSTILE, "kind": HOSTILE, "count": 3, "window_ps": 3e9, "transfer_ps": 2e9, "predicted_ps": 1e9,
              "expected_ps": 1.5e9, "regime": HOSTILE}  # fmt: skip
NEEDS = {"module": HOSTILE, "arguments_bytes": 2e9, "output_bytes": 2e9, "aliased_bytes": 1e9, "temp_bytes": 1e9,
         "constants_bytes": 5}  # fmt: skip
DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "roofline": lambda: roofline_chart([*OPS, op(HOSTILE, "matmul", 30, 4e11, 2e9, bound_by=HOSTILE)], ROOFLINE),
    "ladder": lambda: charts.ladder_chart(RUNGS),
    "deltas": lambda: charts.delta_chart([{"label": HOSTILE, "delta_ps": MS}], MS, (HOSTILE, HOSTILE)),
    "steps": lambda: charts.step_parts_chart([{"step": HOSTILE, "parts": PARTS}] * 200),
    "mean": lambda: charts.mean_step_chart(PARTS),
    "heat": lambda: charts.heat_chart(
        [HOSTILE] * 9, list(range(40)), [[float(at) for at in range(40)]] * 9, HOSTILE[:20], LOOKS["matmul"].light
    ),
    "split": lambda: charts.collective_split_chart([{**COLLECTIVE, "wait_ps": 1e9, "unknown_ps": 1e9}] * 20, "wait"),
    "causes": lambda: charts.idle_causes_chart([(HOSTILE, 1e9)], 3e9),
    "skew": lambda: charts.skew_chart([{"device": HOSTILE, "late_ps": 2e9, "wait_ps": 1e9}] * 40),
    "cores": lambda: charts.device_parts_chart([{"device": HOSTILE, "parts": PARTS}] * 40),
    "collectives": lambda: charts.collectives_chart([COLLECTIVE] * 20),
    "needs": lambda: charts.memory_needs_chart([NEEDS] * 20, 9e9),
    "curve": lambda: charts.memory_curve_chart([{"position": 0, "bytes": 5e9, "op": HOSTILE}], 3, 9e9),
    "allocators": lambda: charts.allocators_chart(
        [{"allocator": HOSTILE, "start_ps": at, "taken_bytes": 5e9} for at in range(900)], 9e9
    ),
    "opsteps": lambda: charts.op_steps_chart([{"step": HOSTILE, "mean_ps": MS, "most_ps": MS}] * 200, HOSTILE),
    "optimes": lambda: charts.op_time_chart([1e9, 2e9, 2.1e9], "matmul"),
    "times": lambda: charts.step_time_chart([1e9, 2e9, 2.1e9]),
    "plan steps": lambda: charts.plan_steps_chart([train(layout=HOSTILE, remat=HOSTILE, exposed={HOSTILE: 0.1})]),
    "plan memory": lambda: charts.plan_memory_chart([serve(where=HOSTILE, split=HOSTILE)] * 20),
    "mesh map": lambda: charts.mesh_map_chart(
        [cell(1, 4, 1.0, layout=HOSTILE), cell(2, 4, None, why=HOSTILE, kinds=[HOSTILE])]
    ),
    "scaling": lambda: charts.scaling_chart(
        [size(8, 1e5, "communication", layout=HOSTILE), size(16, 2e5), size(32, None, reason=HOSTILE)]
    ),
    "pareto": lambda: charts.pareto_chart(
        [serve(where=HOSTILE, split=HOSTILE, tpot_s=0.01 * at, tokens_per_s_per_chip=at) for at in range(1, 40)],
        [serve(where=f"{at}{HOSTILE}", tokens_per_s_per_chip=0.5) for at in range(40)],
        0.02,
    ),
    "load": lambda: charts.load_chart([load(at / 10) for at in range(1, 11)], 1.5, 0.03),
}


def svg_of(name: str, theme: Any = "light") -> str:
    made = DRAWINGS[name]()
    assert made.chart is not None
    return to_svg(made.chart, theme, "a label")


@pytest.mark.parametrize("name", DRAWINGS)
def test_only_shapes_and_texts_the_same_every_time(name: str) -> None:
    text = svg_of(name)
    assert text == svg_of(name)
    root = ElementTree.fromstring(text)
    found = {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert found <= {"svg", "g", "path", "rect", "line", "text", "tspan", "title"}
    attributes = {key for element in root.iter() for key in element.attrib}
    assert not {
        key for key in attributes if key.startswith("on") or "href" in key or key in ("id", "style", "clip-path")
    }
    assert "url(" not in text
    assert "font-face" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not {"\x1b", "\u202e"} & set(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "a label"
    assert len(text) < (300_000 if name in ("steps", "cores", "heat", "skew") else 60_000)


@pytest.mark.parametrize("name", DRAWINGS)
def test_pages_give_colours_and_font_through_classes(name: str) -> None:
    root = ElementTree.fromstring(svg_of(name, "page"))
    colors = {element.get(key) for element in root.iter() for key in ("fill", "stroke")} - {None, "none", "transparent"}
    assert not colors
    assert not [
        element for element in root.iter() if {"font-family", "width"} & set(element.attrib) and element is root
    ]
    classes = {name for element in root.iter() for name in element.get("class", "").split()} - {"chart"}
    assert classes
    assert classes <= {f"{key}-{name}" for key in ("fill", "stroke") for name in VARIABLES.values()}
    assert "viewBox" in root.attrib


def test_marks_tell_on_hover_what_they_are() -> None:
    root = ElementTree.fromstring(svg_of("roofline"))
    titles = [element.text or "" for element in root.iter(f"{NAMESPACE}title")]
    (dot,) = [text for text in titles if text.startswith("dot.1 (matmul)")]
    assert "reaches 80 TFLOP/s" in dot
    assert "intensity 400 FLOP per byte of HBM" in dot


@pytest.mark.parametrize("bad", ["\x00", "\x1b[1m", "\ufffe", "\ud800", "\x85", "&<>\"'", "\U0001f600", "\u0301" * 50])
def test_characters_that_xml_forbids_never_reach_the_renderer(bad: str) -> None:
    import altair as alt

    data = alt.Chart(alt.Data(values=[{"text": f"a{bad}b"}]))
    text = to_svg(alt.layer(data.mark_text().encode(text="text:N", description="text:N")), "light", f"a{bad}b")
    ElementTree.fromstring(text)


def test_dark_has_the_dark_twin_of_every_colour_and_names_stay() -> None:
    matmul = LOOKS["matmul"]
    chart = roofline_chart([op(matmul.light, "matmul", 1, 4e10, 1e8)], ROOFLINE).chart
    assert chart is not None
    light, dark = to_svg(chart, "light"), to_svg(chart, "dark")
    assert f'fill="{matmul.light}"' in light
    assert f'fill="{matmul.dark}"' in dark
    assert f'fill="{matmul.light}"' not in dark
    assert f">{matmul.light}<" in dark  # an op of this name keeps it
    assert len(DARK) == len(VARIABLES) == len(LOOKS) + 6


def test_specs_are_plain_and_bounded() -> None:
    chart = roofline_chart(OPS, ROOFLINE).chart
    assert chart is not None
    spec = themed(chart)
    assert spec["name"] == "roofline"
    assert "expr" not in str(spec)
    assert "'url'" not in str(spec)
    assert themed(chart) == spec


def test_without_the_extra_there_is_an_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    assert not charts_available()
    with pytest.raises(MissingDependencyError) as caught:
        roofline_chart(OPS, ROOFLINE)
    assert "altair and vl-convert-python" in str(caught.value)
    assert 'pip install "tpuprof[charts]"' in str(caught.value)
    assert charts.step_time_chart([]).chart is None  # nothing to draw needs nothing


def test_importing_draws_nothing_and_imports_little() -> None:
    code = (
        "import sys, tpuprof.charts, tpuprof.report.html\n"
        "assert not {'altair', 'vl_convert', 'pandas', 'jsonschema'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
