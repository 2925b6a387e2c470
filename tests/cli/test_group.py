"""The list of commands, and commands of other packages."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint

import click
import pytest

from tests.cli.conftest import Run
from tpuprof.cli import commands
from tpuprof.cli.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_is_the_first_line_of_the_commands_own(name: str) -> None:
    module, short = COMMANDS[name]
    command = import_module(module).command
    assert isinstance(command, click.Command)
    assert command.name == name
    assert (command.help or "").strip().splitlines()[0] == short


@pytest.mark.parametrize("name", ["info", "report", "steps", "ops", "gaps", "collectives", "runs", "doctor"])
def test_every_command_has_the_common_options(name: str) -> None:
    command = import_module(COMMANDS[name][0]).command
    options = {option for parameter in command.params for option in parameter.opts}
    assert {
        "--format",
        "--json",
        "-o",
        "--output",
        "--force",
        "-q",
        "--quiet",
        "-v",
        "--no-color",
        "--fail-on",
    } <= options
    if name not in ("runs", "doctor"):
        assert {"--run", "--hlo", "--step-program", "--devices", "--steps"} <= options


def test_another_package_adds_a_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    @click.command("board")
    def board() -> None:
        """Serve."""
        click.echo("board runs")

    module = types.ModuleType("other_package")
    module.board = board  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_package", module)
    entries = {
        "board": EntryPoint("board", "other_package:board", commands.APPS),
        "report": EntryPoint("report", "other_package:board", commands.APPS),
    }
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: list(entries.values()))
    assert run("board")[1] == "board runs\n"
    help_text = run("--help")[1]
    assert "board        From other_package." in help_text
    assert help_text.count("\n  report ") == 1
    assert "board runs" not in run("report", "clean")[1]  # built-in names cannot be taken over


def test_a_broken_app_is_told_and_does_not_spoil_the_help(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("board", "no_such_package_anywhere:board", commands.APPS)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    assert run("--help")[0] == 0
    code, _, err = run("board")
    assert code == 2
    assert "The command 'board' of no_such_package_anywhere cannot be loaded" in err
