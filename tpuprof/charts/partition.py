"""Where the time of steps goes, as stacked bars: one per step or group of steps, or one per core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    WIDTH,
    Drawing,
    framed,
    legend_columns,
    need_charts,
    number,
    part_scale,
    shortened,
    time_unit,
)
from tpuprof.palette import LOOKS
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    import altair as alt

MOST_BARS = 120
MOST_DEVICES = 32
_HEIGHT, _BOTTOM = 260, 46
_LEGEND_ROW = 18


def step_parts_chart(steps: Sequence[Mapping[str, Any]]) -> Drawing:
    """Stacked bars of the parts of each step; of many steps each bar is the mean of a few, its longest one marked.

    Args:
        steps: ``step`` (number) and ``parts`` (``matmul_ps`` …), in order. Of several cores, give means over them.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    rows = [(shortened(row.get("step", at), 12), _parts(row)) for at, row in enumerate(steps)]
    rows = [(step, parts) for step, parts in rows if parts]
    if not rows:
        return Drawing(None, "No chart of steps: no step was divided into parts.")
    need_charts()
    each = -(-len(rows) // MOST_BARS)
    groups = [rows[at : at + each] for at in range(0, len(rows), each)]
    bars: list[dict[str, Any]] = []
    longest: list[tuple[str, float]] = []
    for at, group in enumerate(groups):
        label = f"{group[0][0]}" if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}"
        mean = {part: sum(parts.get(part, 0.0) for _, parts in group) / len(group) for part in LOOKS}
        bars += _pieces(at, f"step {label}" if len(group) == 1 else f"steps {label}, mean", mean)
        longest.append((label, max(sum(parts.values()) for _, parts in group)))
    chart = _step_bars(bars, longest, [str(group[0][0]) for group in groups], marked=each > 1)
    caption = f"{plural(len(rows), 'step')}."
    if each > 1:
        caption = (
            f"{plural(len(rows), 'step')} in {len(groups)} bars: each the mean of {each}, its longest step as a dash."
        )
    return Drawing(chart, caption)


