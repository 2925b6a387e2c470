"""Watching a log directory: which runs are new and complete, and a file that remembers those that were seen."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tpuprof.errors import (
    InputError,
    StoreError,
    TpuprofError,
    TraceNotFoundError,
    UnsupportedContainerError,
    UsageError,
)
from tpuprof.formats.discover import list_runs
from tpuprof.formats.files import find, join
from tpuprof.formats.recording import RunFiles
from tpuprof.gate.files import read_object, write_atomic

STATE, LOCK = "watch.json", ".watch.lock"
SETTLE_S = 60.0
TRIES = 3
"""How often a run that cannot be read is tried, and how many passes a webhook that does not answer is."""
_VERSION = 1
_SIDECAR = "tpuprof.json"
_UNREADABLE = "unreadable"
EXIT_ORDER = (1, 3, 5, 0)


@dataclass(slots=True)
class State:
    """What is remembered between passes.

    Args:
        runs: by the path of a run what came of it.
        pending: by path the size of a run and since when (seconds since the epoch) it has that size.
    """

    runs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    pending: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of a run.

    Args:
        outcome: ``pass``, ``warn``, ``fail`` or ``cannot_tell``.
        exit_code: of the outcome.
        sentence: the outcome in one sentence.
        report: the name of the report's file.
        message: what to post.
    """

    outcome: str
    exit_code: int
    sentence: str
    report: str
    message: Mapping[str, Any]


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Holds the folder, so that two watchers never report a run twice.

    Raises:
        UsageError: another one is at work there, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / LOCK).open("a")
    except OSError as error:
        raise UsageError(f"The directory cannot be used: {error.strerror}.", where=str(folder)) from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(
                "Another watcher is at work in this directory.", where=str(folder), hint="Name another one with -o."
            ) from error
        yield


def read_state(folder: Path) -> State:
    """The state in a folder, empty if there is none.

    Raises:
        InputError: it cannot be read, or a newer version wrote it.
    """
    path = folder / STATE
    document = read_object(path)
    if document is None:
        return State()
    runs, pending = document.get("runs"), document.get("pending")
    if document.get("version") != _VERSION or not isinstance(runs, dict) or not isinstance(pending, dict):
        hint = "Remove the file to begin anew."
        raise InputError("The file holds no state of this version.", where=str(path), hint=hint)
    state = State()
    for key, entry in cast("dict[str, Any]", runs).items():
        if isinstance(entry, dict):
            state.runs[key] = cast("dict[str, Any]", entry)
    for key, entry in cast("dict[str, Any]", pending).items():
        if isinstance(entry, list) and len(cast("list[Any]", entry)) == 2:
            size, since = cast("list[Any]", entry)
            if isinstance(size, int) and isinstance(since, int | float):
                state.pending[key] = (size, float(since))
    return state


def write_state(folder: Path, state: State) -> None:
    """Writes the state in one stroke."""
    pending = {key: list(entry) for key, entry in state.pending.items()}
    document = {"version": _VERSION, "runs": state.runs, "pending": pending}
    write_atomic(folder / STATE, (json.dumps(document, indent=1) + "\n").encode())


def found_runs(logdir: str) -> list[RunFiles]:
    """The runs of a log directory, oldest first; none if it is empty, not there yet, or holds none that can be read."""
    try:
        return list_runs(logdir)[::-1]
    except (TraceNotFoundError, UnsupportedContainerError):
        return []


def is_settled(run: RunFiles, state: State, settle_s: float, now: float) -> bool:
    """Whether a run has not changed for long enough to be complete; remembers its size where only time can tell.

    The time of the newest file says so, unless the file system does not know it or its clock is ahead.
    """
    size, newest = 0, None
    known = True
    for path in _files(run):
        entry = find(path)
        if entry is None:
            continue
        size += entry.size
        if entry.modified is None or entry.modified > now:
            known = False
        else:
            newest = entry.modified if newest is None else max(newest, entry.modified)
    if known and newest is not None and now - newest >= settle_s:
        return True
    before = state.pending.get(run.path)
    if before is None or before[0] != size:
        state.pending[run.path] = (size, now)
        return settle_s <= 0
    return now - before[1] >= settle_s


