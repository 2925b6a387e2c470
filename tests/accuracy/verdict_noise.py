"""Step times with known noise (correlated, skewed, with outliers, drifting) for the calibration of verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpuprof.compare.samples import Samples

Array = np.ndarray[Any, np.dtype[np.float64]]
STEP_PS = 0.4e12
KINDS = {
    "normal": "normal noise",
    "skewed": "innovations are exponential: a sharp floor and a long tail",
    "outliers": "3 % of the steps are longer by 10 standard deviations on average",
    "drifting": "each capture drifts along a line of its own, by up to 2 standard deviations from end to end",
    "wandering": "each capture swings once up and down, by up to 1 standard deviation, with a phase of its own",
}
_WARM_UP = 60


def noise(rng: np.random.Generator, kind: str, rho: float, n: int) -> Array:
    """``n`` steps of noise whose standard deviation is 1 before outliers and drift are added."""
    skewed = kind == "skewed"
    fresh = rng.exponential(size=n + _WARM_UP) - 1 if skewed else rng.standard_normal(n + _WARM_UP)
    steps = np.empty_like(fresh)
    steps[0] = fresh[0]
    gain = np.sqrt(1 - rho**2)
    for at in range(1, len(fresh)):
        steps[at] = rho * steps[at - 1] + gain * fresh[at]
    steps = steps[_WARM_UP:]
    if kind == "outliers":
        steps = steps + (rng.random(n) < 0.03) * rng.exponential(10.0, size=n)
    if kind == "drifting":
        steps = steps + rng.uniform(-2, 2) * np.linspace(0, 1, n)
    if kind == "wandering":
        steps = steps + rng.uniform(0, 1) * np.sin(2 * np.pi * (np.linspace(0, 1, n) + rng.random()))
    return steps


def capture(
    rng: np.random.Generator, *, kind: str = "normal", rho: float = 0.0, sd: float, n: int, level: float = 1.0
) -> Samples:
    """A capture whose steps scatter by the share ``sd`` about ``level`` times 400 ms."""
    steps = STEP_PS * level * (1 + sd * noise(rng, kind, rho, n))
    return Samples(tuple(float(step) for step in np.maximum(steps, STEP_PS * 0.05)))
