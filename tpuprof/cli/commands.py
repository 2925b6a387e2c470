"""The commands by name. Their modules are imported only when they are called, so that ``--help`` stays fast."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from tpuprof.cli.names import unknown_name
from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: dict[str, tuple[str, str]] = {
    "capture": ("tpuprof.cli.capture", "Run an unmodified program and capture a window of it."),
    "grab": ("tpuprof.cli.grab", "Capture a running job through its profiler server."),
    "runs": ("tpuprof.cli.runs", "List the runs in a log directory, newest first."),
    "info": ("tpuprof.cli.info", "Show what was captured: hosts, devices, window, versions, quality."),
    "report": ("tpuprof.cli.report", "Analyse a run: where the time of a step goes."),
    "steps": ("tpuprof.cli.steps", "List the steps with their parts."),
    "ops": ("tpuprof.cli.ops", "List ops, or groups of ops, by self time."),
    "collectives": ("tpuprof.cli.collectives", "List collectives with their exposed and hidden time."),
    "gaps": ("tpuprof.cli.gaps", "List stretches of idle time inside steps, longest first."),
    "scopes": ("tpuprof.cli.scopes", "Show the tree of name scopes with the time of each."),
    "diff": ("tpuprof.cli.diff", "Compare two runs: did the step get slower, and what makes the difference?"),
    "check": ("tpuprof.cli.check", "Hold a run against a baseline and budgets: the gate for CI."),
    "watch": ("tpuprof.cli.watch", "Report each new run of a log directory against its baseline."),
    "export": ("tpuprof.cli.export", "Write a run, or part of it, for another program or another person."),
    "memory": ("tpuprof.cli.memory", "Show how much memory programs need, and what is live at the peak."),
    "calc": ("tpuprof.cli.calc", "Calculate one number of the hardware, with its derivation."),
    "plan": (
        "tpuprof.cli.plan",
        "Plan a run before it starts: how to split a model, how long a step takes, what it costs.",
    ),
    "validate": (
        "tpuprof.cli.validate",
        "Compare predictions with published measurements: signed errors, no row dropped.",
    ),
    "calibrate": (
        "tpuprof.cli.calibrate",
        "Fit the constants of training plans from runs, or from published steps.",
    ),
    "hardware": (
        "tpuprof.cli.hardware",
        "Show what is known of chips: peaks, memories, networks, each number with its source.",
    ),
    "history": ("tpuprof.cli.history", "Keep what runs measured, and see when it changed."),
    "explain": ("tpuprof.cli.explain", "Explain a rule: what a finding means, what to try, when it is wrong."),
    "demo": (
        "tpuprof.cli.demo",
        "Train a small sharded Transformer on simulated CPU devices, capture it, and report on it.",
    ),
    "doctor": ("tpuprof.cli.doctor", "Check this installation: versions and optional dependencies."),
}
"""Command name → (module, first line of its help). A test holds the two texts together."""

DISTRIBUTION = "tpuprof"
APPS = "tpuprof.apps"
"""Entry-point group through which other packages add commands; each entry is a ``click.Command``."""


class LazyGroup(click.Group):
    """Finds commands in :data:`COMMANDS`, then among the entry points of :data:`APPS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Built-in commands in the order of the table, then those of other packages."""
        return [*COMMANDS, *sorted(set(_apps()) - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; null if there is none."""
        if cmd_name in COMMANDS:
            return getattr(import_module(COMMANDS[cmd_name][0]), "command")  # noqa: B009
        entry = _apps().get(cmd_name)
        return None if entry is None else _load(entry)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As usual, but a mistyped name is answered with the closest ones."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(unknown_name("command", args[0], self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing; nothing of other packages is imported for it."""
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        rows += [(name, _about(entry)) for name, entry in sorted(_apps().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _apps() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=APPS) if entry.name not in COMMANDS}


def _about(entry: EntryPoint) -> str:
    """What a command of an entry point does: of this distribution its own words, of others where it is from."""
    if entry.dist is not None and entry.dist.name == DISTRIBUTION:
        return _load(entry).get_short_help_str(limit=100)
    return f"From {entry.module.partition('.')[0]}."


def _load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except Exception as error:  # whatever another package does when it is imported
        raise UsageError(
            f"The command {entry.name!r} of {entry.module.partition('.')[0]} cannot be loaded.",
            why=f"{type(error).__name__}: {error}",
            hint="Install that package again with its dependencies.",
        ) from error
    if not isinstance(command, click.Command):
        raise UsageError(f"The command {entry.name!r} of {entry.module} is no click command.")
    return command


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from tpuprof._version import __version__

        click.echo(f"tpuprof {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def group() -> None:
    """Where the step time of a sharded JAX program goes on TPUs, GPUs and CPUs.

    RUN is an .xplane.pb, a .trace.json.gz, a session directory, plugins/profile, or a log directory (its newest run).

    Exit codes: 0 done, 1 something as severe as --fail-on says was found, 2 wrong use, 3 the input cannot be read or
    is no trace, 4 a capture failed or tpuprof has a fault, 5 a comparison cannot tell, 130 interrupted. capture passes
    on its program's code.
    """