def watch_once(
    logdir: str,
    folder: Path,
    examine: Callable[[RunFiles], Examined],
    *,
    now: float,
    settle_s: float = SETTLE_S,
    send: Callable[[Mapping[str, Any]], str | None] | None = None,
    tell: Callable[[str], None] = lambda _text: None,
    new_only: bool = False,
) -> list[int]:
    """One pass: examines each new and complete run once, and remembers it at once.

    Args:
        logdir: the log directory.
        folder: where the state lies.
        examine: judges a run and writes its report.
        now: seconds since the epoch.
        settle_s: for how long a run must not have changed.
        send: posts what is to be told; returns why it could not, null if it could.
        tell: takes messages for people.
        new_only: take the runs that are there as seen, if nothing was seen before.

    Returns:
        The exit codes of the runs that were examined, 3 for those that cannot be read.

    Raises:
        UsageError: a file cannot be written, or as ``examine``.
        InputError: the state cannot be read.
        StoreError: as ``examine``; runs that were not examined are with the next pass.
    """
    state = read_state(folder)
    runs = found_runs(logdir)
    if new_only and not state.runs and not (folder / STATE).exists():
        state.runs = {run.path: {"name": run.name, "outcome": "skipped", "exit_code": 0} for run in runs}
        write_state(folder, state)
        tell(f"{len(runs)} runs are there already and were taken as seen")
        return []
    codes: list[int] = []
    for run in runs:
        before = state.runs.get(run.path)
        if before is not None and not _again(before):
            continue
        if not is_settled(run, state, settle_s, now):
            tell(f"{run.name} is still being written, or was just now")
            continue
        entry = _examined(run, before, examine, tell)
        codes.append(int(entry["exit_code"]))
        state.pending.pop(run.path, None)
        state.runs[run.path] = entry
        write_state(folder, state)
    _send_all(state, send, tell)
    # Runs that are gone need not be remembered as pending.
    there = {run.path for run in runs}
    state.pending = {path: entry for path, entry in state.pending.items() if path in there}
    write_state(folder, state)
    return codes


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several runs: a regression before a run that cannot be read, before one that cannot be told."""
    found = set(codes)
    return next((code for code in EXIT_ORDER if code in found), 0)


def _again(entry: Mapping[str, Any]) -> bool:
    tries = entry.get("tries")
    return entry.get("outcome") == _UNREADABLE and isinstance(tries, int) and tries < TRIES


def _examined(
    run: RunFiles,
    before: Mapping[str, Any] | None,
    examine: Callable[[RunFiles], Examined],
    tell: Callable[[str], None],
) -> dict[str, Any]:
    try:
        found = examine(run)
    except (UsageError, StoreError):
        raise  # no fault of the run: an option is wrong, or the store does not answer
    except TpuprofError as error:
        tries = int((before or {}).get("tries", 0)) + 1
        tell(f"{run.name} cannot be examined: {error}")
        return {"name": run.name, "outcome": _UNREADABLE, "exit_code": error.exit_code, "tries": tries}
    tell(f"{run.name}: {found.sentence}")
    return {
        "name": run.name,
        "outcome": found.outcome,
        "exit_code": found.exit_code,
        "report": found.report,
        "message": dict(found.message),
    }


def _send_all(
    state: State, send: Callable[[Mapping[str, Any]], str | None] | None, tell: Callable[[str], None]
) -> None:
    """Posts what was not posted yet; what nobody takes is kept for a few passes."""
    for entry in state.runs.values():
        message = entry.get("message")
        if not isinstance(message, dict):
            continue
        if send is None:
            del entry["message"]
            continue
        failure = send(cast("dict[str, Any]", message))
        entry["posts"] = int(entry.get("posts", 0)) + 1
        if failure is None or entry["posts"] >= TRIES:
            del entry["message"]
        if failure is not None:
            more = "" if "message" not in entry else "; it is tried again with the next pass"
            tell(f"the webhook did not take {entry.get('name')}: {failure}{more}")


def _files(run: RunFiles) -> list[str]:
    paths = [path for host in run.files for path in (host.xplane, host.trace_json) if path is not None]
    return [*paths, join(run.path, _SIDECAR)]
