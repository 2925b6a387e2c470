"""The command ``tpuprof doctor``."""

from __future__ import annotations

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.report.render import TABLE_FORMATS
from tpuprof.text import plural
from tpuprof.units import format_bytes


@click.command("doctor")
@click.option("--jax", "ask_jax", is_flag=True, help="Also import jax in a child process and list its devices.")
@click.option("--clear-cache", is_flag=True, help="First delete what is kept of large runs.")
@output_options(TABLE_FORMATS)
def command(ask_jax: bool, clear_cache: bool, output: Output) -> None:
    """Check this installation: versions and optional dependencies.

    jax is not imported unless --jax is given: importing it can claim the accelerator. --fail-on covers the checks: a
    broken required package is an error, a doubtful setting a warning, a missing optional package an info.
    What is kept of large runs, and where, stands under run cache.
    """
    from tpuprof.cli.checks import check_installation, check_jax, doctor_result
    from tpuprof.report.render import render_result

    if clear_cache:
        _clear_cache(output)
    checks = [*check_installation(), *(check_jax() if ask_jax else ())]
    screen = output.whole_screen() if output.form == "table" else None
    output.write(render_result(doctor_result(checks), output.form, screen))
    output.finish([check.severity for check in checks if check.severity is not None])


def _clear_cache(output: Output) -> None:
    from tpuprof.cache.directory import CacheDir, user_cache_path

    path = user_cache_path()
    if path is not None:
        gone = CacheDir(path).clear()
        output.note(f"deleted {plural(gone.files, 'file')}, {format_bytes(gone.bytes)}, from {path}")
