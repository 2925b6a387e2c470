"""The commands ``tpuprof history baseline set``, ``list`` and ``remove``."""

from __future__ import annotations

import click

from tpuprof.cli.history.options import last_option, named_runs, reading, store_option, tag_filter, write_result
from tpuprof.cli.output import Output, output_options
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS


@click.group("baseline")
def baseline() -> None:
    """Name runs that others are compared with.

    A name holds one baseline for each program and each kind of hardware, so that unlike runs are never compared.
    """


@baseline.command("set")
@click.argument("name", metavar="NAME")
@click.argument("names", metavar="[RUN]...", nargs=-1)
@store_option
@tag_filter
@last_option
@output_options(TABLE_FORMATS)
def set_baseline(
    output: Output,
    name: str,
    names: tuple[str, ...],
    store_url: str | None,
    tags: tuple[str, ...],
    last: int | None,
) -> None:
    """Make runs the baseline of this name, in place of an older one for the same program and hardware.

    RUN is a number, the start of a key, or a name that only one run has.
    """
    from tpuprof.report.history import baselines_result

    reading(store_url, output)  # nothing is made where there is no store
    from tpuprof.history import Store

    store = Store.open(store_url)
    made = store.set_baseline(name, named_runs(store, names, last, tags))
    write_result(baselines_result(store.place, [made], "history baseline set"), output)


@baseline.command("list")
@store_option
@output_options(TABLE_FORMATS)
def list_baselines(output: Output, store_url: str | None) -> None:
    """List the baselines with their runs."""
    from tpuprof.report.history import baselines_result

    store = reading(store_url, output)
    write_result(baselines_result(store.place, store.baselines(), "history baseline list"), output)


@baseline.command("remove")
@click.argument("name", metavar="NAME")
@store_option
@output_options(())
def remove_baseline(output: Output, name: str, store_url: str | None) -> None:
    """Remove the baselines of this name; the runs stay."""
    reading(store_url, output)  # nothing is made where there is no store
    from tpuprof.history import Store

    store = Store.open(store_url)
    count = store.remove_baseline(name)
    if not count:
        raise UsageError(
            f"There is no baseline {name!r}.", where=store.place, hint="See them with: tpuprof history baseline list"
        )
    output.note(f"removed baseline {name}" + (f" of {count} kinds of runs" if count > 1 else ""))
