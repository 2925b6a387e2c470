"""Change points of a series: where its level changed for good, which is the first value of the new level.

Pure functions on numbers, oldest first. The method, step by step:

1. Outliers are pulled in: what is further than a few standard deviations from the median of its neighbours is moved
   to that distance. A level that holds for three values or more stays as it is; one or two odd values do not.
2. The noise is estimated from differences of neighbours, which a change of level hardly touches, as is the
   correlation of neighbours (as of an AR(1) process), which makes chance runs of high values more likely.
3. The series is cut where the two sides differ most, weighed by their lengths (the CUSUM statistic). A permutation
   test says whether shuffled values would give as large a statistic, corrected for correlation. If they would, the
   same is tried for the stretch that differs most from what is around it, as after a change that was taken back
   (circular binary segmentation, Olshen and others, 2004). The pieces are searched in the same way until nothing is
   found: the scheme of E-divisive (Matteson and James, 2014) with means of tamed values for energy distances.
4. Every cut is moved to where the two neighbouring levels (medians) fit best by absolute deviations, and cuts between
   levels that differ by less than the smallest effect of interest are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Edges = np.ndarray[tuple[int, int], np.dtype[np.int64]]

MIN_SEGMENT = 3
"""Values that a level must have: fewer cannot be told from outliers."""

MAX_VALUES = 2000
_TAME = 3.0  # standard deviations from the neighbours' median to which outliers are pulled in
_OUTLYING = 0.1  # what a deviation beyond that counts when a cut is placed
_MAD = 1.4826  # makes the median absolute deviation of normal noise its standard deviation
_MAX_CORRELATION = 0.9
_CAUTION = 5.0  # values that a measured correlation must outweigh
_SLACK = 6.0  # variances
_SHARES = (0.7, 0.3)  # of alpha, for the test for a cut and that for a stretch
_MAX_EDGES = 80  # of stretches in one search
_MAX_CELLS = 1_000_000  # of one shuffled batch
_CLIP = 2.5  # standard deviations to which differences are cut: a change of level makes one or two very large ones


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level.

    Args:
        index: the first value of the new level.
        earliest: the first value of the new level lies between this index
        latest: and this one in about 95 of 100 cases.
        before: median of the level before.
        after: median of the new level.
        p_value: share of shuffled series with a difference as large; the smaller, the less likely by chance.
    """

    index: int
    earliest: int
    latest: int
    before: float
    after: float
    p_value: float

    @property
    def relative(self) -> float | None:
        """The change as a fraction of the level before; null if that is zero."""
        return (self.after - self.before) / abs(self.before) if self.before else None


@dataclass(frozen=True, slots=True)
class Pending:
    """Values at the end that are off the level, too few to be a level of their own.

    Args:
        index: the first of them.
        level: median of the level before.
        value: their median.
    """

    index: int
    level: float
    value: float


def change_points(
    values: Sequence[float],
    *,
    alpha: float = 0.01,
    min_effect: float = 0.01,
    permutations: int = 999,
    seed: int = 0,
) -> tuple[ChangePoint, ...]:
    """The changes of level, in order; the same values give the same answer.

    Args:
        values: finite numbers, oldest first, at most ``MAX_VALUES``.
        alpha: how often, in a series without a change, one may be found.
        min_effect: the smallest change of interest, as a fraction of the level before.
        permutations: shuffled series per test; ``4 / (permutations + 1)`` must not pass alpha.
        seed: of the shuffling.

    Raises:
        ValueError: a value is not finite, there are too many, or a parameter is out of range.
    """
    series = _checked(values, alpha, min_effect, permutations)
    if len(series) < 2 * MIN_SEGMENT or bool(np.all(series == series[0])):
        return ()
    tamed, sigma, inflation = _prepared(series)
    generator = np.random.default_rng(seed)
    found: dict[int, float] = {}
    pending = [(0, len(series))]
    while pending:
        start, stop = pending.pop()
        cuts, p_value = _best_cuts(tamed[start:stop], inflation, alpha, permutations, generator)
        found |= {start + cut: p_value for cut in cuts}
        if cuts:
            pending += pairwise([start, *(start + cut for cut in cuts), stop])
    return _settled(series, sigma, inflation, found, min_effect)


def pending_change(
    values: Sequence[float], changes: Sequence[ChangePoint], *, min_effect: float = 0.01, sigmas: float = 4.0
) -> Pending | None:
    """The last one or two values if they are off the level on the same side, by more than noise and the effect.

    Args:
        values: the series.
        changes: its change points.
        min_effect: the smallest change of interest.
        sigmas: how many standard deviations of the noise count as off.
    """
    series = np.asarray(values, np.float64)
    start = changes[-1].index if changes else 0
    if len(series) - start < MIN_SEGMENT + 1 or len(series) < 2 * MIN_SEGMENT:
        return None
    found: Pending | None = None
    sigma, _ = noise(series)
    for count in (1, 2):
        level_values = series[start : len(series) - count]
        if len(level_values) < MIN_SEGMENT:
            break
        level = float(np.median(level_values))
        # Of few values either estimate may be far too small by chance.
        limit = max(sigmas * max(sigma, _spread(level_values - level)), min_effect * abs(level))
        off = series[len(series) - count :] - level
        if not (bool(np.all(off > limit)) or bool(np.all(off < -limit))):
            break
        found = Pending(len(series) - count, level, float(np.median(series[len(series) - count :])))
    return found


