"""The frame of a roofline chart and the roofs in it: sloped lines for memories, level ones for peaks, the ridge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import FONT, INK, SOFT, WIDTH, decades, text_width
from tpuprof.charts.points import MEMORIES
from tpuprof.text import clean
from tpuprof.units import format_si

if TYPE_CHECKING:
    import altair as alt

MARGINS = (74, 14, 34, 46)
"""Left, right, above and below the plot, in px."""
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - MARGINS[0] - MARGINS[1], 380


@dataclass(frozen=True, slots=True)
class Frame:
    """The extent of the axes: intensity in FLOP/B, rate in FLOP/s."""

    x: tuple[float, float]
    y: tuple[float, float]

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        """The place in the plot, in px from its upper left corner."""
        across = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        up = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return across * PLOT_WIDTH, (1 - up) * PLOT_HEIGHT

    def holds(self, point: Mapping[str, Any]) -> bool:
        """True if the point lies inside."""
        return self.x[0] <= point["intensity"] <= self.x[1] and self.y[0] <= point["rate"] <= self.y[1]


def places(frame: Frame, points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Where points are, in px."""
    return [frame.pixels(point["intensity"], point["rate"]) for point in points]


def x_axis(frame: Frame, field: str) -> alt.X:
    """The axis of operational intensity, with a field of the data on it."""
    import altair as alt

    title = "operational intensity: FLOP per byte of memory traffic"
    axis = alt.Axis(title=title, values=decades(*frame.x), format=",~f", titlePadding=10)
    return alt.X(field, type="quantitative", axis=axis, scale=alt.Scale(type="log", domain=list(frame.x), nice=False))


def y_axis(frame: Frame, field: str) -> alt.Y:
    """The axis of rates, with a field of the data on it."""
    import altair as alt

    axis = alt.Axis(title="achieved FLOP/s per device", values=decades(*frame.y), format="~s", titlePadding=14)
    return alt.Y(field, type="quantitative", axis=axis, scale=alt.Scale(type="log", domain=list(frame.y), nice=False))


def roof_layers(
    frame: Frame,
    peaks: Mapping[str, float],
    bandwidths: Mapping[str, float],
    main: str,
    busy: Sequence[tuple[float, float]],
) -> list[alt.Chart]:
    """Lines and labels of the roofs, and the ridge.

    Args:
        peaks: FLOP/s by type; ``main`` is the one that the ridge is of.
        bandwidths: B/s by memory.
        busy: where large points are, in px, so that labels are not written on them.
    """
    import altair as alt

    ridge = peaks[main] / bandwidths["hbm"]
    rows = _roofs(frame, peaks, bandwidths, main)
    layers: list[alt.Chart] = []
    for strong, color, width in ((False, SOFT, 1.0), (True, INK, 1.6)):
        chosen = [row for row in rows if row["strong"] is strong]
        if chosen:
            layers.append(
                alt.Chart(alt.Data(values=chosen))
                .mark_rule(color=color, strokeWidth=width)
                .encode(x=x_axis(frame, "x"), y=y_axis(frame, "y"), x2="x2:Q", y2="y2:Q")
            )
    label = f"{clean(main)} ridge {ridge:.4g} FLOP/B"
    foot = {"x": ridge, "y": frame.y[0], "y2": peaks[main], "roof": label}
    ridge_data = alt.Chart(alt.Data(values=[foot]))
    layers += [
        ridge_data.mark_rule(color=SOFT, strokeDash=[4, 4])
        .encode(x=x_axis(frame, "x"), y=y_axis(frame, "y"), y2="y2:Q"),
        ridge_data.mark_text(color=SOFT, fontSize=FONT, align="left", baseline="bottom", dx=5, dy=-4)
        .encode(x=x_axis(frame, "x"), y=y_axis(frame, "y"), text="roof:N"),
    ]  # fmt: skip
    return layers + [_roof_label(frame, row, busy) for row in rows]


def _roof_label(frame: Frame, row: Mapping[str, Any], busy: Sequence[tuple[float, float]]) -> alt.Chart:
    """A roof's text on its line: at the right end of a level one, along the lower part of a sloped one."""
    import altair as alt

    if row["y"] == row["y2"]:
        at = {"x": row["x2"], "y": row["y"]}
        mark: dict[str, Any] = {"align": "right", "angle": 0, "dx": -4.0, "dy": -4.0}
    else:
        start, end = frame.pixels(row["x"], row["y"]), frame.pixels(row["x2"], row["y2"])
        slope = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])) % 360
        wide = text_width(row["roof"]) + 20
        share = next((s for s in (0.0, 0.2, 0.4, 0.6) if not _near(start, end, s, wide, busy)), 0.0)
        at = {axis: row[axis] ** (1 - share) * row[f"{axis}2"] ** share for axis in ("x", "y")}
        mark = {"align": "left", "angle": slope, "dx": 10.0, "dy": -4.0}
    return (
        alt.Chart(alt.Data(values=[{**at, "roof": row["roof"]}]))
        .mark_text(color=INK if row["strong"] else SOFT, fontSize=FONT, baseline="bottom", **mark)
        .encode(x=x_axis(frame, "x"), y=y_axis(frame, "y"), text="roof:N")
    )


def _near(
    start: tuple[float, float], end: tuple[float, float], share: float, wide: float, busy: Sequence[tuple[float, float]]
) -> bool:
    """True if a text of this width, set along a line from a share of its length on, comes near a busy place."""
    length = math.dist(start, end)
    reach = [share + wide * part / length for part in (0.0, 0.5, 1.0)] if length else [share]
    along = [tuple(a + (b - a) * s for a, b in zip(start, end, strict=True)) for s in reach]
    return any(math.dist(place, at) < wide / 4 + 14 for place in busy for at in along)


def _roofs(
    frame: Frame, peaks: Mapping[str, float], bandwidths: Mapping[str, float], main: str
) -> list[dict[str, Any]]:
    """Line segments with what they are: ``strong`` ones decide most."""
    highest, fastest = max(peaks.values()), max(bandwidths.values())
    found: list[dict[str, Any]] = []
    for memory, bandwidth in bandwidths.items():
        start = max(frame.x[0], frame.y[0] / bandwidth)
        end = min(frame.x[1], highest / bandwidth)
        if start < end and memory in MEMORIES:
            label = f"{MEMORIES[memory]} {format_si(bandwidth, 'B/s', 3)}"
            found.append(_segment(label, (start, start * bandwidth), (end, end * bandwidth), strong=memory == "hbm"))
    levels: dict[float, list[str]] = {}
    for dtype, peak in peaks.items():
        same = next((known for known in levels if abs(known / peak - 1) < 0.005), peak)
        levels.setdefault(same, []).append(dtype)
    for peak, dtypes in levels.items():
        start = max(frame.x[0], peak / fastest)
        if start < frame.x[1] and peak > frame.y[0]:
            label = f"{', '.join(map(clean, dtypes))} {format_si(peak, 'FLOP/s', 4)}"
            found.append(_segment(label, (start, peak), (frame.x[1], peak), strong=main in dtypes))
    return found


def _segment(label: str, start: tuple[float, float], end: tuple[float, float], *, strong: bool) -> dict[str, Any]:
    return {"roof": label, "x": start[0], "y": start[1], "x2": end[0], "y2": end[1], "strong": strong}
