"""Which steps of a program are captured: cycles of wait, warm-up and active steps, or numbered steps.

Steps are counted from 0 in every process, so that all processes of one program capture the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

from tpuprof.capture.checking import whole
from tpuprof.errors import UsageError


class StepWindow(NamedTuple):
    """One planned capture: recorded from `begin`, kept from `first`, over before `stop`.

    The steps from `begin` to `first` warm the profiler up and measure what a step costs; their trace is
    thrown away.
    """

    begin: int
    first: int
    stop: int


@dataclass(frozen=True)
class Schedule:
    """When to capture, in steps. Without arguments: the steps 10, 11 and 12, once.

    Attributes:
        skip_first: steps before the first cycle; the first ones compile.
        wait: steps at the beginning of a cycle in which nothing happens.
        warmup: steps that are recorded and thrown away: they take the cost of starting a profiler for the first
            time, and their size tells how many steps fit into the budget. 0 leaves this out.
        active: steps that are captured.
        repeat: how many cycles; 0 goes on for as long as the program and the budget do.
        at_steps: numbers of steps at which captures of `active` steps begin, instead of cycles.
        every: length of a cycle in steps, instead of `wait`: the rest of the cycle comes after the active steps.
    """

    skip_first: int = 9
    wait: int = 0
    warmup: int = 1
    active: int = 3
    repeat: int = 1
    at_steps: tuple[int, ...] = ()
    every: int | None = None

    def __post_init__(self) -> None:
        for name in ("skip_first", "wait", "warmup", "repeat"):
            whole(name, getattr(self, name))
        whole("active", self.active, 1)
        object.__setattr__(self, "at_steps", _numbers(self.at_steps))
        if self.at_steps:
            self._check_numbered()
        if self.every is not None:
            self._check_every(whole("every", self.every, 1))

    def next_window(self, step: int) -> StepWindow | None:
        """The first window that begins at `step` or later; None when there is none any more."""
        if self.at_steps:
            return next((w for w in map(self._at, self.at_steps) if w.begin >= step), None)
        origin = self.skip_first + self.wait
        length = self._cycle()
        cycle = max(0, -((origin - step) // length))
        if self.repeat and cycle >= self.repeat:
            return None
        begin = origin + cycle * length
        return StepWindow(begin, begin + self.warmup, begin + self.warmup + self.active)

    def __str__(self) -> str:
        if self.at_steps:
            return "steps " + ", ".join(f"{n}:{n + self.active}" for n in self.at_steps)
        window = self.next_window(0)
        assert window is not None
        first = f"steps {window.first}:{window.stop}"
        if self.repeat == 1:
            return first
        times = f", {self.repeat} times" if self.repeat else ""
        return f"{first} and every {self._cycle()} steps from there{times}"

    def as_dict(self) -> dict[str, Any]:
        """The arguments that make this schedule, as JSON values."""
        content: dict[str, Any] = {"warmup": self.warmup, "active": self.active}
        if self.at_steps:
            return {"at_steps": list(self.at_steps), **content}
        content |= {"skip_first": self.skip_first, "repeat": self.repeat}
        return content | ({"wait": self.wait} if self.every is None else {"every": self.every})

    def _cycle(self) -> int:
        return self.every if self.every is not None else self.wait + self.warmup + self.active

    def _at(self, first: int) -> StepWindow:
        return StepWindow(max(first - self.warmup, 0), first, first + self.active)

    def _check_numbered(self) -> None:
        others = {name: getattr(self, name) for name in ("skip_first", "wait", "repeat", "every")}
        defaults = {"skip_first": 9, "wait": 0, "repeat": 1, "every": None}
        given = [name for name, value in others.items() if value != defaults[name]]
        if given:
            raise UsageError(
                f"at_steps cannot be combined with {' and '.join(given)}.", hint="Name the steps, or describe cycles."
            )
        windows = [self._at(first) for first in self.at_steps]
        for one, two in pairwise(windows):
            if two.begin < one.stop:
                raise UsageError(
                    f"at_steps {one.first} and {two.first} overlap with active={self.active} and warmup={self.warmup}.",
                    hint=f"Leave at least {self.active + self.warmup} steps between them.",
                )

    def _check_every(self, every: int) -> None:
        if self.wait:
            raise UsageError("every and wait contradict each other.", hint="Give the length of a cycle only once.")
        if every < self.warmup + self.active:
            raise UsageError(
                f"every={every} is shorter than warmup={self.warmup} and active={self.active} together.",
                hint=f"Take at least {self.warmup + self.active}.",
            )


def _numbers(given: Any) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"at_steps={given!r} is not a list of step numbers.", hint="Write at_steps=[100, 5000].")
    return tuple(sorted({whole("at_steps", number) for number in cast("Iterable[Any]", given)}))
