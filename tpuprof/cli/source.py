"""Which run a command reads: the argument RUN and the options that narrow it down, and loading it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.output import Output
from tpuprof.cli.progress import progress
from tpuprof.selection import match_devices, match_steps, parse_steps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

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
