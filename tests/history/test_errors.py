"""Stores that cannot be used: every message says what, where, why and what next, and no secret."""

from __future__ import annotations

import builtins
import os
import re
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.history import made
from tpuprof.errors import MissingDependencyError, StoreError
from tpuprof.history import Store
from tpuprof.history.connection import _sqlite_error  # pyright: ignore[reportPrivateUsage]
from tpuprof.history.facts import run_facts
from tpuprof.history.location import locate

WRONG = "wr0ng-w0rd"


def test_no_server_there() -> None:
    with socket.socket() as probe:  # bound and not listening: refuses
        probe.bind(("127.0.0.1", 0))
        url = f"postgresql://me:{WRONG}@127.0.0.1:{probe.getsockname()[1]}/perf"
        with pytest.raises(StoreError) as error:
            Store.open(url)
    assert error.value.what == "The database server of the run store cannot be used."
    assert "refused" in error.value.why
    assert error.value.where == url.replace(WRONG, "***")
    assert error.value.hint.startswith("Check that it runs")
    assert error.value.exit_code == 3
    assert WRONG not in str(error.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda server: server.url(password=WRONG), "password authentication failed"),
        (lambda server: server.url("nowhere"), 'database "nowhere" does not exist'),
        (lambda server: server.socket_url().replace("tpuprof@", "nobody@"), 'role "nobody" does not exist'),
    ],
)
def test_a_server_that_refuses(postgres: Any, change: Any, why: str) -> None:
    with pytest.raises(StoreError) as error:
        Store.open(change(postgres))
    assert error.value.what == "The database server of the run store cannot be used."
    assert why in error.value.why
    assert "\n" not in error.value.why
    assert WRONG not in str(error.value)
    assert postgres.password not in str(error.value)


def test_a_user_who_may_not_write_may_read(postgres: Any) -> None:
    name = postgres.new_database()
    Store.open(postgres.url(name)).add_facts(made.facts(0))
    postgres.run(f"CREATE ROLE {name}_reader LOGIN", name)
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}_reader", name)
    url = postgres.socket_url(name).replace("tpuprof@", f"{name}_reader@")
    assert [run.name for run in Store.open(url, read_only=True).runs()] == ["run0"]
    with pytest.raises(StoreError) as error:
        Store.open(url).add_facts(made.facts(1))
    assert error.value.what == "The run store refuses this."
    assert "permission denied" in error.value.why


def test_a_reader_on_a_server_cannot_write_by_accident(postgres: Any) -> None:
    from sqlalchemy import text

    url = postgres.url(postgres.new_database())
    Store.open(url)
    reader = Store.open(url, read_only=True)
    with (
        pytest.raises(StoreError, match="read-only transaction"),
        reader._database.read() as connection,  # pyright: ignore[reportPrivateUsage]
    ):
        connection.execute(text("DELETE FROM tpuprof_runs"))


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def importing(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(MissingDependencyError) as error:
        Store.open("postgresql://me@127.0.0.1/perf")
    assert error.value.hint == "Install it with: pip install 'tpuprof[postgres]'"


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    text, cut, folder = tmp_path / "text", tmp_path / "cut", tmp_path / "folder"
    text.write_text("not a database, but long enough to be looked at" * 100)
    Store.open(cut).add_facts(made.facts(0, steps=[(n, n) for n in range(3000)]))
    cut.write_bytes(cut.read_bytes()[:8192])
    folder.mkdir()
    for path, what in (
        (text, "The file is no run store."),
        (cut, "The run store is damaged."),
        (folder, "The run store is a directory."),
        (tmp_path / "no" / "where.db", "The file of the run store cannot be opened."),
    ):
        with pytest.raises(StoreError) as error:
            Store.open(path).runs()
        assert error.value.what == what, path
        assert error.value.where == str(path)
        assert error.value.hint


def test_what_a_refused_write_is_called(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    Store.open(path)
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as refused:
        connection.execute("DELETE FROM tpuprof_runs")
    connection.close()
    assert str(_sqlite_error(refused.value, locate(path))) == (
        f"{path}: The run store cannot be written. attempt to write a readonly database "
        "Check the permissions of the file."
    )


def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    path = tmp_path / "history.db"
    Store.open(path).add_facts(made.facts(0))
    path.chmod(0o400)
    assert len(Store.open(path, read_only=True).runs()) == 1
    with pytest.raises(StoreError, match=re.escape("The run store cannot be written.")):
        Store.open(path).add_facts(made.facts(1))


def test_the_default_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "deep" / "data"))
    monkeypatch.delenv("TPUPROF_STORE", raising=False)
    store = Store.open()
    assert store.place == str(tmp_path / "deep" / "data" / "tpuprof" / "history.db")
    assert Path(store.place).is_file()


@pytest.mark.parametrize("name", ["a b.db", "a?b#c%20.db", "ü\N{GRINNING FACE}.db", "-x.db"])
def test_odd_file_names(tmp_path: Path, name: str) -> None:
    Store.open(tmp_path / name).add_facts(made.facts(0))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(Store.open(tmp_path / name, read_only=True).runs()) == 1


def test_a_recording_that_is_gone_is_said(tmp_path: Path) -> None:
    import tpuprof
    from tpuprof.errors import TraceNotFoundError

    logs = made.write(tmp_path / "logs")
    trace = tpuprof.load(logs)
    for path in logs.rglob("*.pb"):
        path.unlink()
    with pytest.raises(TraceNotFoundError):
        run_facts(trace)
