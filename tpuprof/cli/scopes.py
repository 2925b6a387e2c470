"""The command ``tpuprof scopes``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import show_table
from tpuprof.report.render import TABLE_FORMATS


@click.command("scopes")
@run_options
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N levels of names. Default: 4 in table and md, all in the other formats.",
)
@output_options(TABLE_FORMATS)
def command(source: RunSource, output: Output, depth: int | None) -> None:
    """Show the tree of name scopes with the time of each.

    Times are sums over all cores. A scope's own time and the total times of the scopes in it sum to its total time
    exactly. What JAX adds to the names (jit, jvp, transpose, while, checkpoint) is listed as marks.
    """
    from tpuprof.report.scopes import scopes_result

    show_table(source, output, lambda trace: scopes_result(trace, depth))
