"""Horizontal bars of a few pieces with a name and a figure each: what charts of groups are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    LINE,
    SOFT,
    WIDTH,
    framed,
    legend_columns,
    shortened,
    time_unit,
)

if TYPE_CHECKING:
    import altair as alt

PICKED = "picked"
"""The selection parameter of these charts: a click gives ``key`` of the bar."""
LEFT, RIGHT, _BOTTOM, _ROW = 230, 118, 46, 24
_NAME = 33
_TICKS = ",.6~g"  # vega picks the figures of a bare "~g" itself, and writes 10 as 1e+1


@dataclass(frozen=True, slots=True)
class Piece:
    """A kind of piece: its name in the legend and its light colour."""

    label: str
    color: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Args:
        key: what a click on it gives.
        label: the name before it.
        figure: the text behind it.
        sizes: times in ps by piece, in order; negative ones go to the left of zero.
        about: the tooltip of each piece.
    """

    key: str
    label: str
    figure: str
    sizes: Sequence[float]
    about: Sequence[str]


def stacked(bars: Sequence[Bar], pieces: Sequence[Piece], title: str, name: str) -> alt.LayerChart:
    """The bars as a chart; its legend has the pieces that are there, unless there is only one kind.

    Args:
        bars: at least one with a size that is not zero.
        pieces: as many as sizes.
        title: of the axis, without unit.
        name: of the chart.
    """
    import altair as alt

    right = max(sum(size for size in bar.sizes if size > 0) for bar in bars)
    left = min(sum(size for size in bar.sizes if size < 0) for bar in bars)
    scale, unit = time_unit(max(right, -left))
    present = [at for at in range(len(pieces)) if any(bar.sizes[at] for bar in bars)]
    rows: list[dict[str, Any]] = []
    for row, bar in enumerate(bars):
        ends = [0.0, 0.0]  # of what goes right and what goes left
        for at in present:
            size = bar.sizes[at]
            if not size:
                continue
            start = ends[size < 0]
            ends[size < 0] = start + size
            rows.append({"row": row, "key": bar.key, "piece": pieces[at].label, "x": start / scale,
                         "x2": (start + size) / scale, "about": bar.about[at]})  # fmt: skip
    columns = legend_columns([pieces[at].label for at in present], WIDTH - LEFT - RIGHT)
    lines = -(-len(present) // columns) if len(pieces) > 1 else 0
    y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(bars))), paddingInner=0.3))
    axis = alt.Axis(title=f"{title} ({unit})", tickCount=6, format=_TICKS)
    if left < 0:  # both directions are times
        axis = alt.Axis(title=f"{title} ({unit})", tickCount=6, labelExpr=f"format(abs(datum.value), '{_TICKS}')")
    x = alt.X("x:Q", axis=axis, scale=alt.Scale(domain=[left / scale, right / scale], nice=False))
    color = alt.Color(
        "piece:N",
        scale=alt.Scale(domain=[pieces[at].label for at in present], range=[pieces[at].color for at in present]),
        legend=alt.Legend(title=None, columns=columns) if lines else None,
    )
    texts = [
        {"row": row, "label": shortened(bar.label, _NAME), "figure": shortened(bar.figure, 18)}
        for row, bar in enumerate(bars)
    ]
    names = alt.Chart(alt.Data(values=texts))
    picked = alt.selection_point(name=PICKED, fields=["key"], on="click")
    layers: list[Any] = [
        alt.Chart(alt.Data(values=rows)).mark_rect(stroke=CARD, strokeWidth=0.5, cursor="pointer").encode(
            x=x, x2="x2:Q", y=y, color=color, description="about:N", tooltip=[alt.Tooltip("about:N", title="bar")],
        ).add_params(picked),
        names.mark_text(color=INK, fontSize=FONT, align="right").encode(y=y, x=alt.value(-10), text="label:N"),
        names.mark_text(color=SOFT, fontSize=FONT, align="left").encode(
            y=y, x=alt.value(WIDTH - LEFT - RIGHT + 10), text="figure:N"
        ),
    ]  # fmt: skip
    if left < 0:
        zero = alt.Chart(alt.Data(values=[{"x": 0}])).mark_rule(color=LINE)
        layers.insert(1, zero.encode(x=alt.X("x:Q")))
    return framed(layers, _ROW * len(bars), LEFT, RIGHT, 18 * lines + 12, _BOTTOM, name)
