"""Functions of probability, with types."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special  # pyright: ignore[reportMissingTypeStubs]

Array = np.ndarray[Any, np.dtype[np.float64]]
_special: Any = scipy.special


def t_below(freedom: Array, value: Array) -> Array:
    """The probability that Student's t lies below each value."""
    return np.asarray(_special.stdtr(freedom, value), np.float64)


def t_quantile(freedom: float, probability: float) -> float:
    """The value below which Student's t lies with the probability."""
    return float(_special.stdtrit(freedom, probability))


def log_choose(n: int, k: Array) -> Array:
    """The logarithm of how many ways there are to choose k of n."""
    return np.asarray(_special.gammaln(n + 1) - _special.gammaln(k + 1) - _special.gammaln(n - k + 1), np.float64)
