"""Who waits: idle time by cause, collectives by exposed and hidden or by waiting and moving, cores for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import SOFT, Drawing, need_charts, number, shortened
from tpuprof.charts.stacks import Bar, Piece, stacked
from tpuprof.palette import LOOKS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent, format_ps

MOST_GROUPS = 16
MOST_CORES = 32
SPLITS: dict[str, tuple[tuple[str, Piece], ...]] = {
    "exposed": (
        ("exposed_ps", Piece("exposed: no compute beside it", LOOKS["collective_exposed"].light)),
        ("hidden_ps", Piece("hidden under compute", LOOKS["elementwise"].light)),
    ),
    "wait": (
        ("wait_ps", Piece("waiting for the last core", LOOKS["barrier_wait"].light)),
        ("transfer_ps", Piece("moving", LOOKS["matmul"].light)),
        ("unknown_ps", Piece("not known which", LOOKS["idle"].light)),
    ),
}
"""How the time of collectives can be divided: by key of a row its piece."""


def collective_split_chart(groups: Sequence[Mapping[str, Any]], split: str) -> Drawing:
    """One bar per group of collectives, divided by :data:`SPLITS`.

    Args:
        groups: ``name``, ``count`` and the times of the split in ps, in order:
            ``tpuprof.report.collective_split.collective_split``.
        split: ``exposed`` or ``wait``.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    pieces = SPLITS[split]
    rows = [(group, [_size(group, key) for key, _ in pieces]) for group in groups]
    known = [(group, sizes) for group, sizes in rows if sum(sizes) > 0]
    if not known:
        return Drawing(None, "No chart: the counted steps hold no collective with a known time.")
    need_charts()
    bars: list[Bar] = []
    for group, sizes in known[:MOST_GROUPS]:
        name = clean(group.get("name") or "not stated")
        about = [
            f"{shortened(name, 80)}\n{piece.label}: {format_ps(size)} per step ({format_percent(size / sum(sizes), 1)})"
            for (_, piece), size in zip(pieces, sizes, strict=True)
        ]
        bars.append(Bar(name, name, _figure(split, sizes), sizes, about))
    chart = stacked(bars, [piece for _, piece in pieces], "per step, mean over cores", "split")
    shown = f"{len(bars)} of {plural(len(groups), 'group')}" if len(bars) < len(groups) else plural(len(bars), "group")
    return Drawing(chart, f"{shown}, the one with the most exposed time first. {_BASIS[split]}")


def _figure(split: str, sizes: Sequence[float]) -> str:
    if split == "exposed":
        return f"{format_percent(sizes[0] / sum(sizes), 1)} exposed"
    known = sizes[0] + sizes[1]
    return f"{format_percent(sizes[0] / known, 1)} waiting" if known else "not known"


_BASIS = {
    "exposed": "Windows of collectives that overlap count each by itself.",
    "wait": "Waiting lasts from a core's arrival to that of the last one of its group, and may begin before the op.",
}


def idle_causes_chart(causes: Sequence[tuple[str, float]], idle_ps: float | None) -> Drawing:
    """One bar per known cause of idle time, the largest first.

    Args:
        causes: names with the mean time per step in ps.
        idle_ps: the idle time of the mean step; what the causes leave of it is drawn as not known.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [(clean(name), size) for name, value in causes if (size := number(value)) is not None and size > 0]
    whole = number(idle_ps) or sum(size for _, size in known)
    rest = whole - sum(size for _, size in known)
    if rest > 1e-6 * whole:
        known.append(("cause not known", rest))
    if not known:
        return Drawing(None, "No chart of causes: there is no idle time.")
    need_charts()
    known.sort(key=lambda cause: (cause[0] == "cause not known", -cause[1]))
    bars = [
        Bar(name, name, format_percent(size / whole, 1), [size],
            [f"{name}: {format_ps(size)} per step, {format_percent(size / whole, 1)} of the idle time"])
        for name, size in known
    ]  # fmt: skip
    chart = stacked(bars, [Piece("idle", SOFT)], "idle time per step, mean over cores", "causes")
    return Drawing(chart, f"Shares of the idle time of the mean step, {format_ps(whole)}.")


def skew_chart(cores: Sequence[Mapping[str, Any]]) -> Drawing:
    """One bar per core: to the right what it cost the others, to the left how long it waited for them.

    Args:
        cores: ``device``, ``late_ps`` and ``wait_ps``, means per step: ``tpuprof.report.cores.core_rows``.

    Raises:
        MissingDependencyError: altair is not installed.
    """
    known = [
        (clean(core.get("device")), _size(core, "late_ps"), _size(core, "wait_ps"))
        for core in cores
        if number(core.get("late_ps")) is not None
    ]
    if not any(late or wait for _, late, wait in known):
        what = "no core waited for another." if known else "no arrivals at collectives can be compared."
        return Drawing(None, f"No chart of waits between cores: {what}")
    need_charts()
    known.sort(key=lambda core: (-core[1], core[2], core[0]))
    shown = known if len(known) <= MOST_CORES else [*known[: MOST_CORES // 2], *known[-MOST_CORES // 2 :]]
    bars = [
        Bar(name, name, f"{format_ps(late)} late" if late else "", [late, -wait],
            [f"{name} kept the others waiting: {format_ps(late)} per step",
             f"{name} waited for others: {format_ps(wait)} per step"])
        for name, late, wait in shown
    ]  # fmt: skip
    pieces = [
        Piece("kept the others waiting", LOOKS["host_transfer"].light),
        Piece("waited for others", LOOKS["barrier_wait"].light),
    ]
    caption = f"{plural(len(known), 'core')}, the one that cost the others most first."
    if len(shown) < len(known):
        caption = (
            f"{len(shown)} of {plural(len(known), 'core')}: the {MOST_CORES // 2} that cost the others most, and the "
            f"{MOST_CORES // 2} that waited longest of those that cost least."
        )
    return Drawing(stacked(bars, pieces, "per step", "skew"), caption)


def _size(row: Mapping[str, Any], key: str) -> float:
    return max(number(row.get(key)) or 0.0, 0.0)
