"""The command ``tpuprof runs``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.report.render import TABLE_FORMATS


@click.command("runs")
@click.argument("logdir", metavar="LOGDIR")
@output_options(TABLE_FORMATS)
def command(logdir: str, output: Output) -> None:
    """List the runs in a log directory, newest first.

    LOGDIR is a log directory, plugins/profile, a session directory, or an fsspec URL of one of them.
    """
    from tpuprof.formats.discover import list_runs
    from tpuprof.report.render import render_result
    from tpuprof.report.run_list import runs_result

    result = runs_result(logdir, list_runs(logdir))
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
