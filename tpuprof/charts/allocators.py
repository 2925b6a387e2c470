"""How full the allocators of device memory were over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import (
    WIDTH,
    Drawing,
    framed,
    legend_columns,
    need_charts,
    number,
    shortened,
    size_unit,
    time_unit,
)
from tpuprof.charts.memory import level_layers
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_bytes, format_ps

if TYPE_CHECKING:
    import altair as alt

MOST_LINES = 6
MOST_POINTS = 200
_LINE_COLORS = ("matmul", "host_transfer", "custom_kernel", "collective_exposed", "convolution", "barrier_wait")
_HEIGHT, _BOTTOM = 220, 46


def allocators_chart(events: Sequence[Mapping[str, Any]], capacity_bytes: float | None = None) -> Drawing:
    """How much memory each allocator had given away, over time; of many events the most of each stretch of time.

    Args:
        events: ``allocator``, ``start_ps`` and ``taken_bytes``, in order of time; as from
            :func:`tpuprof.tables.allocators.taken_over_time`.
        capacity_bytes: of one device; drawn where the use comes near it.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in events:
        at, taken = number(row.get("start_ps")), number(row.get("taken_bytes"))
        if at is not None and taken is not None:
            lines.setdefault(clean(row.get("allocator")), []).append((at, taken))
    if not lines:
        return Drawing(None, "No chart of allocators: the capture recorded none of their events.")
    need_charts()
    import altair as alt

    order = sorted(lines, key=lambda name: (-max(taken for _, taken in lines[name]), name))
    shown = order[:MOST_LINES]
    first = min(at for name in shown for at, _ in lines[name])
    longest = max(at for name in shown for at, _ in lines[name]) - first
    most = max(taken for name in shown for _, taken in lines[name])
    capacity = number(capacity_bytes)
    near = capacity if capacity and capacity <= 4 * most else None
    scale, unit = size_unit(max(most, near or 0.0))
    clock, tick = time_unit(longest)
    rows = [
        {"line": shortened(name, 40), "x": (at - first) / clock, "value": taken / scale,
         "about": f"{shortened(name, 40)}: {format_bytes(taken)} after {format_ps(at - first)}"}
        for name in shown
        for at, taken in _thinned(lines[name], MOST_POINTS // len(shown))
    ]  # fmt: skip
    labels = [shortened(name, 40) for name in shown]
    left, right = 74, 14
    columns = legend_columns(labels, WIDTH - left - right)
    top = -(-len(labels) // columns) * 18 + 18
    x = alt.X("x:Q", axis=alt.Axis(title=f"time since the first event ({tick})", tickCount=8),
              scale=alt.Scale(domain=[0, longest / clock or 1.0], nice=False))  # fmt: skip
    extent = alt.Scale(domain=[0, max(most, near or 0.0) / scale * 1.08 or 1.0], nice=False)
    y = alt.Y("value:Q", axis=alt.Axis(title=f"taken ({unit})", tickCount=6, titlePadding=14), scale=extent)
    colors = [LOOKS[part].light for part in _LINE_COLORS[: len(labels)]]
    legend = alt.Legend(title=None, columns=columns, symbolStrokeWidth=2, symbolType="stroke", symbolOpacity=1)
    color = alt.Color("line:N", scale=alt.Scale(domain=labels, range=colors), legend=legend)
    base = alt.Chart(alt.Data(values=rows))
    layers: list[alt.Chart] = [
        base.mark_line(interpolate="step-after", strokeWidth=1.5).encode(x=x, y=y, color=color),
        base.mark_point(filled=True, size=60, opacity=0.001).encode(
            x=x, y=y, color=color, tooltip=[alt.Tooltip("about:N", title="allocator")], description="about:N"
        ),
    ]
    if near:
        layers += level_layers(near / scale, f"capacity {format_bytes(near)}", "y", extent, WIDTH - left - right)
    caption = f"{len(shown)} fullest of {len(order)} allocators. " if len(order) > len(shown) else ""
    count = sum(len(lines[name]) for name in shown)
    caption += f"{plural(count, 'event')}; memory reserved for running programs counts as taken."
    if count > len(rows):
        caption += " Of neighbouring events the one with the most is drawn."
    return Drawing(framed(layers, _HEIGHT, left, right, top, _BOTTOM, "allocators"), caption)


def _thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """The first, the last, and of each few neighbours the one with most."""
    each = -(-len(points) // max(most - 2, 1))
    if each <= 1:
        return points
    inner = [max(points[at : at + each], key=lambda point: point[1]) for at in range(0, len(points), each)]
    return [points[0], *inner, points[-1]]
