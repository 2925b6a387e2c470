"""The command ``tpuprof hardware``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.report.render import TABLE_FORMATS


def hardware_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of every command that looks up chips: ``edition`` and ``hardware_files``."""
    function = click.option(
        "--hardware",
        "hardware_files",
        multiple=True,
        metavar="FILE",
        help="A TOML file with figures that replace known ones, or with new chips. Can be repeated.",
    )(function)
    return click.option(
        "--edition",
        metavar="EDITION",
        help="Edition of constants: datasheet (default), book-2025-02, book-2026 or cloud-docs.",
    )(function)


@click.command("hardware")
@click.argument("chip", required=False)
@hardware_options
@output_options(TABLE_FORMATS)
def command(chip: str | None, edition: str | None, hardware_files: tuple[str, ...], output: Output) -> None:
    """Show what is known of chips: peaks, memories, networks, each number with its source.

    CHIP is a name such as v5e or H100-SXM, or a device kind such as "TPU v5 lite". Without it, all chips are listed.
    """
    from tpuprof.hardware import chip as find
    from tpuprof.report.hardware import chip_result, hardware_result
    from tpuprof.report.render import render_result

    if chip is None:
        result = hardware_result(edition, hardware_files)
    else:
        result = chip_result(find(chip, edition=edition, files=hardware_files))
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
