"""The step-time log: when every step of a process began and how long it took, written as the program runs.

``<logdir>/step_times/<host>.<pid>.<start>.jsonl``. The first line is an object with the facts of the process. Each
step is a line ``[step, begin_ns, duration_ns]``, with `begin_ns` counted from the start of the log; other objects
are events, such as captures and their failures. Every line is one write of the operating system, so what was
written stays when the process is killed, and a line that was cut is the last one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tpuprof._version import __version__
from tpuprof.capture.session import host_name
from tpuprof.errors import NotATraceError, TraceNotFoundError
from tpuprof.masking import mask_arguments

SCHEMA_VERSION = 1
FOLDER = "step_times"
SUFFIX = ".jsonl"
KIND = "step_times"
LARGEST_BYTES = 1 << 28
_RESERVE_BYTES = 1 << 20  # of a log, for the lines that are no steps
_LONGEST_LINE = 1 << 16


class StepLog:
    """The log of this process, made with its first line. Never raises: a full disk costs the log, not the program.

    Attributes:
        path: the file; None as long as there is none.
        error: why the log ended, or never began; None while all is well.
    """

    def __init__(self, logdir: Path) -> None:
        self.path: Path | None = None
        self.error: str | None = None
        self._folder = logdir / FOLDER
        self._origin = time.perf_counter_ns()
        self._started_ns = time.time_ns()
        self._file = -1
        self._room = LARGEST_BYTES - _RESERVE_BYTES
        self._opened = False
        self._opening = False
        self._lock = threading.RLock()  # a signal handler may come by while its own thread is here

    def step(self, number: int, begin: int, duration: int) -> None:
        """Notes one step: its number, ``time.perf_counter_ns`` at its begin, and its nanoseconds."""
        if not self._opened:
            self._open()
        if self._file >= 0:
            line = b"[%d,%d,%d]\n" % (number, begin - self._origin, duration)
            try:
                os.write(self._file, line)
            except OSError as error:
                self._lost(error)
            self._room -= len(line)
            if self._room < 0:
                self._full()

    def event(self, name: str, **facts: Any) -> None:
        """Notes something else, at this moment."""
        if not self._opened:
            self._open()
        self._write({"event": name, "at_ns": time.perf_counter_ns() - self._origin, **facts})

    def close(self) -> None:
        """Ends the log; what follows is not noted."""
        self._opened = True
        file, self._file = self._file, -1
        if file >= 0:
            with suppress(OSError):
                os.close(file)

    def _open(self) -> None:
        with self._lock:
            if self._opened or self._opening:
                return
            self._opening = True
            host, pid = host_name(), os.getpid()
            path = self._folder / f"{host}.{pid}.{self._started_ns // 1_000_000}{SUFFIX}"
            header = {
                "schema_version": SCHEMA_VERSION,
                "tool": "tpuprof",
                "kind": KIND,
                "version": __version__,
                "host": host,
                "pid": pid,
                "started_ns": self._started_ns,
                "command": mask_arguments(getattr(sys, "argv", [])),
            }
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
                self.path = path
                os.write(file, _line(header))
                self._file = file  # only now: the steps of other threads come after the first line
            except OSError as error:
                self._lost(error)
            self._opened = True

    def _write(self, content: dict[str, Any]) -> None:
        if self._file < 0:
            return
        try:
            os.write(self._file, _line(content))
        except OSError as error:
            self._lost(error)

    def _full(self) -> None:
        self.error = "The step-time log is full; later steps are not noted."
        self._write({"event": "log_full", "at_ns": time.perf_counter_ns() - self._origin})
        self.close()

    def _lost(self, error: OSError) -> None:
        self.error = f"The step-time log cannot be written: {error.strerror or error}."
        self.close()


def _line(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=True, default=str, separators=(",", ":")) + "\n").encode()


@dataclass(frozen=True)
class StepTimes:
    """The step-time log of one process, as read.

    Attributes:
        path: the file.
        facts: the first line: host, pid, start and command of the process.
        steps: ``(step, begin_ns, duration_ns)`` of every step in the order of the file.
        events: the other lines, such as captures, in the order of the file.
        damaged: lines that could not be understood; one at the end is usual after a kill.
    """

    path: Path
    facts: dict[str, Any]
    steps: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    damaged: int = 0


def find_step_logs(place: Path) -> list[Path]:
    """The step-time logs at a place: a log file, a log directory, or a session below one; oldest first."""
    if place.is_file():
        return [place]
    if not place.exists():  # what lies beside a misspelt name is not what was asked for
        return []
    for folder in (place.absolute(), *place.absolute().parents[:3]):
        found = sorted((folder / FOLDER).glob(f"*{SUFFIX}"), key=_age)
        if found:
            return found
    return []


def read_step_log(path: Path) -> StepTimes:
    """Reads one log; damaged lines are counted and left out.

    Raises:
        TraceNotFoundError: there is no such file.
        NotATraceError: the file is no step-time log, or is too large for one.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise NotATraceError("The file is too large for a step-time log.", where=str(path))
        with path.open("rb") as file:
            return _read(path, iter(file))
    except OSError as error:
        raise TraceNotFoundError(
            "The step-time log cannot be read.", where=str(path), why=f"{error.strerror or error}."
        ) from error


def _read(path: Path, lines: Iterator[bytes]) -> StepTimes:
    facts = _parse(next(lines, b""))
    if not isinstance(facts, dict) or cast("dict[str, Any]", facts).get("kind") != KIND:
        raise NotATraceError(
            "This is no step-time log.", where=str(path), hint="Captures write them into LOGDIR/step_times."
        )
    steps: list[tuple[int, int, int]] = []
    events: list[dict[str, Any]] = []
    damaged = 0
    for line in lines:
        content = _parse(line)
        if isinstance(content, list):
            step = _step(cast("list[Any]", content))
            if step is None:
                damaged += 1
            else:
                steps.append(step)
        elif isinstance(content, dict) and isinstance(cast("dict[str, Any]", content).get("event"), str):
            events.append(cast("dict[str, Any]", content))
        else:
            damaged += 1
    return StepTimes(path, cast("dict[str, Any]", facts), steps, events, damaged)


def _parse(line: bytes) -> Any:
    if len(line) > _LONGEST_LINE or not line.endswith(b"\n"):
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _step(values: list[Any]) -> tuple[int, int, int] | None:
    """The three numbers of a step; None where they cannot be those of one."""
    if len(values) != 3 or not all(type(value) is int and 0 <= value < 1 << 63 for value in values):
        return None
    return values[0], values[1], values[2]


def _age(path: Path) -> tuple[str, str]:
    started = path.name.removesuffix(SUFFIX).rpartition(".")[2]
    return (started.zfill(20), path.name)
