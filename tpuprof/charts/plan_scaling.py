"""Strong scaling: throughput and utilisation of the same batch on more and more chips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import SOFT, Drawing, log_ticks, need_charts, number, positive, shortened
from tpuprof.charts.panels import Axis, Line, Mark, Panel, panels_chart
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent

MOST_SIZES = 32
_THROUGHPUT, _MFU, _SHARE = (LOOKS[part].light for part in ("matmul", "custom_kernel", "collective_exposed"))


def scaling_chart(points: Sequence[Mapping[str, Any]]) -> Drawing:
    """Throughput against chips, beside what would be in proportion; below it MFU and exposed communication.

    The knee is the first size whose step is bound by communication.

    Args:
        points: of the document of ``tpuprof plan train --scaling``: ``chips``, ``tokens_per_s``, ``mfu``,
            ``exposed_fraction``, ``bound_by``, ``layout``, and ``reason`` where there is none.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = sorted((row for row in points if positive(row, "chips") and positive(row, "tokens_per_s")),
                   key=lambda row: row["chips"])  # fmt: skip
    if not known:
        return Drawing(None, "No scaling curve: the job fits none of the sizes.")
    need_charts()
    shown = known[:MOST_SIZES]
    chips = [float(row["chips"]) for row in shown]
    first, last = chips[0], chips[-1]
    x = Axis("chips (log scale)", (first / 1.15, last * 1.15), _sizes(chips), log=True)
    rates = [float(row["tokens_per_s"]) for row in shown]
    ideal = [{"x": size, "y": rates[0] * size / first, "about": ""} for size in (first, last)]
    low, high = min(rates) / 1.5, max(rates[0] * last / first, *rates) * 1.5
    y = Axis("tokens/s (log scale)", (low, high), log_ticks(low, high), log=True, format="~s")
    curve = [{"x": size, "y": rate, "about": _about(row)}
             for size, rate, row in zip(chips, rates, shown, strict=True)]  # fmt: skip
    shares = [
        Line([{"x": float(row["chips"]), "y": 100 * value, "about": _about(row)}
              for row in shown if (value := number(row.get(key))) is not None], color, label)
        for key, color, label in (("mfu", _MFU, "MFU"), ("exposed_fraction", _SHARE, "exposed"))
    ]  # fmt: skip
    most = max([point["y"] for line in shares for point in line.points], default=1.0)
    percent = Axis("% of the step", (0.0, min(100.0, most * 1.2) or 1.0))
    knee = next((row for row in shown if row.get("bound_by") == "communication"), None)
    marks = [] if knee is None else [Mark(float(knee["chips"]), f"bound by communication from {knee['chips']:,} chips")]
    chart = panels_chart(
        "scaling", x,
        [Panel(y, 200, [Line(ideal, SOFT, "in proportion", dashed=True), Line(curve, _THROUGHPUT, "planned")]),
         Panel(percent, 110, [line for line in shares if line.points])],
        marks,
    )  # fmt: skip
    return Drawing(chart, _caption(shown, known, points, knee))


def _about(row: Mapping[str, Any]) -> str:
    mfu, exposed = number(row.get("mfu")), number(row.get("exposed_fraction"))
    return (
        f"{row['chips']:,} chips: {row['tokens_per_s']:,.0f} tokens/s, MFU {format_percent(mfu, 1)}, "
        f"{format_percent(exposed, 1)} exposed\n{shortened(row.get('layout') or '', 80)}"
    )


def _sizes(chips: Sequence[float]) -> list[float]:
    """Every size where there is room for its label, else some of them."""
    step = -(-len(chips) // 10)
    return list(chips[::-1][::step][::-1])


def _caption(
    shown: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]],
    knee: Mapping[str, Any] | None,
) -> str:  # fmt: skip
    sentences = [f"The best layout of {plural(len(known), 'size')}; the batch stays the same."]
    if len(shown) < len(known):
        sentences = [f"The best layout of the {len(shown)} smallest of {plural(len(known), 'size')}."]
    share = shown[-1]["tokens_per_s"] / shown[-1]["chips"] / (shown[0]["tokens_per_s"] / shown[0]["chips"])
    if len(shown) > 1:
        sentences.append(f"On {shown[-1]['chips']:,} chips each does {format_percent(share, 0)} of what it does on "
                         f"{shown[0]['chips']:,}.")  # fmt: skip
    if knee is None:
        sentences.append("At no size is the step bound by communication.")
    without = [row for row in points if not positive(row, "tokens_per_s")]
    if without:
        sizes = ", ".join(f"{row['chips']:,}" for row in without[:4] if positive(row, "chips"))
        reason = next((clean(row["reason"]) for row in without if row.get("reason")), "")
        sentences.append(f"Not possible on {sizes} chips" + (f": {reason.rstrip('.')}." if reason else "."))
    return " ".join(sentences)
