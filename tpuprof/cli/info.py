"""The command ``tpuprof info``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.report.render import TABLE_FORMATS


@click.command("info")
@run_options
@output_options(TABLE_FORMATS)
def command(source: RunSource, output: Output) -> None:
    """Show what was captured: hosts, devices, window, versions, quality.

    csv and jsonl hold one row per line of a plane, with its number of events.
    """
    from tpuprof.report.info import info_result
    from tpuprof.report.render import render_info

    trace = source.load(output)
    screen = output.whole_screen() if output.form == "table" else None
    output.write(render_info(info_result(trace), output.form, screen))
    output.finish([entry.severity for entry in trace.quality])
