"""The command ``tpuprof steps``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import show_table
from tpuprof.report.render import TABLE_FORMATS


@click.command("steps")
@run_options
@output_options(TABLE_FORMATS)
def command(source: RunSource, output: Output) -> None:
    """List the steps with their parts.

    table and md have one row per step, of its slowest core, with the parts in percent of that step. json, jsonl and
    csv have one row per step and core, in picoseconds. State: cut = not complete, open = nothing marks its end,
    unmatched = not found on all cores.
    """
    from tpuprof.report.documents import steps_result

    show_table(source, output, steps_result)
