"""The roofline: what each op reaches, against what the memories and the compute units allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    SOFT,
    WIDTH,
    Drawing,
    decades,
    framed,
    need_charts,
    part_scale,
    positive,
    shortened,
    text_width,
)
from tpuprof.charts.points import MEMORIES, roofline_points
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent, format_si

if TYPE_CHECKING:
    import altair as alt

MOST_POINTS = 250
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 74, 14, 34, 46, 400
_NAMED = 6  # ops with most time whose names are written beside them, where there is room
_COVERED = 0.998  # the share of the time of what could be drawn that decides the extent of the axes
_DEPTH = 1e6  # how far below the highest roof the axis may reach


@dataclass(frozen=True, slots=True)
class _Frame:
    """The extent of the axes: intensity in FLOP/B, rate in FLOP/s."""

    x: tuple[float, float]
    y: tuple[float, float]

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        width = WIDTH - _LEFT - _RIGHT
        across = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        up = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return across * width, (1 - up) * _HEIGHT

    def holds(self, point: Mapping[str, Any]) -> bool:
        return self.x[0] <= point["intensity"] <= self.x[1] and self.y[0] <= point["rate"] <= self.y[1]


def roofline_chart(ops: Sequence[Mapping[str, Any]], roofline: Mapping[str, Any]) -> Drawing:
    """A log-log scatter of ops under their roofs: area is self time, colour the kind of op.

    Ops of one program that do the same work, as in layers that repeat, are one point. It stands at the operations
    per byte of the memory that it uses: HBM, or VMEM (a diamond) if it touches no HBM. Roofs are those of one runtime
    device: sloped ones for memories, level ones for the peaks of types. The dashed line is the ridge, where the peak
    of the run's main type meets HBM.

    Args:
        ops: rows with ``name``, ``module``, ``kind``, ``occurrences``, ``self_ps`` and, per execution, ``flops``,
            ``hbm_bytes`` and ``vmem_bytes``: ``ops`` of the report.
        roofline: ``peaks`` (FLOP/s by type), ``bandwidths`` (B/s by memory) and ``peak_dtype``: ``roofline`` of the
            report.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    peaks, bandwidths = _figures(roofline.get("peaks")), _figures(roofline.get("bandwidths"))
    if not peaks or "hbm" not in bandwidths:
        reason = clean(roofline.get("reason") or "The peaks of the hardware are not known.")
        return Drawing(None, f"No roofline chart: {reason}")
    points, left_out = roofline_points(ops)
    if not points:
        return Drawing(None, f"No roofline chart: no op has a known number of operations and bytes. {left_out}".strip())
    need_charts()
    main = _main_peak(roofline, peaks)
    frame = _extent(points, peaks, bandwidths["hbm"], peaks[main])
    drawn = [point for point in points if frame.holds(point)][:MOST_POINTS]
    caption = _caption(drawn, points, left_out)
    layers = [*_roof_layers(frame, peaks, bandwidths, main), _point_layer(frame, drawn), *_name_layers(frame, drawn)]
    return Drawing(framed(layers, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, "roofline"), caption)


def _figures(values: Mapping[str, Any] | None) -> dict[str, float]:
    known = values or {}
    return {str(name): value for name in known if (value := positive(known, name)) is not None}


