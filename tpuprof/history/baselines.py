"""Named baselines: rows of the store, and which one belongs to a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from tpuprof.errors import UnlikeRunsError, UsageError
from tpuprof.history.facts import RunFacts
from tpuprof.history.runs import Baseline, Run
from tpuprof.history.tables import BASELINE_RUNS, BASELINES, RUNS
from tpuprof.text import clean

MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Stored:
    """A baseline as stored: its runs are numbers."""

    name: str
    program: str
    hardware: str
    set_ns: int
    runs: tuple[int, ...]


def put(connection: Connection, name: str, runs: Sequence[Run], now_ns: int) -> None:
    """Writes a baseline in the place of one of the same name, program and hardware.

    Raises:
        UsageError: the name cannot be one, there are no runs, or one of them is not in the store.
        UnlikeRunsError: the runs are not all of one program on one kind of hardware.
    """
    if not name or name != clean(name).strip() or len(name) > MAX_NAME:
        raise UsageError(f"{name!r} cannot name a baseline.", hint=f"Use one line of at most {MAX_NAME} characters.")
    if not runs:
        raise UsageError("A baseline needs at least one run.", hint="Name runs, or choose some with --last.")
    program, hardware = runs[0].program, runs[0].hardware
    if program is None or hardware is None:
        raise UnlikeRunsError(
            f"Run {runs[0].id} cannot be a baseline: its {'program' if program is None else 'hardware'} is unknown.",
            hint="Declare it when the run is added, with --program NAME or --hardware NAME.",
        )
    for run in runs:
        if (run.program, run.hardware) != (program, hardware):
            what, texts = ("programs", "program") if run.program != program else ("hardware", "hardware")
            raise UnlikeRunsError(
                f"The runs {runs[0].id} and {run.id} are of different {what} and cannot be one baseline.",
                why=f"{_short(runs[0].facts.get(texts))}, and {_short(run.facts.get(texts))}.",
                hint="Set one baseline for each; they may have the same name.",
            )
    wanted = sorted({run.id for run in runs})
    there = set(connection.execute(select(RUNS.c.id).where(RUNS.c.id.in_(wanted))).scalars())
    gone = [number for number in wanted if number not in there]
    if gone:
        raise UsageError(f"Run {gone[0]} is not in the store any more.", hint="See runs with: tpuprof history list")
    same = (BASELINES.c.name == name) & (BASELINES.c.program == program) & (BASELINES.c.hardware == hardware)
    connection.execute(delete(BASELINES).where(same))
    values = {"name": name, "program": program, "hardware": hardware, "set_ns": now_ns}
    number = connection.execute(insert(BASELINES).values(**values).returning(BASELINES.c.id)).scalar_one()
    connection.execute(insert(BASELINE_RUNS), [{"baseline_id": number, "run_id": run} for run in wanted])


def find(
    connection: Connection, name: str | None = None, program: str | None = None, hardware: str | None = None
) -> list[Stored]:
    """The stored baselines, by name, those without runs left out."""
    query = select(BASELINES, BASELINE_RUNS.c.run_id).join(BASELINE_RUNS, BASELINE_RUNS.c.baseline_id == BASELINES.c.id)
    for column, value in ((BASELINES.c.name, name), (BASELINES.c.program, program), (BASELINES.c.hardware, hardware)):
        if value is not None:
            query = query.where(column == value)
    found: dict[int, Stored] = {}
    for row in connection.execute(query.order_by(BASELINES.c.name, BASELINES.c.id, BASELINE_RUNS.c.run_id)):
        known = found.get(row.id)
        runs = (*(known.runs if known else ()), row.run_id)
        found[row.id] = Stored(row.name, row.program, row.hardware, row.set_ns, runs)
    return list(found.values())


def remove(connection: Connection, name: str) -> int:
    """Removes the baselines of a name; how many there were."""
    return connection.execute(delete(BASELINES).where(BASELINES.c.name == name)).rowcount


def drop_empty(connection: Connection) -> None:
    """Removes baselines whose runs are all gone."""
    connection.execute(delete(BASELINES).where(BASELINES.c.id.not_in(select(BASELINE_RUNS.c.baseline_id))))


def choose(found: Sequence[Baseline], name: str, like: Run | RunFacts | None, place: str) -> Baseline:
    """The baseline of a name that belongs to a run; see ``Store.baseline``."""
    if not found:
        raise UsageError(
            f"There is no baseline {name!r}.", where=place, hint="See them with: tpuprof history baseline list"
        )
    if like is None:
        if len(found) > 1:
            raise UsageError(
                f"There are {len(found)} baselines {name!r}, for different programs or hardware.",
                where=place,
                hint="Say for which run.",
            )
        return found[0]
    if like.program is None or like.hardware is None:
        what = "program" if like.program is None else "hardware"
        raise UnlikeRunsError(
            f"The run's {what} is unknown, so that no baseline can be like it.",
            where=like.name,
            hint=f"Declare it with --{what} NAME.",
        )
    for baseline in found:
        if (baseline.program, baseline.hardware) == (like.program, like.hardware):
            return baseline
    near = [baseline for baseline in found if baseline.program == like.program]
    what = "hardware" if near else "program"
    other = (near or list(found))[0].runs[0]
    raise UnlikeRunsError(
        f"Baseline {name!r} is for other {'hardware' if near else 'programs'}.",
        where=like.name,
        why=f"The run is of {_short(like.facts.get(what))}, the baseline of {_short(other.facts.get(what))}.",
        hint=f"Set one from runs like this: tpuprof history baseline set {name} RUN",
    )


def _short(text: object, length: int = 160) -> str:
    shown = str(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"
