"""Memory as charts: what programs need, and what is in use over a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    need_charts,
    number,
    shortened,
    size_unit,
)
from tpuprof.palette import LOOKS
from tpuprof.units import format_bytes, format_percent

if TYPE_CHECKING:
    import altair as alt

MOST_PROGRAMS = 12
NEEDS = {
    "arguments": ("arguments", "matmul"),
    "output": ("output (not in arguments)", "convolution"),
    "temp": ("temp", "elementwise"),
    "constants": ("constants", "gather_scatter"),
}
"""What a program needs memory for: its label, and the part of the palette whose colour it borrows."""
_HEIGHT, _TOP, _BOTTOM = 220, 30, 46
_NEAR = 4
"""A capacity more than so many times what is in use is said, not drawn."""


def memory_needs_chart(programs: Sequence[Mapping[str, Any]], capacity_bytes: float | None = None) -> Drawing:
    """A stacked bar per program: arguments, what of the output is not in them, temp and constants; and the capacity.

    Args:
        programs: ``module`` and ``arguments_bytes`` … of one memory: rows of table `memory_summary`.
        capacity_bytes: of that memory of one device; a line where a program comes near it.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [(row, parts) for row in programs if (parts := _needs(row))]
    if not known:
        return Drawing(None, "No chart of what programs need: none of them has a known buffer assignment.")
    need_charts()
    import altair as alt

    known.sort(key=lambda row: -sum(row[1].values()))
    shown = known[:MOST_PROGRAMS]
    largest, whole = sum(shown[0][1].values()), number(capacity_bytes)
    capacity = whole if whole and whole <= _NEAR * largest else None  # far from it nothing of the bars would be seen
    most = max(largest, capacity or 0.0)
    scale, unit = size_unit(most)
    rows: list[dict[str, Any]] = []
    for at, (row, parts) in enumerate(shown):
        name = shortened(row.get("module"), 60)
        for order, (part, size) in enumerate(parts.items()):
            about = f"{name}: {NEEDS[part][0]} {format_bytes(size)}"
            rows.append({"row": at, "part": NEEDS[part][0], "order": order, "value": size / scale, "about": about})
    present = [part for part in NEEDS if any(part in parts for _, parts in shown)]
    labels = [NEEDS[part][0] for part in present]
    left, right = 210, 24
    room = WIDTH - left - right
    columns = legend_columns(labels, room)
    top = -(-len(labels) // columns) * 18 + 18 + (16 if capacity else 0)
    y = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.25))
    extent = alt.Scale(domain=[0, most / scale * 1.02], nice=False)
    x = alt.X("value:Q", stack="zero", axis=alt.Axis(title=f"memory of one device ({unit})", tickCount=8), scale=extent)
    colors = [LOOKS[NEEDS[part][1]].light for part in present]
    names = [{"row": at, "name": shortened(row.get("module"), 30)} for at, (row, _) in enumerate(shown)]
    layers: list[alt.Chart] = [
        alt.Chart(alt.Data(values=rows)).mark_bar(stroke=CARD, strokeWidth=0.5).encode(
            y=y, x=x, order=alt.Order("order:Q"), description="about:N",
            color=alt.Color("part:N", scale=alt.Scale(domain=labels, range=colors),
                            legend=alt.Legend(title=None, columns=columns)),
            tooltip=[alt.Tooltip("about:N", title="needs")],
        ),
        alt.Chart(alt.Data(values=names)).mark_text(color=INK, fontSize=FONT, align="right")
        .encode(y=y, x=alt.value(-10), text="name:N"),
    ]  # fmt: skip
    height = 26 * len(shown)
    if capacity:
        layers += level_layers(capacity / scale, f"capacity {format_bytes(capacity)}", "x", extent, height)
    caption = f"{len(shown)} largest of {len(known):,} programs. " if len(known) > len(shown) else ""
    caption += "Results that reuse the memory of arguments are counted once."
    if whole and not capacity:
        caption += f" The largest is {format_percent(largest / whole, 1)} of the capacity."
    return Drawing(framed(layers, height, left, right, top, _BOTTOM, "memoryneeds"), caption)


