"""The mean step as one bar with all its parts, each with its time and share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuprof.charts.drawing import CARD, FONT, INK, WIDTH, Drawing, framed, need_charts, number
from tpuprof.palette import LOOKS
from tpuprof.units import format_percent, format_ps

_BAR = 34
_COLUMNS = 3
_LINE = 20
_INSIDE = 0.075
"""Pieces from this share on have their share written on them."""
_PALE = ("elementwise", "gather_scatter", "data_movement", "dma_wait", "idle", "convolution")


def mean_step_chart(parts: Mapping[str, Any] | None) -> Drawing:
    """A bar of the parts of the mean step, in the order of the partition, with a list of them below.

    Args:
        parts: ``matmul_ps`` …: ``breakdown.parts`` of the report.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [(part, number((parts or {}).get(f"{part}_ps")) or 0.0) for part in LOOKS]
    sizes = [(part, size) for part, size in known if size > 0]
    if not sizes:
        return Drawing(None, "No step was divided into parts.")
    need_charts()
    import altair as alt

    width = WIDTH - 2
    total = sum(size for _, size in sizes)
    pieces: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    start = 0.0
    for at, (part, size) in enumerate(sizes):
        share = size / total
        text = f"{LOOKS[part].label} {format_ps(size)} · {format_percent(share, 1)}"
        about = f"{LOOKS[part].label}: {format_ps(size)}, {format_percent(share, 1)} of the step"
        pieces.append({"part": LOOKS[part].label, "x": start * width, "x2": (start + share) * width, "about": about,
                       "middle": (start + share / 2) * width, "share": format_percent(share, 0),
                       "time": format_ps(size), "of": format_percent(share, 1)})  # fmt: skip
        labels.append({"x": at % _COLUMNS * width / _COLUMNS + 6, "y": _BAR + 20 + at // _COLUMNS * _LINE,
                       "part": LOOKS[part].label, "text": text})  # fmt: skip
        start += share
    lines = -(-len(sizes) // _COLUMNS)
    height = _BAR + 10 + lines * _LINE + 6
    scale = alt.Scale(
        domain=[LOOKS[part].label for part, _ in sizes], range=[LOOKS[part].light for part, _ in sizes]
    )  # fmt: skip
    color = alt.Color("part:N", scale=scale, legend=None)
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, height], nice=False, reverse=True))
    inside = [piece for piece, (_, size) in zip(pieces, sizes, strict=True) if size / total >= _INSIDE]
    list_base = alt.Chart(alt.Data(values=labels))
    layers: list[Any] = [
        alt.Chart(alt.Data(values=pieces)).mark_rect(stroke=CARD, strokeWidth=1).encode(
            x=x, x2="x2:Q", y=alt.value(0), y2=alt.value(_BAR), color=color, description="about:N",
            tooltip=[alt.Tooltip("part:N", title="part"), alt.Tooltip("time:N", title="time (parts sum to the step)"),
                     alt.Tooltip("of:N", title="share of the step")],
        ),
        list_base.mark_square(size=90, opacity=1).encode(x=x, y=y, color=color),
        list_base.mark_text(color=INK, fontSize=FONT, align="left", dx=10).encode(x=x, y=y, text="text:N"),
    ]  # fmt: skip
    for pale, ink in ((False, "white"), (True, "black")):
        of = [piece for piece in inside if (piece["part"] in {LOOKS[part].label for part in _PALE}) is pale]
        if of:
            layers.append(
                alt.Chart(alt.Data(values=of))
                .mark_text(color=ink, fontSize=FONT)
                .encode(x=alt.X("middle:Q", axis=None), y=alt.value(_BAR / 2), text="share:N")
            )
    return Drawing(framed(layers, height, 1, 1, 4, 4, "meanstep"), "")
