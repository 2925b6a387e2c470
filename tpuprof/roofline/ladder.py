"""The ideal ladder of a step: what remains of it as the causes of loss are taken away, one after the other.

Each rung is a bound: with the cause gone and all else as it is, the step could not be longer than the time lost
before and not shorter than this. The order is fixed, so that two runs can be compared rung by rung.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.roofline.schemas import LADDER_RUNGS
from tpuprof.tables.schemas import COMPUTE_KINDS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung: the mean step that is left, and what the rung before it could gain by it, in ps.

    ``reason`` says why a rung could not be determined; then its step equals that of the rung before it.
    """

    name: str
    step_ps: float
    gain_ps: float
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The rung as plain data."""
        return {"name": self.name, "step_ps": self.step_ps, "gain_ps": self.gain_ps, "reason": self.reason}


def ladder(
    breakdown: Mapping[str, Any],
    collectives: pd.DataFrame,
    roofline: pd.DataFrame | None,
    pairs: int,
    *,
    sequential: bool,
    reason: str | None = None,
) -> tuple[Rung, ...]:
    """The rungs ``LADDER_RUNGS`` of the mean step, over counted (core, step) pairs.

    Args:
        breakdown: the mean step by parts.
        collectives: table ``collectives`` of counted steps.
        roofline: table ``roofline``; null if the hardware is not known, for which ``reason`` is given.
        pairs: the number of counted pairs.
        sequential: true if a core runs one op at a time. Else ops of several streams share the hardware, and only
            the sums of what each resource has to do bound the step.
        reason: why there is no roofline.
    """
    parts = {name.removesuffix("_ps"): float(value) for name, value in breakdown["parts"].items()}
    compute = sum(parts[kind] for kind in COMPUTE_KINDS)
    waits, waits_reason = _exposed_waits(collectives, parts["collective_exposed"], pairs)
    gains = (
        (waits + parts["barrier_wait"], waits_reason),
        (parts["collective_exposed"] - waits, None),
        (parts["dma_wait"] + parts["host_transfer"], None),
        (parts["idle"], None),
        _above_roofline(roofline, compute, pairs, sequential, reason),
    )
    rungs = [Rung(LADDER_RUNGS[0], float(breakdown["step_ps"]), 0.0)]
    for name, (gain, why) in zip(LADDER_RUNGS[1:], gains, strict=True):
        left = max(rungs[-1].step_ps - max(gain, 0.0), 0.0)
        rungs.append(Rung(name, left, rungs[-1].step_ps - left, why))
    return tuple(rungs)


def _exposed_waits(collectives: pd.DataFrame, exposed: float, pairs: int) -> tuple[float, str | None]:
    """Exposed time per step in which a core waited inside a collective for another core; cut at all exposed time."""
    if not len(collectives) or not exposed:
        return 0.0, None
    known = collectives[collectives["transfer_ps"].notna() & collectives["exposed_ps"].notna()]
    if not len(known):
        return 0.0, "No wait for other cores is known."
    inside = known["window_ps"].to_numpy(np.float64) - known["transfer_ps"].to_numpy(np.float64)
    waited = np.minimum(np.maximum(inside, 0.0), known["exposed_ps"].to_numpy(np.float64))
    return min(float(waited.sum()) / max(pairs, 1), exposed), None


def _above_roofline(
    table: pd.DataFrame | None, compute: float, pairs: int, sequential: bool, reason: str | None
) -> tuple[float, str | None]:
    if table is None:
        return 0.0, reason or "The hardware is not known."
    costed = table[table["bound_ps"].notna()]
    if not len(costed):
        return 0.0, "No op has a cost."
    if sequential:
        return min(float(costed["recoverable_ps"].fillna(0.0).sum()) / max(pairs, 1), compute), None
    runs = costed["executions"].to_numpy(np.float64)
    needed = max(
        float((costed[name].fillna(0.0).to_numpy(np.float64) * runs).sum()) for name in ("compute_ps", "hbm_ps")
    )
    without_cost = float(table.loc[table["bound_ps"].isna(), "self_ps"].sum())
    return max(compute - (needed + without_cost) / max(pairs, 1), 0.0), None
