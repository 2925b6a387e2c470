"""The command ``tpuprof gaps``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import show_table, shown_rows, top_option
from tpuprof.report.render import TABLE_FORMATS


@click.command("gaps")
@run_options
@top_option
@output_options(TABLE_FORMATS)
def command(source: RunSource, output: Output, top: int | None) -> None:
    """List stretches of idle time inside steps, longest first.

    A gap lies inside the execution of a program or between two of them.
    """
    from tpuprof.report.documents import gaps_result

    show_table(source, output, lambda trace: gaps_result(trace, top, shown_rows(top)))
