"""The roofline: what each op reaches, against what the memories and the compute units allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    Drawing,
    framed,
    need_charts,
    overlap,
    part_scale,
    positive,
    shortened,
    text_width,
)
from tpuprof.charts.points import roofline_points
from tpuprof.charts.roofs import MARGINS, PLOT_HEIGHT, PLOT_WIDTH, Frame, places, roof_layers, x_axis, y_axis
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent

if TYPE_CHECKING:
    import altair as alt

MOST_POINTS = 250
_NAMED = 6  # ops with most time whose names are written beside them, where there is room
_COVERED = 0.998  # the share of the time of what could be drawn that decides the extent of the axes
_SMALLEST, _LARGEST = 30, 700  # areas in px²
_WHOLE = frozenset({"op", "program", "members"})  # names as they are, of any length: not for the spec
_DEPTH = 1e6  # how far below the highest roof the axis may reach


def roofline_chart(
    ops: Sequence[Mapping[str, Any]],
    roofline: Mapping[str, Any],
    *,
    select: str | None = None,
    marked: tuple[str, str | None] | None = None,
) -> Drawing:
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
        select: the name of a selection parameter, for programs that react to clicks on points: what is selected has
            ``point``, the place among the points of :func:`tpuprof.charts.points.roofline_points`.
        marked: name and program of an op whose point gets a ring.

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
    numbered = [{**point, "point": at} for at, point in enumerate(points)]
    drawn = [point for point in numbered if frame.holds(point)][:MOST_POINTS]
    if marked is not None:  # an op with little time may be the one that is looked at
        drawn += [point for point in numbered[MOST_POINTS:] if frame.holds(point) and _is(point, marked)][:1]
    caption = _caption(drawn, points, left_out)
    layers = [
        *roof_layers(frame, peaks, bandwidths, main, places(frame, drawn[:_NAMED])),
        _point_layer(frame, drawn, select),
        *(_ring_layers(frame, drawn, marked) if marked is not None else ()),
        *_name_layers(frame, drawn, [frame.pixels(frame.x[0], peak)[1] for peak in peaks.values()]),
    ]
    return Drawing(framed(layers, PLOT_HEIGHT, *MARGINS, name="roofline"), caption)


def _figures(values: Mapping[str, Any] | None) -> dict[str, float]:
    known = values or {}
    return {str(name): value for name in known if (value := positive(known, name)) is not None}


def _main_peak(roofline: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    wanted = str(roofline.get("peak_dtype") or "").partition("@")[0]
    return next((name for name in (wanted, "bf16", "fp16") if name in peaks), next(iter(peaks)))


def _extent(points: Sequence[Mapping[str, Any]], peaks: Mapping[str, float], hbm: float, main: float) -> Frame:
    """Axes that show the roofs and nearly all time; an op that takes no time does not stretch them."""
    total = sum(point["self_ps"] for point in points)
    covered = 0.0
    x, y = [main / hbm / 8, max(peaks.values()) / hbm * 8], [main / 30]
    for point in points:
        if covered > _COVERED * total:
            break
        covered += point["self_ps"]
        x.append(point["intensity"])
        y.append(point["rate"])
    top = max(*peaks.values(), max(y)) * 2.2
    ridge = main / hbm
    low, high = max(min(x) / 2, ridge / 1e5), min(max(x) * 2.5, ridge * 1e5)
    return Frame((low, high), (max(min(y) / 2, top / _DEPTH), min(top, max(peaks.values()) * 1e3)))


def _is(point: Mapping[str, Any], op: tuple[str, str | None]) -> bool:
    return op[0] in point["members"] and (op[1] is None or op[1] == point["program"])


def _ring_layers(frame: Frame, drawn: Sequence[Mapping[str, Any]], marked: tuple[str, str | None]) -> list[alt.Chart]:
    """A ring around the point of an op; nothing where it is not drawn."""
    import altair as alt

    largest = drawn[0]["self_ps"] if drawn else 1.0
    found = [point for point in drawn if _is(point, marked)][:1]
    return [
        alt.Chart(alt.Data(values=[{"intensity": point["intensity"], "rate": point["rate"], "ring": point["name"]}]))
        .mark_point(
            filled=False, stroke=INK, strokeWidth=2, opacity=1,
            size=(math.sqrt(_SMALLEST + (_LARGEST - _SMALLEST) * point["self_ps"] / largest) + 8) ** 2,
        )
        .encode(x=x_axis(frame, "intensity"), y=y_axis(frame, "rate"), description="ring:N")
        for point in found
    ]  # fmt: skip


def _point_layer(frame: Frame, drawn: Sequence[Mapping[str, Any]], select: str | None) -> alt.Chart:
    import altair as alt

    labels = {point["kind"] for point in drawn}
    domain, colors = part_scale(part for part, look in LOOKS.items() if look.label in labels)
    # Big ones first, so that small ones lie above them.
    shown = sorted(drawn, key=lambda point: -point["self_ps"])
    rows = [{key: value for key, value in point.items() if key not in _WHOLE} for point in shown]
    largest = shown[0]["self_ps"] if shown else 1.0
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, opacity=0.8, stroke=CARD, strokeWidth=0.8)
        .encode(
            x=x_axis(frame, "intensity"),
            y=y_axis(frame, "rate"),
            size=alt.Size("self_ps:Q", scale=alt.Scale(domain=[0, largest], range=[_SMALLEST, _LARGEST]), legend=None),
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
    return chart if select is None else chart.add_params(alt.selection_point(select, fields=["point"]))


def _name_layers(frame: Frame, drawn: Sequence[Mapping[str, Any]], levels: Sequence[float]) -> list[alt.Chart]:
    """Names of the ops with most time, each beside its point; one that has no room is left out."""
    import altair as alt

    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in places(frame, drawn[: 2 * _NAMED])]
    taken += [(0.0, height - 3, float(PLOT_WIDTH), height + 3) for height in levels]
    largest = drawn[0]["self_ps"] if drawn else 1.0
    names = [point["name"] for point in drawn]
    layers: list[alt.Chart] = []
    for point in drawn[:_NAMED]:
        label = shortened(point["name"], 30)
        if names.count(point["name"]) > 1 and point["module"]:
            label = f"{label} in {shortened(point['module'].partition('(')[0], 24)}"
        ((x, y),) = places(frame, [point])
        radius = math.sqrt((_SMALLEST + (_LARGEST - _SMALLEST) * point["self_ps"] / largest) / math.pi) + 4
        wide = text_width(label)
        # Beside the point, or a little lower where a roof is right above.
        for align, lower in (("left", 0.0), ("right", 0.0), ("left", 12.0), ("right", 12.0)):
            start = x + radius if align == "left" else x - radius - wide
            box = (start, y + lower - 8, start + wide, y + lower + 8)
            if start >= 0 and start + wide <= PLOT_WIDTH and not any(overlap(box, other) for other in taken):
                taken.append(box)
                data = alt.Chart(
                    alt.Data(values=[{**{key: point[key] for key in ("intensity", "rate")}, "label": label}])
                )
                layers += _name(data, frame, align, (radius if align == "left" else -radius, lower))
                break
    return layers


def _name(data: alt.Chart, frame: Frame, align: str, offset: tuple[float, float]) -> list[alt.Chart]:
    """The text, over a copy of itself in the colour of the background, so that lines behind it do not disturb."""
    style: dict[str, Any] = {
        "fontSize": FONT - 1,
        "align": align,
        "dx": offset[0],
        "dy": offset[1],
        "baseline": "middle",
    }
    halo = data.mark_text(color=CARD, stroke=CARD, strokeWidth=3, opacity=0.85, **style)
    return [
        layer.encode(x=x_axis(frame, "intensity"), y=y_axis(frame, "rate"), text="label:N")
        for layer in (halo, data.mark_text(color=INK, **style))
    ]


def _caption(drawn: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]], left_out: str) -> str:
    total = sum(point["self_ps"] for point in points)
    share = sum(point["self_ps"] for point in drawn) / total if total else 1.0
    ops = sum(point["ops"] for point in points)
    sentences = [f"{plural(len(points), 'point')} for {plural(ops, 'op')}: those of the same work are one."]
    if len(drawn) < len(points):
        covered = "nearly all" if share > 0.999 else format_percent(share, 1)
        extent = f"{len(drawn):,} of {plural(len(points), 'point')}, with {covered} of the time"
        sentences = [f"{extent} of {plural(ops, 'op')}; those of the same work are one."]
    elif ops == len(points):
        sentences = [f"{plural(ops, 'op')}."]
    sentences.append(
        "Area: self time. An op on a roof does what the hardware can; far below one it waits for something else."
    )
    if any(point["memory"] == "VMEM" for point in drawn):
        sentences.append("Diamonds touch no HBM: their intensity is per byte of VMEM.")
    return " ".join([*sentences, left_out]).strip()
