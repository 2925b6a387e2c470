"""The command ``tpuprof memory``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.source import RunSource, run_options
from tpuprof.cli.tables import show_table, shown_rows, top_option
from tpuprof.errors import UsageError
from tpuprof.report.render import TABLE_FORMATS


@click.command("memory")
@run_options
@click.option(
    "--by",
    type=click.Choice(["program", "buffer", "scope", "source"]),
    default="program",
    show_default=True,
    help="What a row is: a program, or what is live at its peak: buffers, or their sums by scope or source line.",
)
@top_option
@output_options(TABLE_FORMATS)
def command(source: RunSource, output: Output, by: str, top: int | None) -> None:
    """Show how much memory programs need, and what is live at the peak.

    Sizes come from the buffer assignment that the compiler stored with the HLO, by memory space. Allocators show what
    the hosts recorded while they ran. RUN may also be a file of jax.profiler.save_device_memory_profile.
    """
    from tpuprof.formats.pprof import looks_like_profile

    if looks_like_profile(source.path):
        _show_profile(source, output, by, top)
        return
    from tpuprof.report.memory import memory_result

    show_table(source, output, lambda trace: memory_result(trace, by, top, shown_rows(top)))


def _show_profile(source: RunSource, output: Output, by: str, top: int | None) -> None:
    from tpuprof.formats.pprof import read_memory_profile
    from tpuprof.report.memory import profile_result
    from tpuprof.report.render import render_result

    for name in ("run", "hlo", "step_program", "devices", "steps"):
        if getattr(source, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} means nothing for a saved memory profile.", where=source.path)
    if by == "scope":
        raise UsageError("A saved memory profile has no name scopes.", where=source.path, hint="Use --by source.")
    profile = read_memory_profile(source.path)
    result = profile_result(profile, "source" if by == "source" else "buffer", top, shown_rows(top))
    output.write(render_result(result, output.form, output.screen() if output.form == "table" else None))
