"""The command ``tpuprof report``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.roofline_options import roofline_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.report.render import REPORT_FORMATS

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions


@click.command("report")
@run_options
@roofline_options
@click.option(
    "--redact",
    is_flag=True,
    help="Take out paths (base names stay), host and user names, addresses, and command lines.",
)
@output_options(REPORT_FORMATS)
def command(source: RunSource, hardware: HardwareOptions, output: Output, redact: bool) -> None:
    """Analyse a run: where the time of a step goes.

    Says first what is doubtful about the recording, then divides the mean step exactly into its parts, and lists
    cores, ops and collectives.

    With --format github, annotations go to stdout as workflow commands, and the summary is appended to the file
    named by GITHUB_STEP_SUMMARY, or printed after them where that is not set.
    """
    show_report(source, output, hardware, redact=redact)


def show_report(
    source: RunSource, output: Output, hardware: HardwareOptions | None = None, *, redact: bool = False
) -> None:
    """Loads the run and writes its report; ends the command if it reaches ``--fail-on``."""
    from tpuprof.report.build import build_report
    from tpuprof.report.render import render_report

    trace = source.load(output)
    report = build_report(trace) if hardware is None else build_report(trace, hardware=hardware)
    if redact:
        from tpuprof.export.redaction import redactor_for

        report = redactor_for(trace).json(report)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if output.form == "github" and summary and output.path is None:
        _github(report, output, summary)
    else:
        screen = output.screen() if output.form == "table" else None
        output.write(render_report(report, output.form, screen, output.fail_on))
    output.finish([entry["severity"] for entry in (*report["quality"], *report["findings"])])


def _github(report: dict[str, object], output: Output, summary: str) -> None:
    from tpuprof.errors import UsageError
    from tpuprof.report.github import report_annotations, report_summary
    from tpuprof.report.render import TOP_OPS

    output.write(report_annotations(report))
    try:
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(report_summary(report, TOP_OPS["github"]))
    except OSError as error:
        raise UsageError(
            f"The step summary cannot be written: {error.strerror}.",
            where=summary,
            hint="Unset GITHUB_STEP_SUMMARY to print it instead.",
        ) from error
    output.note(f"appended the summary to {summary}")
