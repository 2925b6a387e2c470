"""What the commands that compare share: reading runs and files of step times, thresholds, and the exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from tpuprof.cli.failures import CANNOT_TELL, FOUND
from tpuprof.cli.github import step_summary, write_github
from tpuprof.cli.output import Output
from tpuprof.cli.source import RunSource

if TYPE_CHECKING:
    from tpuprof.compare.samples import Samples
    from tpuprof.compare.verdict import Thresholds
    from tpuprof.trace import Trace

_STEP_FILES = (".csv", ".jsonl", ".ndjson", ".json")
_TRACES = (".trace.json",)


def is_step_file(path: str) -> bool:
    """Whether a path names a file of step times rather than a run, going by its name."""
    name = path.lower()
    return name.endswith(_STEP_FILES) and not name.endswith(_TRACES)


def load_side(
    paths: Iterable[str], output: Output, step_program: str | None = None, *, no_cache: bool = False
) -> list[Trace | Samples]:
    """The runs and step files, read.

    Raises:
        InputError: one of them cannot be read.
    """
    found: list[Trace | Samples] = []
    for path in paths:
        if is_step_file(path):
            from tpuprof.compare.step_files import read_samples

            found.append(read_samples(path))
        else:
            found.append(RunSource(path, step_program=step_program, no_cache=no_cache).load(output))
    return found


def threshold_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the thresholds to a command, which receives those that were given as ``given``."""

    @functools.wraps(function)
    def collected(**values: Any) -> None:
        names = ("min_effect", "min_effect_time", "alpha", "min_steps")
        function(given={name: values.pop(name) for name in names}, **values)

    options = [
        click.option("--min-effect", metavar="SHARE", help="The smallest change that matters. Default: 1 %."),
        click.option("--min-effect-time", metavar="TIME", help="The same as a time. Default: 1 us."),
        click.option(
            "--alpha", type=float, metavar="P", help="How often a verdict may be due to chance. Default: 0.01."
        ),
        click.option("--min-steps", type=int, metavar="N", help="A side with fewer steps gets no verdict. Default: 8."),
    ]
    decorated: Callable[..., None] = collected
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def declared_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what a run does not say of itself; the command receives what was given as ``declared``, as tags."""

    @functools.wraps(function)
    def collected(**values: Any) -> None:
        given = {name: values.pop(f"{name}_name") for name in ("hardware", "program")}
        function(declared={name: value for name, value in given.items() if value is not None}, **values)

    options = [
        click.option("--hardware-name", metavar="NAME", help="As given to history add --hardware, for --baseline."),
        click.option("--program-name", metavar="NAME", help="As given to history add --program, for --baseline."),
    ]
    decorated: Callable[..., None] = collected
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def thresholds(given: dict[str, Any], before: Thresholds | None = None) -> Thresholds:
    """The thresholds: the options that were given, the rest as before.

    Raises:
        UsageError: one of them makes no sense.
    """
    from dataclasses import replace

    from tpuprof.compare.verdict import Thresholds
    from tpuprof.gate.quantities import parse_share, parse_time_ps

    changes: dict[str, Any] = {name: given[name] for name in ("alpha", "min_steps") if given[name] is not None}
    if given["min_effect"] is not None:
        changes["relative"] = parse_share(given["min_effect"], "--min-effect")
    if given["min_effect_time"] is not None:
        changes["absolute_ps"] = parse_time_ps(given["min_effect_time"], "--min-effect-time")
    return replace(before or Thresholds(), **changes)


def write_verdict(document: dict[str, Any], output: Output, render: Callable[..., str]) -> None:
    """Writes a verdict's document; for GitHub the annotations to stdout and the page to the step summary."""
    path = step_summary(output)
    if path is not None:
        write_github(document, output, path, lambda: render(document, "md"))
        return
    screen = output.screen() if output.form == "table" else None
    output.write(render(document, output.form, screen, output.fail_on))


def finish(code: int, document: dict[str, Any], output: Output) -> None:
    """Ends the command: with the verdict's code, or with that of ``--fail-on`` if the verdict is good."""
    if code:
        raise click.exceptions.Exit(code)
    output.finish([entry["severity"] for entry in (*document["quality"], *document["findings"])])


def code_of(verdict: str | None) -> int:
    """The exit code of a verdict: 0 unchanged or improved, 1 regressed, 5 cannot tell."""
    return {"regressed": FOUND, "cannot_tell": CANNOT_TELL}.get(verdict or "", 0)
