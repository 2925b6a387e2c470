"""The run store: opening it, adding runs, reading them back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from tpuprof.errors import UsageError
from tpuprof.history import baselines
from tpuprof.history.connection import Database, open_database
from tpuprof.history.facts import HARDWARE_TAG, PROGRAM_TAG, OpGroup, RunFacts, check_tags, run_facts
from tpuprof.history.location import locate
from tpuprof.history.metrics import METRICS, Metric
from tpuprof.history.runs import Added, Baseline, Run, Sample
from tpuprof.history.tables import METRICS as METRIC_ROWS
from tpuprof.history.tables import OP_GROUPS, RUNS, STEPS, TAGS
from tpuprof.history.upgrade import prepare

if TYPE_CHECKING:
    from tpuprof.trace import Trace

TIMEOUT_S = 30.0
_CHUNK = 400  # ids in one statement: databases bound how many parameters there may be
_SHORTEST_KEY = 6


class Store:
    """A run store. Make one with ``Store.open``; every method is a transaction of its own."""

    def __init__(self, database: Database, upgraded_from: str | None = None) -> None:
        self._database = database
        self.upgraded_from = upgraded_from

    @classmethod
    def open(
        cls, url: str | os.PathLike[str] | None = None, *, read_only: bool = False, timeout_s: float = TIMEOUT_S
    ) -> Self:
        """Opens a store; one that is new or of an older version is made or brought up to date, under a lock.

        Args:
            url: a file, ``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``; null for the variable
                ``TPUPROF_STORE``, else ``history.db`` in the user's data directory.
            read_only: change nothing, not even the version.
            timeout_s: how long to wait for locks of others and for a server.

        Raises:
            UsageError: the address is none.
            StoreNotFoundError: there is no store, and it is opened for reading only.
            StoreVersionError: a newer version made it, or it is older and opened for reading only.
            StoreBusyError: others keep it locked for longer than ``timeout_s``.
            StoreError: it cannot be opened or is no store.
            MissingDependencyError: the driver of the server is not installed.
        """
        database = open_database(locate(url), read_only=read_only, timeout_s=timeout_s)
        revision = prepare(database)
        return cls(database, revision)

    @property
    def place(self) -> str:
        """Where it is, without passwords."""
        return self._database.location.shown

    def add(
        self,
        run: Trace | str | os.PathLike[str],
        tags: Mapping[str, str] | Iterable[str] = (),
        *,
        load: Callable[[str], Trace] | None = None,
    ) -> Added:
        """Adds a run, or finds that it is there already: the same recording is one run, whoever adds it how often.

        Args:
            run: a trace, or where it is.
            tags: names and values; ``branch`` keeps series apart, ``hardware`` and ``program`` declare what a run
                does not say of itself.
            load: how a path is read, by default ``tpuprof.load``.

        Raises:
            UsageError: a tag is not valid.
            InputError: the run cannot be read.
            StoreError: the store cannot be written.
        """
        checked = check_tags(tags)
        if isinstance(run, str | os.PathLike):
            if load is None:
                from tpuprof.trace import load
            run = load(os.fspath(run))
        return self.add_facts(run_facts(run, checked), checked)

    def add_facts(self, facts: RunFacts, tags: Mapping[str, str] | None = None) -> Added:
        """Adds a run whose facts were taken before; see ``add``."""
        tags = dict(tags or {})
        with self._database.write() as connection:
            known = select(RUNS.c.id).where(RUNS.c.key == facts.key)
            # Looked up first, since an insert that changes nothing uses up a number all the same.
            number = connection.execute(known).scalar_one_or_none()
            inserted = _insert_run(connection, facts) if number is None else None
            new = inserted is not None
            if inserted is None:
                number = connection.execute(known).scalar_one()
                # What was declared is in the fingerprints already, so that it cannot be changed by a tag alone.
                fresh = {k: v for k, v in tags.items() if k not in (HARDWARE_TAG, PROGRAM_TAG)}
            else:
                number = inserted
                _insert_rows(connection, number, facts)
                fresh = tags
            had = _tags(connection, [number]).get(number, {})
            fresh = {name: value for name, value in fresh.items() if name not in had}
            if fresh:
                rows = [{"run_id": number, "key": name, "value": value} for name, value in fresh.items()]
                connection.execute(_skipping(connection, TAGS), rows)
            stored = _read_runs(connection, ids=[number])[0]
        kept = {} if new else {k: v for k, v in tags.items() if stored.tags.get(k) != v}
        return Added(stored, new, {} if new else fresh, kept)

    def runs(
        self,
        *,
        last: int | None = None,
        tags: Mapping[str, str] | None = None,
        program: str | None = None,
        hardware: str | None = None,
    ) -> list[Run]:
        """Stored runs, oldest first.

        Args:
            last: only so many of the newest.
            tags: only runs that have all of these.
            program: only runs with this fingerprint of the program.
            hardware: only runs with this fingerprint of the devices.
        """
        with self._database.read() as connection:
            found = _read_runs(connection, tags=tags, program=program, hardware=hardware)
        return found if last is None else found[max(0, len(found) - last) :]

    def run(self, name: str | int) -> Run:
        """One run: by number, by the start of its key (6 characters or more), or by its name if only one has it.

        Raises:
            UsageError: none, or several, are called so.
        """
        text = str(name)
        found = [run for run in self.runs() if _is_called(run, text)]
        if not found:
            raise UsageError(
                f"No run of the store is called {text!r}.", where=self.place, hint="See them with: tpuprof history list"
            )
        if len(found) > 1:
            numbers = ", ".join(str(run.id) for run in found[:8])
            raise UsageError(
                f"{len(found)} runs of the store are called {text!r}.",
                where=self.place,
                hint=f"Give one of their numbers: {numbers}{' …' if len(found) > 8 else ''}.",
            )
        return found[0]

    def remove(self, run: Run) -> bool:
        """Removes a run with all that belongs to it; false if it was gone already."""
        with self._database.write() as connection:
            removed = connection.execute(delete(RUNS).where(RUNS.c.id == run.id)).rowcount > 0
            baselines.drop_empty(connection)
        return removed

    def samples(self, of: Run | Baseline) -> tuple[Sample, ...]:
        """The step times of a run, or of all runs of a baseline, capture by capture in the order of the steps."""
        ids = [run.id for run in (of.runs if isinstance(of, Baseline) else (of,))]
        found: dict[int, list[Sample]] = {number: [] for number in ids}
        with self._database.read() as connection:
            for part in _parts(ids):
                query = select(STEPS).where(STEPS.c.run_id.in_(part)).order_by(STEPS.c.run_id, STEPS.c.position)
                for row in connection.execute(query):
                    found[row.run_id].append(Sample(row.run_id, row.step, row.time_ps))
        return tuple(sample for number in ids for sample in found[number])

    def metrics(self, runs: Sequence[Run]) -> dict[int, dict[str, Metric]]:
        """The metrics of runs by run number and name; a name that is missing was not kept by the version that added."""
        found: dict[int, dict[str, Metric]] = {run.id: {} for run in runs}
        with self._database.read() as connection:
            for part in _parts(list(found)):
                for row in connection.execute(select(METRIC_ROWS).where(METRIC_ROWS.c.run_id.in_(part))):
                    found[row.run_id][row.name] = Metric(row.name, row.value, row.reason)
        order = {name: at for at, name in enumerate(METRICS)}
        return {
            number: dict(sorted(rows.items(), key=lambda item: order.get(item[0], len(order))))
            for number, rows in found.items()
        }

    def op_groups(self, run: Run) -> tuple[OpGroup, ...]:
        """Ops by function, scope and kind, largest self time first; the last may be all others."""
        with self._database.read() as connection:
            columns = [OP_GROUPS.c[field.name] for field in fields(OpGroup)]
            query = select(*columns).where(OP_GROUPS.c.run_id == run.id).order_by(OP_GROUPS.c.position)
            rows = connection.execute(query).all()
        return tuple(OpGroup(*row) for row in rows)

    def set_baseline(self, name: str, runs: Sequence[Run]) -> Baseline:
        """Names runs as the baseline of their program and hardware, in the place of an older one of that name.

        Raises:
            UsageError: the name is empty or too long, there are no runs, or one of them is gone.
            UnlikeRunsError: the runs are not all of one program on one kind of hardware.
        """
        with self._database.write(exclusive=True) as connection:
            baselines.put(connection, name, runs, time.time_ns())
            rows = baselines.find(connection, name, runs[0].program, runs[0].hardware)
            return _with_runs(connection, rows)[0]

    def baselines(self, name: str | None = None) -> list[Baseline]:
        """All baselines, or those of one name, by name."""
        with self._database.read() as connection:
            return _with_runs(connection, baselines.find(connection, name))

    def baseline(self, name: str, like: Run | RunFacts | None = None) -> Baseline:
        """The baseline of that name, for the program and hardware of a run.

        Args:
            like: the run to be compared; null only where the name has one baseline.

        Raises:
            UsageError: there is none of that name, or several and no run was given.
            UnlikeRunsError: those of that name are of other programs or other hardware, or the run has no fingerprint.
        """
        return baselines.choose(self.baselines(name), name, like, self.place)

    def remove_baseline(self, name: str) -> int:
        """Removes all baselines of that name and returns how many there were; the runs stay."""
        with self._database.write() as connection:
            return baselines.remove(connection, name)


def _insert_run(connection: Connection, facts: RunFacts) -> int | None:
    """The number of the new run; null if its key is there already, also if another writer is just adding it."""
    names = {field.name for field in fields(facts)} & set(RUNS.c.keys())
    values: dict[str, Any] = {name: getattr(facts, name) for name in names}
    query = _skipping(connection, RUNS).values(**values, added_ns=time.time_ns()).returning(RUNS.c.id)
    return connection.execute(query).scalar_one_or_none()


def _skipping(connection: Connection, table: Any) -> Any:
    """An insert that leaves rows alone that are there already."""
    make: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return make(table).on_conflict_do_nothing()


def _insert_rows(connection: Connection, number: int, facts: RunFacts) -> None:
    steps = [
        {"run_id": number, "position": at, "step": step, "time_ps": ps} for at, (step, ps) in enumerate(facts.steps)
    ]
    metrics = [{"run_id": number, "name": m.name, "value": m.value, "reason": m.reason} for m in facts.metrics]
    groups = [{"run_id": number, "position": at, **asdict(group)} for at, group in enumerate(facts.op_groups)]
    for table, rows in ((STEPS, steps), (METRIC_ROWS, metrics), (OP_GROUPS, groups)):
        if rows:
            connection.execute(insert(table), rows)


def _read_runs(
    connection: Connection,
    *,
    ids: list[int] | None = None,
    tags: Mapping[str, str] | None = None,
    program: str | None = None,
    hardware: str | None = None,
) -> list[Run]:
    query = select(RUNS)
    for column, value in ((RUNS.c.program, program), (RUNS.c.hardware, hardware)):
        if value is not None:
            query = query.where(column == value)
    for name, value in (tags or {}).items():
        query = query.where(RUNS.c.id.in_(select(TAGS.c.run_id).where(TAGS.c.key == name, TAGS.c.value == value)))
    rows: list[dict[str, Any]] = []
    for part in [None] if ids is None else _parts(ids):
        found = connection.execute(query if part is None else query.where(RUNS.c.id.in_(part)))
        rows += [dict(row) for row in found.mappings()]
    tagged = _tags(connection, [row["id"] for row in rows])
    runs = [Run(**row, tags=tagged.get(row["id"], {})) for row in rows]
    return sorted(runs, key=lambda run: (run.time_ns, run.id))


def _tags(connection: Connection, ids: list[int]) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for part in _parts(ids):
        query = select(TAGS).where(TAGS.c.run_id.in_(part)).order_by(TAGS.c.key)
        for row in connection.execute(query):
            found.setdefault(row.run_id, {})[row.key] = row.value
    return found


def _with_runs(connection: Connection, rows: list[baselines.Stored]) -> list[Baseline]:
    wanted = sorted({number for row in rows for number in row.runs})
    by_id = {run.id: run for run in _read_runs(connection, ids=wanted)}
    return [
        Baseline(
            row.name,
            row.program,
            row.hardware,
            row.set_ns,
            tuple(sorted((by_id[n] for n in row.runs), key=lambda run: (run.time_ns, run.id))),
        )
        for row in rows
    ]


def _is_called(run: Run, text: str) -> bool:
    if text.isascii() and text.isdecimal() and len(text) < _SHORTEST_KEY + 13:
        return run.id == int(text)
    return run.name == text or (len(text) >= _SHORTEST_KEY and run.key.startswith(text.lower()))


def _parts(ids: Sequence[int]) -> list[list[int]]:
    return [list(ids[at : at + _CHUNK]) for at in range(0, len(ids), _CHUNK)]
