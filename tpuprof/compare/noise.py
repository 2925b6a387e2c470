"""How far the centre of correlated steps can be off.

Steps of one capture are not independent: they share a thermal state, a neighbour on the network, a host that is busy
for a while. The noise is taken as first-order autoregressive, and its correlation, which a few dozen steps leave very
uncertain, is not replaced by an estimate: every correlation from 0 to ``RHO[-1]`` counts by how well it explains the
steps (its marginal likelihood, level and size of the noise integrated out, as in restricted maximum likelihood).
Plugging in an estimate would understate the error several times at 20 steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

# Beyond 0.9 a few dozen steps cannot be told from a drift or a change of level; these are looked for by themselves.
RHO: Array = np.linspace(0.0, 0.9, 37)
# How many correlated steps are worth one independent step.
STEPS_PER_INDEPENDENT: Array = (1 + RHO) / (1 - RHO)
_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Noise:
    """What the steps of one capture say of their noise, for every correlation in ``RHO``.

    Args:
        log_likelihood: of the correlation; flat if the steps are all equal.
        variance: of the centre of the steps.
    """

    log_likelihood: Array
    variance: Array


def noise_of(influence: Array) -> Noise:
    """The noise in the centre of at least three steps, from the influence of each."""
    n = len(influence)
    total = float(influence @ influence)
    if total <= 0:
        return Noise(np.zeros_like(RHO), np.zeros_like(RHO))
    first, later, earlier = float(influence[0]), influence[1:], influence[:-1]
    # The quadratic form of the inverse covariance at the level that makes it smallest, in units of the innovations.
    level = (1 - RHO) * ((1 + RHO) + (n - 1) * (1 - RHO))
    pull = (1 - RHO**2) * first + (1 - RHO) * (float(later.sum()) - RHO * float(earlier.sum()))
    squares = (1 - RHO**2) * first**2 + float(later @ later) - 2 * RHO * float(later @ earlier)
    squares = squares + RHO**2 * float(earlier @ earlier)
    rest = np.maximum(squares - pull**2 / level, _SMALLEST * total)
    log_likelihood = 0.5 * np.log(1 - RHO**2) - 0.5 * np.log(level) - (n - 1) / 2 * np.log(rest / total)
    one = rest / (n - 1) / (1 - RHO**2)
    several = STEPS_PER_INDEPENDENT - 2 * RHO * (1 - RHO**n) / (n * (1 - RHO) ** 2)
    return Noise(log_likelihood, one * several / n)


def weights(noises: Sequence[Noise]) -> Array:
    """How much each correlation in ``RHO`` counts, if all captures share one; they sum to 1.

    Without any noise there is nothing to be correlated, and 0 counts alone.
    """
    together = np.sum([noise.log_likelihood for noise in noises], axis=0)
    if not together.any():
        return (RHO == 0).astype(np.float64)
    plain = np.exp(together - together.max())
    return plain / plain.sum()
