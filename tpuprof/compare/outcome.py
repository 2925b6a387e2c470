"""What a verdict is made of: thresholds go in, an effect and a word with its reason come out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tpuprof.compare.capture_facts import MIN_STEPS_FOR_NOISE
from tpuprof.errors import UsageError

Word = Literal["regressed", "improved", "unchanged", "cannot_tell"]


@dataclass(frozen=True)
class Thresholds:
    """What counts as a change, and how sure one has to be.

    Args:
        relative: the smallest change that matters, as a share of the step time.
        absolute_ps: the smallest change that matters, in ps; a change has to reach both.
        alpha: how often at most a verdict may be due to chance; intervals hold with probability 1 - alpha.
        min_steps: a side with fewer steps gets no verdict.
        capture_spread: with one capture a side, the standard deviation assumed between captures of one program, in
            standard deviations of single steps.

    Raises:
        UsageError: one of them makes no sense.
    """

    relative: float = 0.01
    absolute_ps: float = 1_000_000
    alpha: float = 0.01
    min_steps: int = 8
    capture_spread: float = 0.2

    def __post_init__(self) -> None:
        checks = (
            ("relative", self.relative, self.relative >= 0, "at least 0"),
            ("absolute_ps", self.absolute_ps, self.absolute_ps >= 0, "at least 0"),
            ("alpha", self.alpha, 0 < self.alpha < 1, "between 0 and 1"),
            ("min_steps", self.min_steps, self.min_steps >= MIN_STEPS_FOR_NOISE, f"at least {MIN_STEPS_FOR_NOISE}"),
            ("capture_spread", self.capture_spread, self.capture_spread >= 0, "at least 0"),
        )
        for name, value, good, rule in checks:
            if not (math.isfinite(value) and good):
                raise UsageError(f"The threshold {name} is {value!r}.", hint=f"It has to be {rule}.")


@dataclass(frozen=True)
class Effect:
    """The change from the base to the new side; positive is slower.

    Args:
        relative: share of the base's step time.
        absolute_ps: in ps.
        ci_low: lower end of the interval of ``relative``; null if there are too few steps for one.
        ci_high: its upper end.
    """

    relative: float
    absolute_ps: float
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What is to be said of two sides.

    Args:
        verdict: the word.
        reason: one sentence; of ``cannot_tell`` it begins with what is missing.
        p_value: two-sided, the larger of the bootstrap's and the rank test's; null if there was no test.
        effect: the change of the robust centre; null if a side has no steps.
        n_base: steps of the base, over all its captures.
        n_new: steps of the new side.
        captures_base: captures of the base that have steps.
        captures_new: captures of the new side that have steps.
        samples: what was compared: ``steps``, ``captures`` or ``pairs``; null without a test.
        steps_needed: about how many steps a side would settle it; null if it is settled, or if steps alone would not.
        captures_needed: about how many captures a side (or pairs) would settle it; null likewise.
        notes: what else to know: drift, outliers, correlation, single captures.
    """

    verdict: Word
    reason: str
    p_value: float | None = None
    effect: Effect | None = None
    n_base: int = 0
    n_new: int = 0
    captures_base: int = 0
    captures_new: int = 0
    samples: str | None = None
    steps_needed: int | None = None
    captures_needed: int | None = None
    notes: tuple[str, ...] = ()
