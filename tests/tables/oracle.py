"""The partition of a window by brute force: slow, and right by inspection.

The window is cut at every boundary of every event. Inside each piece nothing begins or ends: what goes on is
constant there, and the first rule that holds is read off the table of the metrics.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

COMPUTE: tuple[str, ...] = (
    "matmul",
    "attention",
    "custom_kernel",
    "convolution",
    "reduction",
    "elementwise",
    "gather_scatter",
    "data_movement",
    "other_compute",
)
PARTS: tuple[str, ...] = (*COMPUTE, "collective_exposed", "host_transfer", "dma_wait", "barrier_wait", "idle")


@dataclass(frozen=True)
class Span:
    """Something that goes on in [start, end)."""

    start: int
    end: int
    what: str


@dataclass(frozen=True)
class Core:
    """What one core did.

    Args:
        ops: leaf ops, ``what`` is a compute kind, collective, host_transfer or dma_wait.
        in_flight: asynchronous work from the begin of its start half to the end of its done half, ``what`` is
            collective or dma.
        barriers: waits for peers.
    """

    ops: tuple[Span, ...]
    in_flight: tuple[Span, ...] = ()
    barriers: tuple[Span, ...] = ()


def divide(core: Core, start: int, end: int) -> dict[str, int]:
    """Time per part, and ``hidden_collective``, ``hidden_dma``, ``idle_dma_in_flight`` (idle under a copy)."""
    result = dict.fromkeys((*PARTS, "hidden_collective", "hidden_dma", "idle_dma_in_flight"), 0)
    everything = (*core.ops, *core.in_flight, *core.barriers)
    bounds = {time for span in everything for time in (span.start, span.end) if start < time < end}
    for left, right in pairwise(sorted({start, end} | bounds)):
        running = going_on(core.ops, left, right)
        flying = going_on(core.in_flight, left, right)
        part = first_rule(running, flying, waiting=bool(going_on(core.barriers, left, right)))
        result[part] += right - left
        if running & set(COMPUTE):
            if "collective" in running | flying:
                result["hidden_collective"] += right - left
            if "dma" in flying:
                result["hidden_dma"] += right - left
        if part == "idle" and "dma" in flying:
            result["idle_dma_in_flight"] += right - left
    return result


def going_on(spans: tuple[Span, ...], left: int, right: int) -> set[str]:
    """What covers the whole piece."""
    return {span.what for span in spans if span.start <= left and right <= span.end}


def first_rule(running: AbstractSet[str], flying: AbstractSet[str], *, waiting: bool) -> str:
    """The part of an instant at which these kinds of ops run and this asynchronous work is in flight."""
    for kind in COMPUTE:
        if kind in running:
            return kind
    if "collective" in running or ("collective" in flying and not running):
        return "collective_exposed"
    if "host_transfer" in running:
        return "host_transfer"
    if "dma_wait" in running:
        return "dma_wait"
    return "barrier_wait" if waiting else "idle"
