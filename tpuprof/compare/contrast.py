"""The difference of two sides, and how far it can be off: from steps, from captures, or from pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpuprof.compare._special import t_below
from tpuprof.compare.capture_facts import CaptureFacts
from tpuprof.compare.noise import RHO, weights
from tpuprof.compare.ranks import rank_p, rank_score

Array = np.ndarray[Any, np.dtype[np.float64]]

# Where single steps scatter more than this, something else runs beside them, with another load at every capture.
CALM = 0.008
# Captures on both sides together, or pairs, from which on their own scatter is the measure of noise.
MIN_CAPTURES, MIN_PAIRS = 4, 3
_ROUNDS = 60
_CLOSE = 1e-9
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class Contrast:
    """The new side minus the base, in logarithms, and its error as a mixture of t distributions.

    Args:
        log_effect: the difference of the centres.
        weight: of each part of the mixture; sums to 1.
        variance: of the difference, in each part.
        step_variance: the share of it that more steps would reduce, on average.
        freedom: degrees of freedom of each part.
        drift: how far the captures' own drifts can have moved the difference; on top of the rest.
        rank_p_value: of the rank test; null where captures are the samples, which it is not made for.
        samples: what counts as a sample: ``steps``, ``captures`` or ``pairs``.
        rho: the mean correlation of neighbouring steps; null if it was not needed.
    """

    log_effect: float
    weight: Array
    variance: Array
    step_variance: float
    freedom: Array
    drift: float
    rank_p_value: float | None
    samples: str
    rho: float | None

    def p_value(self) -> float:
        """Two-sided: how often noise and drift alone would give such a difference; the larger of the two tests'."""
        p = self._tail(max(0.0, abs(self.log_effect) - self.drift))
        return p if self.rank_p_value is None else max(p, self.rank_p_value)

    def half_width(self, alpha: float) -> float:
        """Half the length of the interval that holds the true difference with probability 1 - alpha."""
        scale = math.sqrt(float(self.variance.max()))
        if scale == 0:
            return self.drift
        low, high = 0.0, scale
        above, below = -math.log(alpha), self._excess(high, alpha)
        while below > 0:
            low, above, high = high, below, 2 * high
            below = self._excess(high, alpha)
        # False position, halving the weight of an end that stays (the Illinois rule); the tail falls steadily.
        for _ in range(_ROUNDS):
            middle = (low * below - high * above) / (below - above)
            excess = self._excess(middle, alpha)
            if abs(excess) < _CLOSE:
                return middle + self.drift
            if excess > 0:
                low, above, below = middle, excess, below / 2
            else:
                high, below, above = middle, excess, above / 2
        return high + self.drift

    def _excess(self, distance: float, alpha: float) -> float:
        return math.log(max(self._tail(distance), _SMALLEST) / alpha)

    def _tail(self, distance: float) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(self.variance > 0, distance / np.sqrt(self.variance), math.inf if distance > 0 else 0.0)
        return min(1.0, 2 * float(self.weight @ t_below(self.freedom, -score)))


def contrast(
    base: Sequence[CaptureFacts], new: Sequence[CaptureFacts], *, paired: bool, capture_spread: float
) -> Contrast:
    """The contrast of two sides with at least one capture each.

    Captures are the samples as soon as their scatter can be seen with two degrees of freedom; else the steps are, and
    ``capture_spread`` stands for what one capture cannot show.

    Args:
        base: captures of one side.
        new: captures of the other; paired, the captures of equal place belong together.
        paired: whether a base and a new capture form a pair.
        capture_spread: the assumed standard deviation between captures, in standard deviations of single steps.
    """
    if paired:
        return _of_pairs(base, new, capture_spread)
    if len(base) + len(new) >= MIN_CAPTURES:
        return _of_captures(base, new)
    scores = rank_score(_all_steps(base), _all_steps(new))
    return _of_steps(base, new, capture_spread, scores, max(_scatter(base) / len(base), _scatter(new) / len(new)))


def assumed_spread(capture: CaptureFacts, capture_spread: float) -> float:
    """The standard deviation between captures that one capture suggests: more than in proportion where it is noisy."""
    return capture_spread * capture.spread * max(1.0, capture.spread / CALM)


