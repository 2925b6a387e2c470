"""Charts of a serving plan: latency against throughput, and what more load does to latency."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    SOFT,
    WIDTH,
    Drawing,
    framed,
    legend_columns,
    log_ticks,
    need_charts,
    overlap,
    positive,
    shortened,
    text_width,
    time_unit,
)
from tpuprof.charts.panels import Axis, Level, Line, Panel, panels_chart
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import PS_PER_S, format_ps

if TYPE_CHECKING:
    import altair as alt

MOST_POINTS = 120
_SERIES = (
    "matmul", "host_transfer", "custom_kernel", "barrier_wait", "convolution", "dma_wait", "collective_exposed",
    "elementwise", "reduction", "data_movement", "gather_scatter",
)  # fmt: skip
_OTHER = "other_compute"
_LEFT, _RIGHT, _BOTTOM, _HEIGHT = 72, 24, 46, 300


def pareto_chart(
    front: Sequence[Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]] = (), limit_s: float | None = None
) -> Drawing:
    """Throughput per chip against the time per token: the points that no other beats in both, joined.

    Args:
        front: ``pareto`` of the document of a serving plan: ``slice``, ``split``, ``batch``, ``tpot_s``, ``ttft_s``,
            ``tokens_per_s_per_chip``.
        candidates: of the same, drawn as rings if they are not on the front.
        limit_s: on the latency of the horizontal axis.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    key = "tpot_s" if all(row.get("tpot_s") is not None for row in front) else "ttft_s"
    points = [found for row in front if (found := _point(row, key)) is not None]
    if not points:
        return Drawing(None, "No chart of latency against throughput: there is no candidate.")
    need_charts()
    import altair as alt

    points.sort(key=lambda row: row["latency_s"])
    shown = points[:MOST_POINTS]
    held = {(row["slice"], row["split"], row["batch"]) for row in points}
    beside = [found for row in candidates if (found := _point(row, key)) is not None]
    beside = [row for row in beside if (row["slice"], row["split"], row["batch"]) not in held][:MOST_POINTS]
    every = [*shown, *beside]
    scale, unit = time_unit(max(row["latency_s"] for row in every) * PS_PER_S)
    for row in every:
        row["x"] = row["latency_s"] * PS_PER_S / scale
    xs, ys = [row["x"] for row in every], [row["y"] for row in every]
    given = positive({"limit": limit_s}, "limit")
    limit = None if given is None else given * PS_PER_S / scale
    ends = [*xs, *([limit] if limit and min(xs) / 100 < limit < max(xs) * 100 else [])]
    low, high = min(ends) / 1.25, max(ends) * 1.25
    x_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y_scale = alt.Scale(domain=[0, max(ys) * 1.12], nice=False)
    what = "time per token" if key == "tpot_s" else "time to the first token"
    x = alt.X("x:Q", scale=x_scale, axis=alt.Axis(title=f"{what} ({unit}, log scale)", values=log_ticks(low, high),
                                                  format=",.6~g"))  # fmt: skip
    y = alt.Y("y:Q", scale=y_scale, axis=alt.Axis(title="tokens/s per chip", tickCount=6, titlePadding=12))
    slices = list(dict.fromkeys(row["slice"] for row in every))
    tones = [LOOKS[_SERIES[at] if at < len(_SERIES) else _OTHER].light for at in range(len(slices))]
    columns = legend_columns(slices, WIDTH - _LEFT - _RIGHT)
    legend = alt.Legend(title=None, columns=columns, columnPadding=24, symbolType="circle")
    color = alt.Color("slice:N", scale=alt.Scale(domain=slices, range=tones), legend=legend)
    tooltip = [
        alt.Tooltip("slice:N", title="slice"), alt.Tooltip("split:N", title="split"),
        alt.Tooltip("batch:Q", title="sequences at a time", format=","), alt.Tooltip("latency:N", title=what),
        alt.Tooltip("y:Q", title="tokens/s per chip", format=",.4~g"),
    ]  # fmt: skip
    line = alt.Chart(alt.Data(values=shown))
    layers: list[alt.Chart] = [
        line.mark_line(color=SOFT, strokeWidth=1.2, interpolate="step-after").encode(x=x, y=y),
        alt.Chart(alt.Data(values=beside)).mark_point(filled=False, size=38, strokeWidth=1.3, opacity=0.75).encode(
            x=x, y=y, color=color, description="about:N", tooltip=tooltip
        ),
        line.mark_point(filled=True, size=90, opacity=1, stroke=CARD, strokeWidth=0.8).encode(
            x=x, y=y, color=color, description="about:N", tooltip=tooltip
        ),
    ]  # fmt: skip

    def place(across: float, up: float) -> tuple[float, float]:
        share = math.log(across / low) / math.log(high / low)
        return share * (WIDTH - _LEFT - _RIGHT), (1 - up / (max(ys) * 1.12)) * _HEIGHT

    seen = limit is not None and low < limit < high
    layers += _names(shown, x, y, place, limit if seen else None)
    if limit is not None and seen:
        layers += _limit(limit, f"limit {format_ps((given or 0) * PS_PER_S)}", x)
    top = -(-len(slices) // columns) * 16 + 30
    chart = framed(layers, _HEIGHT, _LEFT, _RIGHT, top, _BOTTOM, "pareto")
    return Drawing(chart, _caption(len(shown), len(points), len(beside)))


def load_chart(
    curve: Sequence[Mapping[str, Any]], ttft_limit_s: float | None = None, tpot_limit_s: float | None = None
) -> Drawing:
    """The time to the first token and the time per token against the load, as a share of what the server can do.

    Args:
        curve: ``load_curve`` of the document of a serving plan: ``load``, ``ttft_p50_s``, ``ttft_p90_s``,
            ``ttft_p99_s``, ``tpot_p50_s``, ``requests_per_s``.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = sorted((row for row in curve if positive(row, "load") and positive(row, "ttft_p50_s")),
                   key=lambda row: row["load"])[:MOST_POINTS]  # fmt: skip
    if not known:
        return Drawing(None, "No chart of load: no load was simulated.")
    need_charts()
    panels = [_times(known, ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s"), "first token", ttft_limit_s, 170)]
    if any(positive(row, "tpot_p50_s") for row in known):
        panels.append(_times(known, ("tpot_p50_s",), "per token", tpot_limit_s, 110))
    loads = [100 * row["load"] for row in known]
    x = Axis("arrivals, % of what the server can do", (0, max(100.0, *loads) * 1.02))
    chart = panels_chart("load", x, panels, top=16)
    sentences = [f"{plural(len(known), 'simulated load')} of one server, random arrivals with a seed."]
    rates = [rate for row in known if (rate := positive(row, "requests_per_s"))]
    if rates:
        sentences.append(f"The last is {max(rates):.3g} requests/s.")
    return Drawing(chart, " ".join(sentences))


_LOOK = {"p50": "matmul", "p90": "host_transfer", "p99": "collective_exposed"}


def _times(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], what: str, limit_s: float | None, height: int
) -> Panel:
    values = [value for row in rows for key in keys if (value := positive(row, key))]
    scale, unit = time_unit(max(values) * PS_PER_S)
    low, high = min(values) * PS_PER_S / scale / 1.3, max(values) * PS_PER_S / scale * 1.3
    given = positive({"limit": limit_s}, "limit")
    limit = None if given is None else given * PS_PER_S / scale
    if limit and low / 10 < limit < high * 10:
        low, high = min(low, limit / 1.2), max(high, limit * 1.2)
    axis = Axis(f"{what} ({unit}, log)", (low, high), log_ticks(low, high), log=True)
    lines = [
        Line(
            [{"x": 100 * row["load"], "y": value * PS_PER_S / scale,
              "about": f"at {100 * row['load']:.0f} % load: {what} {name} {format_ps(value * PS_PER_S)}"}
             for row in rows if (value := positive(row, key))],
            LOOKS[_LOOK[name]].light, f"{name}",
        )
        for key in keys for name in [key.split("_")[1]]
    ]  # fmt: skip
    levels = [Level(limit, f"limit {format_ps((given or 0) * PS_PER_S)}")] if limit and low < limit < high else []
    return Panel(axis, height, lines, levels)


def _point(row: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    latency, rate = positive(row, key), positive(row, "tokens_per_s_per_chip")
    if latency is None or rate is None:
        return None
    where, split = shortened(row.get("slice") or "one slice", 24), shortened(row.get("split") or "", 60)
    batch = positive(row, "batch") or 0
    told = format_ps(latency * PS_PER_S)
    return {
        "slice": where, "split": split, "batch": int(batch), "latency_s": latency, "latency": told, "y": rate,
        "about": f"{where} {split}, batch {batch:,.0f}\n{told} per token, {rate:,.4g} tokens/s per chip",
    }  # fmt: skip


def _names(
    points: Sequence[Mapping[str, Any]], x: Any, y: Any, place: Callable[[float, float], tuple[float, float]],
    limit: float | None,
) -> list[alt.Chart]:  # fmt: skip
    """Batches beside points where there is room, with the slice where it changes: colours alone tell nothing."""
    import altair as alt

    room = WIDTH - _LEFT - _RIGHT
    spots = [place(row["x"], row["y"]) for row in points]
    taken = [(across - 6, down - 6, across + 6, down + 6) for across, down in spots]
    for (x1, y1), (x2, y2) in pairwise(spots):  # the steps of the line
        taken += [(x1, y1 - 1, x2, y1 + 1), (x2 - 1, min(y1, y2), x2 + 1, max(y1, y2))]
    if limit is not None:
        across, _ = place(limit, 0)
        taken.append((across - 2, 0, across + 2, _HEIGHT))
    layers: list[alt.Chart] = []
    before = ""
    for row, (across, down) in zip(points, spots, strict=True):
        text = f"batch {row['batch']:,}" if row["slice"] == before else f"{row['slice']}, batch {row['batch']:,}"
        wide = text_width(text)
        for side, lower in (("left", 13), ("right", -12), ("left", -12)):
            start = across + 9 if side == "left" else across - 9 - wide
            box = (start, down + lower - 7, start + wide, down + lower + 7)
            inside = min(box[:2]) >= 0 and box[2] <= room and box[3] <= _HEIGHT
            if inside and not any(overlap(box, other) for other in taken):
                taken.append(box)
                before = row["slice"]
                style: dict[str, Any] = {"align": side, "dx": 9 if side == "left" else -9, "dy": lower}
                data = alt.Chart(alt.Data(values=[{"x": row["x"], "y": row["y"], "label": clean(text)}]))
                layers.append(data.mark_text(color=INK, fontSize=FONT - 1, **style).encode(x=x, y=y, text="label:N"))
                break
    return layers


def _limit(limit: float, label: str, x: Any) -> list[alt.Chart]:
    import altair as alt

    data = alt.Chart(alt.Data(values=[{"x": limit, "label": label}]))
    return [
        data.mark_rule(color=INK, strokeWidth=1.2, strokeDash=[4, 3]).encode(
            x=x, y=alt.value(-2), y2=alt.value(_HEIGHT)
        ),
        data.mark_text(color=INK, fontSize=FONT, align="right", dx=-4).encode(x=x, y=alt.value(4), text="label:N"),
    ]


def _caption(shown: int, total: int, beside: int) -> str:
    extent = plural(total, "point") if shown == total else f"{shown} of {plural(total, 'point')}"
    sentences = [f"{extent} that no other beats in both: up and to the left is better."]
    if beside:
        sentences.append(f"Rings: {plural(beside, 'other split')} at the best batch, beaten by the line.")
    return " ".join(sentences)
