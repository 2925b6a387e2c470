"""The command ``tpuprof steps``."""

from __future__ import annotations

from pathlib import Path

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import show_table, shown_rows, top_option
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS
from tpuprof.selection import parse_steps


@click.command("steps")
@run_options
@click.option("--log", is_flag=True, help="The step-time logs of RUN, a log directory or a log, instead of a trace.")
@top_option
@output_options(TABLE_FORMATS)
def command(source: RunSource, log: bool, top: int | None, output: Output) -> None:
    """List the steps with their parts.

    table and md have one row per step, of its slowest core, with the parts in percent of that step. json, jsonl and
    csv have one row per step and core, in picoseconds. State: cut = not complete, open = nothing marks its end,
    unmatched = not found on all cores.

    With --log, the step times that captures log: one row per process and step as the program's own clock saw them, also
    outside captures; table and md show the slow and the captured ones (at most --top).
    """
    from tpuprof.report.documents import steps_result

    if log:
        _show_log(source, top, output)
    elif top is not None:
        raise UsageError("--top needs --log.", hint="--steps A:B narrows the table of a trace down.")
    else:
        show_table(source, output, steps_result)


def _show_log(source: RunSource, top: int | None, output: Output) -> None:
    from tpuprof.report.render import render_result
    from tpuprof.report.steplogs import read_logs, step_times_result

    of_traces = {"--run": source.run, "--hlo": source.hlo, "--step-program": source.step_program}
    given = [name for name, value in {**of_traces, "--devices": source.devices}.items() if value is not None]
    if given:
        raise UsageError(f"{given[0]} cannot be combined with --log.", hint="A log has steps and nothing else.")
    bounds = (None, None) if source.steps is None else parse_steps(source.steps)
    result = step_times_result(read_logs(Path(source.path)), shown_rows(top), bounds)
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
