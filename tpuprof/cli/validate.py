"""The command ``tpuprof validate``."""

from __future__ import annotations

from pathlib import Path

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS


@click.command("validate")
@click.option(
    "--published", is_flag=True, help="Predict published training steps. The default, and the only kind so far."
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@output_options(TABLE_FORMATS)
def command(published: bool, file: Path | None, output: Output) -> None:
    """Compare predictions with published measurements: signed errors, no row dropped.

    FILE holds rows in the schema that docs/planner.md describes.
    """
    from tpuprof.plan.published import read_rows
    from tpuprof.plan.validation import validate
    from tpuprof.report.render import render_result
    from tpuprof.report.validation import validation_result

    del published  # there is nothing else to compare with yet
    if file is None:
        raise UsageError("There is no file of measurements.", hint="Write tpuprof validate --published FILE.")
    result = validation_result(validate(read_rows(file)), file.name)
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
