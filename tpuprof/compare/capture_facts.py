"""What one capture says by itself: its centre, its noise, its drift, its outliers. All in logarithms of step times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpuprof.compare.bootstrap import centre_variance
from tpuprof.compare.centre import centre_of
from tpuprof.compare.noise import Noise, noise_of
from tpuprof.compare.samples import Samples

Array = np.ndarray[Any, np.dtype[np.float64]]

MIN_STEPS_FOR_NOISE = 4
_OUTLIER_SCALES = 5.0
_OUTLIER_SHARE = 0.05  # a coarse timer makes tiny scales: what is not off by 5 % is no outlier
_DRIFT_SCORE = 2.0  # low: a drift taken for noise gives false alarms, noise taken for a drift only widens


@dataclass(frozen=True, eq=False)
class CaptureFacts:
    """One capture in natural logarithms of ps, so that effects are ratios and units cancel.

    Args:
        label: of the capture.
        log_ps: the steps in order.
        mean_ps: the plain mean of the steps.
        centre: the robust centre.
        spread: the standard deviation of single steps, far ones bounded.
        noise: the error of the centre; null if the steps are too few to say.
        bootstrap_variance: of the centre, by resampled blocks; null likewise.
        drift: change of the fitted level from the first to the last step; 0 unless it clearly exceeds the noise.
        outliers: the number of steps that stand far out.
    """

    label: str
    log_ps: Array
    mean_ps: float
    centre: float
    spread: float
    noise: Noise | None
    bootstrap_variance: float | None
    drift: float
    outliers: int

    @property
    def n(self) -> int:
        """The number of steps."""
        return len(self.log_ps)


def capture_facts(samples: Samples, seed: int) -> CaptureFacts:
    """The facts of a capture with at least one step and no step of 0."""
    log_ps = np.log(np.asarray(samples.step_ps, np.float64))
    centre = centre_of(log_ps)
    enough = len(log_ps) >= MIN_STEPS_FOR_NOISE
    far = np.abs(log_ps - centre.value)
    outliers = (far > _OUTLIER_SCALES * centre.scale) & (far > _OUTLIER_SHARE)
    return CaptureFacts(
        label=samples.label,
        log_ps=log_ps,
        mean_ps=math.fsum(samples.step_ps) / len(samples.step_ps),
        centre=centre.value,
        spread=float(centre.influence.std()),
        noise=noise_of(centre.influence) if enough else None,
        bootstrap_variance=centre_variance(log_ps, centre.influence, seed=seed) if enough else None,
        drift=_drift(centre.influence),
        outliers=int(outliers.sum()),
    )


def _drift(influence: Array) -> float:
    """The change of a fitted line over the capture, if it is more than correlated noise makes."""
    n = len(influence)
    if n < 2 * MIN_STEPS_FOR_NOISE:
        return 0.0
    time = np.linspace(-0.5, 0.5, n)
    change = float(influence @ time) / float(time @ time)
    rest = influence - change * time
    squares = float(rest @ rest)
    if squares <= 0:
        return change
    # Fitting a level and a slope takes about (2 + 4 rho) / n from a lag-1 correlation.
    seen = float(rest[1:] @ rest[:-1]) / squares
    rho = min(max((seen + 2 / n) / (1 - 4 / n), 0.0), 0.9)
    error = math.sqrt(squares / (n - 2) * (1 + rho) / (1 - rho) / float(time @ time))
    return change if abs(change) > _DRIFT_SCORE * error else 0.0