def memory_curve_chart(points: Sequence[Mapping[str, Any]], positions: int, capacity_bytes: float | None = None,
                       ) -> Drawing:  # fmt: skip
    """Memory in use over the schedule of a program, its peak marked; and the capacity, where the use comes near it.

    Args:
        points: ``position``, ``bytes`` and ``op``, in order; each holds until the next.
        positions: how many instructions the schedule has.
        capacity_bytes: of that memory of one device.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known: list[dict[str, Any]] = [
        {"at": at, "size": size, "op": shortened(row.get("op"), 60)}
        for row in points
        if (at := number(row.get("position"))) is not None and (size := number(row.get("bytes"))) is not None
    ]
    if not known or max(point["size"] for point in known) <= 0:
        return Drawing(None, "No chart of memory over the program: its schedule is not known.")
    need_charts()
    import altair as alt

    peak = max(known, key=lambda point: (point["size"], -point["at"]))
    capacity = number(capacity_bytes)
    near = capacity if capacity and capacity <= _NEAR * peak["size"] else None
    scale, unit = size_unit(peak["size"])
    last = max(float(positions), known[-1]["at"] + 1)
    rows = [
        {"x": point["at"], "value": point["size"] / scale,
         "about": f"from {point['op']} on: {format_bytes(point['size'])}"}
        for point in known
    ]  # fmt: skip
    rows.append({**rows[-1], "x": last})
    x = alt.X("x:Q", axis=alt.Axis(title="instruction of the schedule (loops once)", tickCount=8, format="~s"),
              scale=alt.Scale(domain=[0, last], nice=False))  # fmt: skip
    extent = alt.Scale(domain=[0, max(peak["size"], near or 0.0) / scale * 1.08], nice=False)
    y = alt.Y("value:Q", axis=alt.Axis(title=f"in use ({unit})", tickCount=6, titlePadding=14), scale=extent)
    base = alt.Chart(alt.Data(values=rows))
    mark = [{"x": peak["at"], "value": peak["size"] / scale, "text": f"peak {format_bytes(peak['size'])}"}]
    side = "left" if peak["at"] < last / 2 else "right"
    marks = alt.Chart(alt.Data(values=mark))
    layers: list[alt.Chart] = [
        base.mark_area(color=LOOKS["matmul"].light, opacity=0.25, interpolate="step-after").encode(x=x, y=y),
        base.mark_line(color=LOOKS["matmul"].light, interpolate="step-after", strokeWidth=1.5).encode(x=x, y=y),
        base.mark_bar(color=LOOKS["matmul"].light, opacity=0.001, width=4).encode(
            x=x, y=y, tooltip=[alt.Tooltip("about:N", title="memory")], description="about:N"
        ),
        marks.mark_point(filled=True, color=INK, size=40, opacity=1).encode(x=x, y=y),
        marks.mark_text(color=INK, fontSize=FONT, align=side, dx=7 if side == "left" else -7, dy=-8)
        .encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip
    left, right = 74, 14
    if near:
        layers += level_layers(near / scale, f"capacity {format_bytes(near)}", "y", extent, WIDTH - left - right)
    caption = f"{positions:,} instructions. The peak is at {peak['op']}."
    if capacity and not near:
        caption += f" The peak is {format_percent(peak['size'] / capacity, 1)} of the capacity."
    return Drawing(framed(layers, _HEIGHT, left, right, _TOP, _BOTTOM, "memorycurve"), caption)


def _needs(row: Mapping[str, Any]) -> dict[str, float]:
    """The parts of what a program needs, which sum to ``total_bytes``; empty if they are not known."""
    found = {part: number(row.get(f"{part}_bytes")) for part in (*NEEDS, "aliased")}
    if any(size is None for size in found.values()):
        return {}
    sizes = {part: size or 0.0 for part, size in found.items()}
    sizes["output"] = max(sizes["output"] - sizes.pop("aliased"), 0.0)
    return {part: sizes[part] for part in NEEDS if sizes[part] > 0}


def level_layers(value: float, text: str, axis: str, scale: alt.Scale, across: float) -> list[alt.Chart]:
    """A dashed line across the plot with its text.

    Args:
        value: where it is.
        text: what it is.
        axis: ``x`` for an upright line, ``y`` for a level one.
        scale: of that axis.
        across: the size of the plot along the line, in px.
    """
    import altair as alt

    data = alt.Chart(alt.Data(values=[{"level": value, "text": text}]))
    style: dict[str, Any] = {"color": SOFT, "strokeDash": [5, 4], "strokeWidth": 1.2}
    if axis == "x":
        at = alt.X("level:Q", scale=scale)
        return [
            data.mark_rule(**style).encode(x=at, y=alt.value(-4), y2=alt.value(across)),
            data.mark_text(color=SOFT, fontSize=FONT, align="right", baseline="bottom", dx=0)
            .encode(x=at, y=alt.value(-6), text="text:N"),
        ]  # fmt: skip
    at_y = alt.Y("level:Q", scale=scale)
    return [
        data.mark_rule(**style).encode(y=at_y, x=alt.value(0), x2=alt.value(across)),
        data.mark_text(color=SOFT, fontSize=FONT, align="right", baseline="bottom", dy=-3)
        .encode(y=at_y, x=alt.value(across), text="text:N"),
    ]  # fmt: skip
