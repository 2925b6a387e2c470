"""The command ``tpuprof check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.history.options import store_option
from tpuprof.cli.output import Output, output_options
from tpuprof.cli.roofline_options import roofline_options
from tpuprof.cli.sides import declared_options, finish, load_side, threshold_options, thresholds, write_verdict
from tpuprof.cli.source import cache_option
from tpuprof.errors import UsageError
from tpuprof.report.render import REPORT_FORMATS

if TYPE_CHECKING:
    from tpuprof.compare.samples import Samples
    from tpuprof.compare.verdict import Thresholds
    from tpuprof.gate.budgets import Rules
    from tpuprof.gate.check import Check
    from tpuprof.roofline import HardwareOptions
    from tpuprof.trace import Trace


@click.command("check")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--against", multiple=True, metavar="RUN", help="A run to hold it against; repeatable.")
@click.option("--baseline", metavar="NAME", help="A baseline of the run store to hold it against.")
@store_option
@click.option(
    "--budget",
    "budget_path",
    metavar="FILE",
    help="TOML file with budgets and thresholds. Default: the nearest pyproject.toml, if it has [tool.tpuprof].",
)
@click.option("--no-budget", is_flag=True, help="Hold it against no budgets.")
@declared_options
@click.option("--paired", is_flag=True, help="The captures of both sides belong together in the order given.")
@click.option("--step-program", metavar="NAME", help="Take the executions of this program as steps.")
@roofline_options
@threshold_options
@cache_option
@output_options(REPORT_FORMATS)
def command(
    runs: tuple[str, ...],
    against: tuple[str, ...],
    baseline: str | None,
    store_url: str | None,
    budget_path: str | None,
    no_budget: bool,
    declared: dict[str, str],
    hardware: HardwareOptions,
    paired: bool,
    step_program: str | None,
    given: dict[str, Any],
    no_cache: bool,
    output: Output,
) -> None:
    """Hold a run against a baseline and budgets: the gate for CI.

    RUN is a run, or a CSV or JSON lines file of step times, to which only the verdict and the budgets of the step time
    apply. Several are several captures of one side.

    Exit codes: 0 passed, 1 regressed or over budget, 2 wrong use, 3 a run cannot be read, 5 cannot tell. What cannot
    be told is never a pass.

    With --format github, annotations go to stdout as workflow commands, and the summary is appended to the file
    named by GITHUB_STEP_SUMMARY, or printed after them where that is not set.
    """
    from tpuprof.gate.budgets import Rules, read_rules

    if against and baseline is not None:
        raise UsageError("--against and --baseline contradict each other.", hint="Give one of them.")
    if no_budget and budget_path is not None:
        raise UsageError("--budget and --no-budget contradict each other.", hint="Give one of them.")
    if paired and not against:
        raise UsageError("--paired needs the runs that belong together.", hint="Give them with --against.")
    rules = Rules() if no_budget else read_rules(None if budget_path is None else Path(budget_path))
    if not against and baseline is None and not rules.budgets:
        raise UsageError(
            "There is nothing to hold the run against.",
            hint="Give --against RUN, --baseline NAME or --budget FILE; see docs/howto-ci.md.",
        )
    limits = thresholds(given, rules.thresholds)
    new = load_side(runs, output, step_program, no_cache=no_cache)
    if rules.budgets:
        output.detail(f"budgets from {rules.place}")
    from tpuprof.gate.run import run_check
    from tpuprof.report.check import check_document, render_check

    sides = load_side(against, output, step_program, no_cache=no_cache)
    if baseline is None:
        made = run_check(
            new, sides, rules, limits, paired=paired, against_name=" and ".join(against), hardware=hardware
        )
        document = check_document(made)
    else:
        made, parts = _against_baseline(new, baseline, store_url, declared, (rules, limits, hardware), output)
        document = check_document(made, parts)
    write_verdict(document, output, render_check)
    finish(made.exit_code, document, output)


def _against_baseline(
    new: list[Trace | Samples],
    name: str,
    store_url: str | None,
    declared: dict[str, str],
    asked: tuple[Rules, Thresholds, HardwareOptions],
    output: Output,
) -> tuple[Check, Any]:
    from tpuprof.cli.history.options import reading
    from tpuprof.gate.baseline import stored_side
    from tpuprof.gate.run import run_check
    from tpuprof.history.facts import check_tags

    tags = check_tags(declared)
    store = reading(store_url, output)
    each = [stored_side(store, name, run, tags) for run in new]
    stored = next((one for one in each if one.unlike), each[0])  # every capture has to be like the baseline
    rules, limits, hardware = asked
    made = run_check(
        new,
        stored.samples,
        rules,
        limits,
        against_name=f"baseline {name}",
        unlike=stored.unlike,
        notes=stored.notes,
        hardware=hardware,
    )
    return made, stored.parts
