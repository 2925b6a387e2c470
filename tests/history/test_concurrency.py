"""Several writers at once, and one that is killed: nothing is lost, nothing is half there."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.history import made, writers
from tpuprof.errors import StoreBusyError
from tpuprof.history import Store
from tpuprof.history.tables import RUNS, STEPS

WRITERS, EACH = 8, 4


@pytest.fixture(scope="module")
def fresh() -> ForkServerContext:
    """Starts processes from a small server that has the imports done: no state of the tests, and quick."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.history.writers", "sqlalchemy.dialects.postgresql.psycopg", "alembic.command"]
    )
    return context


def test_eight_writers_at_once_lose_nothing(url: str, tmp_path: Path, fresh: ForkServerContext) -> None:
    gate = tmp_path / "go"
    processes = [fresh.Process(target=writers.add_runs, args=(url, n, EACH, gate)) for n in range(WRITERS)]
    for process in processes:
        process.start()
    gate.touch()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * WRITERS
    store = Store.open(url)
    runs = store.runs()
    expected = {made.facts(1000 * (writer + 1) + number).key for writer in range(WRITERS) for number in range(EACH)}
    assert {run.key for run in runs} == expected | {made.facts(0).key}
    assert len(runs) == WRITERS * EACH + 1
    assert all(len(store.samples(run)) == 2 and store.metrics([run])[run.id] for run in runs)
    shared = next(run for run in runs if run.key == made.facts(0).key)
    assert shared.tags == {f"seen-by-{writer}": "yes" for writer in range(WRITERS)}
    (baseline,) = store.baselines("shared")
    assert len({run.tags["writer"] for run in baseline.runs}) == 1
    assert len(baseline.runs) == EACH


def test_a_writer_that_is_killed_leaves_the_store_whole(url: str, tmp_path: Path, fresh: ForkServerContext) -> None:
    ready = tmp_path / "ready"
    process = fresh.Process(target=writers.die_while_writing, args=(url, ready))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert ready.exists()
    if "://" not in url:
        assert Path(f"{url}-journal").stat().st_size > 0, "nothing was half written, so nothing is tested"
    reader = Store.open(url, read_only=True)
    assert [run.name for run in reader.runs()] == ["run1"]
    store = Store.open(url)
    with store._database.read() as connection:
        assert {row.run_id for row in connection.execute(STEPS.select())} == {
            row.id for row in connection.execute(RUNS.select())
        }
    assert store.add_facts(made.facts(2)).new
    assert [run.name for run in store.runs()] == ["run1", "run2"]


def test_a_lock_that_is_kept_is_said(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    Store.open(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = Store.open(path, timeout_s=0.05)  # reading goes on
    assert store.runs() == []
    with pytest.raises(StoreBusyError) as error:
        store.add_facts(made.facts(0))
    other.close()
    assert str(error.value) == (
        f"{path}: The run store is locked by others. database is locked Try again when they are done."
    )
    assert error.value.exit_code == 3
    assert store.add_facts(made.facts(0)).new


def test_a_lock_on_a_server_is_said(postgres: object, request: pytest.FixtureRequest) -> None:
    import psycopg

    server = request.getfixturevalue("postgres")
    name = server.new_database()
    store = Store.open(server.url(name), timeout_s=0.1)
    with psycopg.connect(server.socket_url(name)) as other:
        other.execute("LOCK TABLE tpuprof_runs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreBusyError, match="The run store is locked by others"):
            store.add_facts(made.facts(0))
    assert store.add_facts(made.facts(0)).new
