"""Steps by what a plan takes as fixed: how long cores compute, and how long they are idle or wait for other cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.units import PS_PER_S, format_percent

if TYPE_CHECKING:
    from tpuprof.trace import Trace

MOSTLY = 0.5
"""Above this share the run waits for its host or input, and is no measure of what a step costs besides its work."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Seconds of each counted step, means over cores, in which nothing is computed or sent; or why there are none."""

    seconds: tuple[float, ...]
    steps_s: float
    reason: str = ""


def spent(trace: Trace, parts: Sequence[str] = COMPUTE_KINDS) -> dict[tuple[str, int], float]:
    """Seconds of some parts of the partition, by core and counted step; empty without steps."""
    if trace.step_source == "none":
        return {}
    rows: Any = trace.partition[trace.steps["counted"].to_numpy()]  # pyright: ignore[reportUnknownVariableType]
    total = np.sum([np.asarray(rows[f"{part}_ps"], np.float64) for part in parts], axis=0) / PS_PER_S
    devices, steps = np.asarray(rows["device"], object), np.asarray(rows["step"], np.int64)
    return {(str(device), int(step)): float(value) for device, step, value in zip(devices, steps, total, strict=True)}


def by_step(seconds: Mapping[tuple[str, int], float]) -> dict[int, float]:
    """The same over all cores."""
    found: dict[int, float] = {}
    for (_, step), value in seconds.items():
        found[step] = found.get(step, 0.0) + value
    return found


def idle_time(trace: Trace, waits: Mapping[int, float]) -> Idle:
    """Idle time, waits at barriers, and waits inside collectives, step by step.

    Args:
        waits: seconds per step and core in which a core waited for others inside collectives.
    """
    if trace.step_source == "none":
        return Idle((), 0.0, "the run has no steps")
    rows: Any = trace.partition[trace.steps["counted"].to_numpy()]  # pyright: ignore[reportUnknownVariableType]
    step = np.asarray(rows["step"], np.int64)
    if not len(step):
        return Idle((), 0.0, "no step counts")
    numbers, which, cores = np.unique(step, return_inverse=True, return_counts=True)
    columns = (np.asarray(rows[name], np.float64) for name in ("duration_ps", "idle_ps", "barrier_wait_ps"))
    length, idle, barrier = (np.bincount(which, column / PS_PER_S) / cores for column in columns)
    total = float(length.sum())
    if not total:
        return Idle((), 0.0, "its steps take no time")
    share = float(idle.sum()) / total
    if share > MOSTLY:
        return Idle((), total, f"{format_percent(share)} of the steps is idle time: the run waits for something")
    spent = zip(numbers.tolist(), (idle + barrier).tolist(), strict=True)
    return Idle(tuple(seconds + waits.get(number, 0.0) for number, seconds in spent), total)
