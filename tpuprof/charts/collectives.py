"""Collectives: what they took against what the links of the hardware allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import (
    FONT,
    INK,
    LINE,
    WIDTH,
    Drawing,
    framed,
    log_ticks,
    need_charts,
    positive,
    shortened,
    time_unit,
)
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent, format_ps

MOST_ROWS = 16
_ROW = 26
_LEFT, _RIGHT, _TOP, _BOTTOM = 230, 130, 34, 46
_MARKS = {
    "predicted_ps": ("least the links allow", "M-0.16,-0.9L0.16,-0.9L0.16,0.9L-0.16,0.9Z", INK, 110),
    "expected_ps": ("usual for its kind", "diamond", LOOKS["convolution"].light, 190),
    "measured_ps": ("measured", "circle", LOOKS["collective_exposed"].light, 70),
}
"""What is marked in a row: label, shape, colour and area (px²)."""


def collectives_chart(collectives: Sequence[Mapping[str, Any]]) -> Drawing:
    """One row per collective: its measured time, the least time that the links allow, and what is usual.

    Args:
        collectives: ``name``, ``kind``, ``count``, ``transfer_ps``, ``window_ps``, ``exposed_ps``, ``predicted_ps``,
            ``expected_ps``, ``regime`` and ``prediction_reason``, the most important first: ``collectives`` of the
            report. Where no transfer time is known, the whole window counts as measured.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    if not collectives:
        return Drawing(None, "No chart of collectives: none was recorded.")
    known = [row for row in map(_known, collectives) if row is not None]
    predicted = [row for row in known if row["predicted_ps"] is not None]
    if not predicted:
        reason = next((clean(row["prediction_reason"]) for row in collectives if row.get("prediction_reason")), "")
        return Drawing(None, f"No chart of collectives: what they should take is not known. {reason}".strip())
    need_charts()
    import altair as alt

    shown = predicted[:MOST_ROWS]
    times = [row[key] for row in shown for key in _MARKS if row[key] is not None]
    scale, unit = time_unit(max(times))
    low, high = min(times) / scale / 2, max(times) / scale * 2
    points = [
        {"row": at, "what": what, "value": row[key] / scale, "about": f"{row['about']}\n{what}: {format_ps(row[key])}",
         "name": row["name"], "kind": row["kind"], "time": format_ps(row[key]), "regime": row["regime"]}
        for at, row in enumerate(shown)
        for key, (what, _, _, _) in _MARKS.items()
        if row[key] is not None
    ]  # fmt: skip
    spans = [
        {"row": at, "value": row["predicted_ps"] / scale, "end": row["measured_ps"] / scale, "label": row["label"],
         "share": row["share"]}
        for at, row in enumerate(shown)
    ]  # fmt: skip
    labels = [what for what, _, _, _ in _MARKS.values()]
    y = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.3))
    axis = alt.Axis(title=f"mean time of one ({unit}, log scale)", values=log_ticks(low, high), format=",~f")
    x = alt.X("value:Q", axis=axis, scale=alt.Scale(type="log", domain=[low, high], nice=False))
    rows = alt.Chart(alt.Data(values=spans))
    share_x = WIDTH - _LEFT - _RIGHT + 12
    legend = alt.Legend(title=None)
    colors = alt.Scale(domain=labels, range=[color for _, _, color, _ in _MARKS.values()])
    shapes = alt.Scale(domain=labels, range=[shape for _, shape, _, _ in _MARKS.values()])
    sizes = alt.Scale(domain=labels, range=[size for _, _, _, size in _MARKS.values()])
    marks = alt.Chart(alt.Data(values=points)).mark_point(filled=True, opacity=1)
    layers = [
        rows.mark_rule(color=LINE, strokeWidth=4).encode(y=y, x=x, x2="end:Q"),
        marks.encode(
            y=y,
            x=x,
            description="about:N",
            color=alt.Color("what:N", scale=colors, legend=legend),
            shape=alt.Shape("what:N", scale=shapes, legend=legend),
            size=alt.Size("what:N", scale=sizes, legend=legend, sort=labels),
            tooltip=[
                alt.Tooltip("name:N", title="collective"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("what:N", title="which time"),
                alt.Tooltip("time:N", title="mean per occurrence"),
                alt.Tooltip("regime:N", title="what decides the prediction"),
            ],
        ),
        rows.mark_text(color=INK, fontSize=FONT, align="right").encode(y=y, x=alt.value(-10), text="label:N"),
        rows.mark_text(color=INK, fontSize=FONT, align="left").encode(y=y, x=alt.value(share_x), text="share:N"),
    ]
    chart = framed(layers, _ROW * len(shown), _LEFT, _RIGHT, _TOP, _BOTTOM, "collectives")
    return Drawing(chart, _caption(len(shown), len(predicted), len(collectives)))


def _known(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """A row with a measured time above zero."""
    measured = positive(row, "transfer_ps") or positive(row, "window_ps")
    if measured is None:
        return None
    predicted = positive(row, "predicted_ps")
    name, kind = shortened(row.get("name"), 60), clean(row.get("kind") or "")
    count = positive(row, "count") or 0
    share = None if predicted is None else predicted / measured
    return {
        "name": name,
        "kind": kind.replace("_", " "),
        "regime": clean(row.get("regime") or "not known"),
        "label": f"{shortened(row.get('name'), 26)} ×{count:,.0f}",
        "share": f"{format_percent(share, 1)} of the bound",
        "about": f"{name} ({kind.replace('_', ' ')}), {plural(int(count), 'occurrence')} on all cores",
        "measured_ps": measured,
        "predicted_ps": predicted,
        "expected_ps": positive(row, "expected_ps"),
    }


def _caption(shown: int, predicted: int, total: int) -> str:
    sentences = [f"{shown} of {plural(total, 'collective')}, the one with the most exposed time first."]
    if predicted < total:
        sentences.append(f"For {total - predicted:,} no prediction or no measured time is known.")
    sentences.append("Measured is the transfer without waits for other cores, or all of it where waits are not known.")
    return " ".join(sentences)