def levels(values: Sequence[float], changes: Sequence[ChangePoint]) -> tuple[tuple[int, int, float], ...]:
    """The stretches between changes as (first index, index after the last, median)."""
    if not len(values):
        return ()
    cuts = [0, *(change.index for change in changes), len(values)]
    series = np.asarray(values, np.float64)
    return tuple((a, b, float(np.median(series[a:b]))) for a, b in pairwise(cuts))


def noise(values: Sequence[float] | Floats) -> tuple[float, float]:
    """(standard deviation, correlation of neighbours) of a series around its level, hardly touched by changes of level.

    Both come from the differences of values one and two apart, whose variances relate as one to one plus the
    correlation in an AR(1) process. The correlation is taken with caution where there are few values, and never as
    negative.
    """
    series = np.asarray(values, np.float64)
    if len(series) < 4:
        return 0.0, 0.0
    near, far = _deviation_of(np.diff(series)), _deviation_of(series[2:] - series[:-2])
    if near == 0.0:
        return 0.0, 0.0
    measured = min(max((far / near) ** 2 - 1.0, 0.0), _MAX_CORRELATION)
    correlation = measured * len(series) / (len(series) + _CAUTION)
    return near / math.sqrt(2.0 * (1.0 - correlation)), correlation


def _checked(values: Sequence[float], alpha: float, min_effect: float, permutations: int) -> Floats:
    series = np.asarray(values, np.float64)
    if series.ndim != 1 or not bool(np.isfinite(series).all()):
        raise ValueError("values must be finite numbers")
    if len(series) > MAX_VALUES:
        raise ValueError(f"at most {MAX_VALUES} values can be searched, not {len(series)}")
    if not 0.0 < alpha < 1.0 or min_effect < 0.0 or not math.isfinite(min_effect):
        raise ValueError("alpha must lie between 0 and 1, min_effect must not be negative")
    if (permutations + 1) * alpha * min(_SHARES) < 1.0:
        raise ValueError("too few permutations for this alpha")
    return series


def _prepared(series: Floats) -> tuple[Floats, float, float]:
    """(values with outliers pulled in, standard deviation, factor by which correlation widens means)."""
    padded = np.pad(series, 2, mode="reflect" if len(series) > 2 else "edge")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    # Against neighbours only what is not shared with them counts, so correlation is left out here.
    sigma = _spread(np.diff(series)) / math.sqrt(2.0) or _spread(series - around)
    tamed = around + np.clip(series - around, -_TAME * sigma, _TAME * sigma)
    sigma, correlation = noise(tamed)
    return tamed, sigma, math.sqrt((1.0 + correlation) / (1.0 - correlation))


def _best_cuts(
    values: Floats, inflation: float, alpha: float, permutations: int, generator: np.random.Generator
) -> tuple[tuple[int, ...], float]:
    """The cut, or the two ends of the stretch, with the largest difference, if chance does not explain it, and its
    p-value; no cuts otherwise."""
    n = len(values)
    if n < 2 * MIN_SEGMENT or bool(np.all(values == values[0])):
        return (), 1.0
    centred = values - values.mean()
    for stretches, share in zip((_cuts(n), _stretches(n)), _SHARES, strict=True):
        if not len(stretches):
            continue
        explained = _explained(centred[None, :], stretches)[0]
        best = int(np.argmax(explained))
        needed = _needed(float(explained[best]), float((centred**2).sum()), inflation)
        p_value = _p_value(centred, stretches, needed, share * alpha, permutations, generator)
        if p_value is not None:
            start, stop = (int(edge) for edge in stretches[best])
            return tuple(edge for edge in (start, stop) if 0 < edge < n), p_value
    return (), 1.0


def _cuts(n: int) -> Edges:
    """The left sides of all cuts, as (first index, index after the last)."""
    stop = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    return np.stack([np.zeros_like(stop), stop], axis=1)


def _stretches(n: int) -> Edges:
    """All stretches with a level's worth of values inside and on both sides; of long series only some edges."""
    edges = np.unique(np.linspace(MIN_SEGMENT, n - MIN_SEGMENT, min(_MAX_EDGES, n - 2 * MIN_SEGMENT + 1)).astype(int))
    start, stop = np.meshgrid(edges, edges, indexing="ij")
    wide = stop - start >= MIN_SEGMENT
    return np.stack([start[wide], stop[wide]], axis=1)


def _explained(rows: Matrix, stretches: Edges) -> Matrix:
    """For each row of centred values and each stretch: what the means in- and outside explain of the squares' sum."""
    n = rows.shape[1]
    sums = np.zeros((len(rows), n + 1))
    np.cumsum(rows, axis=1, out=sums[:, 1:])
    inside = (stretches[:, 1] - stretches[:, 0]).astype(np.float64)
    return (sums[:, stretches[:, 1]] - sums[:, stretches[:, 0]]) ** 2 * (n / (inside * (n - inside)))


