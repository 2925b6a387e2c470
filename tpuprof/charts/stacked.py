"""Stacked bars one below the other, each with its label above it: the shape of several charts of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    SOFT,
    WIDTH,
    framed,
    legend_columns,
    shortened,
    text_width,
)
from tpuprof.palette import LOOKS

if TYPE_CHECKING:
    import altair as alt

_ROW = 48
_BAR = (20, 38)
_SPAN = 41
"""Where a bar and the line below it are in a row, in px."""
_LEFT, _RIGHT, _BOTTOM = 14, 14, 46
_LEGEND_ROW = 15


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a bar.

    Args:
        label: what it is: pieces of one label have one colour and one entry in the legend.
        tone: the part of a step whose colour it has.
        size: above zero.
        about: what is told on hover.
    """

    label: str
    tone: str
    size: float
    about: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar.

    Args:
        label: what stands above it on the left.
        text: and on the right.
        span: a range that is drawn as a line below it.
    """

    label: str
    text: str
    pieces: Sequence[Piece]
    span: tuple[float, float] | None = None

    @property
    def size(self) -> float:
        """Of all pieces."""
        return sum(piece.size for piece in self.pieces)


def stacked_chart(
    bars: Sequence[Bar], name: str, title: str, scale: float, line: tuple[float, str] | None = None
) -> alt.LayerChart:
    """The bars on one axis from zero.

    Args:
        title: of the axis, with the unit.
        scale: what sizes are divided by.
        line: a size that all bars are measured against, with its label.
    """
    import altair as alt

    ends = [bar.size for bar in bars] + [bar.span[1] for bar in bars if bar.span] + ([line[0]] if line else [])
    room, height = WIDTH - _LEFT - _RIGHT, _ROW * len(bars)
    extent = max(ends) / scale * 1.005
    x_scale = alt.Scale(domain=[0, extent], nice=False)
    y_scale = alt.Scale(domain=[0, height], range=[0, height], nice=False)
    axis = alt.Axis(title=title, tickCount=8)
    x, y = alt.X("x:Q", axis=axis, scale=x_scale), alt.Y("y:Q", axis=None, scale=y_scale)
    pieces = [piece for at, bar in enumerate(bars) for piece in _pieces(at, bar, scale)]
    labels = list(dict.fromkeys(piece.label for piece in _in_order(bars)))
    tones = {piece.label: piece.tone for bar in bars for piece in bar.pieces}
    colors = alt.Scale(domain=labels, range=[LOOKS[tones[label]].light for label in labels])
    columns = legend_columns(labels, 0.9 * room)
    top = -(-len(labels) // columns) * _LEGEND_ROW + (36 if line else 18)
    heads = [{"y": _ROW * at + 12, "label": bar.label, "text": bar.text} for at, bar in enumerate(bars)]
    said = alt.Chart(alt.Data(values=heads))
    layers: list[alt.Chart] = [
        alt.Chart(alt.Data(values=pieces)).mark_rect(stroke=CARD, strokeWidth=0.5).encode(
            x=x, x2="x2:Q", y=y, y2="y2:Q", description="about:N",
            color=alt.Color("part:N", scale=colors, legend=alt.Legend(title=None, columns=columns, columnPadding=24)),
            tooltip=[alt.Tooltip("bar:N", title="of"), alt.Tooltip("about:N", title="part")],
        ),
        said.mark_text(color=INK, fontSize=FONT, align="left", fontWeight="bold").encode(
            x=alt.value(0), y=y, text="label:N"
        ),
        said.mark_text(color=INK, fontSize=FONT, align="right").encode(x=alt.value(room), y=y, text="text:N"),
    ]  # fmt: skip
    spans = [
        {"x": bar.span[0] / scale, "x2": bar.span[1] / scale, "y": _ROW * at + _SPAN}
        for at, bar in enumerate(bars)
        if bar.span
    ]
    if spans:
        ranges = alt.Chart(alt.Data(values=spans)).mark_rule(color=SOFT, strokeWidth=1.5)
        layers.append(ranges.encode(x=x, x2="x2:Q", y=y))
    if line:
        layers += _line((line[0] / scale, line[1]), extent, x, y, len(bars))
    return framed(layers, height, _LEFT, _RIGHT, top, _BOTTOM, name)


def _pieces(at: int, bar: Bar, scale: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start, top, short = 0.0, _ROW * at, shortened(bar.label, 60)
    for piece in bar.pieces:
        end = start + piece.size
        found.append({
            "x": start / scale, "x2": end / scale, "y": top + _BAR[0], "y2": top + _BAR[1], "part": piece.label,
            "bar": bar.label, "about": f"{short}: {piece.about}",
        })  # fmt: skip
        start = end
    return found


def _in_order(bars: Sequence[Bar]) -> list[Piece]:
    """All pieces in an order that agrees with that of every bar, as far as one does."""
    found: list[Piece] = []
    for bar in bars:
        at = 0
        for piece in bar.pieces:
            known = next((n for n, other in enumerate(found) if other.label == piece.label), None)
            if known is None:
                found.insert(at, piece)
                known = at
            at = known + 1
    return found


def _line(line: tuple[float, str], extent: float, x: Any, y: Any, number: int) -> list[alt.Chart]:
    """The mark of a size at each bar, and its label above the first: no line crosses the labels of bars."""
    import altair as alt

    value, label = line
    marks = [{"x": value, "y": _ROW * at + _BAR[0], "y2": _ROW * at + _BAR[1] + 3} for at in range(number)]
    style: dict[str, Any] = {"align": "right" if text_width(label) / WIDTH < value / extent else "left"}
    return [
        alt.Chart(alt.Data(values=marks)).mark_rule(color=INK, strokeWidth=2).encode(x=x, y=y, y2="y2:Q"),
        alt.Chart(alt.Data(values=[{"x": value, "label": label}]))
        .mark_text(color=INK, fontSize=FONT, **style)
        .encode(x=x, y=alt.value(-8), text="label:N"),
    ]
