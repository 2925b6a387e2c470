"""The command ``tpuprof grab``."""

from __future__ import annotations

import click

from tpuprof.cli.capture import DEFAULT_LOGDIR


@click.command("grab")
@click.argument("addresses", nargs=-1, required=True, metavar="HOST:PORT...")
@click.option("--for", "duration", default="2s", show_default=True, metavar="T", help="Length of the window.")
@click.option("--logdir", default=DEFAULT_LOGDIR, show_default=True, help="Log directory that receives the run.")
@click.option("--name", help="Name of the session directory; by default the time.")
@click.option(
    "--host-tracer-level", type=int, default=2, show_default=True, metavar="N", help="0 (off) to 3 (verbose)."
)
@click.option("--python-calls", is_flag=True, help="Record every Python call; slows the job down.")
def command(
    addresses: tuple[str, ...], duration: str, logdir: str, name: str | None, host_tracer_level: int, python_calls: bool
) -> None:
    """Capture a running job through its profiler server.

    The job must have called jax.profiler.start_server(PORT). Several servers, such as those of all hosts of a pod,
    record at the same time and make one run. Needs the client of xprof: pip install "tpuprof[xprof]".

    The path of the run goes to stdout.
    """
    from tpuprof.capture.grab import grab
    from tpuprof.capture.options import check_options
    from tpuprof.units import PS_PER_S, parse_duration_ps

    found = grab(
        addresses,
        logdir=logdir,
        for_s=parse_duration_ps(duration) / PS_PER_S,
        name=name,
        options=check_options(host_tracer_level=host_tracer_level, python_tracer_level=int(python_calls)),
    )
    click.echo(f"tpuprof: Read it with: tpuprof report {found.session}", err=True)
    click.echo(found.session)
