"""Candidates of a plan as stacked bars: where a step goes, and what a device holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import Drawing, need_charts, number, positive, shortened, time_unit
from tpuprof.charts.plan_looks import mapping, memory_pieces, serve_pieces, train_pieces
from tpuprof.charts.stacked import Bar, stacked_chart
from tpuprof.text import plural
from tpuprof.units import PS_PER_S, format_bytes, format_percent, format_ps

MOST_CANDIDATES = 10
_LABEL = 92
_GIGA, _MEGA = 1e9, 1e6


def plan_steps_chart(candidates: Sequence[Mapping[str, Any]]) -> Drawing:
    """Where the step of each candidate goes: computation, each exposed collective, bubbles, overhead.

    Args:
        candidates: of the document of a training plan (``layout``, ``parts_s``, ``exposed``, ``low_s``, ``high_s``,
            ``mfu``) or of a serving plan (``slice``, ``split``, ``batch``, ``average_parts_s``), the first first.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    bars: list[Bar] = []
    for row in candidates:
        pieces = train_pieces(row) if "parts_s" in row else serve_pieces(row.get("average_parts_s"))
        if pieces and len(bars) < MOST_CANDIDATES:
            low, high = positive(row, "low_s"), positive(row, "high_s")
            span = (low, high) if low is not None and high is not None and high > low else None
            bar = Bar(_label(row), "", pieces, span)
            bars.append(Bar(bar.label, _step_text(row, bar.size), pieces, span))
    if not bars:
        return Drawing(None, "No chart of steps: there is no candidate.")
    need_charts()
    largest = max(bar.span[1] if bar.span else bar.size for bar in bars)
    scale, unit = time_unit(largest * PS_PER_S)
    chart = stacked_chart(bars, "plansteps", f"time of a step ({unit})", scale / PS_PER_S)
    sentences = [_extent(len(bars), len(candidates))]
    if any("parts_s" in row for row in candidates):
        sentences.append("Collectives count with what computation does not hide.")
    else:
        sentences.append("The average step of a full server, prompts included.")
    if any(bar.span for bar in bars):
        sentences.append("The line below a bar is the interval of the prediction.")
    return Drawing(chart, " ".join(sentences))


def plan_memory_chart(candidates: Sequence[Mapping[str, Any]]) -> Drawing:
    """What the fullest device of each candidate holds, against what a program can use.

    Args:
        candidates: of the document of a plan: ``memory_bytes`` by item, and ``usable_bytes`` beside or ``capacity`` in
            it.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    shown: list[tuple[Bar, float | None]] = []
    for row in candidates:
        pieces = memory_pieces(row)
        if pieces and len(shown) < MOST_CANDIDATES:
            limit = _capacity(row)
            total = sum(piece.size for piece in pieces)
            shown.append((Bar(_label(row), _memory_text(total, limit), pieces), limit))
    if not shown:
        return Drawing(None, "No chart of memory: there is no candidate.")
    need_charts()
    bars = [bar for bar, _ in shown]
    limits = {limit for _, limit in shown}
    limit = limits.pop() if len(limits) == 1 else None
    line = None if limit is None else (limit, f"a program can use {format_bytes(limit)}")
    largest = max([bar.size for bar in bars] + ([limit] if limit else []))
    scale, unit = (_GIGA, "GB") if largest >= _GIGA else (_MEGA, "MB")
    chart = stacked_chart(bars, "planmemory", f"memory of the fullest device ({unit})", scale, line)
    held = [number(mapping(row.get("memory_bytes")).get("host")) for row in candidates]
    sentences = [_extent(len(bars), len(candidates))]
    if limit is None and any(limit is not None for _, limit in shown):
        sentences.append("Candidates can use different amounts, so that no line is drawn.")
    if any(held):
        sentences.append("What is kept in the host's memory is left out.")
    return Drawing(chart, " ".join(sentences))


def _label(row: Mapping[str, Any]) -> str:
    """Rank, slice and split of a candidate."""
    where = [row.get("layout")] if "layout" in row else [row.get("slice"), row.get("split")]
    told = " ".join(str(part) for part in where if part)
    more = [f"remat {row['remat']}"] if row.get("remat") else []
    batch = number(row.get("batch"))
    more += [f"batch {batch:,.0f}"] if batch is not None else []
    rank = number(row.get("rank"))
    before = "" if rank is None else f"{rank:.0f}. "
    return shortened(before + "  ·  ".join([told or "one device", *more]), _LABEL)


def _step_text(row: Mapping[str, Any], seconds: float) -> str:
    mfu, rate = number(row.get("mfu")), number(row.get("tokens_per_s_per_chip"))
    told = [format_ps(seconds * PS_PER_S)]
    if mfu is not None:
        told.append(f"MFU {format_percent(mfu, 1)}")
    elif rate is not None:
        told.append(f"{rate:,.4g} tok/s/chip")
    return "  ·  ".join(told)


def _memory_text(total: float, limit: float | None) -> str:
    return format_bytes(total) if not limit else f"{format_bytes(total)}  ·  {format_percent(total / limit, 0)}"


def _capacity(row: Mapping[str, Any]) -> float | None:
    return positive(row, "usable_bytes") or positive(mapping(row.get("memory_bytes")), "capacity")


def _extent(shown: int, total: int) -> str:
    if shown == total:
        return f"{plural(total, 'candidate')}, the first of the ranking first."
    return f"{shown} of {plural(total, 'candidate')}, the first of the ranking first."
