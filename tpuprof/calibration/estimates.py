"""One number from many measured ones, that outliers do not decide: the constants of a calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TRIM = 0.1
"""Of the measured time this share is left out at either end."""
_F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one op took, and what it should take if all of a rate were reached.

    Args:
        name: of the op.
        ideal_s: of one execution at the full rate.
        seconds: of one execution, the median over executions: what held one of them up does not count.
        count: executions.
    """

    name: str
    ideal_s: float
    seconds: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fitted number.

    Args:
        low, high: between which 80 % of the measured time or steps lie; null with one sample.
        samples: ops or steps.
        executions: of the ops, or the steps again.
        seconds: of measured time behind it, over all cores.
    """

    value: float
    low: float | None
    high: float | None
    samples: int
    executions: int
    seconds: float


def reached_share(samples: Sequence[Sample]) -> Estimate | None:
    """The share of a rate that ops reach together: ideal over measured time, without the best and worst tenth of it.

    A plan adds times up, so what is wanted is the share that gives the right sum, not the share of a typical op: that
    is a mean of shares weighted by ideal time, and differs from the median wherever large ops are better than small
    ones. Time that is left out at both ends keeps one op with a wrong cost from deciding.

    Returns:
        Null without samples that took time.
    """
    taken = [sample for sample in samples if sample.seconds > 0 and sample.ideal_s > 0 and sample.count > 0]
    if not taken:
        return None
    count = np.array([sample.count for sample in taken], np.float64)
    seconds = np.array([sample.seconds for sample in taken]) * count
    ideal = np.array([sample.ideal_s for sample in taken]) * count
    order = np.argsort(ideal / seconds, kind="stable")
    seconds, ideal = seconds[order], ideal[order]
    ends = np.cumsum(seconds)
    total = float(ends[-1])
    inside = np.minimum(ends, (1 - TRIM) * total) - np.maximum(ends - seconds, TRIM * total)
    kept = np.clip(inside, 0.0, None) / seconds
    value = float((kept * ideal).sum() / (kept * seconds).sum())
    shares = ideal / seconds
    low, high = (quantile(shares, seconds, at) for at in (TRIM, 1 - TRIM)) if len(taken) > 1 else (None, None)
    return Estimate(value, low, high, len(taken), int(count.sum()), total)


def typical(values: Sequence[float], seconds: float) -> Estimate | None:
    """The median of values of steps; null without any.

    Args:
        seconds: of measured time behind them.
    """
    if not len(values):
        return None
    given = np.array(values, np.float64)
    ones = np.ones(len(given))
    low, high = (quantile(given, ones, at) for at in (TRIM, 1 - TRIM)) if len(given) > 1 else (None, None)
    return Estimate(float(np.median(given)), low, high, len(given), len(given), seconds)


def quantile(values: _F64, weights: _F64, at: float) -> float:
    """The value below which this share of the weight lies."""
    order = np.argsort(values, kind="stable")
    ends: _F64 = np.cumsum(weights[order])
    below = int(np.count_nonzero(ends < at * ends[-1]))
    return float(values[order][min(below, len(values) - 1)])
