"""Charts of two panels, one above the other, over a common horizontal axis: curves whose units differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import CARD, FONT, INK, SOFT, WIDTH, framed

if TYPE_CHECKING:
    import altair as alt

LEFT, RIGHT, BOTTOM = 72, 96, 46
ROOM = WIDTH - LEFT - RIGHT
_GAP = 26


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Args:
        title: with the unit.
        domain: its ends.
        ticks: where its labels are; left to the chart if empty.
        labels: of the ticks, where they are not the numbers.
        log: logarithmic.
    """

    title: str
    domain: tuple[float, float]
    ticks: Sequence[float] = ()
    log: bool = False
    format: str = ",.6~g"

    def scale(self, **more: Any) -> alt.Scale:
        """Its scale."""
        import altair as alt

        kind: dict[str, Any] = {"type": "log"} if self.log else {}
        return alt.Scale(domain=list(self.domain), nice=False, zero=False, **kind, **more)

    def drawn(self, **more: Any) -> alt.Axis:
        """The axis as it is drawn."""
        import altair as alt

        values: dict[str, Any] = {"values": list(self.ticks)} if self.ticks else {"tickCount": 5}
        return alt.Axis(title=self.title, format=self.format, **values, **more)

    def at(self, value: float) -> float:
        """The share of the axis where a value lies."""
        low, high = self.domain
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Line:
    """A curve.

    Args:
        points: ``x``, ``y``, and ``about`` which is told on hover.
        color: a light colour of the palette.
        label: beside its last point.
        dashed: without points.
    """

    points: Sequence[dict[str, Any]]
    color: str
    label: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A level line with its label."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the panels.

    Args:
        height: in px.
    """

    axis: Axis
    height: int
    lines: Sequence[Line]
    levels: Sequence[Level] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the common axis, marked over all panels, with a label above them."""

    value: float
    label: str


def panels_chart(
    name: str, x: Axis, panels: Sequence[Panel], marks: Sequence[Mark] = (), top: int = 30
) -> alt.LayerChart:
    """The panels from above to below."""
    total = sum(panel.height for panel in panels) + _GAP * (len(panels) - 1)
    layers: list[Any] = []
    for mark in marks:
        layers += _mark(mark, x, total)
    start = 0
    for panel in panels:
        layers += _panel(panel, x, start)
        start += panel.height + _GAP
    made: Any = framed(layers, total, LEFT, RIGHT, top, BOTTOM, name)
    return made.resolve_scale(y="independent")


def spread(values: Sequence[tuple[float, str]], least: float = 14) -> list[tuple[float, str]]:
    """Labels at heights in px, moved apart where they would lie on each other; their order stays."""
    found: list[tuple[float, str]] = []
    for height, text in sorted(values):
        found.append((max(height, found[-1][0] + least) if found else height, text))
    return found


def _panel(panel: Panel, x: Axis, start: int) -> list[alt.Chart]:
    import altair as alt

    ends = (start + panel.height, start)
    scale = panel.axis.scale(range=list(ends))
    across = alt.X("x:Q", scale=x.scale(), axis=x.drawn(grid=False))
    layers: list[alt.Chart] = []

    def place(*, axis: bool) -> alt.Y:
        drawn = panel.axis.drawn(titlePadding=10, orient="left") if axis else None
        return alt.Y("y:Q", scale=scale, axis=drawn)

    frame = alt.Chart(alt.Data(values=[{"y": panel.axis.domain[0], "x": x.domain[0]}]))
    layers.append(frame.mark_point(color=CARD, opacity=0, size=0).encode(x=across, y=place(axis=True)))
    for level in panel.levels:
        data = alt.Chart(alt.Data(values=[{"y": level.value, "label": level.label}]))
        layers += [
            data.mark_rule(color=SOFT, strokeDash=[4, 3]).encode(
                y=place(axis=False), x=alt.value(0), x2=alt.value(ROOM)
            ),
            data.mark_text(color=SOFT, fontSize=FONT, align="left", dy=-7).encode(
                y=place(axis=False), x=alt.value(4), text="label:N"
            ),
        ]
    labels: list[tuple[float, str]] = []
    for line in panel.lines:
        data = alt.Chart(alt.Data(values=list(line.points)))
        style: dict[str, Any] = {"strokeDash": [5, 4]} if line.dashed else {}
        where: dict[str, Any] = {"x": across, "y": place(axis=False)}
        layers.append(data.mark_line(color=line.color, strokeWidth=2, **style).encode(**where))
        if not line.dashed:
            layers.append(
                data.mark_point(color=line.color, filled=True, size=60, opacity=1).encode(
                    **where, description="about:N", tooltip=[alt.Tooltip("about:N", title="point")]
                )
            )
        if line.label and line.points:
            last = line.points[-1]
            labels.append((ends[0] - panel.axis.at(last["y"]) * panel.height, line.label))
    for height, text in spread(labels):
        told = alt.Chart(alt.Data(values=[{"text": text}])).mark_text(color=INK, fontSize=FONT, align="left")
        layers.append(told.encode(x=alt.value(ROOM + 8), y=alt.value(height), text="text:N"))
    return layers


def _mark(mark: Mark, x: Axis, height: int) -> list[alt.Chart]:
    import altair as alt

    data = alt.Chart(alt.Data(values=[{"x": mark.value, "label": mark.label}]))
    where = alt.X("x:Q", scale=x.scale(), axis=x.drawn(grid=False))
    style: dict[str, Any] = {"align": "left" if x.at(mark.value) < 0.5 else "right"}
    return [
        data.mark_rule(color=INK, strokeWidth=1.2, strokeDash=[2, 3]).encode(
            x=where, y=alt.value(-6), y2=alt.value(height)
        ),
        data.mark_text(color=INK, fontSize=FONT, **style).encode(x=where, y=alt.value(-14), text="label:N"),
    ]
