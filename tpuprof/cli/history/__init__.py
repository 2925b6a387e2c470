"""The commands ``tpuprof history …``."""

from __future__ import annotations

import click

from tpuprof.cli.history.add import add
from tpuprof.cli.history.baseline import baseline
from tpuprof.cli.history.export import export
from tpuprof.cli.history.reading import list_runs, show, trend
from tpuprof.cli.history.remove import remove


@click.group("history")
def command() -> None:
    """Keep what runs measured, and see when it changed.

    The store is a file in the user's data directory; --store or the environment variable TPUPROF_STORE name another
    file, or a PostgreSQL database as postgresql://USER@HOST/DATABASE.
    """


for _command in (add, list_runs, show, trend, baseline, export, remove):
    command.add_command(_command)
