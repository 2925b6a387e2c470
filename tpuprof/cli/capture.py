"""The command ``tpuprof capture``."""

from __future__ import annotations

import sys

import click

DEFAULT_LOGDIR = "tpuprof-runs"


@click.command(
    "capture",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[--logdir DIR] [--steps FIRST:STOP | --after T --for T | --every N | --on-slow] [OPTIONS]",
)
@click.option("--logdir", default=DEFAULT_LOGDIR, show_default=True, help="Log directory that receives the run.")
@click.option("--steps", help="Capture the steps FIRST to STOP - 1, such as 10:13, counting step marks from 0.")
@click.option("--after", metavar="T", help="Seconds from the start of the program until the window, such as 30s.")
@click.option("--for", "duration", metavar="T", help="Length of the window, such as 3s.")
@click.option("--every", type=int, metavar="N", help="Capture again and again, N steps apart, from step 10 on.")
@click.option("--on-slow", is_flag=True, help="Capture the steps that follow a slow step.")
@click.option("--slow-ratio", type=float, metavar="X", help="A step is slow above X medians. Default: 2.")
@click.option(
    "--on-request", is_flag=True, help="Capture when --signal comes or the file DIR/capture_request is touched."
)
@click.option("--signal", metavar="NAME", help="Signal that asks for a capture: SIGUSR1, SIGUSR2 (default) or SIGHUP.")
@click.option(
    "--active", type=int, metavar="N", help="Steps of a capture for --every, --on-slow and --on-request. Default: 3."
)
@click.option("--warmup", type=int, metavar="N", help="Steps recorded before to measure what they cost. Default: 1.")
@click.option("--max-captures", type=int, metavar="N", help="At most so many captures per process. Default: 10.")
@click.option("--max-events", type=int, metavar="N", help="Shorten windows to so many events. Default: 1000000.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="What is recorded, such as host_tracer_level=1 or python_tracer_level=1; may be given again.",
)
@click.option("--hosts", metavar="LIST", help="jax processes that record, such as 0,3 or 0-3. Default: all.")
@click.option("--name", help="Name of the session directory; by default the time.")
@click.argument("command_line", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    logdir: str,
    steps: str | None,
    after: str | None,
    duration: str | None,
    every: int | None,
    on_slow: bool,
    slow_ratio: float | None,
    on_request: bool,
    signal: str | None,
    active: int | None,
    warmup: int | None,
    max_captures: int | None,
    max_events: int | None,
    options: tuple[str, ...],
    hosts: str | None,
    name: str | None,
    command_line: tuple[str, ...],
) -> None:
    """Run an unmodified program and capture a window of it.

    Everything after the two dashes is run as it is, with its own standard streams, signals and exit code,
    which becomes the exit code of this command. Python processes that use a jax device are recorded. The
    times of all steps go to DIR/step_times; show them with tpuprof steps DIR --log.

    Without a window, the steps 10 to 12 are captured if the program marks steps (tpuprof.step or
    jax.profiler.StepTraceAnnotation), else 3 seconds that begin 30 seconds after its devices came up.
    With only --for, the window begins after 30 seconds; with only --after, it lasts 3 seconds.
    """
    from tpuprof.capture.launcher import launch
    from tpuprof.capture.options_of_command import CommandOptions, plan_of, profiler_options

    plan = plan_of(
        CommandOptions(
            steps=steps,
            after=after,
            duration=duration,
            every=every,
            on_slow=on_slow,
            slow_ratio=slow_ratio,
            on_request=on_request,
            signal=signal,
            active=active,
            warmup=warmup,
            max_captures=max_captures,
            max_events=max_events,
        )
    )
    chosen = profiler_options(options)
    result = launch(command_line, logdir=logdir, plan=plan, name=name, hosts=hosts, options=chosen)
    for message in result.messages:
        click.echo(f"tpuprof: {message}", err=True)
    sys.exit(result.exit_code)
