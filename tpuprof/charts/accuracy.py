"""Predictions against measurements: how near the diagonal the rows of ``tpuprof validate`` lie, by chip."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    SOFT,
    WIDTH,
    Drawing,
    framed,
    need_charts,
    overlap,
    positive,
    shortened,
    text_width,
)
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent

if TYPE_CHECKING:
    import altair as alt

MOST_POINTS = 500
BAND = 0.15
"""The share that the thin lines beside the diagonal stand for."""
_NAMED = 5  # of the largest errors, where there is room
_HEIGHT = 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 34, 46
_PLOT_WIDTH = WIDTH - _LEFT - _RIGHT
_TONES = ("matmul", "host_transfer", "custom_kernel", "collective_exposed", "convolution", "barrier_wait", "dma_wait")
_UNITS = {"s": "seconds per step", "token/s": "generated tokens per second"}
_MARKS = (1, 2, 5)  # of each decade


@dataclass(frozen=True, slots=True)
class _Frame:
    """The extent of both axes, and their unit."""

    low: float
    high: float
    unit: str

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        """The place in the plot, from its upper left corner."""
        across, up = (math.log(value / self.low) / math.log(self.high / self.low) for value in (x, y))
        return across * _PLOT_WIDTH, (1 - up) * _HEIGHT


def accuracy_chart(rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """A log-log scatter of predicted over measured, coloured by chip, with the diagonal and lines at 15 % beside it.

    Rows that do not count in the statistics are hollow. The largest errors are named.

    Args:
        rows: with ``row``, ``chip``, ``model``, ``measured``, ``predicted``, ``unit`` and ``counts``: those of the
            document of ``tpuprof validate``, all of one unit. Rows without a prediction are left out.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    points = [point for row in rows if (point := _point(row)) is not None]
    if not points:
        return Drawing(None, "No chart of the accuracy: no row has both a measurement and a prediction.")
    need_charts()
    points.sort(key=lambda point: (-abs(point["error"]), point["row"]))
    drawn = points[:MOST_POINTS]
    values = [point[axis] for point in drawn for axis in ("measured", "predicted")]
    frame = _Frame(min(values) / 1.25, max(values) * 1.25, drawn[0]["unit"])
    layers = [*_line_layers(frame), *_point_layers(frame, drawn), *_name_layers(frame, drawn)]
    return Drawing(framed(layers, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, name="accuracy"), _caption(drawn, points))


def _point(row: Mapping[str, Any]) -> dict[str, Any] | None:
    measured, predicted = positive(row, "measured"), positive(row, "predicted")
    if measured is None or predicted is None:
        return None
    error = predicted / measured - 1
    name, model = shortened(row.get("row") or "", 40), shortened(row.get("model") or "", 40)
    chip, unit = shortened(row.get("chip") or "not stated", 20), str(row.get("unit") or "s")
    counts = bool(row.get("counts"))
    about = (
        f"{name}: {model} on {chip}\nmeasured {measured:.4g} {unit}, predicted {predicted:.4g}\n"
        f"error {100 * error:+.1f} %" + ("" if counts else ", not in the statistics")
    )
    return {
        "row": name, "model": model, "chip": chip, "unit": unit, "measured": measured, "predicted": predicted,
        "error": error, "off": f"{100 * error:+.1f} %", "counts": counts, "about": about,
    }  # fmt: skip


def _axis(frame: _Frame, which: str) -> alt.Axis:
    import altair as alt

    first, last = math.floor(math.log10(frame.low)), math.ceil(math.log10(frame.high))
    marks = _MARKS if last - first <= 4 else (1,)
    ticks = [mark * 10.0**power for power in range(first, last + 1) for mark in marks]
    values = [value for value in ticks if frame.low <= value <= frame.high]
    title = f"{which}, {_UNITS.get(frame.unit, clean(frame.unit))}"
    return alt.Axis(title=title, values=values, format=",~r", titlePadding=10)


def _x(frame: _Frame, field: str) -> alt.X:
    import altair as alt

    scale = alt.Scale(type="log", domain=[frame.low, frame.high], nice=False)
    return alt.X(field, type="quantitative", axis=_axis(frame, "measured"), scale=scale)


def _y(frame: _Frame, field: str) -> alt.Y:
    import altair as alt

    scale = alt.Scale(type="log", domain=[frame.low, frame.high], nice=False)
    return alt.Y(field, type="quantitative", axis=_axis(frame, "predicted"), scale=scale)


