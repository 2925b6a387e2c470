"""A robust centre of step times: the mean of the steps, with the pull of far ones bounded.

Huber's estimate of location (Huber 1964) at a bound of two spreads. Where nothing stands out it is the mean, so that it
agrees with everything else that is said per step; one step of 100 times the length, first or last, hardly moves it,
and it holds until half of the steps are bad. The spread is the median absolute deviation, scaled to be the standard
deviation of normal noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

BOUND = 2.0
_ROUNDS = 5  # Newton's steps from the median; the estimate stands to six digits after three
# Standard deviations of normal noise per distance that half, and three quarters, of it stay within.
_NORMAL_HALF = 1.4826
_NORMAL_THREE_QUARTERS = 0.8693


@dataclass(frozen=True, eq=False)
class Centre:
    """Where the values lie.

    Args:
        value: the centre.
        scale: the spread of single values about it; 0 if three quarters or more are equal.
        influence: for each value how it pulls at the centre: the centre's error is the mean of these. A value near the
            centre has its distance, a far one a bounded one.
    """

    value: float
    scale: float
    influence: Array


def centre_of(values: Array) -> Centre:
    """The centre of a row of at least one value."""
    centre, scale, share = _centres(values[None, :])
    clipped = np.clip(values - centre[0, 0], -BOUND * scale[0, 0], BOUND * scale[0, 0])
    return Centre(float(centre[0, 0]), float(scale[0, 0]), (clipped - clipped.mean()) / share[0, 0])


def centres(rows: Array) -> Array:
    """The centres of many rows of equal length."""
    return _centres(rows)[0][:, 0]


def _centres(rows: Array) -> tuple[Array, Array, Array]:
    """Centre, scale, and share of values within the bound, for each row."""
    centre = np.median(rows, axis=1, keepdims=True)
    distance = np.abs(rows - centre)
    scale = _NORMAL_HALF * np.median(distance, axis=1, keepdims=True)
    if not scale.all():
        # More than half of the values are equal, as those of a coarse timer are. If three quarters are, that is it.
        wider = _NORMAL_THREE_QUARTERS * np.quantile(distance, 0.75, axis=1, keepdims=True)
        scale = np.where(scale > 0, scale, wider)
    reach = BOUND * scale
    share = np.ones_like(centre)
    for _ in range(_ROUNDS):
        away = rows - centre
        share = np.maximum((np.abs(away) <= reach).mean(axis=1, keepdims=True), 0.5)
        centre = centre + np.clip(away, -reach, reach).mean(axis=1, keepdims=True) / share
    return centre, scale, share
