"""The command ``tpuprof watch``."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.history.options import reading, store_option
from tpuprof.cli.output import Output, output_options
from tpuprof.cli.sides import declared_options, load_side
from tpuprof.errors import StoreError, UsageError
from tpuprof.units import PS_PER_S, parse_duration_ps

if TYPE_CHECKING:
    from tpuprof.compare.samples import Samples
    from tpuprof.formats.recording import RunFiles
    from tpuprof.gate.budgets import Rules
    from tpuprof.gate.watch import Examined
    from tpuprof.trace import Trace

FOLDER = "tpuprof-watch"
WEBHOOK = "TPUPROF_WEBHOOK"
_SHORTEST_S = 1.0


@click.command("watch")
@click.argument("logdir", metavar="LOGDIR")
@click.option("--against", metavar="RUN", help="A run, or a file of step times, to hold each new run against.")
@click.option("--baseline", metavar="NAME", help="A baseline of the run store to hold each new run against.")
@store_option
@click.option("--budget", "budget_path", metavar="FILE", help="TOML file with budgets and thresholds.")
@declared_options
@click.option(
    "--webhook",
    metavar="URL",
    envvar=WEBHOOK,
    help=f"Post the outcome of each run as JSON to this address. Default: the environment variable {WEBHOOK}, which, "
    "unlike an option, other users of the machine do not see.",
)
@click.option("--once", is_flag=True, help="Look once and end, with the exit code of the worst new run.")
@click.option("--interval", default="60s", show_default=True, metavar="TIME", help="How long to wait between looks.")
@click.option(
    "--settle",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="A run counts as complete when it has not changed for so long.",
)
@click.option("--new-only", is_flag=True, help="At the first look, take the runs that are there as seen.")
@output_options(())
def command(
    logdir: str,
    against: str | None,
    baseline: str | None,
    store_url: str | None,
    budget_path: str | None,
    declared: dict[str, str],
    webhook: str | None,
    once: bool,
    interval: str,
    settle: str,
    new_only: bool,
    output: Output,
) -> None:
    """Report each new run of a log directory against its baseline.

    Each complete run is judged once, as by tpuprof check; its report is written as HTML and JSON into the directory
    that -o names (default: tpuprof-watch in LOGDIR), which also remembers what was seen. Start it from cron or a timer
    with --once, or let it run.

    Exit codes with --once: 0 nothing new or all passed, 1 a run regressed or is over budget, 3 a run cannot be read,
    5 cannot tell.
    """
    from tpuprof.gate.budgets import Rules, read_rules
    from tpuprof.gate.watch import locked, watch_once, worst_code
    from tpuprof.gate.webhook import check_url, post, shown

    if (against is None) == (baseline is None):
        raise UsageError("What is each run held against?", hint="Give --against RUN or --baseline NAME.")
    waits = {name: _seconds(text, name) for name, text in (("--interval", interval), ("--settle", settle))}
    if waits["--interval"] < _SHORTEST_S:
        raise UsageError("--interval is too short.", hint="At least 1s.")
    url = None if webhook is None else check_url(webhook)
    folder = _folder(logdir, output)
    rules = Rules() if budget_path is None else read_rules(Path(budget_path))
    sides: list[Trace | Samples] = []
    if against is not None:
        sides = load_side([against], output, no_cache=True)  # it runs for weeks, and reads each run once
    elif not reading(store_url, output).baselines(baseline):
        raise UsageError(f"There is no baseline {baseline!r}.", hint="See them with: tpuprof history baseline list")
    other = _Other(sides, Path(against).name if against is not None else f"baseline {baseline}", baseline, store_url)
    examine = functools.partial(_examine, folder, other, declared, rules, output)
    if url is not None:
        output.detail(f"outcomes go to {shown(url)}")
    with locked(folder):
        while True:
            codes: list[int] = []
            try:
                codes = watch_once(
                    logdir,
                    folder,
                    examine,
                    now=time.time(),
                    settle_s=waits["--settle"],
                    send=None if url is None else functools.partial(post, url),
                    tell=output.note,
                    new_only=new_only,
                )
            except StoreError as error:  # may pass; the runs are with the next look
                if once:
                    raise
                output.note(str(error))
            if once:
                raise click.exceptions.Exit(worst_code(codes))
            time.sleep(waits["--interval"])


@dataclass(frozen=True)
class _Other:
    """What each run is held against: runs that were read, or else a baseline of the store."""

    sides: Sequence[Trace | Samples]
    name: str
    baseline: str | None
    store_url: str | None


def _examine(
    folder: Path, other: _Other, declared: dict[str, str], rules: Rules, output: Output, run: RunFiles
) -> Examined:
    """Judges a run and writes its reports."""
    from tpuprof.export.redaction import redactor_for
    from tpuprof.gate.baseline import stored_side
    from tpuprof.gate.files import write_atomic
    from tpuprof.gate.run import run_check
    from tpuprof.gate.watch import Examined
    from tpuprof.report.check import check_document, lead, render_check
    from tpuprof.report.diff_bundle import masked
    from tpuprof.trace import load

    trace = load(run.path, run=run.name)
    quiet = replace(output, quiet=True)
    if other.baseline is None:
        document = check_document(run_check([trace], other.sides, rules, against_name=other.name))
    else:
        side = stored_side(reading(other.store_url, quiet), other.baseline, trace, declared)
        made = run_check([trace], side.samples, rules, against_name=other.name, unlike=side.unlike, notes=side.notes)
        document = check_document(made, side.parts)
    report = _file_name(run)
    for suffix in ("json", "html"):
        text = render_check(document, suffix)
        write_atomic(folder / f"{report}.{suffix}", text.encode("utf-8", "backslashreplace"))
    sentence = lead(document)
    message = masked(redactor_for(trace).json(_message(document, sentence, f"{report}.html")))
    return Examined(document["outcome"], document["exit_code"], sentence, f"{report}.html", message)


def _message(document: dict[str, Any], sentence: str, report: str) -> dict[str, Any]:
    """What is posted: the outcome and its largest causes, no paths, no environment."""
    causes = ("title", "delta_ps", "share", "suggestion")
    budgets = ("name", "status", "value", "unit", "message")
    run = document["run"]["name"]
    return {
        "schema_version": document["schema_version"],
        "event": "tpuprof.run",
        "text": f"{run}: {sentence}",
        "run": run,
        "against": document["against"],
        "outcome": document["outcome"],
        "exit_code": document["exit_code"],
        "verdict": document["verdict"],
        "reason": document["reason"],
        "effect": document["effect"],
        "step_delta_ps": document["step_delta_ps"],
        "causes": [{key: cause[key] for key in causes} for cause in document["causes"]],
        "budgets": [{key: budget[key] for key in budgets} for budget in document["budgets"]],
        "report": report,
    }


def _folder(logdir: str, output: Output) -> Path:
    if output.path is not None:
        if output.path.exists() and not output.path.is_dir():
            raise UsageError("The output is a file.", where=str(output.path), hint="Name a directory with -o.")
        return output.path
    if "://" in logdir.removeprefix("file://"):
        raise UsageError("Reports need a local directory.", where=logdir, hint="Name one with -o.")
    return Path(logdir.removeprefix("file://")) / FOLDER


def _file_name(run: RunFiles) -> str:
    """A file name from the name of a run; runs of one name in different directories stay apart."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", run.name).strip("-.")[:80] or "run"
    return f"{readable}-{hashlib.sha256(run.path.encode('utf-8', 'replace')).hexdigest()[:6]}"


def _seconds(text: str, name: str) -> float:
    try:
        return parse_duration_ps(text) / PS_PER_S
    except UsageError as error:
        raise UsageError(f"{name} {text!r} is no time.", hint="Write a time such as 60s or 1h.") from error
