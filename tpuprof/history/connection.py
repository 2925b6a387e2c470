"""Connections to a store: transactions that lock as they should, and driver errors in words."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from tpuprof.errors import MissingDependencyError, StoreBusyError, StoreError, StoreNotFoundError
from tpuprof.history.location import Location

_BUSY = ("database is locked", "lock timeout", "canceling statement due to lock", "could not obtain lock")
_STORE_LOCK = 0x7470_7570_726F  # any constant of ours: the number of the server's advisory lock


@dataclass(frozen=True, slots=True)
class Database:
    """An open way to a store; connections are made per transaction and kept by nobody."""

    location: Location
    engine: Engine
    read_only: bool

    @contextlib.contextmanager
    def read(self) -> Generator[Connection]:
        """A transaction that sees one state of the store and changes nothing."""
        with self._errors(), self.engine.connect() as connection:
            if self.location.url is not None:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def write(self, *, exclusive: bool = False) -> Generator[Connection]:
        """A transaction that writes all or nothing.

        Args:
            exclusive: one at a time in the whole store, also on a server; in a file every one is.
        """
        if self.read_only:
            raise StoreError("The run store was opened for reading only.", where=self.location.shown)
        with self._errors(), self.engine.connect() as connection:
            connection = connection.execution_options(tpuprof_write=True)
            if self.location.url is not None:  # so that what another writer has just committed is seen
                connection = connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                if exclusive and self.location.url is not None:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _STORE_LOCK})
                yield connection

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise store_error(error, self.location) from error
        except sqlite3.Error as error:
            raise _sqlite_error(error, self.location) from error


def open_database(location: Location, *, read_only: bool, timeout_s: float) -> Database:
    """A way to the store; nothing is connected yet.

    Args:
        timeout_s: how long to wait for a lock of others, and for a server to answer.

    Raises:
        MissingDependencyError: the server's driver is not installed.
    """
    make = _file_engine if location.path is not None else _server_engine
    return Database(location, make(location, read_only, timeout_s), read_only)


def store_error(error: SQLAlchemyError, location: Location) -> StoreError:
    """What a driver complains about, as an error of ours without secrets."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(cause, sqlite3.Error):
        return _sqlite_error(cause, location)
    said = " ".join(location.hide(str(cause if cause is not None else error)).split())
    if any(mark in said for mark in _BUSY):
        return _busy(location, said)
    if isinstance(error, OperationalError | InterfaceError):
        return StoreError(
            "The database server of the run store cannot be used.",
            where=location.shown,
            why=said,
            hint="Check that it runs, the host and port, the database's name, the user and the password.",
        )
    return StoreError("The run store refuses this.", where=location.shown, why=said)


def _file_engine(location: Location, read_only: bool, timeout_s: float) -> Engine:
    path = location.path
    if path is None:
        raise ValueError("no file")
    if path.is_dir():
        raise StoreError("The run store is a directory.", where=location.shown, hint="Name a file in it.")
    if read_only and not path.exists():
        raise StoreNotFoundError(
            "There is no run store here.", where=location.shown, hint="Make one with: tpuprof history add RUN"
        )
    if location.default and not read_only:
        with contextlib.suppress(OSError):  # opening the file tells what is wrong
            path.parent.mkdir(parents=True, exist_ok=True)
    uri = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}"
    if read_only:
        _roll_back_what_a_killed_writer_left(path)

    def connect() -> sqlite3.Connection:
        # Transactions are begun by us, since the module's own begin comes too late to lock what is read first.
        connection = sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    def begin(connection: Connection) -> None:
        # Taken at once: two that read first and write later could only fail each other.
        writes = connection.get_execution_options().get("tpuprof_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "begin", begin)
    return engine


def _roll_back_what_a_killed_writer_left(path: Path) -> None:
    """Puts the file into its last whole state; a connection for reading only may not, and would refuse the file."""
    if not path.with_name(f"{path.name}-journal").exists():
        return
    with contextlib.suppress(sqlite3.Error):  # where it may not be written, reading says what is wrong
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=0.1)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()


def _server_engine(location: Location, read_only: bool, timeout_s: float) -> Engine:
    if location.url is None:
        raise ValueError("no address")
    connect = {"connect_timeout": max(2, round(timeout_s))} if "connect_timeout" not in location.url.query else {}
    try:
        engine = create_engine(location.url, connect_args=connect, poolclass=NullPool)
    except ImportError:
        raise MissingDependencyError(
            "The driver of PostgreSQL is not installed.",
            where=location.shown,
            hint="Install it with: pip install 'tpuprof[postgres]'",
        ) from None

    def limit(connection: Connection) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {max(1, round(1000 * timeout_s))}")

    if not read_only:
        event.listen(engine, "begin", limit)
    return engine


def _sqlite_error(error: sqlite3.Error, location: Location) -> StoreError:
    said, code = str(error), getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return _busy(location, said)
    if code.startswith("SQLITE_NOTADB"):
        return StoreError("The file is no run store.", where=location.shown, hint="Name another file with --store.")
    if code.startswith("SQLITE_CORRUPT"):
        return StoreError(
            "The run store is damaged.",
            where=location.shown,
            why=said,
            hint="Restore it from a copy, or add runs anew.",
        )
    if code.startswith("SQLITE_CANTOPEN"):
        return StoreError(
            "The file of the run store cannot be opened.",
            where=location.shown,
            hint="Check that its directory exists and can be written.",
        )
    if code.startswith("SQLITE_READONLY"):
        return StoreError(
            "The run store cannot be written.",
            where=location.shown,
            why=said,
            hint="Check the permissions of the file.",
        )
    return StoreError("The run store cannot be used.", where=location.shown, why=said)


def _busy(location: Location, said: str) -> StoreError:
    return StoreBusyError(
        "The run store is locked by others.", where=location.shown, why=said, hint="Try again when they are done."
    )
