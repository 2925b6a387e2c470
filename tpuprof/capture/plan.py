"""What the captures of one process are to be: the launcher's options and `Profiler`'s arguments in one form.

A plan can have step windows, one span of time, slow steps and requests, in any mixture; with both step windows and a
span, the span is for programs that mark no steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tpuprof.capture.budget import Budget
from tpuprof.capture.checking import positive, whole
from tpuprof.capture.schedule import Schedule
from tpuprof.capture.slowsteps import SlowSteps
from tpuprof.errors import UsageError

SPEC_VERSION = 2
SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGHUP")
DEFAULT_MAX_CAPTURES = 10
# A trace costs about 8 kB of host memory per event while it is recorded; above 2 GB it is lost as a whole.
LONGEST_FOR_S = 600.0


@dataclass(frozen=True)
class Span:
    """A window in time: `for_s` seconds, `after_s` seconds after the start of the process."""

    after_s: float
    for_s: float

    def __post_init__(self) -> None:
        check_span(self.for_s)

    def __str__(self) -> str:
        return f"{self.for_s:g} s after {self.after_s:g} s"


@dataclass(frozen=True)
class OnRequest:
    """Captures that somebody asks a running program for, by a signal or by a file.

    Attributes:
        signal: name of the signal, one of `SIGNALS`; None for none. It only reaches programs that do not handle it.
        active: steps of such a capture.
        for_s: its length in seconds where the program marks no steps.
    """

    signal: str | None = "SIGUSR2"
    active: int = 3
    for_s: float = 3.0

    def __post_init__(self) -> None:
        if self.signal is not None and self.signal not in SIGNALS:
            raise UsageError(f"signal={self.signal!r} cannot ask for a capture.", hint=f"Take {' or '.join(SIGNALS)}.")
        whole("active", self.active, 1)
        check_span(self.for_s)


@dataclass(frozen=True)
class Plan:
    """When to capture, and how much."""

    schedule: Schedule | None = None
    span: Span | None = None
    on_slow: SlowSteps | None = None
    on_request: OnRequest | None = None
    max_captures: int = DEFAULT_MAX_CAPTURES
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        whole("max_captures", self.max_captures, 1)
        if self.schedule is self.span is self.on_slow is self.on_request is None:
            raise UsageError("Nothing is to be captured.", hint="Give a schedule, on_slow or on_request.")

    def __str__(self) -> str:
        windows = ", else ".join(str(part) for part in (self.schedule, self.span) if part is not None)
        others = [
            "" if self.on_slow is None else f"{self.on_slow.active} steps after a slow one",
            "" if self.on_request is None else "on request",
        ]
        return " and ".join(part for part in (windows, *others) if part)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON values; `plan_from` reads it back."""
        return {
            "schedule": None if self.schedule is None else self.schedule.as_dict(),
            "span": None if self.span is None else asdict(self.span),
            "on_slow": None if self.on_slow is None else self.on_slow.as_dict(),
            "on_request": None if self.on_request is None else asdict(self.on_request),
            "max_captures": self.max_captures,
            "budget": self.budget.as_dict(),
        }


def plan_from(content: dict[str, Any]) -> Plan:
    """The reverse of `Plan.as_dict`.

    Raises:
        UsageError, TypeError, KeyError: it is no plan of this version.
    """

    def made(kind: Any, key: str) -> Any:
        return None if content[key] is None else kind(**content[key])

    return Plan(
        schedule=made(Schedule, "schedule"),
        span=made(Span, "span"),
        on_slow=made(SlowSteps, "on_slow"),
        on_request=made(OnRequest, "on_request"),
        max_captures=content["max_captures"],
        budget=Budget(**content["budget"]),
    )


@dataclass(frozen=True)
class Spec:
    """What the launcher hands to the processes of the program."""

    plan: Plan
    logdir: str
    status_dir: str
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> str:
        """The text that the hook finds in the environment."""
        places = {"logdir": self.logdir, "status_dir": self.status_dir, "name": self.name}
        content = {"plan": self.plan.as_dict(), "options": dict(self.options), **places}
        return json.dumps({"version": SPEC_VERSION, **content})

    @staticmethod
    def from_json(text: str) -> Spec:
        """The reverse of `to_json`.

        Raises:
            ValueError: the text was written by another version, or is none of ours.
        """
        content: dict[str, Any] = json.loads(text)
        if content.get("version") != SPEC_VERSION:
            raise ValueError("the launcher is of another version of tpuprof")
        return Spec(
            plan_from(content["plan"]),
            str(content["logdir"]),
            str(content["status_dir"]),
            content.get("name"),
            content["options"],
        )


def check_span(for_s: float) -> None:
    """Nothing, if a window may be so long.

    Raises:
        UsageError: it may not.
    """
    if positive("for_s", for_s) > LONGEST_FOR_S:
        raise UsageError(
            f"A window of {for_s:g} s is longer than {LONGEST_FOR_S:g} s.",
            why="Profilers drop data, or all of it, when the window is long.",
            hint="A few seconds are usually enough.",
        )
