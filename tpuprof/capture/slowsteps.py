"""Noticing a slow step while it happens: median and spread of the last steps, cheap enough for every step.

A step is slow when it takes longer than ``ratio`` medians and lies more than ``deviations`` spreads above the
median (the spread is 1.4826 times the median absolute deviation, which equals the standard deviation of normal
noise). Both are taken over a sliding window, so that a slow drift moves the bar; a step that was called slow stays
out of the window, unless so many follow that the program has become slower for good: then the window starts anew.
Where more than a quarter of the steps would be slow, as in programs with two kinds of steps, they are not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Any

from tpuprof.capture.checking import positive, whole
from tpuprof.errors import UsageError

_NORMAL = 1.4826
_COMMON = 4  # more than one slow step in so many is no exception


@dataclass(frozen=True)
class SlowSteps:
    """When a step counts as slow, and what is captured then.

    Attributes:
        ratio: slow steps take longer than this many medians; above 1.
        deviations: and lie this many spreads above the median; 0 leaves this condition out.
        active: steps that are captured after a slow one.
        skip_first: steps at the beginning that are not looked at: they compile.
        history: steps in the sliding window.
        least: steps that the window needs before a step can be called slow.
        cooldown: steps after a capture in which no other begins.
        settle: as many slow steps in a row are the new normal.
    """

    ratio: float = 2.0
    deviations: float = 6.0
    active: int = 3
    skip_first: int = 5
    history: int = 64
    least: int = 10
    cooldown: int = 100
    settle: int = 10

    def __post_init__(self) -> None:
        if positive("ratio", self.ratio) <= 1:
            raise UsageError(f"ratio={self.ratio!r} would call every other step slow.", hint="Take more than 1.")
        if self.deviations != 0:
            positive("deviations", self.deviations)
        for name, least in {"active": 1, "skip_first": 0, "history": 3, "least": 3, "cooldown": 0, "settle": 2}.items():
            whole(name, getattr(self, name), least)
        if self.least > self.history:
            raise UsageError(
                f"least={self.least} is more than history={self.history}.", hint="No step could ever be called slow."
            )

    def as_dict(self) -> dict[str, Any]:
        """The rule as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class SlowStepDetector:
    """Follows the step times of one process; times in any unit."""

    def __init__(self, rule: SlowSteps) -> None:
        self._rule = rule
        self._seen = 0
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        self._slow: list[float] = []  # slow steps in a row
        self._flags: deque[bool] = deque()
        self._flagged = 0

    def add(self, duration: float) -> bool:
        """Takes the time of one more step; whether it was slow."""
        self._seen += 1
        if self._seen <= self._rule.skip_first:
            return False
        if self._is_slow(duration) and not self._is_common():
            self._slow.append(duration)
            if len(self._slow) >= self._rule.settle:
                self._start_anew()
                return False
            return True
        if self._slow:
            self._slow.clear()
        self._keep(duration)
        return False

    @property
    def median(self) -> float | None:
        """The median of the sliding window; None while it is empty."""
        return self._middle() if self._sorted else None

    def _is_slow(self, duration: float) -> bool:
        slow = self._stands_out(duration)
        self._flags.append(slow)
        self._flagged += slow
        if len(self._flags) > self._rule.history:
            self._flagged -= self._flags.popleft()
        return slow

    def _is_common(self) -> bool:
        return self._flagged * _COMMON > len(self._flags)

    def _stands_out(self, duration: float) -> bool:
        if len(self._sorted) < self._rule.least:
            return False
        middle = self._middle()
        if duration <= self._rule.ratio * middle:  # nearly always: the spread is computed only for suspects
            return False
        spread = _NORMAL * median([abs(value - middle) for value in self._sorted])
        return duration > middle + self._rule.deviations * spread

    def _middle(self) -> float:
        values = self._sorted
        half = len(values) // 2
        return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2

    def _keep(self, duration: float) -> None:
        self._recent.append(duration)
        insort(self._sorted, duration)
        if len(self._recent) > self._rule.history:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]

    def _start_anew(self) -> None:
        self._recent = deque(self._slow)
        self._sorted = sorted(self._slow)
        self._slow = []
