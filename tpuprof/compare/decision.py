"""From a contrast to a word: what has to hold for each verdict, and what is missing where none holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tpuprof.compare.capture_facts import CaptureFacts
from tpuprof.compare.contrast import Contrast
from tpuprof.compare.needed import captures_needed, steps_needed
from tpuprof.compare.outcome import Effect, Thresholds, Verdict
from tpuprof.compare.ranks import shares_p
from tpuprof.text import plural
from tpuprof.units import format_percent


@dataclass(frozen=True, eq=False)
class Sides:
    """The captures of both sides, each with at least one step."""

    base: Sequence[CaptureFacts]
    new: Sequence[CaptureFacts]
    paired: bool

    @property
    def centres(self) -> tuple[float, float]:
        """Natural logarithms of ps: the mean over captures of their centres."""
        base, new = (math.fsum(c.centre for c in side) / len(side) for side in (self.base, self.new))
        return base, new

    @property
    def mean_change(self) -> float:
        """The logarithm of the ratio of plain means over all steps, which outliers enter in full."""
        base, new = (
            math.fsum(c.mean_ps * c.n for c in side) / sum(c.n for c in side) for side in (self.base, self.new)
        )
        return math.log(new) - math.log(base)

    def effect(self, half_width: float | None) -> Effect:
        """The change of the centre; ``half_width`` is that of its interval, in logarithms."""
        base, new = self.centres
        change = new - base
        low, high = (None, None) if half_width is None else (_ratio(change - half_width), _ratio(change + half_width))
        return Effect(_ratio(change), math.exp(new) - math.exp(base), low, high)

    def smallest_change(self, thresholds: Thresholds) -> float:
        """The smallest logarithm of a ratio that reaches both thresholds.

        The absolute one is placed around the geometric mean of both sides, so that exchanging them changes nothing.
        """
        middle = math.exp(sum(self.centres) / 2)
        return max(math.log1p(thresholds.relative), 2 * math.asinh(thresholds.absolute_ps / (2 * middle)))


def decide(sides: Sides, seen: Contrast, thresholds: Thresholds, counts: Verdict) -> Verdict:
    """The verdict on a contrast; ``counts`` is one without word, of which the counts are kept.

    A change is told if it reaches the smallest change and both tests call it more than chance. ``unchanged`` is told if
    the whole interval lies below the smallest change. Everything else cannot be told.
    """
    alpha, change = thresholds.alpha, seen.log_effect
    smallest = sides.smallest_change(thresholds)
    p_value, half = seen.p_value(), seen.half_width(alpha)
    effect = sides.effect(half)
    told = replace(counts, p_value=p_value, effect=effect, samples=seen.samples)
    interval = _interval(effect, alpha)
    hidden = _outliers(sides, alpha, smallest)
    if abs(change) >= smallest and abs(change) > half and p_value <= alpha:
        if hidden is not None and (hidden > 0) != (change > 0):
            return replace(told, reason=f"outliers differ: {_outlier_text(sides, effect)}")
        word = "slower" if change > 0 else "faster"
        reason = f"{_signed(effect.relative)} ({interval}): the step got {word}"
        return replace(told, verdict="regressed" if change > 0 else "improved", reason=reason)
    if abs(change) + half < smallest:
        if hidden is not None:
            return replace(told, reason=f"outliers differ: {_outlier_text(sides, effect)}")
        reason = (
            f"{_signed(effect.relative)} ({interval}): less than the smallest change that matters, {_size(smallest)}"
        )
        return replace(told, verdict="unchanged", reason=reason)
    target = abs(change) if abs(change) >= smallest else max(smallest - abs(change), smallest / 2)
    return replace(
        told,
        reason=_unclear(seen, change, half, smallest, interval),
        steps_needed=steps_needed(seen, alpha, target, min(counts.n_base, counts.n_new)),
        captures_needed=captures_needed(
            seen, alpha, target, counts.captures_base, counts.captures_new, paired=sides.paired
        ),
    )


def _unclear(seen: Contrast, change: float, half: float, smallest: float, interval: str) -> str:
    """What stands in the way of a verdict."""
    without_drift = half - seen.drift
    if seen.drift > 0 and (abs(change) + without_drift < smallest or abs(change) > max(without_drift, smallest)):
        return f"drift: the step time drifts within a capture, which may have made the difference ({interval})"
    if smallest > abs(change) > half:
        return f"too close: there is a change, but it may or may not reach {_size(smallest)} ({interval})"
    if abs(change) > half and abs(change) >= smallest:
        return f"noise too high: the rank test finds no difference (p = {seen.p_value():.2g}; {interval})"
    what = {"captures": "captures of one side differ by more", "pairs": "pairs differ by more"}
    because = what.get(seen.samples, "steps scatter by more")
    return f"noise too high: {because} than would show a change of {_size(max(smallest, abs(change)))} ({interval})"


def _outliers(sides: Sides, alpha: float, smallest: float) -> float | None:
    """The change of the plain mean, if outliers have become clearly more or fewer and moved it enough to matter."""
    (hits_base, n_base), (hits_new, n_new) = _outlier_counts(sides)
    change = sides.mean_change
    if abs(change) < smallest or shares_p(hits_base, n_base, hits_new, n_new) > alpha:
        return None
    return change


def _outlier_counts(sides: Sides) -> tuple[tuple[int, int], tuple[int, int]]:
    base, new = ((sum(c.outliers for c in side), sum(c.n for c in side)) for side in (sides.base, sides.new))
    return base, new


def _outlier_text(sides: Sides, effect: Effect) -> str:
    (hits_base, n_base), (hits_new, n_new) = _outlier_counts(sides)
    return (
        f"the typical step changed by {_signed(effect.relative)}, but {hits_new} of {plural(n_new, 'step')} stand out"
        f" (base: {hits_base} of {n_base}), which moves the mean by {_signed(_ratio(sides.mean_change))}"
    )


def _ratio(logarithm: float) -> float:
    """A change as a share, bounded where it is beyond all sense."""
    return math.expm1(min(logarithm, 700.0))


def _interval(effect: Effect, alpha: float) -> str:
    level = f"{100 * (1 - alpha):.6g} %"
    return f"{level} interval {_signed(effect.ci_low)} to {_signed(effect.ci_high)}"


def _signed(share: float | None) -> str:
    if share is None:
        return format_percent(None)
    if share > 10:
        return "beyond +1000 %"
    return f"{round(100 * share, 2) + 0.0:+.2f} %"  # no minus before a zero


def _size(logarithm: float) -> str:
    return format_percent(_ratio(logarithm))
