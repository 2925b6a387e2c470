"""The command ``tpuprof ops``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.roofline_options import roofline_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import for_single, show_table, shown_rows, top_option
from tpuprof.report.render import TABLE_FORMATS

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions


@click.command("ops")
@run_options
@roofline_options
@click.option(
    "--by",
    type=click.Choice(["op", "kind", "scope", "source", "module"]),
    default="op",
    show_default=True,
    help="What a row is: an op, or all ops of one kind, name scope, source line or program.",
)
@top_option
@output_options(TABLE_FORMATS)
def command(source: RunSource, hardware: HardwareOptions, output: Output, by: str, top: int | None) -> None:
    """List ops, or groups of ops, by self time.

    Times are sums over all cores. Self time is the duration without ops nested in it. Of single ops, what they do and
    what the hardware allows is shown where it is known: "of bound" is the least possible time over the measured one.
    """
    if by != "op":
        for_single(by, "ops", hardware)
    from tpuprof.report.documents import ops_result

    show_table(source, output, lambda trace: ops_result(trace, by, top, shown_rows(top), hardware))
