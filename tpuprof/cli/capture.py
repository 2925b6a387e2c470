"""The command ``tpuprof capture``."""

from __future__ import annotations

import sys

import click

DEFAULT_LOGDIR = "tpuprof-runs"


@click.command(
    "capture",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[--logdir DIR] [--steps FIRST:STOP | --after T --for T]",
)
@click.option("--logdir", default=DEFAULT_LOGDIR, show_default=True, help="Log directory that receives the run.")
@click.option("--steps", help="Capture the steps FIRST to STOP - 1, such as 10:13, counting step marks from 0.")
@click.option("--after", help="Seconds from the start of the program until the window, such as 30s.")
@click.option("--for", "duration", help="Length of the window, such as 3s.")
@click.option("--name", help="Name of the session directory; by default the time.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    logdir: str,
    steps: str | None,
    after: str | None,
    duration: str | None,
    name: str | None,
    command_line: tuple[str, ...],
) -> None:
    """Run an unmodified program and capture a window of it.

    Everything after the two dashes is run as it is, with its own standard streams, signals and exit code,
    which becomes the exit code of this command. Python processes that use a jax device are recorded.

    Without a window, the steps 10 to 12 are captured if the program marks steps (tpuprof.step or
    jax.profiler.StepTraceAnnotation), else 3 seconds that begin 30 seconds after its devices came up.
    With only --for, the window begins after 30 seconds; with only --after, it lasts 3 seconds.
    """
    from tpuprof.capture.launcher import launch
    from tpuprof.capture.window import parse_window

    result = launch(command_line, logdir=logdir, window=parse_window(steps, after, duration), name=name)
    for message in result.messages:
        click.echo(f"tpuprof: {message}", err=True)
    sys.exit(result.exit_code)
