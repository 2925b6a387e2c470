"""The command ``tpuprof history remove``."""

from __future__ import annotations

import click

from tpuprof.cli.history.options import store_option
from tpuprof.cli.output import Output, output_options


@click.command("remove")
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
@store_option
@output_options(())
def remove(output: Output, names: tuple[str, ...], store_url: str | None) -> None:
    """Remove runs from the store, and from the baselines that hold them.

    RUN is a number, the start of a key, or a name that only one run has.
    """
    from tpuprof.history import Store

    Store.open(store_url, read_only=True)  # nothing is made where there is no store
    store = Store.open(store_url)
    for run in [store.run(name) for name in names]:
        store.remove(run)
        output.note(f"removed run {run.id} ({run.name})")
