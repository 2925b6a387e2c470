"""A metric over the runs of one series, with the levels and the changes that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    SOFT,
    WIDTH,
    Drawing,
    framed,
    need_charts,
    number,
    shortened,
    text_width,
    time_unit,
)
from tpuprof.palette import LOOKS
from tpuprof.text import plural
from tpuprof.units import si_step

MOST_RUNS = 300
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 74, 24, 40, 46, 260
_COLORS = {"regressed": LOOKS["collective_exposed"].light, "improved": LOOKS["convolution"].light, "changed": INK}
_LABELLED = 6


def trend_chart(series: Mapping[str, Any]) -> Drawing:
    """One dot per run in order, a line per level, and a mark where a level begins.

    Args:
        series: one of ``series`` of the document of ``tpuprof history trend``. Of more than :data:`MOST_RUNS` runs
            the newest are drawn.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    metric = str(series.get("metric"))
    every = [row for row in series.get("values") or () if number(row.get("value")) is not None]
    if len(every) < 2:
        return Drawing(None, f"No trend of {metric}: {'one run has it' if every else 'no run has it'}.")
    need_charts()
    import altair as alt

    shown = every[-MOST_RUNS:]
    places = {row["run"]: at for at, row in enumerate(shown)}
    divisor, unit = _unit(metric, max(abs(float(row["value"])) for row in shown))
    heights = [float(row["value"]) / divisor for row in shown]
    dots: list[dict[str, Any]] = [
        {"x": at, "y": height, "about": _about(row), "value": f"{height:.4g} {unit}".strip()}
        for at, (row, height) in enumerate(zip(shown, heights, strict=True))
    ]
    levels = _levels(series.get("levels") or (), places, [row["run"] for row in every], divisor)
    changes = _changes(series.get("changes") or (), places)
    low, high = min(heights), max(heights)
    pad = (high - low) * 0.12 or abs(high) * 0.05 or 1.0
    x = alt.X(
        "x:Q",
        axis=alt.Axis(title="runs, oldest first", tickMinStep=1, grid=False, labels=False, ticks=False),
        scale=alt.Scale(domain=[-1, len(shown)], nice=False),
    )
    y = alt.Y(
        "y:Q",
        axis=alt.Axis(title=f"{shortened(metric.removesuffix('_ps').removesuffix('_bytes'), 30)} ({unit})" if unit
                      else shortened(metric, 36), tickCount=6),
        scale=alt.Scale(domain=[low - pad, high + pad], nice=False, zero=False),
    )  # fmt: skip
    layers: list[Any] = [_mark(alt, row, low - pad, high + pad) for row in changes]
    layers.append(
        alt.Chart(alt.Data(values=levels)).mark_rule(color=SOFT, strokeWidth=2).encode(x=x, x2="x2:Q", y=y)
    )  # fmt: skip
    layers.append(
        alt.Chart(alt.Data(values=dots)).mark_circle(size=46, color=LOOKS["matmul"].light, opacity=1, stroke=CARD,
                                                     strokeWidth=1).encode(
            x=x, y=y, description="about:N",
            tooltip=[alt.Tooltip("about:N", title="run"), alt.Tooltip("value:N", title="value")],
        )
    )  # fmt: skip
    layers += _labels(alt, changes, len(shown))
    caption = f"{plural(len(every), 'run')}, {plural(len(series.get('changes') or ()), 'change')} of level."
    if len(shown) < len(every):
        caption = f"The newest {len(shown)} of {caption}"
    return Drawing(framed(layers, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, "trend"), caption)


def _about(row: Mapping[str, Any]) -> str:
    name = f", {shortened(row['name'], 40)}" if row.get("name") else ""
    return f"run {row['run']}{name}"


def _unit(metric: str, largest: float) -> tuple[float, str]:
    if metric.endswith("_ps"):
        divisor, unit = time_unit(largest)
        return float(divisor), unit
    if metric.endswith("_bytes"):
        scale, prefix = si_step(largest)
        return scale, f"{prefix}B"
    return (0.01, "%") if metric in ("mfu", "step_cv", "hbm_utilisation") else (1.0, "")


def _levels(
    levels: Sequence[Mapping[str, Any]], places: Mapping[Any, int], runs: Sequence[Any], divisor: float
) -> list[dict[str, Any]]:
    """The stretch of each level that is in the picture."""
    order = {run: at - (len(runs) - len(places)) for at, run in enumerate(runs)}
    rows: list[dict[str, Any]] = []
    for level in levels:
        value, first, last = number(level.get("p50")), order.get(level["first_run"]), order.get(level["last_run"])
        if value is None or first is None or last is None or last < 0:
            continue
        rows.append({"x": max(first, 0) - 0.4, "x2": last + 0.4, "y": value / divisor})
    return rows


def _changes(changes: Sequence[Mapping[str, Any]], places: Mapping[Any, int]) -> list[dict[str, Any]]:
    return [
        {
            "x": places[change["first_run"]] - 0.5,
            "direction": str(change.get("direction")),
            "text": _text(change),
        }
        for change in changes
        if change.get("first_run") in places
    ]


def _text(change: Mapping[str, Any]) -> str:
    relative = number(change.get("relative"))
    amount = "from zero" if relative is None else f"{100 * relative:+.1f} %"
    commit = f" ({shortened(change['first_commit'], 8)})" if change.get("first_commit") else ""
    return f"{amount}{commit}"


def _mark(alt: Any, row: Mapping[str, Any], low: float, high: float) -> Any:
    color = _COLORS.get(row["direction"], INK)
    return (
        alt.Chart(alt.Data(values=[{**row, "low": low, "high": high}]))
        .mark_rule(color=color, strokeDash=[4, 3], strokeWidth=1.5)
        .encode(x="x:Q", y="low:Q", y2="high:Q")
    )


def _labels(alt: Any, changes: Sequence[Mapping[str, Any]], count: int) -> list[Any]:
    """The newest few changes in words, above the picture, each where its mark is; none over another."""
    room = (WIDTH - _LEFT - _RIGHT) / (count + 1)
    taken = float("inf")
    layers: list[Any] = []
    for row in reversed(changes[-_LABELLED:]):
        at, wide = (row["x"] + 1) * room, text_width(row["text"])
        align = "left" if at + wide <= WIDTH - _LEFT else "right"
        start = at if align == "left" else at - wide
        if start + wide > taken:
            continue
        taken = start - 8
        color = _COLORS.get(row["direction"], INK)
        layers.append(
            alt.Chart(alt.Data(values=[dict(row)]))
            .mark_text(color=color, fontSize=FONT, align=align, dx=3 if align == "left" else -3)
            .encode(x="x:Q", y=alt.value(-10), text="text:N")
        )
    return layers
