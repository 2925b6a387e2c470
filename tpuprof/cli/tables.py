"""What the table commands share: loading, writing, and saying on stderr what is wrong with the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.output import Output
from tpuprof.cli.source import RunSource

if TYPE_CHECKING:
    from tpuprof.report.listing import Result
    from tpuprof.roofline.hardware import HardwareOptions
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
    entries = result.document["quality"]
    _tell(entries, output)
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
    output.finish([entry["severity"] for entry in entries])


def for_single(by: str, wanted: str, hardware: HardwareOptions) -> None:
    """Refuses what is said of the hardware where rows are groups: it would look as if it counted.

    Raises:
        UsageError: something is said of the hardware.
    """
    from tpuprof.errors import UsageError
    from tpuprof.roofline.hardware import NO_OPTIONS

    if hardware != NO_OPTIONS:
        raise UsageError(f"What the hardware allows is given for single {wanted} only.", where=f"--by {by}",
                         hint="Leave out --by, or what is said of the hardware.")  # fmt: skip


def tell_quality(trace: Trace, output: Output) -> None:
    """Warnings and errors about the recording on stderr; with ``-v`` the rest too."""
    _tell([entry.to_json() for entry in trace.quality], output)


def _tell(entries: Sequence[Mapping[str, Any]], output: Output) -> None:
    for entry in entries:
        told = output.detail if entry["severity"] == "info" else output.note
        told(f"{entry['severity']}: {entry['id']}: {entry['message']}")


def shown_rows(top: int | None) -> int:
    """How many rows text for people has at most."""
    return SHOWN if top is None else top
