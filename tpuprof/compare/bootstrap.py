"""The circular block bootstrap of a centre: resampling whole stretches of steps keeps their correlation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpuprof.compare.centre import centres

Array = np.ndarray[Any, np.dtype[np.float64]]

SEED = 20_240_229
_VALUES = 100_000  # resampled per capture: bounds time and memory
_MOST, _FEWEST = 250, 100
_LONG = 2_000
_MOST_LAGS = 300


def block_length(influence: Array) -> int:
    """How many steps make a block, at least 1 and at most a third of the capture.

    The rule of Politis and White (2004, corrected 2009) for the circular block bootstrap: sums of autocovariances up to
    where they vanish give the length that makes the error of the variance smallest.
    """
    n = len(influence)
    total = float(influence @ influence)
    longest = max(1, min(math.ceil(3 * math.sqrt(n)), n // 3))
    if total <= 0 or longest == 1:
        return 1
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    lags = min(math.ceil(math.sqrt(n)) + run, n - 1, _MOST_LAGS)
    covariance = np.array([float(influence[lag:] @ influence[: n - lag]) / n for lag in range(lags + 1)])
    quiet = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    last = next((at for at in range(len(quiet)) if bool(quiet[at : at + run].all())), len(quiet))
    width = min(2 * max(last, 1), lags)
    at = np.arange(1, width + 1)
    taper = np.clip(2 * (1 - at / width), 0, 1)  # flat to the half, then down to 0
    slope = 2 * float((taper * at) @ covariance[1 : width + 1])
    level = float(covariance[0] + 2 * taper @ covariance[1 : width + 1])
    if level <= 0:
        return longest
    best = (1.5 * (slope / level) ** 2) ** (1 / 3) * n ** (1 / 3)
    return max(1, min(round(best), longest))


def centre_variance(values: Array, influence: Array, *, seed: int = SEED) -> float:
    """The variance of the centre of ``values`` by resampling blocks; the same for the same values.

    Blocks see no correlation across their borders; what that takes from a mean over n steps with blocks of b is
    made good by n / (n - b).
    """
    n, length = len(values), block_length(influence)
    small = n / (n - length) if n > length else 1.0
    if n > _LONG:
        return small * _variance_of_blocks(influence, length)
    rng = np.random.default_rng([seed, n])
    repeats = max(_FEWEST, min(_MOST, _VALUES // n))
    starts = rng.integers(0, n, size=(repeats, math.ceil(n / length), 1))
    rows = ((starts + np.arange(length)) % n).reshape(repeats, -1)[:, :n]
    return small * float(centres(values[rows]).var())


def _variance_of_blocks(influence: Array, length: int) -> float:
    """What infinitely many resamplings would give if the centre were exactly the mean of its influences."""
    n = len(influence)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([influence, influence[:length]]))])
    blocks = sums[length : length + n] - sums[:n]
    return float((blocks**2).mean()) / (length * n)
