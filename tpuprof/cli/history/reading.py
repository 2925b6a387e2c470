"""The commands ``tpuprof history list``, ``show`` and ``trend``."""

from __future__ import annotations

import click

from tpuprof.cli.history.options import last_option, reading, store_option, tag_filter, write_result
from tpuprof.cli.output import Output, output_options
from tpuprof.cli.tables import shown_rows, top_option
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS


@click.command("list")
@store_option
@tag_filter
@last_option
@output_options(TABLE_FORMATS)
def list_runs(output: Output, store_url: str | None, tags: tuple[str, ...], last: int | None) -> None:
    """List the runs of the store, newest first."""
    from tpuprof.history.facts import check_tags
    from tpuprof.report.history import list_result

    wanted = check_tags(tags)
    store = reading(store_url, output)
    runs = store.runs(tags=wanted, last=last)
    write_result(list_result(store.place, runs, store.metrics(runs), shown_rows(last)), output)


@click.command("show")
@click.argument("name", metavar="RUN")
@store_option
@top_option
@output_options(TABLE_FORMATS)
def show(output: Output, name: str, store_url: str | None, top: int | None) -> None:
    """Show what the store has of one run.

    RUN is its number, the start of its key (6 characters or more), or its name if only one run has it.
    """
    from tpuprof.report.history import show_result

    store = reading(store_url, output)
    run = store.run(name)
    groups = store.op_groups(run)
    times = [sample.time_ps for sample in store.samples(run)]
    rows = groups if top is None else groups[:top]
    write_result(show_result(store.place, run, store.metrics([run])[run.id], rows, times, shown_rows(top)), output)


@click.command("trend")
@store_option
@click.option("--metric", default="step_p50_ps", show_default=True, metavar="NAME", help="Which metric to look at.")
@tag_filter
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the N newest runs of each series.")
@click.option(
    "--min-effect",
    type=click.FloatRange(min=0.0),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="The smallest change of interest, in per cent.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(min=0.005, max=0.2),
    default=0.01,
    show_default=True,
    metavar="P",
    help="How often a change may be found where there is none.",
)
@output_options(TABLE_FORMATS)
def trend(
    output: Output,
    store_url: str | None,
    metric: str,
    tags: tuple[str, ...],
    last: int | None,
    min_effect: float,
    alpha: float,
) -> None:
    """Show when the level of a metric changed, and which run was the first of each new level.

    Runs are compared within a series only: one program, one kind of hardware, one branch. With --fail-on, a series
    whose last change is for the worse counts as an error, and newest runs that are worse but too few to be sure as a
    warning.
    """
    from tpuprof.history.facts import check_tags
    from tpuprof.history.series import trends
    from tpuprof.report.trend import trend_result

    if min_effect != min_effect or min_effect == float("inf"):
        raise UsageError(f"--min-effect {min_effect} is no percentage.")
    wanted = check_tags(tags)
    store = reading(store_url, output)
    found = trends(store, metric, tags=wanted, last=last, alpha=alpha, min_effect=min_effect / 100.0)
    without = sum(run.series is None for run in store.runs(tags=wanted))
    if without:
        output.note(f"runs that belong to no series because their program or hardware is unknown: {without}")
    write_result(trend_result(store.place, metric, found, without), output)
    severities = ["error" for one in found if one.verdict == "regressed"]
    severities += ["warning" for one in found if one.pending_direction == "regressed"]
    output.finish(severities)
