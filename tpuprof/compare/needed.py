"""About how much more has to be measured before a verdict can be told."""

from __future__ import annotations

import math
from statistics import NormalDist

from tpuprof.compare._special import t_quantile
from tpuprof.compare.contrast import Contrast

MOST_STEPS = 1_000_000
MOST_CAPTURES = 100


def steps_needed(seen: Contrast, alpha: float, target: float, steps: int) -> int | None:
    """Steps a side that bring the half-width down to ``target`` (a logarithm), rounded up to two digits.

    Args:
        seen: the contrast as measured.
        alpha: of its interval.
        target: the half-width wanted.
        steps: how many the shorter side has.

    Returns:
        Null if drift, or the scatter between captures, would remain whatever the number of steps, or if it would take
        more than ``MOST_STEPS``.
    """
    variance = float(seen.weight @ seen.variance)
    if variance <= 0 or target <= seen.drift:
        return None
    critical = (seen.half_width(alpha) - seen.drift) / math.sqrt(variance)
    left = ((target - seen.drift) / critical) ** 2 - (variance - seen.step_variance)
    if left <= 0:
        return None
    factor, quantile = seen.step_variance / left, NormalDist().inv_cdf
    if seen.rank_p_value is not None and alpha < seen.rank_p_value < 1:
        factor = max(factor, (quantile(alpha / 2) / quantile(seen.rank_p_value / 2)) ** 2)
    needed = _two_digits(steps * max(factor, 1.0))
    return needed if steps < needed <= MOST_STEPS else None


def captures_needed(seen: Contrast, alpha: float, target: float, base: int, new: int, *, paired: bool) -> int | None:
    """Captures a side, or pairs, that bring the half-width down to ``target``; null if more than ``MOST_CAPTURES``."""
    variance = float(seen.weight @ seen.variance)
    one = variance * base if paired else variance / (1 / base + 1 / new)
    have = min(base, new)
    for count in range(max(have + 1, 3), MOST_CAPTURES + 1):
        freedom, share = (count - 1, 1 / count) if paired else (2 * count - 2, 2 / count)
        if -t_quantile(freedom, alpha / 2) * math.sqrt(one * share) < target:
            return count
    return None


def _two_digits(value: float) -> int:
    if not math.isfinite(value):
        return MOST_STEPS + 1
    unit = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return math.ceil(value / unit) * unit
