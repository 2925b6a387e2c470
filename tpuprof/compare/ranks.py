"""The rank test of two groups of steps, and the test of two shares of outliers; both count steps, not their size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpuprof.compare._special import log_choose

Array = np.ndarray[Any, np.dtype[np.float64]]


def rank_score(base: Array, new: Array) -> float:
    """The Mann-Whitney statistic in standard deviations, positive where the new values tend to be larger.

    Ties get mean ranks, and the variance is corrected for them; 0 if all values are equal.
    """
    n, m = len(base), len(new)
    _, inverse, counts = np.unique(np.concatenate([base, new]), return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    above = float(mean_rank[inverse.reshape(-1)[n:]].sum()) - m * (m + 1) / 2 - n * m / 2
    total = n + m
    ties = float((counts.astype(np.float64) ** 3 - counts).sum())
    variance = n * m / 12 * ((total + 1) - ties / (total * (total - 1)))
    return above / math.sqrt(variance) if variance > 0 else 0.0


def rank_p(score: float) -> float:
    """Two-sided p of a rank score, steps taken as independent.

    Correlation makes it too small. It only has to agree with a test that allows for correlation, so that a few far
    steps never decide alone.
    """
    return math.erfc(abs(score) / math.sqrt(2))


def shares_p(count_base: int, n_base: int, count_new: int, n_new: int) -> float:
    """Fisher's exact test, two-sided by doubling: whether two shares can be the same."""
    total, hits = n_base + n_new, count_base + count_new
    k = np.arange(max(0, hits - n_base), min(hits, n_new) + 1, dtype=np.float64)
    log_p = log_choose(n_new, k) + log_choose(n_base, hits - k) - log_choose(total, np.array([float(hits)]))
    p = np.exp(log_p)
    return min(1.0, 2 * min(float(p[k >= count_new].sum()), float(p[k <= count_new].sum())))
