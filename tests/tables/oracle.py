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
HOST_CAUSES = ("compile", "garbage_collection", "checkpoint", "host_sync", "input", "dispatch", "host_python")
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


def idle_by_cause(
    core: Core, start: int, end: int, host: tuple[Span, ...] = (), runs: tuple[Span, ...] = ()
) -> dict[str, int]:
    """Idle time by the first cause that holds, the host's before the device's own.

    Args:
        core: the core.
        start: begin of the window.
        end: its end.
        host: what the host did, on the core's clock; ``what`` is one of HOST_CAUSES.
        runs: executions of programs.
    """
    result: dict[str, int] = dict.fromkeys((*HOST_CAUSES, "dma_in_flight", "intra_program", "unexplained"), 0)
    everything = (*core.ops, *core.in_flight, *core.barriers, *host, *runs)
    bounds = {time for span in everything for time in (span.start, span.end) if start < time < end}
    for left, right in pairwise(sorted({start, end} | bounds)):
        running, flying = going_on(core.ops, left, right), going_on(core.in_flight, left, right)
        if first_rule(running, flying, waiting=bool(going_on(core.barriers, left, right))) != "idle":
            continue
        doing = going_on(host, left, right)
        own = "dma_in_flight" if "dma" in flying else "intra_program" if going_on(runs, left, right) else "unexplained"
        result[next((cause for cause in HOST_CAUSES if cause in doing), own)] += right - left
    return result


def under_compute(core: Core, span: Span) -> int:
    """How much of a span passes while the core computes."""
    parts = divide(Core(tuple(op for op in core.ops if op.what in COMPUTE)), span.start, span.end)
    return sum(parts[kind] for kind in COMPUTE)


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