def _line_layers(frame: _Frame) -> list[alt.Chart]:
    """The diagonal, and thin lines at a share above and below it."""
    import altair as alt

    layers: list[alt.Chart] = []
    for share, color, dash in ((0.0, INK, [1, 0]), (BAND, SOFT, [4, 4]), (-BAND, SOFT, [4, 4])):
        factor = 1 + share
        start, end = max(frame.low, frame.low / factor), min(frame.high, frame.high / factor)
        ends = {"x": start, "y": start * factor, "x2": end, "y2": end * factor, "label": f"{100 * share:+g} %"}
        data = alt.Chart(alt.Data(values=[ends]))
        line = data.mark_rule(color=color, strokeWidth=1, strokeDash=dash)
        layers.append(line.encode(x=_x(frame, "x"), y=_y(frame, "y"), x2="x2:Q", y2="y2:Q"))
        if share:
            # At the upper ends of the lines: above the one, and as far below the other as it falls beside the text.
            away, down, baseline = (-16, 0, "bottom") if share > 0 else (-4, 26, "top")
            text = data.mark_text(color=SOFT, fontSize=FONT, align="right", dx=away, dy=down, baseline=baseline)
            layers.append(text.encode(x=_x(frame, "x2"), y=_y(frame, "y2"), text="label:N"))
    return layers


def _point_layers(frame: _Frame, drawn: Sequence[Mapping[str, Any]]) -> list[alt.Chart]:
    import altair as alt

    chips = sorted({point["chip"] for point in drawn})
    tones = [LOOKS[_TONES[place % len(_TONES)]].light for place in range(len(chips))]
    color = alt.Color("chip:N", scale=alt.Scale(domain=chips, range=tones), legend=alt.Legend(title=None))
    layers: list[alt.Chart] = []
    for counts in (True, False):
        rows = [point for point in drawn if point["counts"] is counts]
        if not rows:
            continue
        data = alt.Chart(alt.Data(values=rows))
        mark = (
            data.mark_point(filled=True, size=60, opacity=0.85, stroke=CARD, strokeWidth=0.8)
            if counts
            else data.mark_point(filled=False, size=50, opacity=0.9, strokeWidth=1.4)
        )
        layers.append(
            mark.encode(
                x=_x(frame, "measured"),
                y=_y(frame, "predicted"),
                color=color,
                description="about:N",
                tooltip=[
                    alt.Tooltip("row:N", title="row"),
                    alt.Tooltip("model:N", title="model"),
                    alt.Tooltip("chip:N", title="chip"),
                    alt.Tooltip("measured:Q", title="measured", format=",.4~g"),
                    alt.Tooltip("predicted:Q", title="predicted", format=",.4~g"),
                    alt.Tooltip("off:N", title="error"),
                ],
            )
        )
    return layers


def _name_layers(frame: _Frame, drawn: Sequence[Mapping[str, Any]]) -> list[alt.Chart]:
    """The model and error of the rows that count and are furthest off; one that has no room is left out."""
    import altair as alt

    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in (frame.pixels(p["measured"], p["predicted"]) for p in drawn)]
    layers: list[alt.Chart] = []
    for point in [point for point in drawn if point["counts"]][:_NAMED]:
        label = f"{shortened(point['model'], 24)} {point['off']}"
        x, y = frame.pixels(point["measured"], point["predicted"])
        wide, below = text_width(label), point["error"] < 0
        # Away from the diagonal: to the right of what is below it, to the left of what is above.
        start = x + 9 if below else x - 9 - wide
        box = (start, y - 7, start + wide, y + 7)
        inside = start >= 0 and start + wide <= _PLOT_WIDTH
        own = (x - 6, y - 6, x + 6, y + 6)
        if not inside or any(overlap(box, other) for other in taken if other != own):
            continue
        taken.append(box)
        data = alt.Chart(alt.Data(values=[{**{key: point[key] for key in ("measured", "predicted")}, "label": label}]))
        style: dict[str, Any] = {
            "fontSize": FONT - 1, "align": "left" if below else "right", "dx": 9 if below else -9, "baseline": "middle"
        }  # fmt: skip
        halo = data.mark_text(color=CARD, stroke=CARD, strokeWidth=3, opacity=0.85, **style)
        layers += [
            layer.encode(x=_x(frame, "measured"), y=_y(frame, "predicted"), text="label:N")
            for layer in (halo, data.mark_text(color=INK, **style))
        ]
    return layers


def _caption(drawn: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]]) -> str:
    counted = [abs(point["error"]) for point in points if point["counts"]]
    shown = (
        f"{len(drawn):,} of {plural(len(points), 'row')}" if len(drawn) < len(points) else plural(len(points), "row")
    )
    sentences = [f"{shown}; dashed lines are {100 * BAND:g} % off."]
    if counted:
        within = sum(size <= BAND for size in counted)
        of_all = f"{within} of {len(counted)} that count are within {100 * BAND:g} %"
        sentences.append(f"Median error {format_percent(median(counted), 1)}; {of_all}.")
    if len(counted) < len(points):
        sentences.append("Hollow: not in the statistics.")
    return " ".join(sentences)
