"""Stores for the tests: a file each, and a database each on a server that runs for the session."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.services import postgres as service
from tpuprof.history import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[service.Server]:
    """A running PostgreSQL server; where it must be there (in CI) its absence is an error."""
    if service.binaries() is None and os.environ.get("TPUPROF_TEST_POSTGRES") != "required":
        pytest.skip("PostgreSQL is not installed (initdb was not found)")
    with service.running() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Files need not outlive a power cut here; the processes of other tests write as users do."""

    def hurry(connection: Any, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", hurry)
    yield
    event.remove(Engine, "connect", hurry)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "history.db")
    server: service.Server = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
def store(url: str) -> Store:
    """An empty store of either kind."""
    return Store.open(url)


@pytest.fixture
def file_store(tmp_path: Path) -> Store:
    """An empty store in a file, for what does not depend on the database."""
    return Store.open(tmp_path / "history.db")


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Calls ``tpuprof history``: (exit code, stdout, stderr)."""
    from tpuprof.cli import main

    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TPUPROF_STORE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["history", *words])
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
