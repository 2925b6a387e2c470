"""The command ``tpuprof validate``."""

from __future__ import annotations

from pathlib import Path

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.report.render import TABLE_FORMATS


@click.command("validate")
@click.option(
    "--published", is_flag=True, help="Predict published steps and servers. The default, and the only kind so far."
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--profile",
    "profile_name",
    metavar="NAME|FILE",
    help="Constants of tpuprof calibrate instead of the built-in ones.",
)
@output_options(TABLE_FORMATS)
def command(published: bool, file: Path | None, profile_name: str | None, output: Output) -> None:
    """Compare predictions with published measurements: signed errors, no row dropped.

    FILE holds rows in the schema that docs/planner.md describes; without it the measurements that tpuprof brings along
    are taken.
    """
    from tpuprof.plan.profile_store import load_profile
    from tpuprof.plan.published import BUNDLED, bundled_rows, read_rows
    from tpuprof.plan.serve.validation import served_rows
    from tpuprof.plan.train_profile import efficiency
    from tpuprof.plan.validation import validate
    from tpuprof.report.render import render_result
    from tpuprof.report.validation import validation_result

    del published  # there is nothing else to compare with yet
    rows = bundled_rows() if file is None else read_rows(file)
    source = f"{BUNDLED}, built in" if file is None else file.name
    stored = None if profile_name is None else load_profile(profile_name)
    found = validate(rows, efficiency if stored is None else stored.efficiency)
    result = validation_result(found, source, served_rows(rows), stored)
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
