"""Cores by steps as a heat map: which of them took long, in which step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuprof.charts.drawing import (
    CARD,
    FONT,
    INK,
    LINE,
    SOFT,
    WIDTH,
    Drawing,
    framed,
    need_charts,
    shortened,
    time_unit,
)
from tpuprof.text import plural
from tpuprof.units import format_ps

MOST_CELLS = 1000
MOST_ROWS = 48
MOST_COLUMNS = 120
PICKED = "picked"
"""The selection parameter of the chart: a click gives ``device`` and ``step`` of the cell."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 190, 14, 58, 40
_NAME = 27
_SATURATED = 0.98
"""Colours end at this quantile, if what lies above it is far above: one step that compiles would leave no contrast."""
_FAR = 1.5
_TICKS = 4
_PALEST = 0.14
_TICK_WIDTH = 84


def heat_chart(
    devices: Sequence[str],
    steps: Sequence[int],
    values_ps: Sequence[Sequence[float | None]],
    title: str,
    color: str,
    marked: tuple[str, int] | None = None,
) -> Drawing:
    """A cell per core and step, darker the longer; of many cores or steps each cell is the longest of several.

    Args:
        devices: the cores, one per row.
        steps: the steps' numbers, one per column.
        values_ps: a time per core and step, shape (devices, steps); what is null or not finite has no cell.
        title: what the times are, for the legend.
        color: the (light) colour of the longest, one of the palette.
        marked: a core and step to frame.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    cells, each = _cells(devices, steps, values_ps)
    if not cells:
        return Drawing(None, f"No heat map: {title} is not known for any step.")
    need_charts()
    import altair as alt

    known = sorted(cell["ps"] for cell in cells)
    low, high, cut = _domain(known)
    scale, unit = time_unit(high)
    n_rows, n_columns = -(-len(devices) // each[0]), -(-len(steps) // each[1])
    height = n_rows * (22 if n_rows <= 16 else 16 if n_rows <= 32 else 13)
    rows = [{**cell, "value": cell["ps"] / scale} for cell in cells]
    x = alt.X("column:O", axis=None, scale=alt.Scale(type="band", domain=list(range(n_columns)), paddingInner=0))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(type="band", domain=list(range(n_rows)), paddingInner=0))
    # Strength instead of a scale of colours, so that light, dark and pages with colours of their own all have it.
    domain, strength = [low / scale, high / scale], [_PALEST, 1.0]
    shade = alt.FillOpacity(
        "value:Q", legend=None,
        scale=alt.Scale(domain=domain, range=strength, clamp=True, nice=False, zero=False),
    )  # fmt: skip
    picked = alt.selection_point(name=PICKED, fields=["device", "step"], on="click")
    thin = 1 if n_columns <= 60 and height / n_rows > 14 else 0.4
    base = alt.Chart(alt.Data(values=rows))
    layers: list[Any] = [
        base.mark_rect(fill=color, stroke=CARD, strokeWidth=thin, cursor="pointer").encode(
            x=x, y=y, fillOpacity=shade, description="about:N",
            tooltip=[alt.Tooltip("about:N", title="cell")],
        ).add_params(picked),
        *_labels(devices, steps, each, n_rows, n_columns, height, x, y),
        *_legend(f"{title} ({unit})", low / scale, high / scale, color),
    ]  # fmt: skip
    framed_cells = [row for row in rows if marked and _holds(row, marked, devices, steps, each)]
    if framed_cells:
        layers.append(
            alt.Chart(alt.Data(values=framed_cells))
            .mark_rect(filled=False, fillOpacity=0, stroke=INK, strokeWidth=2.5)
            .encode(x=x, y=y, description="about:N")
        )
    made: Any = framed(layers, height, _LEFT, _RIGHT, _TOP, _BOTTOM, "heat")  # the types of resolve_… are not known
    chart = made.resolve_scale(x="independent")
    return Drawing(chart, _caption(len(devices), len(steps), each, n_rows, n_columns, high if cut else None))


def _cells(
    devices: Sequence[str], steps: Sequence[int], values_ps: Sequence[Sequence[float | None]]
) -> tuple[list[dict[str, Any]], tuple[int, int]]:
    """The cells with a known value, and how many cores and steps each stands for."""
    import numpy as np

    if not devices or not steps:
        return [], (1, 1)
    values = np.asarray(values_ps, np.float64).reshape(len(devices), len(steps))
    each_row = max(1, -(-len(devices) // MOST_ROWS))
    n_rows = -(-len(devices) // each_row)
    each = (each_row, max(1, -(-len(steps) // min(MOST_COLUMNS, MOST_CELLS // n_rows))))
    n_columns = -(-len(steps) // each[1])
    padded = np.full((n_rows * each[0], n_columns * each[1]), -np.inf)
    with np.errstate(invalid="ignore"):
        padded[: len(devices), : len(steps)] = np.where(np.abs(values) < 1e30, values, -np.inf)
    groups = padded.reshape(n_rows, each[0], n_columns, each[1]).swapaxes(1, 2).reshape(n_rows, n_columns, -1)
    largest, counts = groups.argmax(axis=2), np.isfinite(groups).sum(axis=2)
    cells: list[dict[str, Any]] = []
    for row, column in np.argwhere(counts).tolist():
        inside = divmod(int(largest[row, column]), each[1])
        device = devices[row * each[0] + inside[0]]
        step = int(steps[column * each[1] + inside[1]])
        ps = float(groups[row, column].max())
        cells.append(
            {
                "row": row, "column": column, "ps": ps, "device": device, "step": step,
                "about": f"{shortened(device, 80)}, step {step}: {format_ps(ps)}",
            }
        )  # fmt: skip
    return cells, each


def _domain(known: Sequence[float]) -> tuple[float, float, bool]:
    """The values at which colours begin and end, and whether some lie beyond."""
    low, high = known[0], known[-1]
    near = known[min(len(known) - 1, int(_SATURATED * len(known)))]
    if near > 0 and high > near * _FAR:
        return (low if low < near else 0.0), near, True
    if high - low <= 1e-9 * abs(high):  # all alike: neither all pale nor all dark by chance
        return 0.0, (high * 2 or 1.0), False
    return low, high, False


def _labels(
    devices: Sequence[str], steps: Sequence[int], each: tuple[int, int], n_rows: int, n_columns: int, height: int,
    x: Any, y: Any,
) -> list[Any]:  # fmt: skip
    import altair as alt

    thin_rows = max(1, -(-n_rows * 12 // height))
    thin_columns = max(1, -(-n_columns // 14))
    names: list[dict[str, Any]] = []
    for row in range(0, n_rows, thin_rows):
        first = row * each[0]
        more = min(each[0], len(devices) - first) - 1
        names.append({"row": row, "text": _ending(devices[first]) + (f" +{more}" * (more > 0))})
    numbers = [{"column": at, "text": str(int(steps[at * each[1]]))} for at in range(0, n_columns, thin_columns)]
    title = alt.Chart(alt.Data(values=[{"text": "step"}])).mark_text(fontSize=FONT, color=INK, baseline="top")
    small = FONT if height / n_rows >= 14 else FONT - 1
    return [
        alt.Chart(alt.Data(values=names)).mark_text(color=INK, fontSize=small, align="right").encode(
            y=y, x=alt.value(-8), text="text:N"
        ),
        alt.Chart(alt.Data(values=numbers)).mark_text(color=INK, fontSize=FONT, baseline="top").encode(
            x=x, y=alt.value(height + 6), text="text:N"
        ),
        title.encode(x=alt.value((WIDTH - _LEFT - _RIGHT) / 2), y=alt.value(height + 23), text="text:N"),
    ]  # fmt: skip


def _legend(title: str, low: float, high: float, color: str) -> list[Any]:
    """Squares of growing strength with the value that each stands for, on scales of their own."""
    import altair as alt

    marks = [
        {"x": part * _TICKS * _TICK_WIDTH, "strength": _PALEST + (1 - _PALEST) * part,
         "text": f"{low + (high - low) * part:,.4g}"}
        for part in (at / _TICKS for at in range(_TICKS + 1))
    ]  # fmt: skip
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH - _LEFT - _RIGHT], nice=False))
    y = alt.value(-22)
    base = alt.Chart(alt.Data(values=marks))
    heading = alt.Chart(alt.Data(values=[{"text": title}]))
    strength = alt.FillOpacity("strength:Q", legend=None, scale=None)
    return [
        base.mark_square(fill=color, stroke=LINE, strokeWidth=1, size=200, opacity=1, xOffset=8).encode(
            x=x, y=y, fillOpacity=strength
        ),
        base.mark_text(color=INK, fontSize=FONT, align="left", dx=20).encode(x=x, y=y, text="text:N"),
        heading.mark_text(color=SOFT, fontSize=FONT, align="left").encode(
            x=alt.value(0), y=alt.value(-42), text="text:N"
        ),
    ]


def _ending(name: str) -> str:
    """A core's name; of a long one the end, as hosts of a pod begin alike."""
    text = shortened(name, 500)
    return text if len(text) <= _NAME else f"…{text[1 - _NAME :]}"


def _holds(
    cell: dict[str, Any], marked: tuple[str, int], devices: Sequence[str], steps: Sequence[int], each: tuple[int, int]
) -> bool:
    device, step = marked
    rows = devices[cell["row"] * each[0] : (cell["row"] + 1) * each[0]]
    return device in rows and step in steps[cell["column"] * each[1] : (cell["column"] + 1) * each[1]]


def _caption(cores: int, steps: int, each: tuple[int, int], n_rows: int, n_columns: int, cut: float | None) -> str:
    sentences = [f"{plural(cores, 'core')} by {plural(steps, 'step')}."]
    if each != (1, 1):
        sentences.append(
            f"{n_rows * n_columns:,} cells, each the longest of {plural(each[0], 'core')} by {plural(each[1], 'step')}."
        )
    if cut is not None:
        sentences.append(f"Colours end at {format_ps(cut)}; some cells are longer.")
    return " ".join(sentences)
