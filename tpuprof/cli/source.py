"""Which run a command reads: the argument RUN and the options that narrow it down, and loading it."""

from __future__ import annotations

import fnmatch
import functools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.output import Output
from tpuprof.cli.progress import progress
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_STEPS = re.compile(r"(?P<first>\d*)(?P<colon>:?)(?P<stop>\d*)\Z", re.ASCII)
_OTHERS_NAMED = 5


@dataclass(frozen=True, slots=True)
class RunSource:
    """The run that was asked for, not read yet."""

    path: str
    run: str | None = None
    hlo: str | None = None
    step_program: str | None = None
    devices: str | None = None
    steps: str | None = None
    no_cache: bool = False

    def load(self, output: Output) -> Trace:
        """Reads the run and keeps the devices and steps that were asked for.

        Raises:
            InputError: it cannot be read.
            UsageError: an option names what the run does not have.
        """
        bounds = None if self.steps is None else parse_steps(self.steps)
        with progress(f"reading {self.path}", quiet=output.quiet) as count:
            from tpuprof.cache import user_cache
            from tpuprof.trace import load

            began = time.perf_counter()
            trace = load(
                self.path,
                run=self.run,
                hlo=self.hlo,
                step_program=self.step_program,
                progress=count,
                cache=False if self.no_cache else user_cache(tell=output.detail) or False,
            )
        output.detail(f"read {trace.path} in {time.perf_counter() - began:.2f} s")
        if trace.other_runs and self.run is None:
            more = len(trace.other_runs) - _OTHERS_NAMED
            names = ", ".join(trace.other_runs[:_OTHERS_NAMED]) + (f" and {more} more" if more > 0 else "")
            output.note(f"reading the newest run, {trace.name}; others, for --run: {names}")
        if self.devices is not None:
            ids = [device.id for device in trace.devices]
            trace = trace.select(devices=match_devices(self.devices, ids))
        if bounds is not None:
            numbers = sorted({int(step) for step in trace.steps["step"]})
            trace = trace.select(steps=match_steps(bounds, numbers))
        return trace


cache_option = click.option(
    "--no-cache", is_flag=True, help="Read the files of a large run anew, and keep nothing of it for the next time."
)
"""``no_cache`` for commands that take several runs; ``run_options`` has it."""


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the argument RUN and its options to a command, which receives them as ``source``."""

    @functools.wraps(function)
    def collected(**values: Any) -> None:
        names = ("run", "hlo", "step_program", "devices", "steps", "no_cache")
        source = RunSource(values.pop("run_path"), **{name: values.pop(name) for name in names})
        function(source=source, **values)

    options = [
        click.argument("run_path", metavar="RUN"),
        click.option("--run", metavar="NAME", help="Which run of a log directory. Default: the newest."),
        click.option("--hlo", metavar="PATH", help="HLO dump (file or directory) for programs whose HLO is missing."),
        click.option(
            "--step-program",
            metavar="NAME",
            help="Take the executions of this program as steps, such as jit_train_step.",
        ),
        click.option(
            "--devices",
            metavar="LIST",
            help="Only these cores: ids, numbers or patterns, such as TPU:0,TPU:1 or 'hostA/*'.",
        ),
        click.option("--steps", metavar="A:B", help="Only the steps A to B - 1; either end may be left out."),
        cache_option,
    ]
    decorated: Callable[..., None] = collected
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """``10:13`` is (10, 13), ``10:`` is (10, None), ``7`` is (7, 8).

    Raises:
        UsageError: the text is no range, or an empty one.
    """
    match = _STEPS.match(text.strip())
    if match is None or not (match["first"] or match["stop"]):
        raise UsageError(
            f"--steps {text!r} is no range of steps.", hint="Write A:B, A:, :B or one number, such as 10:13."
        )
    first = int(match["first"]) if match["first"] else None
    if not match["colon"]:
        return first, int(match["first"]) + 1
    stop = int(match["stop"]) if match["stop"] else None
    if first is not None and stop is not None and first >= stop:
        raise UsageError(f"--steps {text!r} holds no step.", hint="B is the first step that is left out.")
    return first, stop


def match_steps(bounds: tuple[int | None, int | None], numbers: list[int]) -> list[int]:
    """The step numbers of the run within the bounds.

    Raises:
        UsageError: there are none.
    """
    first, stop = bounds
    found = [n for n in numbers if (first is None or n >= first) and (stop is None or n < stop)]
    if not found:
        have = f"It has the steps {numbers[0]} to {numbers[-1]}." if numbers else "It has no steps."
        raise UsageError("No step of the run lies in --steps.", hint=have)
    return found


def match_devices(text: str, ids: list[str]) -> list[str]:
    """The ids that the comma-separated list names: whole ids, their last parts, their numbers, or patterns.

    Raises:
        UsageError: an item names none of them.
    """
    chosen: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = [
            name
            for name in ids
            if item in (name, name.rpartition("/")[2], name.rpartition(":")[2]) or fnmatch.fnmatchcase(name, item)
        ]
        if not found:
            known = ", ".join(ids[:20]) + (" …" if len(ids) > 20 else "")
            raise UsageError(f"--devices: no core is called {item!r}.", hint=f"The run has {known or 'no cores'}.")
        chosen.update(found)
    if not chosen:
        raise UsageError("--devices names no core.", hint="Write ids, numbers or patterns, separated by commas.")
    return [name for name in ids if name in chosen]
