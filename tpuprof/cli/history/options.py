"""What the history commands share: where the store is, which runs are meant, and opening it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output
from tpuprof.errors import StoreVersionError, UsageError

if TYPE_CHECKING:
    from tpuprof.history import Run, Store
    from tpuprof.report.listing import Result

store_option = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="The store: a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE. Default: the environment variable "
    "TPUPROF_STORE, else history.db in the user's data directory.",
)
tag_filter = click.option(
    "--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Only runs with this tag; may be given several times."
)
last_option = click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the N newest runs.")


def reading(url: str | None, output: Output) -> Store:
    """The store for reading; one of an older version is brought up to date first, which needs write access."""
    from tpuprof.history import Store

    try:
        return Store.open(url, read_only=True)
    except StoreVersionError:
        store = Store.open(url)  # a store of a newer version is refused here too
        output.note(f"brought the run store up to date: {store.place}")
        return store


def writing(url: str | None, output: Output) -> Store:
    """The store for writing, made if there is none."""
    from tpuprof.history import Store

    store = Store.open(url)
    if store.upgraded_from is None:
        output.note(f"made a new run store: {store.place}")
    return store


def named_runs(store: Store, names: tuple[str, ...], last: int | None, tags: tuple[str, ...]) -> list[Run]:
    """The runs that are named, or the newest with the tags.

    Raises:
        UsageError: neither or both ways were used, or none is found.
    """
    from tpuprof.history.facts import check_tags

    if bool(names) == (last is not None):
        raise UsageError("Which runs are meant?", hint="Name runs, or give --last N.")
    if names:
        if tags:
            raise UsageError("--tag narrows down --last, not runs that are named.")
        return [store.run(name) for name in names]
    found = store.runs(last=last, tags=check_tags(tags))
    if not found:
        raise UsageError("No run of the store has these tags.", hint="See them with: tpuprof history list")
    return found


def write_result(result: Result, output: Output) -> None:
    """Writes a result in the format that was asked for."""
    from tpuprof.report.render import render_result

    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
