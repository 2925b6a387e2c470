"""``tpuprof plan``: layouts ranked before anything has run, one subcommand per kind of work."""

from __future__ import annotations

from importlib import import_module

import click

from tpuprof.cli.names import unknown_name

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "train": ("tpuprof.cli.plan.train", "Rank the ways to split a training step over a slice."),
    "serve": ("tpuprof.cli.plan.serve", "Rank slices, splits and batches for serving a model."),
}
"""Subcommand → (module, first line of its help). A test holds the two texts together."""


class PlanGroup(click.Group):
    """Finds subcommands in :data:`SUBCOMMANDS` and imports them when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, imported now; null if there is none."""
        if cmd_name not in SUBCOMMANDS:
            return None
        return getattr(import_module(SUBCOMMANDS[cmd_name][0]), "command")  # noqa: B009

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As usual, but a mistyped name is answered with the closest ones."""
        if args and not args[0].startswith("-") and args[0] not in SUBCOMMANDS:
            raise click.UsageError(unknown_name("plan", args[0], list(SUBCOMMANDS)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing, from the table alone."""
        with formatter.section("Plans"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])


@click.group("plan", cls=PlanGroup)
def command() -> None:
    """Plan a run before it starts: how to split a model, how long a step takes, what it costs."""
