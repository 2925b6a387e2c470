"""The command ``tpuprof diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tpuprof.cli.output import Output, output_options
from tpuprof.cli.sides import code_of, finish, load_side, threshold_options, thresholds, write_verdict
from tpuprof.cli.source import cache_option
from tpuprof.errors import OutputExistsError, UsageError
from tpuprof.report.render import REPORT_FORMATS

GROUPINGS = ("op", "kind", "scope", "source")


@click.command("diff")
@click.argument("base", metavar="BASE")
@click.argument("new", metavar="NEW...", nargs=-1, required=True)
@click.option("--base", "more_base", multiple=True, metavar="RUN", help="A further capture of the base; repeatable.")
@click.option("--paired", is_flag=True, help="The captures of both sides belong together in the order given.")
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default="op",
    show_default=True,
    help="What the difference is divided by.",
)
@click.option("--step-program", metavar="NAME", help="Take the executions of this program as steps, on both sides.")
@threshold_options
@cache_option
@click.option("--bundle", metavar="FILE", help="Also write a zip with all it takes to look into it, redacted.")
@output_options(REPORT_FORMATS)
def command(
    base: str,
    new: tuple[str, ...],
    more_base: tuple[str, ...],
    paired: bool,
    by: str,
    step_program: str | None,
    given: dict[str, Any],
    no_cache: bool,
    bundle: str | None,
    output: Output,
) -> None:
    """Compare two runs: did the step get slower, and what makes the difference?

    BASE and NEW are runs, or CSV or JSON lines files of step times. Several captures of one side make the verdict
    surer: name more of NEW, and more of the base with --base.

    Exit codes: 0 unchanged or improved, 1 regressed, 2 wrong use, 3 a run cannot be read, 5 cannot tell.
    """
    limits = thresholds(given)
    target = None if bundle is None else _bundle_path(bundle, output)
    sides = (
        load_side((base, *more_base), output, step_program, no_cache=no_cache),
        load_side(new, output, step_program, no_cache=no_cache),
    )
    from tpuprof.compare.comparison import diff
    from tpuprof.report.diff import diff_document, render_diff

    made = diff(*sides, limits, paired=paired)
    document = diff_document(made, by)
    if target is not None:
        from tpuprof.report.diff_bundle import bundle_bytes

        output.write_bytes(target, bundle_bytes(made, document))
    write_verdict(document, output, render_diff)
    finish(code_of(document["verdict"]), document, output)


def _bundle_path(text: str, output: Output) -> Path:
    path = Path(text)
    if path.exists() and (path.is_dir() or not output.force):
        raise OutputExistsError(
            "The bundle exists.", where=text, hint="Give --force to replace it, or name another file with --bundle."
        )
    if not path.absolute().parent.is_dir():
        raise UsageError("The directory of the bundle does not exist.", where=text, hint="Create it first.")
    if output.path is not None and path.absolute() == output.path.absolute():
        raise UsageError("-o and --bundle name the same file.", where=text)
    return path
