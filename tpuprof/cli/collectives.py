"""The command ``tpuprof collectives``."""

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


@click.command("collectives")
@run_options
@roofline_options
@click.option(
    "--by",
    type=click.Choice(["op", "kind", "axis", "scope", "source", "module"]),
    default="op",
    show_default=True,
    help="What a row is: a collective, or all of one kind, mesh axis, name scope, source line or program.",
)
@top_option
@output_options(TABLE_FORMATS)
def command(source: RunSource, hardware: HardwareOptions, output: Output, by: str, top: int | None) -> None:
    """List collectives with their exposed and hidden time.

    One row per collective of a program; count is its occurrences on all cores, times are means per occurrence. The
    window of an asynchronous collective goes from the begin of its start to the end of its done. "of bound" is the
    least time that the links between the devices allow over the measured transfer.
    Groups have sums over all cores, and their exposed time per step and core. Mesh axes are known where the program
    names its mesh.
    """
    if by != "op":
        for_single(by, "collectives", hardware)
        from tpuprof.report.collective_groups import collective_groups_result

        show_table(source, output, lambda trace: collective_groups_result(trace, by, top, shown_rows(top)))
        return
    from tpuprof.report.documents import collectives_result

    show_table(source, output, lambda trace: collectives_result(trace, top, shown_rows(top), hardware))
