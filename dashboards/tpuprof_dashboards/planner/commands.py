"""Commands of the command line as functions: arguments in, the text of a format out, errors as those of tpuprof."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

from tpuprof.cli.calc import SUBCOMMANDS
from tpuprof.cli.commands import group
from tpuprof.errors import UsageError

NOT_OFFERED = frozenset({
    "as_json", "debug", "fail_on", "force", "form", "no_color", "output_path", "quiet", "verbose",
    "axes", "from_run", "hardware_files", "hlo", "profile_name", "step_program",
})  # fmt: skip
"""What a page does not offer: where output goes is its own business, and files of the server are nobody's."""


def run(command: click.Command, arguments: Sequence[str], form: str) -> str:
    """What the command writes.

    Args:
        command: of the command line.
        arguments: as on the command line, without those of :data:`NOT_OFFERED`.
        form: the format.

    Raises:
        TpuprofError: what the command refuses; click's own errors become usage errors.
    """
    with tempfile.TemporaryDirectory(prefix="tpuprof-") as place:
        target = Path(place) / "answer"
        own = ["--format", form, "--output", str(target), "--quiet"]
        try:
            command.main(
                [*own, *arguments], prog_name=command.name or "tpuprof", standalone_mode=False, **group.context_settings
            )
        except click.ClickException as error:
            raise UsageError(error.format_message()) from error
        return target.read_text(encoding="utf-8")


@cache
def plan_train() -> click.Command:
    """``tpuprof plan train``."""
    from tpuprof.cli.plan.train import command

    return command


@cache
def plan_serve() -> click.Command:
    """``tpuprof plan serve``."""
    from tpuprof.cli.plan.serve import command

    return command


@cache
def calculator(name: str) -> click.Command:
    """A subcommand of ``tpuprof calc``."""
    module = import_module(f"tpuprof.cli.calc.{SUBCOMMANDS[name][0]}")
    return cast("click.Command", getattr(module, name.replace("-", "_")))


def arguments_of(command: click.Command, values: dict[str, str]) -> list[str]:
    """The command line of values by parameter; what is empty is left out.

    A value can never be read as an option: options are written as ``--name=value``, and arguments follow ``--``.
    """
    options: list[str] = []
    positional: list[str] = []
    for parameter in command.params:
        text = values.get(parameter.name or "", "").strip()
        if not text or parameter.name in NOT_OFFERED or text == str(parameter.default):
            continue
        if isinstance(parameter, click.Argument):
            positional += text.split() if parameter.nargs != 1 else [text]
        elif getattr(parameter, "is_flag", False):
            if text == "1":
                options.append(parameter.opts[-1])
        elif getattr(parameter, "multiple", False):
            options += [f"{parameter.opts[0]}={part}" for part in text.split()]
        else:
            options.append(f"{parameter.opts[0]}={text}")
    return [*options, "--", *positional]


def shown_command(prefix: str, command: click.Command, values: dict[str, str]) -> str:
    """The same as a line for a shell."""
    import shlex

    words: Any = [word for word in arguments_of(command, values) if word != "--"]
    return f"tpuprof {prefix} {shlex.join(words)}"
