"""Versions of the store's tables: which one a store has, and bringing an older one up to date under a lock."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from tpuprof.errors import StoreError, StoreNotFoundError, StoreVersionError
from tpuprof.history.connection import Database
from tpuprof.history.tables import PREFIX

VERSION_TABLE = f"{PREFIX}version"
REVISIONS = ("0001", "0002")
"""All revisions in order; the last is what this version reads and writes."""

_ONE_AT_A_TIME = threading.Lock()  # Alembic keeps the running migration in module variables

MIGRATIONS = Path(__file__).with_name("migrations")


def prepare(database: Database) -> str | None:
    """Makes the store what this version needs, and returns the revision that it had before; null if it was empty.

    Raises:
        StoreNotFoundError: it is empty and opened for reading only.
        StoreVersionError: it was made by a newer version, or is older and opened for reading only.
        StoreError: it holds tables of other programs only, or cannot be read.
    """
    with database.read() as connection:
        revision = _revision(connection, database)
    if revision == REVISIONS[-1]:
        return revision
    if database.read_only and revision is None:
        raise StoreNotFoundError(
            "There is no run store here yet.",
            where=database.location.shown,
            hint="Make one with: tpuprof history add RUN",
        )
    if database.read_only:
        raise StoreVersionError(
            "The run store was made by an older version and must be brought up to date.",
            where=database.location.shown,
            why=f"It has the tables of revision {revision}, this version reads {REVISIONS[-1]}.",
            hint="Open it once for writing, as tpuprof history add does.",
        )
    with database.write(exclusive=True) as connection:
        # Others may have done it while this one waited for the lock.
        if _revision(connection, database) != REVISIONS[-1]:
            migrate(connection, REVISIONS[-1])
    return revision


def migrate(connection: Connection, revision: str) -> None:
    """Applies the migrations up to a revision, within the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ONE_AT_A_TIME:
        command.upgrade(config, revision)


def _revision(connection: Connection, database: Database) -> str | None:
    """The store's revision, null where nothing was made yet."""
    names = inspect(connection).get_table_names()
    if VERSION_TABLE not in names:
        if names and database.location.path is not None:
            raise StoreError(
                "The file is a database of another program.",
                where=database.location.shown,
                hint="Name another file with --store.",
            )
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    revision = str(found[0]) if len(found) == 1 else None
    if revision is not None and revision not in REVISIONS:
        raise StoreVersionError(
            "The run store was made by a newer version of tpuprof.",
            where=database.location.shown,
            why=f"It has the tables of revision {revision}, this version knows {REVISIONS[0]} to {REVISIONS[-1]}.",
            hint="Upgrade with: pip install --upgrade tpuprof",
        )
    return revision