def _needed(explained: float, total: float, inflation: float) -> float:
    """What a shuffled series must explain to be as striking.

    Compared is the ratio of what the means explain to what they leave, divided by the square of the inflation: a large
    change is so not lost in the correction.
    """
    ratio = explained / max(total - explained, 1e-12 * total) / inflation**2
    # A tie with the series itself counts against it; sums in another order differ in the last digits.
    return total * ratio / (1.0 + ratio) * (1.0 - 1e-9)


def _p_value(
    centred: Floats,
    stretches: Edges,
    needed: float,
    alpha: float,
    permutations: int,
    generator: np.random.Generator,
) -> float | None:
    """The share of shuffled series that explain as much; null as soon as it cannot be below alpha any more."""
    reached, done = 0, 0
    at_once = max(1, min(100, _MAX_CELLS // len(stretches)))
    while done < permutations:
        count = min(at_once, permutations - done)
        shuffled = generator.permuted(np.broadcast_to(centred, (count, len(centred))), axis=1)
        reached += int((_explained(shuffled, stretches).max(axis=1) >= needed).sum())
        done += count
        if reached + 1 > alpha * (permutations + 1):
            return None
    return (reached + 1) / (permutations + 1)


def _settled(
    series: Floats, sigma: float, inflation: float, found: dict[int, float], min_effect: float
) -> tuple[ChangePoint, ...]:
    """The cuts at their best places, without those whose levels differ by too little (the smallest goes first)."""
    cuts = sorted(found.items())
    limit = _TAME * sigma or math.inf
    while True:
        cuts = _moved(series, cuts, limit)
        edges = [0, *(cut for cut, _ in cuts), len(series)]
        medians = [float(np.median(series[a:b])) for a, b in pairwise(edges)]
        effects = [_effect(a, b) for a, b in pairwise(medians)]
        small = [at for at, effect in enumerate(effects) if effect < min_effect or effect == 0.0]
        if not small:
            break
        del cuts[min(small, key=lambda at: effects[at])]
    changes: list[ChangePoint] = []
    for at, (cut, p_value) in enumerate(cuts):
        start, stop, before, after = edges[at], edges[at + 2], medians[at], medians[at + 1]
        # With more room than for the place itself: a value far off one level and near the other is no outlier.
        earliest, latest = _range(series[start:stop], before, after, sigma * inflation, 2.0 * limit)
        earliest, latest = min(start + earliest, cut), max(start + latest, cut)
        changes.append(ChangePoint(cut, earliest, latest, before, after, p_value))
    return tuple(changes)


def _moved(series: Floats, cuts: list[tuple[int, float]], limit: float) -> list[tuple[int, float]]:
    """Each cut where the medians of both sides fit best, between the cuts beside it."""
    moved = list(cuts)
    for at, (_, p_value) in enumerate(cuts):
        start = moved[at - 1][0] if at else 0
        stop = moved[at + 1][0] if at + 1 < len(moved) else len(series)
        part = series[start:stop]
        costs = [
            _misfit(part[:place], limit) + _misfit(part[place:], limit)
            for place in range(MIN_SEGMENT, len(part) - MIN_SEGMENT + 1)
        ]
        if costs:
            moved[at] = (start + MIN_SEGMENT + int(np.argmin(costs)), p_value)
    return moved


def _range(values: Floats, before: float, after: float, sigma: float, limit: float) -> tuple[int, int]:
    """The first and last place whose squared misfit is hardly larger than the least: 95 % of changes lie between."""
    left, right = (np.minimum(np.abs(values - level), limit) ** 2 for level in (before, after))
    misfit = np.cumsum(left)[:-1] + right.sum() - np.cumsum(right)[:-1]
    near = np.flatnonzero(misfit <= misfit.min() + max(_SLACK * sigma**2, 1e-12 * float(right.sum() + left.sum())))
    return int(near[0]) + 1, int(near[-1]) + 1


def _misfit(values: Floats, limit: float) -> float:
    """Absolute deviations from the median, what is beyond the limit for less, so that no outlier has its way.

    They still count: a value a little off its own level and far off the other belongs to its own.
    """
    deviations = np.abs(values - np.median(values))
    within = np.minimum(deviations, limit)
    return float(within.sum() + _OUTLYING * (deviations - within).sum())


def _effect(before: float, after: float) -> float:
    if before == after:
        return 0.0
    return abs(after - before) / abs(before) if before else math.inf


def _deviation_of(differences: Floats) -> float:
    """Their root mean square, large ones cut; more exact than a median, and hardly less robust."""
    limit = _CLIP * _spread(differences)
    return float(np.sqrt((np.clip(differences, -limit, limit) ** 2).mean()))


def _spread(deviations: Floats) -> float:
    return _MAD * float(np.median(np.abs(deviations)))