def _main_peak(roofline: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    wanted = str(roofline.get("peak_dtype") or "").partition("@")[0]
    return next((name for name in (wanted, "bf16", "fp16") if name in peaks), next(iter(peaks)))


def _extent(points: Sequence[Mapping[str, Any]], peaks: Mapping[str, float], hbm: float, main: float) -> _Frame:
    """Axes that show the roofs and nearly all time; an op that takes no time does not stretch them."""
    total = sum(point["self_ps"] for point in points)
    covered = 0.0
    x, y = [main / hbm / 8, main / hbm * 8], [main / 30]
    for point in points:
        if covered > _COVERED * total:
            break
        covered += point["self_ps"]
        x.append(point["intensity"])
        y.append(point["rate"])
    top = max(*peaks.values(), max(y)) * 2.2
    ridge = main / hbm
    low, high = max(min(x) / 2, ridge / 1e5), min(max(x) * 2.5, ridge * 1e5)
    return _Frame((low, high), (max(min(y) / 2, top / _DEPTH), min(top, max(peaks.values()) * 1e3)))


def _roofs(
    frame: _Frame, peaks: Mapping[str, float], bandwidths: Mapping[str, float], main: str
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


def _x(frame: _Frame, field: str) -> alt.X:
    import altair as alt

    title = "operational intensity: FLOP per byte of memory traffic"
    axis = alt.Axis(title=title, values=decades(*frame.x), format=",~f", titlePadding=10)
    return alt.X(field, type="quantitative", axis=axis, scale=alt.Scale(type="log", domain=list(frame.x), nice=False))


def _y(frame: _Frame, field: str) -> alt.Y:
    import altair as alt

    axis = alt.Axis(title="achieved FLOP/s per device", values=decades(*frame.y), format="~s", titlePadding=14)
    return alt.Y(field, type="quantitative", axis=axis, scale=alt.Scale(type="log", domain=list(frame.y), nice=False))


def _roof_layers(
    frame: _Frame, peaks: Mapping[str, float], bandwidths: Mapping[str, float], main: str
) -> list[alt.Chart]:
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
                .encode(x=_x(frame, "x"), y=_y(frame, "y"), x2="x2:Q", y2="y2:Q")
            )
    label = f"{clean(main)} ridge {ridge:.4g} FLOP/B"
    foot = {"x": ridge, "y": frame.y[0], "y2": peaks[main], "roof": label}
    ridge_data = alt.Chart(alt.Data(values=[foot]))
    layers += [
        ridge_data.mark_rule(color=SOFT, strokeDash=[4, 4]).encode(x=_x(frame, "x"), y=_y(frame, "y"), y2="y2:Q"),
        ridge_data.mark_text(color=SOFT, fontSize=FONT, align="left", baseline="bottom", dx=5, dy=-4)
        .encode(x=_x(frame, "x"), y=_y(frame, "y"), text="roof:N"),
    ]  # fmt: skip
    return layers + [_roof_label(frame, row) for row in rows]


def _roof_label(frame: _Frame, row: Mapping[str, Any]) -> alt.Chart:
    """A roof's text on its line: at the right end of a level one, along the lower part of a sloped one."""
    import altair as alt

    color = INK if row["strong"] else SOFT
    if row["y"] == row["y2"]:
        at = {"x": row["x2"], "y": row["y"]}
        mark: dict[str, Any] = {"align": "right", "angle": 0, "dx": -4.0, "dy": -4.0}
    else:
        start, end = frame.pixels(row["x"], row["y"]), frame.pixels(row["x2"], row["y2"])
        slope = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0])) % 360
        at, mark = {"x": row["x"], "y": row["y"]}, {"align": "left", "angle": slope, "dx": 10.0, "dy": -4.0}
    return (
        alt.Chart(alt.Data(values=[{**at, "roof": row["roof"]}]))
        .mark_text(color=color, fontSize=FONT, baseline="bottom", **mark)
        .encode(x=_x(frame, "x"), y=_y(frame, "y"), text="roof:N")
    )


