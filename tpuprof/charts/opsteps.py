"""The time of one op, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import CARD, FONT, INK, WIDTH, Drawing, framed, need_charts, number, shortened, time_unit
from tpuprof.palette import LOOKS, part_of_kind
from tpuprof.text import plural
from tpuprof.units import format_ps

MOST_BARS = 120
_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 200, 66, 14, 18, 46


def op_steps_chart(steps: Sequence[Mapping[str, Any]], kind: str | None = None) -> Drawing:
    """A bar per step: the self time of an op, the mean over the cores that ran it; a dash for the core with the most.

    Of many steps each bar is the mean of a few, its dash the most in any of them.

    Args:
        steps: ``step``, ``mean_ps`` and ``most_ps``, in order: ``steps`` of :class:`tpuprof.tables.one_op.OpRuns`.
        kind: the kind of the op, for its colour.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [
        (shortened(row.get("step"), 12), mean, most)
        for row in steps
        if (mean := number(row.get("mean_ps"))) is not None and (most := number(row.get("most_ps"))) is not None
    ]
    if not known:
        return Drawing(None, "No chart by step: no occurrence lies in a step.")
    need_charts()
    import altair as alt

    each = -(-len(known) // MOST_BARS)
    groups = [known[at : at + each] for at in range(0, len(known), each)]
    highest = max(most for _, _, most in known)
    scale, unit = time_unit(highest)
    bars: list[dict[str, Any]] = []
    for at, group in enumerate(groups):
        mean, most = sum(mean for _, mean, _ in group) / len(group), max(most for _, _, most in group)
        name = f"step {group[0][0]}" if len(group) == 1 else f"steps {group[0][0]} to {group[-1][0]}"
        about = f"{name}: mean {format_ps(mean)}, most {format_ps(most)}"
        bars.append({"row": at, "mean": mean / scale, "most": most / scale, "about": about})
    thin = max(1, -(-len(groups) // 12))
    ticks = [{"row": at, "step": group[0][0]} for at, group in enumerate(groups) if at % thin == 0]
    x = alt.X("row:O", axis=None, scale=alt.Scale(paddingInner=0.15))
    y_scale = alt.Scale(domain=[0, highest / scale * 1.05 or 1.0], nice=False)
    axis = alt.Axis(title=f"self time ({unit})", tickCount=5, titlePadding=14)
    base = alt.Chart(alt.Data(values=bars))
    tooltip = [alt.Tooltip("about:N", title="bar")]
    numbers = alt.Chart(alt.Data(values=ticks)).mark_text(fontSize=FONT, color=INK, baseline="top")
    title = alt.Chart(alt.Data(values=[{"text": "step"}])).mark_text(fontSize=FONT, color=INK, baseline="top")
    middle = (WIDTH - _LEFT - _RIGHT) / 2
    layers = [
        base.mark_bar(color=LOOKS[part_of_kind(kind)].light, stroke=CARD, strokeWidth=0.5)
        .encode(x=x, y=alt.Y("mean:Q", axis=axis, scale=y_scale), tooltip=tooltip, description="about:N"),
        base.mark_tick(color=INK, thickness=1.5)
        .encode(x=x, y=alt.Y("most:Q", scale=y_scale), tooltip=tooltip, description="about:N"),
        numbers.encode(x=x, y=alt.value(_HEIGHT + 8), text="step:N"),
        title.encode(x=alt.value(middle), y=alt.value(_HEIGHT + 26), text="text:N"),
    ]  # fmt: skip
    caption = "Bars: mean over the cores that ran it; dashes: the core with the most."
    if each > 1:
        caption = f"{plural(len(known), 'step')} in {len(groups)} bars, each of {each} steps. {caption}"
    return Drawing(framed(layers, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, "opsteps"), caption)
