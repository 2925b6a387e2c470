"""When the launcher's capture begins and ends, and how the launcher tells the program's processes.

Three kinds: a range of steps, a span of time, and both, which takes steps where the program marks them and a
span of time where it does not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tpuprof.errors import UsageError
from tpuprof.units import PS_PER_S, parse_duration_ps

SPEC_VERSION = 1
DEFAULT_FIRST, DEFAULT_STOP = 10, 13
DEFAULT_AFTER_S = 30.0
DEFAULT_FOR_S = 3.0
# A trace costs about 8 kB of host memory per event while it is recorded; above 2 GB it is lost as a whole.
LONGEST_FOR_S = 600.0
_STEPS = re.compile(r"([0-9]{1,12}):([0-9]{1,12})\Z")


@dataclass(frozen=True)
class Window:
    """What part of a program to capture.

    Attributes:
        first: number of the first captured step, counting the marks of a process from 0; None for no steps.
        stop: number of the step before which the capture ends.
        after_s: seconds from the start of a process until the capture may begin; None for no span of time.
        for_s: length of the span in seconds.
    """

    first: int | None
    stop: int | None
    after_s: float | None
    for_s: float | None

    def __str__(self) -> str:
        steps = None if self.first is None else f"steps {self.first}:{self.stop}"
        span = None if self.after_s is None else f"{self.for_s:g} s after {self.after_s:g} s"
        return ", else ".join(part for part in (steps, span) if part)


def parse_window(steps: str | None, after: str | None, duration: str | None) -> Window:
    """The window of the options ``--steps``, ``--after`` and ``--for``; without any of them it is automatic.

    Raises:
        UsageError: an option has no meaning, or options contradict each other.
    """
    if steps is not None:
        if after is not None or duration is not None:
            raise UsageError("--steps cannot be combined with --after or --for.", hint="Choose steps or a time.")
        match = _STEPS.match(steps)
        if match is None or int(match[1]) >= int(match[2]):
            raise UsageError(
                f"--steps {steps!r} is not a range of steps.",
                hint="Write FIRST:STOP, such as 10:13 for the steps 10, 11 and 12.",
            )
        return Window(int(match[1]), int(match[2]), None, None)
    after_s = DEFAULT_AFTER_S if after is None else parse_duration_ps(after) / PS_PER_S
    for_s = DEFAULT_FOR_S if duration is None else parse_duration_ps(duration) / PS_PER_S
    if not 0 < for_s <= LONGEST_FOR_S:
        raise UsageError(
            f"--for {duration} is not above 0 and at most {LONGEST_FOR_S:g} s.",
            why="Profilers drop data, or all of it, when the window is long.",
            hint="A few seconds are usually enough.",
        )
    if after is None and duration is None:
        return Window(DEFAULT_FIRST, DEFAULT_STOP, after_s, for_s)
    return Window(None, None, after_s, for_s)


@dataclass(frozen=True)
class Spec:
    """What the launcher hands to the processes of the program."""

    window: Window
    logdir: str
    status_dir: str
    name: str | None = None

    def to_json(self) -> str:
        """The text that the hook finds in the environment."""
        w = self.window
        return json.dumps(
            {
                "version": SPEC_VERSION,
                "window": [w.first, w.stop, w.after_s, w.for_s],
                "logdir": self.logdir,
                "status_dir": self.status_dir,
                "name": self.name,
            }
        )

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
            Window(*content["window"]),
            str(content["logdir"]),
            str(content["status_dir"]),
            content.get("name"),
        )
