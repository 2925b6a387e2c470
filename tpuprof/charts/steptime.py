"""How the times of steps, and those of the occurrences of an op, are distributed."""

from __future__ import annotations

from collections.abc import Sequence
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
    number,
    text_width,
    time_unit,
)
from tpuprof.palette import LOOKS, part_of_kind
from tpuprof.text import plural
from tpuprof.units import format_ps

if TYPE_CHECKING:
    import altair as alt

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 60, 24, 58, 46, 200
_FEWEST, _MOST = 10, 60


def step_time_chart(times_ps: Sequence[float]) -> Drawing:
    """A histogram of step times with p50, p90 and p99 (linear percentiles, as in step statistics).

    Args:
        times_ps: one per counted step: the slowest core's.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    times = _known(times_ps)
    if len(times) < 2:
        some = "only one" if times else "no"
        return Drawing(None, f"No distribution of step times: {some} complete step was recorded.")
    caption = f"{plural(len(times), 'step')}, each as long as on its slowest core."
    return Drawing(_histogram(times, ("step", "step time", "steptimes"), LOOKS["matmul"].light), caption)


def op_time_chart(durations_ps: Sequence[float], kind: str | None = None) -> Drawing:
    """A histogram of the durations of an op with p50, p90 and p99, in the colour of its kind.

    Args:
        durations_ps: one per occurrence, of all cores.
        kind: its kind.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    times = _known(durations_ps)
    if len(times) < 2:
        some = "it occurs once" if times else "no duration is known"
        return Drawing(None, f"No distribution of durations: {some}.")
    spread = f"from {format_ps(min(times))} to {format_ps(max(times))}"
    chart = _histogram(times, ("occurrence", "duration", "durations"), LOOKS[part_of_kind(kind)].light)
    return Drawing(chart, f"{plural(len(times), 'occurrence')} on all cores, {spread}.")


def _known(times_ps: Sequence[float]) -> list[float]:
    return [time for value in times_ps if (time := number(value)) is not None and time >= 0]


def _histogram(times: Sequence[float], words: tuple[str, str, str], color: str) -> alt.LayerChart:
    """The bars and the percentiles; ``words`` are the noun of what is counted, the axis and the name of the chart."""
    need_charts()
    import altair as alt
    import numpy as np

    noun, axis, name = words
    scale, unit = time_unit(max(times))
    values = np.asarray(times, np.float64) / scale
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-9 * max(high, 1e-300):
        low, high = low * 0.95, high * 1.05 or 1.0
    bins = min(
        max(len(np.histogram_bin_edges(values, "fd", (low, high))) - 1 if _spread(values) else 1, _FEWEST), _MOST
    )
    counts, edges = np.histogram(values, bins, (low, high))
    bars = [
        {"x": float(edges[at]), "x2": float(edges[at + 1]), "count": int(count),
         "about": f"{plural(int(count), noun)} from {format_ps(float(edges[at]) * scale)} to "
                  f"{format_ps(float(edges[at + 1]) * scale)}"}
        for at, count in enumerate(counts)
        if count
    ]  # fmt: skip
    pad = (high - low) * 0.02
    x_scale = alt.Scale(domain=[low - pad, high + pad], nice=False, zero=False)
    x = alt.X("x:Q", axis=alt.Axis(title=f"{axis} ({unit})", tickCount=8), scale=x_scale)
    y = alt.Y(
        "count:Q",
        axis=alt.Axis(title=f"{noun}s", values=_whole_ticks(int(counts.max())), format=",d", titlePadding=14),
        scale=alt.Scale(domain=[0, int(counts.max()) * 1.05], nice=False),
    )
    marks = _percentiles(values, scale, (low - pad, high + pad))
    base = alt.Chart(alt.Data(values=marks))
    layers: list[alt.Chart] = [
        alt.Chart(alt.Data(values=bars)).mark_rect(color=color, stroke=CARD, strokeWidth=1).encode(
            x=x, x2="x2:Q", y=y, y2=alt.Y2(datum=0), description="about:N",
            tooltip=[alt.Tooltip("about:N", title="bar")],
        ),
        base.mark_rule(color=SOFT, strokeDash=[4, 3]).encode(x=alt.X("x:Q"), y=alt.value(-2), y2=alt.value(_HEIGHT)),
    ]  # fmt: skip
    for row in marks:
        style: dict[str, Any] = {"align": row["align"], "dx": 3 if row["align"] == "left" else -3}
        text = alt.Chart(alt.Data(values=[row])).mark_text(color=INK, fontSize=FONT, **style)
        layers.append(text.encode(x=alt.X("x:Q"), y=alt.value(-10 - 15 * row["level"]), text="text:N"))
    return framed(layers, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, name)


def _spread(values: Any) -> bool:
    import numpy as np

    low, high = np.percentile(values, [25, 75])
    return bool(high - low > 1e-6 * max(abs(high), 1e-300) and (values.max() - values.min()) / (high - low) < 1e4)


def _percentiles(values: Any, scale: int, extent: tuple[float, float]) -> list[dict[str, Any]]:
    """The percentiles with the place of their labels: one that would lie on the one before is set higher."""
    import numpy as np

    width = WIDTH - _LEFT - _RIGHT
    found: list[dict[str, Any]] = []
    ends: list[float] = []
    for name, value in zip(("p50", "p90", "p99"), np.percentile(values, [50, 90, 99]).tolist(), strict=True):
        text = f"{name} {format_ps(value * scale)}"
        at, wide = (value - extent[0]) / (extent[1] - extent[0]) * width, text_width(text) + 6
        align = "left" if at + wide <= width + _RIGHT else "right"
        start = at if align == "left" else at - wide
        level = next((n for n, end in enumerate(ends) if end < start), len(ends))
        ends[level : level + 1] = [start + wide]
        found.append({"x": value, "text": text, "level": level, "align": align})
    return found


def _whole_ticks(most: int) -> list[int]:
    """About five whole numbers from zero to ``most``, a round step apart."""
    step = next(s for ten in range(19) for s in (10**ten, 2 * 10**ten, 5 * 10**ten) if s * 6 > most)
    return list(range(0, most + 1, step))