def _of_steps(
    base: Sequence[CaptureFacts],
    new: Sequence[CaptureFacts],
    capture_spread: float,
    score: float,
    seen_variance: float,
) -> Contrast:
    every = [*base, *new]
    weight = weights([capture.noise for capture in every if capture.noise is not None])
    variance, squares = np.zeros_like(RHO), np.zeros_like(RHO)
    from_steps = drift = 0.0
    for side in (base, new):
        for capture in side:
            steps = _step_variance(capture, weight) / len(side) ** 2
            part = steps + (assumed_spread(capture, capture_spread) / len(side)) ** 2
            variance, squares = variance + part, squares + part**2 / (capture.n - 1)
            from_steps += float(weight @ steps)
            drift += abs(capture.drift) / 2 / len(side)
    freedom = np.where(squares > 0, variance**2 / np.where(squares > 0, squares, 1.0), 1.0)
    return Contrast(
        log_effect=_mean(new) - _mean(base),
        weight=weight,
        variance=np.maximum(variance, seen_variance),
        step_variance=from_steps,
        freedom=freedom,
        drift=drift,
        rank_p_value=rank_p(score),
        samples="steps",
        rho=float(weight @ RHO),
    )


def _of_captures(base: Sequence[CaptureFacts], new: Sequence[CaptureFacts]) -> Contrast:
    """Student's t on the centres of captures, their variance pooled unless that makes it smaller."""
    k, m = len(base), len(new)
    pooled = ((k - 1) * _scatter(base) + (m - 1) * _scatter(new)) / (k + m - 2)
    apart = _scatter(base) / k + _scatter(new) / m
    seen = max(pooled * (1 / k + 1 / m), apart)
    return _of_centres(_mean(new) - _mean(base), seen, k + m - 2, base, new, "captures")


def _of_pairs(base: Sequence[CaptureFacts], new: Sequence[CaptureFacts], capture_spread: float) -> Contrast:
    """The same on the differences within pairs; one or two pairs leave it to their steps."""
    differences = [n.centre - b.centre for b, n in zip(base, new, strict=True)]
    seen = _variance(differences) / len(differences)
    if len(differences) >= MIN_PAIRS:
        return _of_centres(math.fsum(differences) / len(differences), seen, len(differences) - 1, base, new, "pairs")
    middle = [(b.centre + n.centre) / 2 for b, n in zip(base, new, strict=True)]
    sides = [np.concatenate([c.log_ps - at for c, at in zip(side, middle, strict=True)]) for side in (base, new)]
    return _of_steps(base, new, capture_spread, rank_score(sides[0], sides[1]), seen)


def _of_centres(
    log_effect: float,
    seen: float,
    freedom: int,
    base: Sequence[CaptureFacts],
    new: Sequence[CaptureFacts],
    samples: str,
) -> Contrast:
    # Centres that agree by chance are no better known than their own steps allow.
    noises = [capture.noise for capture in (*base, *new) if capture.noise is not None]
    weight = weights(noises) if noises else np.ones(1)
    floor = sum(
        float(weight @ _step_variance(capture, weight)) / len(side) ** 2
        for side in (base, new)
        for capture in side
        if capture.noise is not None
    )
    return Contrast(
        log_effect=log_effect,
        weight=np.ones(1),
        variance=np.array([max(seen, floor)]),
        step_variance=floor,
        freedom=np.array([float(freedom)]),
        drift=0.0,
        rank_p_value=None,
        samples=samples,
        rho=float(weight @ RHO) if noises else None,
    )


def _step_variance(capture: CaptureFacts, weight: Array) -> Array:
    """The variance of a capture's centre for each correlation, at least what resampled blocks say on average."""
    assert capture.noise is not None
    variance = capture.noise.variance
    mean = float(weight @ variance)
    if mean <= 0 or capture.bootstrap_variance is None:
        return variance
    return variance * max(1.0, capture.bootstrap_variance / mean)


def _all_steps(side: Sequence[CaptureFacts]) -> Array:
    return np.concatenate([capture.log_ps for capture in side])


def _mean(side: Sequence[CaptureFacts]) -> float:
    return math.fsum(capture.centre for capture in side) / len(side)


def _scatter(side: Sequence[CaptureFacts]) -> float:
    """The sample variance between captures; 0 of a single one."""
    return _variance([capture.centre for capture in side])


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
