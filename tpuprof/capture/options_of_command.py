"""The options of ``tpuprof capture`` as a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tpuprof.capture.budget import Budget
from tpuprof.capture.plan import DEFAULT_MAX_CAPTURES, LONGEST_FOR_S, OnRequest, Plan, Span
from tpuprof.capture.schedule import Schedule
from tpuprof.capture.slowsteps import SlowSteps
from tpuprof.errors import UsageError
from tpuprof.units import PS_PER_S, parse_duration_ps

DEFAULT_FIRST, DEFAULT_STOP = 10, 13
DEFAULT_ACTIVE = 3
DEFAULT_WARMUP = 1
DEFAULT_AFTER_S = 30.0
DEFAULT_FOR_S = 3.0
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_STEPS = re.compile(r"([0-9]{1,12}):([0-9]{1,12})\Z")


@dataclass(frozen=True)
class CommandOptions:
    """What stands on the command line; None where nothing does."""

    steps: str | None = None
    after: str | None = None
    duration: str | None = None
    every: int | None = None
    on_slow: bool = False
    slow_ratio: float | None = None
    on_request: bool = False
    signal: str | None = None
    active: int | None = None
    warmup: int | None = None
    max_captures: int | None = None
    max_events: int | None = None


def plan_of(options: CommandOptions) -> Plan:
    """The plan of the options; without any it is automatic: steps where they are marked, else a span of time.

    Raises:
        UsageError: an option has no meaning, or options contradict each other.
    """
    _check(options)
    active = DEFAULT_ACTIVE if options.active is None else options.active
    warmup = DEFAULT_WARMUP if options.warmup is None else options.warmup
    span = _span(options)
    schedule = None
    if options.steps is not None:
        first, stop = _steps(options.steps)
        schedule = Schedule(at_steps=(first,), active=stop - first, warmup=min(warmup, first))
    elif options.every is not None:
        first = max(DEFAULT_FIRST - warmup, 0)
        schedule = Schedule(every=options.every, skip_first=first, warmup=warmup, active=active, repeat=0)
    elif span is None and not options.on_slow and not options.on_request:
        schedule = Schedule(at_steps=(DEFAULT_FIRST,), active=active, warmup=min(warmup, DEFAULT_FIRST))
        span = Span(DEFAULT_AFTER_S, DEFAULT_FOR_S)
    ratio = SlowSteps().ratio if options.slow_ratio is None else options.slow_ratio
    return Plan(
        schedule=schedule,
        span=span,
        on_slow=SlowSteps(active=active, ratio=ratio) if options.on_slow else None,
        on_request=OnRequest(options.signal or "SIGUSR2", active) if options.on_request else None,
        max_captures=DEFAULT_MAX_CAPTURES if options.max_captures is None else options.max_captures,
        budget=Budget() if options.max_events is None else Budget(max_events=options.max_events),
    )


def profiler_options(texts: Iterable[str]) -> dict[str, Any]:
    """``NAME=VALUE`` texts as options of `tpuprof.capture.options.check_options`, which knows which there are.

    Raises:
        UsageError: a text has no name or no value, or a name comes twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in found:
            raise UsageError(
                f"--option {text!r} is not a new NAME=VALUE.",
                hint="Write, for example, tpu_trace_mode=TRACE_ONLY_HOST.",
            )
        word = {"true": True, "false": False}.get(value.lower())
        found[name] = word if word is not None else int(value) if _WHOLE.match(value) else value
    return found


def _check(options: CommandOptions) -> None:
    timed = options.after is not None or options.duration is not None
    windows = {"--steps": options.steps is not None, "--after or --for": timed, "--every": options.every is not None}
    given = [name for name, is_given in windows.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"{given[0]} cannot be combined with {given[1]}.", hint="Choose one kind of window.")
    if options.slow_ratio is not None and not options.on_slow:
        raise UsageError("--slow-ratio needs --on-slow.", hint="Give both, or neither.")
    if options.signal is not None and not options.on_request:
        raise UsageError("--signal needs --on-request.", hint="Give both, or neither.")
    if timed and (options.active, options.warmup) != (None, None) and not (options.on_slow or options.on_request):
        raise UsageError("--active and --warmup are in steps.", hint="--for says how long a window in time takes.")
    if options.active is not None and options.steps is not None and not (options.on_slow or options.on_request):
        raise UsageError("--active cannot be combined with --steps.", hint="FIRST:STOP says how many steps it takes.")


def _steps(text: str) -> tuple[int, int]:
    match = _STEPS.match(text)
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(
            f"--steps {text!r} is not a range of steps.",
            hint="Write FIRST:STOP, such as 10:13 for the steps 10, 11 and 12.",
        )
    return int(match[1]), int(match[2])


def _span(options: CommandOptions) -> Span | None:
    if options.after is None and options.duration is None:
        return None
    after_s = DEFAULT_AFTER_S if options.after is None else parse_duration_ps(options.after) / PS_PER_S
    for_s = DEFAULT_FOR_S if options.duration is None else parse_duration_ps(options.duration) / PS_PER_S
    if not 0 < for_s <= LONGEST_FOR_S:
        raise UsageError(
            f"--for {options.duration} is not above 0 and at most {LONGEST_FOR_S:g} s.",
            why="Profilers drop data, or all of it, when the window is long.",
            hint="A few seconds are usually enough.",
        )
    return Span(after_s, for_s)
