"""Waterfalls: the ideal ladder of a step, and what changed between two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.charts.drawing import FONT, INK, SOFT, WIDTH, Drawing, framed, need_charts, number, shortened, time_unit
from tpuprof.charts.themes import VARIABLES
from tpuprof.palette import CHROME, LOOKS
from tpuprof.text import clean
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    import altair as alt

MOST_DELTAS = 20
_ROW = 28
_LEFT, _RIGHT, _TOP, _BOTTOM = 222, 150, 6, 46
_LABEL = 32

_CAUSES = {
    "without_skew": "barrier_wait",
    "without_exposed_collectives": "collective_exposed",
    "without_copy_waits": "dma_wait",
    "without_idle": "idle",
    "ops_at_roofline": "convolution",
}
_LEFT_OVER = LOOKS["matmul"].light
_TOTAL = CHROME["soft"][0]
_SLOWER, _FASTER = LOOKS["host_transfer"].light, LOOKS["convolution"].light


def ladder_chart(rungs: Sequence[Mapping[str, Any]]) -> Drawing:
    """The ideal ladder as a waterfall: from the measured step, one cause of loss after the other is taken away.

    Args:
        rungs: ``label``, ``name``, ``step_ps``, ``gain_ps`` and ``reason``, the measured step first: rows of
            ``tpuprof.report.roofline.ladder_rows``.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    sizes = [(number(rung.get("step_ps")), number(rung.get("gain_ps"))) for rung in rungs]
    measured = sizes[0][0] if sizes else None
    if len(rungs) < 2 or not measured or measured <= 0:
        return Drawing(None, "No ladder: there is no counted step.")
    need_charts()
    rows = [_bar("measured step", 0.0, measured, _TOTAL, format_ps(measured))]
    reasons = [f"Not known, {clean(r.get('label'))}: {clean(r['reason'])}" for r in rungs if r.get("reason")]
    left = measured
    for rung, (step, gain) in zip(rungs[1:], sizes[1:], strict=True):
        left = left if step is None else step
        text = "not known" if rung.get("reason") and not gain else _minus(gain or 0.0, measured)
        color = LOOKS[_CAUSES.get(str(rung.get("name")), "other_compute")].light
        rows.append(_bar(rung.get("label"), left + (gain or 0.0), left, color, text))
    rows.append(
        _bar(
            "what remains" if reasons else "what remains: the bound",
            0.0,
            left,
            _LEFT_OVER,
            f"{format_ps(left)} · {format_percent(left / measured, 1)}",
        )
    )
    caption = (
        "Each bar is what the mean step could lose, all losses above it taken away. Shares are of the measured step."
    )
    return Drawing(_waterfall(rows, "ladder", "time of the mean step"), " ".join([caption, *reasons]))


def delta_chart(
    deltas: Sequence[Mapping[str, Any]], before_ps: float | None = None, labels: tuple[str, str] = ("before", "after")
) -> Drawing:
    """What changed between two runs as a waterfall, in the order given; orange is slower, blue faster.

    Args:
        deltas: rows ``{label, delta_ps}``. Those with the largest absolute change are shown, the others as one bar.
        before_ps: the time that the changes start from; bars of both totals are drawn if it is given.
        labels: of the two totals.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [(row.get("label"), delta) for row in deltas if (delta := number(row.get("delta_ps")))]
    if not known:
        return Drawing(None, "No waterfall: nothing changed.")
    need_charts()
    shown, rest = _largest(known)
    first = number(before_ps)
    at = first or 0.0
    rows = [] if first is None else [_bar(labels[0], 0.0, at, _TOTAL, format_ps(at))]
    for label, delta in [*shown, *rest]:
        text = f"{'+' if delta > 0 else '−'}{format_ps(abs(delta))}"
        rows.append(_bar(label, at, at + delta, _SLOWER if delta > 0 else _FASTER, text))
        at += delta
    if first is not None:
        share = f" · {'+' if at > first else ''}{format_percent(at / first - 1, 1)}" if first > 0 else ""
        rows.append(_bar(labels[1], 0.0, at, _TOTAL, f"{format_ps(at)}{share}"))
    caption = "Orange is slower, blue faster."
    if rest:
        caption = f"The {len(shown)} largest of {len(known):,} changes; the others are one bar. {caption}"
    return Drawing(_waterfall(rows, "changes", "time"), caption)


def _largest(known: list[tuple[Any, float]]) -> tuple[list[tuple[Any, float]], list[tuple[Any, float]]]:
    if len(known) <= MOST_DELTAS:
        return known, []
    by_size = sorted(range(len(known)), key=lambda at: (-abs(known[at][1]), at))
    kept = set(by_size[: MOST_DELTAS - 1])
    others = sum(known[at][1] for at in by_size[MOST_DELTAS - 1 :])
    return [known[at] for at in sorted(kept)], [(f"the other {len(known) - len(kept):,}", others)]


def _minus(gain: float, measured: float) -> str:
    return f"−{format_ps(gain)} · {format_percent(gain / measured, 1)}" if gain else "0"


def _bar(label: object, start: float, end: float, color: str, text: str) -> dict[str, Any]:
    """A bar from where the time was to where it is after it."""
    short = shortened(label, _LABEL)
    return {
        "label": short,
        "start": start,
        "end": end,
        "tone": VARIABLES[color],
        "text": text,
        "about": f"{short}: {text}",
    }


def _waterfall(bars: Sequence[Mapping[str, Any]], name: str, title: str) -> alt.LayerChart:
    """Bars from above to below. Labels are texts beside them and no axis, so that equal ones stay apart."""
    import altair as alt

    edges = [edge for bar in bars for edge in (bar["start"], bar["end"])]
    scale, unit = time_unit(max(map(abs, edges)))
    rows = [
        {
            **bar,
            "row": at,
            "next": min(at + 1, len(bars) - 1),
            "x": bar["start"] / scale,
            "x2": bar["end"] / scale,
            "link": bar["end"] / scale,
        }
        for at, bar in enumerate(bars)
    ]
    extent = [min(0.0, *edges) / scale, max(0.0, *edges) / scale]
    tones = sorted({row["tone"] for row in rows})
    colors = alt.Scale(domain=tones, range=[next(c for c, tone in VARIABLES.items() if tone == t) for t in tones])
    base = alt.Chart(alt.Data(values=rows))
    y = alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.3, paddingOuter=0.15))
    x = alt.X("x:Q", axis=alt.Axis(title=f"{title} ({unit})", tickCount=8), scale=alt.Scale(domain=extent, nice=False))
    text = base.encode(y=y)
    layers = [
        # A thin line from the end of each bar to the next one, which starts there.
        base.mark_rule(color=SOFT, strokeWidth=0.7)
        .encode(y=alt.Y("row:O", axis=None, bandPosition=0.5), y2=alt.Y2("next:O", bandPosition=0.5),
                x=alt.X("link:Q")),
        base.mark_bar(minBandSize=2).encode(
            x=x, x2="x2:Q", y=y, color=alt.Color("tone:N", scale=colors, legend=None), description="about:N",
            tooltip=[alt.Tooltip("label:N", title="what"), alt.Tooltip("text:N", title="time")],
        ),
        text.mark_text(color=INK, fontSize=FONT, align="right").encode(x=alt.value(-10), text="label:N"),
        text.mark_text(color=INK, fontSize=FONT, align="left")
        .encode(x=alt.value(WIDTH - _LEFT - _RIGHT + 12), text="text:N"),
    ]  # fmt: skip
    return framed(layers, _ROW * len(rows), _LEFT, _RIGHT, _TOP, _BOTTOM, name)
