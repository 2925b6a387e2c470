"""Addresses of stores: what they name, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuprof.errors import UsageError
from tpuprof.history.location import data_directory, locate

SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"HOME": "/home/x"}, "linux", "/home/x/.local/share/tpuprof"),
        ({"HOME": "/home/x", "XDG_DATA_HOME": "/data"}, "linux", "/data/tpuprof"),
        ({"HOME": "/home/x", "XDG_DATA_HOME": "relative"}, "linux", "/home/x/.local/share/tpuprof"),
        ({"HOME": "/Users/x"}, "darwin", "/Users/x/Library/Application Support/tpuprof"),
        ({"HOME": "/Users/x", "XDG_DATA_HOME": "/data"}, "darwin", "/data/tpuprof"),
    ],
)
def test_the_users_data_directory(environment: dict[str, str], platform: str, expected: str) -> None:
    assert data_directory(environment, platform) == Path(expected)


def test_what_is_given_goes_before_the_environment_before_the_default(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "TPUPROF_STORE": str(tmp_path / "env.db")}
    assert locate(tmp_path / "given.db", environment).path == tmp_path / "given.db"
    assert locate(None, environment).path == tmp_path / "env.db"
    default = locate(None, {"HOME": str(tmp_path), "TPUPROF_STORE": ""})
    assert (default.path, default.default) == (tmp_path / ".local/share/tpuprof/history.db", True)


@pytest.mark.parametrize(
    ("text", "path"),
    [("/a/b.db", "/a/b.db"), ("sqlite:////a/b.db", "/a/b.db"), ("sqlite+pysqlite:////a/b c?.db"[:-4], "/a/b c")],
)
def test_files(text: str, path: str) -> None:
    assert locate(text).path == Path(path)


def test_relative_files_are_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("x.db").path == locate("sqlite:///x.db").path == tmp_path / "x.db"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_servers(scheme: str) -> None:
    place = locate(f"{scheme}://me:{SECRET}@db.example:5433/perf")
    assert place.path is None
    assert place.url is not None
    assert place.url.drivername == "postgresql+psycopg"
    assert place.url.password == SECRET
    assert place.shown == f"{scheme}://me:***@db.example:5433/perf"
    assert SECRET not in repr(place)


def test_a_password_with_a_slash_is_masked() -> None:
    assert locate(f"postgresql://me:a/{SECRET}@h/d").shown == "postgresql://me:***@h/d"


def test_an_at_sign_in_a_password_may_be_percent_encoded() -> None:
    place = locate(f"postgresql://me:a%40{SECRET}@h/d")
    assert place.url is not None
    assert place.url.password == f"a@{SECRET}"
    assert place.shown == "postgresql://me:***@h/d"


def test_secrets_in_the_query_are_masked_and_taken_out_of_messages() -> None:
    place = locate(f"postgresql://me@db/perf?password={SECRET}&sslmode=require")
    assert place.shown == "postgresql://me@db/perf?password=***&sslmode=require"
    assert place.hide(f"could not use {SECRET} at postgresql://you:{SECRET}x@h/d") == (
        "could not use *** at postgresql://you:***@h/d"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "The address of the run store is empty."),
        ("  ", "The address of the run store is empty."),
        (":memory:", "A run store must be a file or a database server."),
        ("a\0b", "A run store must be a file or a database server."),
        ("sqlite://", "A run store must be a plain file."),
        ("sqlite:///:memory:", "A run store must be a plain file."),
        ("sqlite:////a.db?mode=ro", "A run store must be a plain file."),
        (f"mysql://me:{SECRET}@h/d", "A run store cannot be in 'mysql'."),
        (f"postgresql+asyncpg://me:{SECRET}@h/d", "A run store cannot be in 'postgresql+asyncpg'."),
        (f"postgresql://me:{SECRET}@h:port/d", "The address of the run store cannot be read."),
        (f"postgresql://me:a/{SECRET}@h:port/d", "The address of the run store cannot be read."),
        (f"postgresql://me:a@{SECRET}@h/d", "The address of the run store cannot be read."),
        (f"postgresql://me:a@{SECRET}@h/d?x=a@b", "The address of the run store cannot be read."),
        (f"postgresql:me:{SECRET}@h/d", "The address of the run store cannot be read."),
        (f" Postgres:/me:{SECRET}", "The address of the run store cannot be read."),
        (f"me:{SECRET}@h/d", "The address of the run store cannot be read."),
        (f"me:a/{SECRET}@h/d", "The address of the run store cannot be read."),
        (f"postgresql://h:port/d?password={SECRET}", "The address of the run store cannot be read."),
        (
            f"postgresql://me:{SECRET}@h:99999999/{SECRET}?password={SECRET}"[:0] + "://x",
            "The address of the run store",
        ),
    ],
)
def test_wrong_addresses_are_refused_without_their_secrets(text: str, what: str) -> None:
    with pytest.raises(UsageError) as error:
        locate(text)
    assert error.value.what.startswith(what)
    assert "postgresql://USER@HOST/DATABASE" in error.value.hint
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None
