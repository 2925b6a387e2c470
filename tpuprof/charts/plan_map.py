"""The map of mesh shapes: how much of a step is exposed communication, by how the slice is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    FONT,
    INK,
    LINE,
    SOFT,
    WIDTH,
    Drawing,
    framed,
    need_charts,
    number,
    positive,
    shortened,
)
from tpuprof.palette import CHROME, LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import PS_PER_S, format_percent, format_ps

if TYPE_CHECKING:
    import altair as alt

MOST_COLUMNS, MOST_ROWS = 14, 12
_ROW, _LEFT, _RIGHT, _TOP, _BOTTOM = 42, 84, 14, 12, 48
_STRONGEST = 0.62
"""Opacity of the colour where the most is exposed: what is written on it stays readable in both themes."""
_EXPOSED, _STRIPE = LOOKS["collective_exposed"].light, CHROME["stripe"][0]


def mesh_map_chart(cells: Sequence[Mapping[str, Any]]) -> Drawing:
    """Tensor parallelism against the devices that share the batch: the best layout of each pair.

    Colour is the share of the step that waits for communication; the fastest is framed. Where no layout is possible
    the kind of reason is written.

    Args:
        cells: ``mesh_map`` of the document of a training plan: ``tensor``, ``batch_devices``, ``layouts``, ``layout``,
            ``step_time_s``, ``exposed_fraction``, and without a layout ``kinds`` and ``why``.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [cell for cell in cells if positive(cell, "tensor") and positive(cell, "batch_devices")]
    times = [time for cell in known if (time := _time(cell)) is not None]
    if not times:
        return Drawing(None, "No map of mesh shapes: no layout is possible.")
    need_charts()
    import altair as alt

    best = min(times)
    columns = _chosen(known, "batch_devices", MOST_COLUMNS)
    near = [cell for cell in known if cell["batch_devices"] in columns]
    rows = _chosen(near, "tensor", MOST_ROWS)
    shown = [cell for cell in near if cell["tensor"] in rows]
    worst = max((number(cell.get("exposed_fraction")) or 0.0 for cell in shown if _time(cell) is not None), default=0.0)
    wide = (WIDTH - _LEFT - _RIGHT) / len(columns)
    wide = min(wide, 120)
    data = [
        _square(cell, columns.index(cell["batch_devices"]), rows.index(cell["tensor"]), worst, best, wide)
        for cell in shown
    ]
    width, height = wide * len(columns), _ROW * len(rows)
    x_scale = alt.Scale(domain=[0, WIDTH - _LEFT - _RIGHT], nice=False)
    y_scale = alt.Scale(domain=[0, height], range=[0, height], nice=False)
    x, y = alt.X("x:Q", axis=None, scale=x_scale), alt.Y("y:Q", axis=None, scale=y_scale)
    possible = [row for row in data if row["possible"]]
    tooltip = [
        alt.Tooltip("shape:N", title="shape"), alt.Tooltip("layout:N", title="best layout"),
        alt.Tooltip("time:N", title="step"), alt.Tooltip("share:N", title="exposed communication (share of the step)"),
        alt.Tooltip("why:N", title="why not"), alt.Tooltip("layouts:Q", title="layouts of this shape", format=","),
    ]  # fmt: skip
    opacity = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None)

    def squares(values: list[dict[str, Any]], **style: Any) -> alt.Chart:
        return alt.Chart(alt.Data(values=values)).mark_rect(**style).encode(x=x, x2="x2:Q", y=y, y2="y2:Q")

    def texts(values: list[dict[str, Any]], key: str, dy: float, **style: Any) -> alt.Chart:
        made = alt.Chart(alt.Data(values=values)).mark_text(dy=dy, **style)
        return made.encode(
            x=alt.X("middle:Q", scale=x_scale, axis=None),
            y=alt.Y("centre:Q", scale=y_scale, axis=None),
            text=f"{key}:N",
        )

    layers: list[alt.Chart] = [
        squares([row for row in data if not row["possible"]], fill=_STRIPE),
        squares(possible, fill=_EXPOSED).encode(opacity=opacity),
        texts(possible, "share", -8, color=INK, fontSize=FONT, fontWeight="bold"),
        texts(possible, "time", 9, color=INK, fontSize=FONT - 2),
        texts([row for row in data if not row["possible"]], "kind", 0, color=SOFT, fontSize=FONT - 2),
        # Above all of a cell, so that it answers wherever one points.
        squares(data, fill="transparent", stroke=LINE, strokeWidth=1).encode(description="about:N", tooltip=tooltip),
        squares([row for row in possible if row["best"]], fill="transparent", stroke=INK, strokeWidth=2.5).encode(
            description="about:N", tooltip=tooltip
        ),
    ]
    layers += _axes(columns, rows, wide, (width, height))
    chart = framed(layers, height, _LEFT, _RIGHT, _TOP, _BOTTOM, "meshmap")
    return Drawing(chart, _caption(shown, known, possible))