def _point_layer(frame: _Frame, drawn: Sequence[Mapping[str, Any]]) -> alt.Chart:
    import altair as alt

    labels = {point["kind"] for point in drawn}
    domain, colors = part_scale(part for part, look in LOOKS.items() if look.label in labels)
    # Big ones first, so that small ones lie above them.
    rows = sorted(drawn, key=lambda point: -point["self_ps"])
    largest = rows[0]["self_ps"] if rows else 1.0
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, opacity=0.8, stroke=CARD, strokeWidth=0.8)
        .encode(
            x=_x(frame, "intensity"),
            y=_y(frame, "rate"),
            size=alt.Size("self_ps:Q", scale=alt.Scale(domain=[0, largest], range=[14, 700]), legend=None),
            color=alt.Color("kind:N", scale=alt.Scale(domain=domain, range=colors), legend=alt.Legend(title=None)),
            shape=alt.Shape(
                "memory:N", scale=alt.Scale(domain=["HBM", "VMEM"], range=["circle", "diamond"]), legend=None
            ),
            description="about:N",
            tooltip=[
                alt.Tooltip("name:N", title="op"),
                alt.Tooltip("module:N", title="module"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("self:N", title="self time (time not in nested ops), all cores"),
                alt.Tooltip("ops:Q", title="ops of the same work", format=","),
                alt.Tooltip("executions:Q", title="executions", format=","),
                alt.Tooltip("reached:N", title="achieved (FLOPs over self time)"),
                alt.Tooltip("intensity:Q", title="intensity (FLOP per byte of the memory)", format=",.4~g"),
                alt.Tooltip("memory:N", title="memory"),
                alt.Tooltip("bound_by:N", title="bound by (what needs longest at full rate)"),
                alt.Tooltip("efficiency:N", title="efficiency (bound over measured time)"),
            ],
        )
    )


def _name_layers(frame: _Frame, drawn: Sequence[Mapping[str, Any]]) -> list[alt.Chart]:
    """Names of the ops with most time, each beside its point; one that would lie on another is left out."""
    import altair as alt

    taken: list[tuple[float, float, float, float]] = [
        (x - 5, y - 5, x + 5, y + 5) for x, y in _places(frame, drawn[: 2 * _NAMED])
    ]
    sides: dict[str, list[dict[str, Any]]] = {"left": [], "right": []}
    largest = drawn[0]["self_ps"] if drawn else 1.0
    names = [point["name"] for point in drawn]
    for point in drawn[:_NAMED]:
        label = shortened(point["name"], 30)
        if names.count(point["name"]) > 1 and point["module"]:
            label = f"{label} in {shortened(point['module'].partition('(')[0], 24)}"
        x, y = frame.pixels(point["intensity"], point["rate"])
        radius = math.sqrt((14 + 686 * point["self_ps"] / largest) / math.pi) + 4
        wide = text_width(label)
        for align, start in (("left", x + radius), ("right", x - radius - wide)):
            box = (start, y - 8, start + wide, y + 8)
            inside = start >= 0 and start + wide <= WIDTH - _LEFT - _RIGHT and y > 8
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                sides[align].append({**point, "label": label, "offset": radius})
                break
    layers: list[alt.Chart] = []
    for align, rows in sides.items():
        for row in rows:
            data = alt.Chart(alt.Data(values=[{key: row[key] for key in ("label", "intensity", "rate")}]))
            offset = row["offset"] * (1 if align == "left" else -1)
            style: dict[str, Any] = {"fontSize": FONT - 1, "align": align, "dx": offset, "baseline": "middle"}
            halo = data.mark_text(color=CARD, stroke=CARD, strokeWidth=3, opacity=0.85, **style)
            layers += [
                layer.encode(x=_x(frame, "intensity"), y=_y(frame, "rate"), text="label:N")
                for layer in (halo, data.mark_text(color=INK, **style))
            ]
    return layers


def _places(frame: _Frame, points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [frame.pixels(point["intensity"], point["rate"]) for point in points]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _caption(drawn: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]], left_out: str) -> str:
    total = sum(point["self_ps"] for point in points)
    share = sum(point["self_ps"] for point in drawn) / total if total else 1.0
    ops = sum(point["ops"] for point in points)
    sentences = [f"{plural(len(points), 'point')} for {plural(ops, 'op')}: those of the same work are one."]
    if len(drawn) < len(points):
        extent = f"{len(drawn):,} of {plural(len(points), 'point')}, with {format_percent(share, 1)} of the time"
        sentences = [f"{extent} of {plural(ops, 'op')}; those of the same work are one."]
    elif ops == len(points):
        sentences = [f"{plural(ops, 'op')}."]
    sentences.append(
        "Area: self time. An op on a roof does what the hardware can; far below one it waits for something else."
    )
    if any(point["memory"] == "VMEM" for point in drawn):
        sentences.append("Diamonds touch no HBM: their intensity is per byte of VMEM.")
    return " ".join([*sentences, left_out]).strip()
