"""The command ``tpuprof history add``."""

from __future__ import annotations

import click

from tpuprof.cli.history.options import store_option, write_result, writing
from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.report.render import TABLE_FORMATS

_DECLARED = ("branch", "commit", "hardware", "program")


@click.command("add")
@run_options
@store_option
@click.option("--branch", metavar="NAME", help="The branch; each has series of its own.")
@click.option("--commit", metavar="ID", help="The commit.")
@click.option(
    "--hardware",
    metavar="NAME",
    help="A name for the hardware, where the trace does not say enough: runs with other names are not alike.",
)
@click.option(
    "--program",
    metavar="NAME",
    help="A name for the program, in place of its shapes: runs with the same name are alike whatever they ran.",
)
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="A further tag; may be given several times.")
@output_options(TABLE_FORMATS)
def add(
    source: RunSource, output: Output, store_url: str | None, tags: tuple[str, ...], **declared: str | None
) -> None:
    """Add a run to the store.

    The same recording is one run however often, from wherever and by whomever it is added; tags that it lacks are
    added. Kept are the step times, the metrics, a table of ops by scope and kind, versions and flags (secrets masked),
    and fingerprints of program and hardware.
    """
    from tpuprof.cli.tables import tell_quality
    from tpuprof.history.facts import check_tags, run_facts
    from tpuprof.report.history import added_result

    wanted = [*tags, *(f"{name}={declared[name]}" for name in _DECLARED if declared[name] is not None)]
    checked = check_tags(wanted)
    store = writing(store_url, output)
    trace = source.load(output)
    added = store.add_facts(run_facts(trace, checked), checked)
    tell_quality(trace, output)
    run = added.run
    if not added.new:
        gained = f", now with {', '.join(added.new_tags)}" if added.new_tags else ""
        output.note(f"the run is in the store already, as number {run.id}{gained}")
    for name, value in added.kept_tags.items():
        old = repr(run.tags[name]) if name in run.tags else "unset"
        output.note(f"its tag {name} stays {old}, not {value!r}; to change it, remove the run and add it anew")
    if run.program is None or run.hardware is None:
        output.note("its program or hardware is unknown, so that it belongs to no series: give --program or --hardware")
    elif run.hardware_source == "hosts":
        output.note(
            "the trace does not name the processor: runs of other hosts count as other hardware; --hardware names it"
        )
    write_result(added_result(store.place, added, store.metrics([run])), output)
    output.finish([entry.severity for entry in trace.quality])
