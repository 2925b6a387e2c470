"""What the table commands share: loading, writing, and saying on stderr what is wrong with the recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output
from tpuprof.cli.source import RunSource

if TYPE_CHECKING:
    from tpuprof.report.listing import Result
    from tpuprof.trace import Trace

SHOWN = 30

top_option = click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"At most N rows. Default: {SHOWN} in table and md, all in the other formats.",
)


def show_table(source: RunSource, output: Output, make: Callable[[Trace], Result]) -> None:
    """Loads the run, writes the result, and ends the command if the run's quality reaches ``--fail-on``."""
    from tpuprof.report.render import render_result

    trace = source.load(output)
    result = make(trace)
    tell_quality(trace, output)
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
    output.finish([entry.severity for entry in trace.quality])


def tell_quality(trace: Trace, output: Output) -> None:
    """Warnings and errors about the recording on stderr; with ``-v`` the rest too."""
    for entry in trace.quality:
        told = output.detail if entry.severity == "info" else output.note
        told(f"{entry.severity}: {entry.id}: {entry.message}")


def shown_rows(top: int | None) -> int:
    """How many rows text for people has at most."""
    return SHOWN if top is None else top
