"""What the processes of the concurrency tests do; imported by name in fresh processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sqlalchemy import insert

from tests.history import made
from tpuprof.history import Store
from tpuprof.history.tables import STEPS


def add_runs(url: str, writer: int, count: int, gate: Path) -> None:
    """Opens the store, which may not exist yet, and adds runs: own ones, and one that every writer adds."""
    while not gate.exists():  # all start at once
        time.sleep(0.005)
    store = Store.open(url, timeout_s=60)
    for number in range(count):
        store.add_facts(made.facts(1000 * (writer + 1) + number), {"writer": str(writer)})
    store.add_facts(made.facts(0), {f"seen-by-{writer}": "yes"})
    store.set_baseline("shared", store.runs(tags={"writer": str(writer)}))


def die_while_writing(url: str, ready: Path) -> None:
    """Adds a run, and is killed in the middle of adding another one, whose rows are partly written."""
    store = Store.open(url)
    store.add_facts(made.facts(1))
    facts = made.facts(2, steps=[(step, 1) for step in range(50_000)])
    with store._database.write() as connection:  # pyright: ignore[reportPrivateUsage]
        from tpuprof.history.store import _insert_run  # pyright: ignore[reportPrivateUsage]

        number = _insert_run(connection, facts)
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA cache_size = 5")  # so that pages reach the file before the end
        rows = [{"run_id": number, "position": at, "step": at, "time_ps": 1} for at in range(50_000)]
        connection.execute(insert(STEPS), rows)
        ready.touch()
        os.kill(os.getpid(), signal.SIGKILL)
