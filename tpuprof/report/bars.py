"""The partition as a bar: how a step's parts are laid out over a number of equal cells."""

from __future__ import annotations

from typing import Any

from tpuprof.tables.schemas import PARTS


def shares(parts: dict[str, Any] | None) -> list[tuple[str, float]]:
    """The parts that are not zero as (part, fraction of their sum), in the order of the partition."""
    sizes = [(part, float((parts or {}).get(f"{part}_ps") or 0)) for part in PARTS]
    total = sum(size for _, size in sizes)
    return [(part, size / total) for part, size in sizes if size > 0] if total > 0 else []


def cells(parts: dict[str, Any] | None, width: int) -> list[tuple[str, int]]:
    """The parts with the number of cells that each takes; the numbers sum to ``width``, or the list is empty.

    The borders between parts are rounded, not the parts, so that no part is off by more than one cell.
    """
    laid: list[tuple[str, int]] = []
    reached = 0.0
    used = 0
    for part, share in shares(parts):
        reached += share
        border = min(width, round(reached * width))
        if border > used:
            laid.append((part, border - used))
            used = border
    if laid and used < width:
        laid[-1] = (laid[-1][0], laid[-1][1] + width - used)
    return laid


def meter(fraction: float, width: int) -> str:
    """A thin horizontal bar in steps of half a cell; empty only below a thousandth."""
    halves = max(round(min(fraction, 1.0) * width * 2), 1 if fraction >= 0.001 else 0)
    return "━" * (halves // 2) + "╸" * (halves % 2)