def _time(cell: Mapping[str, Any]) -> float | None:
    return positive(cell, "step_time_s")


def _chosen(cells: Sequence[Mapping[str, Any]], key: str, most: int) -> list[Any]:
    """The values of an axis, in order; of too many those with the fastest layouts."""
    fastest: dict[Any, float] = {}
    for cell in cells:
        time = _time(cell)
        fastest[cell[key]] = min(fastest.get(cell[key], float("inf")), float("inf") if time is None else time)
    kept = sorted(fastest, key=lambda value: (fastest[value], value))[:most]
    return sorted(kept)


def _square(
    cell: Mapping[str, Any], column: int, row: int, worst: float, best: float, wide: float
) -> dict[str, Any]:  # fmt: skip
    time, share = _time(cell), number(cell.get("exposed_fraction"))
    shape = f"tensor {cell['tensor']:,}, data and FSDP {cell['batch_devices']:,}"
    kinds = [clean(kind) for kind in cell.get("kinds") or ()]
    layout, why = shortened(cell.get("layout") or "none", 80), shortened(cell.get("why") or "", 160)
    shown = "n/a" if share is None else format_percent(share, 1 if share < 0.0995 else 0)
    said = f"{layout}\nstep {format_ps((time or 0) * PS_PER_S)}, {shown} exposed communication" if time else why
    return {
        "x": column * wide + 1, "x2": (column + 1) * wide - 1, "y": row * _ROW + 1, "y2": (row + 1) * _ROW - 1,
        "middle": (column + 0.5) * wide, "centre": (row + 0.5) * _ROW, "possible": time is not None,
        "strength": 0.0 if not worst or share is None else _STRONGEST * min(max(share / worst, 0.0), 1.0),
        "best": time == best, "share": shown, "time": "" if time is None else format_ps(time * PS_PER_S, 3),
        "kind": shortened(kinds[0] if kinds else "no", 10), "why": why, "shape": shape, "layout": layout,
        "layouts": number(cell.get("layouts")), "about": f"{shape}: {said}",
    }  # fmt: skip


def _axes(columns: Sequence[Any], rows: Sequence[Any], wide: float, size: tuple[float, float]) -> list[alt.Chart]:
    import altair as alt

    width, height = size
    across = [{"x": (at + 0.5) * wide, "text": f"{value:,}"} for at, value in enumerate(columns)]
    down = [{"y": (at + 0.5) * _ROW, "text": f"{value:,}"} for at, value in enumerate(rows)]

    def text(values: list[dict[str, Any]], **style: Any) -> alt.Chart:
        return alt.Chart(alt.Data(values=values)).mark_text(fontSize=FONT, **style)

    x = alt.X("x:Q", scale=alt.Scale(domain=[0, WIDTH - _LEFT - _RIGHT], nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, height], range=[0, height], nice=False), axis=None)
    return [
        text(across, color=INK).encode(x=x, y=alt.value(height + 12), text="text:N"),
        text(down, color=INK, align="right").encode(x=alt.value(-8), y=y, text="text:N"),
        text([{"text": "devices that share the batch: data x FSDP"}], color=SOFT).encode(
            x=alt.value(width / 2), y=alt.value(height + 30), text="text:N"
        ),
        text([{"text": "tensor"}], color=SOFT, angle=270).encode(
            x=alt.value(-56), y=alt.value(height / 2), text="text:N"
        ),
    ]


def _caption(
    shown: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]], possible: Sequence[Mapping[str, Any]]
) -> str:
    extent = plural(len(shown), "mesh shape")
    sentences = [f"{extent}, {len(possible)} of them possible: share of the step that is exposed communication, and "
                 "the step of the best layout of each."]  # fmt: skip
    if len(shown) < len(known):
        sentences[0] = f"The {extent} near the fastest of {len(known):,}: " + sentences[0].partition(": ")[2]
    sentences.append("Framed: the fastest. What the shape leaves of the slice is context and pipeline parallelism.")
    sentences.append("Where no layout is possible, the first reason of the one that lacked the least.")
    return " ".join(sentences)
