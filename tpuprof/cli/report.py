"""The command ``tpuprof report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tpuprof.cli.github import step_summary, write_github
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
    path = step_summary(output)
    if path is not None:
        from tpuprof.report.github import report_summary
        from tpuprof.report.render import TOP_OPS

        write_github(report, output, path, lambda: report_summary(report, TOP_OPS["github"]))
    else:
        screen = output.screen() if output.form == "table" else None
        output.write(render_report(report, output.form, screen, output.fail_on))
    output.finish([entry["severity"] for entry in (*report["quality"], *report["findings"])])