def device_parts_chart(devices: Sequence[Mapping[str, Any]]) -> Drawing:
    """Stacked bars of the mean step of each core, the slowest first.

    Args:
        devices: ``device``, ``step_ps`` and ``parts``: ``breakdown.per_device`` of the report.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [(row, _parts(row)) for row in devices]
    known = [(row, parts) for row, parts in known if parts]
    if not known:
        return Drawing(None, "No chart of cores: no step was divided into parts.")
    need_charts()
    import altair as alt

    known.sort(key=lambda row: -sum(row[1].values()))
    shown = known[:MOST_DEVICES]
    bars: list[dict[str, Any]] = []
    for at, (row, parts) in enumerate(shown):
        bars += _pieces(at, shortened(row.get("device"), 30), parts)
    scale, unit = time_unit(sum(shown[0][1].values()))
    left, right = 210, 14
    rows = [{**bar, "value": bar["ps"] / scale} for bar in bars]
    columns, top = _legend(rows, WIDTH - left - right)
    labels = [{"row": at, "bar": shortened(row.get("device"), 30)} for at, (row, _) in enumerate(shown)]
    y = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.25))
    axis = alt.Axis(title=f"mean step ({unit})", tickCount=8)
    x = alt.X("value:Q", stack="zero", axis=axis, scale=alt.Scale(nice=False))
    names = alt.Chart(alt.Data(values=labels)).mark_text(color=INK, fontSize=FONT, align="right")
    layers = [
        _bars(rows, columns).encode(y=y, x=x),
        names.encode(y=y, x=alt.value(-10), text="bar:N"),
    ]  # fmt: skip
    caption = f"{len(shown)} slowest of {len(known):,} cores." if len(known) > len(shown) else ""
    return Drawing(framed(layers, 24 * len(shown), left, right, top, _BOTTOM, "cores"),
                   caption or f"{plural(len(known), 'core')}, the slowest first.")  # fmt: skip


def _parts(row: Mapping[str, Any]) -> dict[str, float]:
    parts: Mapping[str, Any] = row.get("parts") or {}
    sizes = {part: number(parts.get(f"{part}_ps")) for part in LOOKS}
    return {part: size for part, size in sizes.items() if size is not None and size > 0}


def _pieces(at: int, bar: str, parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """The pieces of one bar, in the order of the partition, which ``order`` keeps."""
    total = sum(parts.values())
    return [
        {
            "row": at,
            "bar": bar,
            "part": LOOKS[part].label,
            "order": order,
            "ps": parts[part],
            "time": format_ps(parts[part]),
            "share": format_percent(parts[part] / total, 1),
            "about": f"{bar}: {LOOKS[part].label} {format_ps(parts[part])}, {format_percent(parts[part] / total, 1)}",
        }
        for order, part in enumerate(LOOKS)
        if parts.get(part)
    ]


def _legend(rows: Sequence[Mapping[str, Any]], room: float) -> tuple[int, int]:
    """Columns of the legend, and the margin above the plot that it needs."""
    labels = sorted({row["part"] for row in rows})
    columns = legend_columns(labels, room)
    return columns, -(-len(labels) // columns) * _LEGEND_ROW + 18


def _bars(rows: Sequence[Mapping[str, Any]], columns: int) -> alt.Chart:
    import altair as alt

    labels = {row["part"] for row in rows}
    domain, colors = part_scale(part for part, look in LOOKS.items() if look.label in labels)
    return (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_bar(stroke=CARD, strokeWidth=0.5)
        .encode(
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=domain, range=colors), legend=alt.Legend(title=None, columns=columns)
            ),
            order=alt.Order("order:Q", sort="ascending"),
            description="about:N",
            tooltip=[
                alt.Tooltip("bar:N", title="of"),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("time:N", title="time (parts sum to the step)"),
                alt.Tooltip("share:N", title="share of the step"),
            ],
        )
    )


def _step_bars(
    bars: Sequence[Mapping[str, Any]], longest: Sequence[tuple[str, float]], firsts: Sequence[str], *, marked: bool
) -> alt.LayerChart:
    import altair as alt

    highest = max(size for _, size in longest)
    scale, unit = time_unit(highest)
    rows = [{**bar, "value": bar["ps"] / scale} for bar in bars]
    thin = max(1, -(-len(firsts) // 12))
    left, right = 66, 14
    columns, top = _legend(rows, WIDTH - left - right)
    x = alt.X("row:O", axis=None, scale=alt.Scale(paddingInner=0.12))
    y = alt.Y(
        "value:Q",
        stack="zero",
        axis=alt.Axis(title=f"time of the step ({unit})", tickCount=6, titlePadding=14),
        scale=alt.Scale(domain=[0, highest / scale * 1.03], nice=False),
    )
    ticks = [{"row": at, "step": step} for at, step in enumerate(firsts) if at % thin == 0]
    numbers = alt.Chart(alt.Data(values=ticks)).mark_text(fontSize=FONT, color=INK, baseline="top")
    title = alt.Chart(alt.Data(values=[{"text": "step"}])).mark_text(fontSize=FONT, color=INK, baseline="top")
    layers: list[alt.Chart] = [
        _bars(rows, columns).encode(x=x, y=y),
        numbers.encode(x=x, y=alt.value(_HEIGHT + 8), text="step:N"),
        title.encode(x=alt.value((WIDTH - left - right) / 2), y=alt.value(_HEIGHT + 26), text="text:N"),
    ]
    if marked:
        peaks = [{"row": at, "value": size / scale, "about": f"longest of steps {label}: {format_ps(size)}"}
                 for at, (label, size) in enumerate(longest)]  # fmt: skip
        layers.append(
            alt.Chart(alt.Data(values=peaks))
            .mark_tick(color=INK, thickness=1.5)
            .encode(x=x, y="value:Q", description="about:N")
        )
    return framed(layers, _HEIGHT, left, right, top, _BOTTOM, "steps")
