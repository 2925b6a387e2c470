"""The command ``tpuprof history export``."""

from __future__ import annotations

import click

from tpuprof.cli.history.options import last_option, reading, store_option, tag_filter
from tpuprof.cli.output import Output, output_options
from tpuprof.errors import UsageError


@click.command("export")
@store_option
@click.option("--to", "form", type=click.Choice(["parquet", "csv"]), required=True, help="What to write.")
@tag_filter
@last_option
@output_options(())
def export(output: Output, store_url: str | None, form: str, tags: tuple[str, ...], last: int | None) -> None:
    """Write the store's tables into a directory, which -o names: runs, steps, metrics, op_groups, tags."""
    from tpuprof.cli.folder import check_folder, marked, write_folder
    from tpuprof.history.export import store_files
    from tpuprof.history.facts import check_tags

    if output.path is None:
        raise UsageError("An export needs an output.", hint="Name a directory with -o.")
    check_folder(output.path, force=output.force)
    store = reading(store_url, output)
    runs = store.runs(tags=check_tags(tags), last=last)
    count = write_folder(
        output.path, marked(store_files(store, runs, form), "history export", form), force=output.force
    )
    output.note(f"wrote {count} files to {output.path}")
