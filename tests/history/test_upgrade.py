"""Versions of the tables: an older store is brought up to date, a newer or foreign one is left alone."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, text

from tests.history import made
from tpuprof.errors import StoreError, StoreNotFoundError, StoreVersionError
from tpuprof.history import Store, upgrade
from tpuprof.history.connection import Database, open_database
from tpuprof.history.location import locate
from tpuprof.history.tables import METADATA, RUNS


def database(url: str) -> Database:
    return open_database(locate(url), read_only=False, timeout_s=5)


def make_old(url: str) -> None:
    """A store of the first revision with a run in it."""
    facts: Any = made.facts(7)
    row = {name: getattr(facts, name) for name in RUNS.c.keys() if hasattr(facts, name)}  # noqa: SIM118
    with database(url).write() as connection:
        upgrade.migrate(connection, "0001")
        connection.execute(insert(RUNS).values(**row, added_ns=5))


def test_the_revisions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(upgrade.MIGRATIONS))
    scripts = list(ScriptDirectory.from_config(config).walk_revisions())
    assert tuple(script.revision for script in reversed(scripts)) == upgrade.REVISIONS


def test_migrations_make_the_tables_that_the_code_uses(url: str) -> None:
    Store.open(url)
    with database(url).read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": upgrade.VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []


def test_a_store_of_the_first_revision_keeps_its_runs(url: str) -> None:
    make_old(url)
    with pytest.raises(StoreVersionError, match="made by an older version") as error:
        Store.open(url, read_only=True)
    assert error.value.why == "It has the tables of revision 0001, this version reads 0002."
    store = Store.open(url)
    assert store.upgraded_from == "0001"
    (run,) = store.runs()
    assert (run.name, run.added_ns, run.tags) == ("run7", 5, {})
    store.set_baseline("x", [run])
    assert Store.open(url, read_only=True).baseline("x").runs == (run,)
    assert Store.open(url).upgraded_from == "0002"


def test_a_migration_that_fails_leaves_the_store_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(url)
    real = upgrade.migrate

    def half(connection: Any, revision: str) -> None:
        real(connection, revision)
        raise RuntimeError("power cut")

    monkeypatch.setattr(upgrade, "migrate", half)
    with pytest.raises(RuntimeError):
        Store.open(url)
    monkeypatch.setattr(upgrade, "migrate", real)
    with database(url).read() as connection:
        assert connection.execute(text("SELECT version_num FROM tpuprof_version")).scalars().all() == ["0001"]
    assert [run.name for run in Store.open(url).runs()] == ["run7"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_a_newer_version_is_left_alone(url: str, read_only: bool) -> None:
    Store.open(url)
    with database(url).write() as connection:
        connection.execute(text("UPDATE tpuprof_version SET version_num = '0099'"))
    with pytest.raises(StoreVersionError) as error:
        Store.open(url, read_only=read_only)
    assert error.value.what == "The run store was made by a newer version of tpuprof."
    assert error.value.why == "It has the tables of revision 0099, this version knows 0001 to 0002."
    assert error.value.hint == "Upgrade with: pip install --upgrade tpuprof"


def test_threads_may_make_stores_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(Store.open, [tmp_path / f"{number % 3}.db" for number in range(6)]))
    assert [store.add_facts(made.facts(number)).new for number, store in enumerate(stores)] == [True] * 6


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="The file is a database of another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_tables_of_others_in_a_servers_database_do_not_matter(postgres: Any) -> None:
    name = postgres.new_database()
    postgres.run("CREATE TABLE runs (x int)", name)
    assert Store.open(postgres.url(name)).add_facts(made.facts(0)).new
    assert postgres.run("SELECT count(*) FROM runs", name) == [(0,)]


def test_an_empty_place_cannot_be_read(url: str) -> None:
    with pytest.raises(StoreNotFoundError, match="There is no run store here") as error:
        Store.open(url, read_only=True)
    assert error.value.hint == "Make one with: tpuprof history add RUN"


def test_opening_a_store_that_is_up_to_date_needs_no_migration_tool(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "migrate", None)
    assert Store.open(file_store.place).runs() == []
