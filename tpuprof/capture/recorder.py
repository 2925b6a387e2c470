"""The capture itself: a small state machine that a failing profiler cannot turn against the program.

NEW → RECORDING → DONE, or FAILED from anywhere. One capture per process at a time.
"""

from __future__ import annotations

import enum
import importlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

from tpuprof.capture.options import CaptureOptions, check_options
from tpuprof.capture.profiler import JaxProfiler, Profiler
from tpuprof.capture.session import ProcessIdentity, check_logdir, check_name, host_name, open_logdir, store
from tpuprof.capture.sidecar import Environment, Timing, describe, write_sidecar
from tpuprof.errors import CaptureActiveError, CaptureError, MissingDependencyError, TpuprofError, UsageError

logger = logging.getLogger("tpuprof")


class CaptureState(enum.Enum):
    """Where a capture stands."""

    NEW = "new"
    RECORDING = "recording"
    DONE = "done"
    FAILED = "failed"


def capture(
    logdir: str | os.PathLike[str] | None = None,
    *,
    host_tracer_level: int = 2,
    python_tracer_level: int = 0,
    name: str | None = None,
    strict: bool = False,
    **options: Any,
) -> Capture:
    """A context manager that captures what the program does inside it.

    A profiler that is busy or fails does not disturb the program: the body runs, a warning is logged once,
    and `Capture.error` holds the typed error. The body's own exceptions pass through and the profiler is
    stopped.

    Args:
        logdir: log directory that receives ``plugins/profile/<session>/``. None makes a directory
            ``tpuprof-…`` in the system's temporary place; tpuprof never deletes it.
        host_tracer_level: 0 (off) to 3 (verbose).
        python_tracer_level: 1 records every Python call, which slows the program and fills the trace.
        name: name of the session directory instead of its start time.
        strict: raise the profiler's errors instead of recording them.
        options: ``enable_hlo_proto``, the keys of `tpuprof.capture.options.ADVANCED_KEYS`, and ``advanced``.

    Raises:
        UsageError: an option is unknown or wrong.
        CaptureActiveError: on entry, when another capture of this process is running.
        MissingDependencyError: on entry, when jax is not installed.
    """
    if not isinstance(strict, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"strict={strict!r} is not of type bool.")
    return Capture(
        None if logdir is None else check_logdir(logdir),
        check_options(host_tracer_level=host_tracer_level, python_tracer_level=python_tracer_level, **options),
        name=None if name is None else check_name(name),
        strict=strict,
    )


class Capture:
    """One capture. Used once, as a context manager or with `start` and `stop`.

    Attributes:
        path: the session directory with the trace; None until there is one.
        error: the error that cost the trace, or part of it; None when all went well.
        state: where the capture stands.
        on_preempt: called when another capture wants to start; it ends this one. None refuses the other one.
    """

    def __init__(
        self,
        logdir: Path | None,
        options: CaptureOptions,
        *,
        name: str | None = None,
        strict: bool = False,
        trigger: str = "context manager",
        profiler: Profiler | None = None,
        on_preempt: Callable[[], None] | None = None,
        report: Callable[[TpuprofError], None] | None = None,
    ) -> None:
        self.path: Path | None = None
        self.error: TpuprofError | None = None
        self.state = CaptureState.NEW
        self.on_preempt = on_preempt
        self._report = report or _log
        self._logdir = logdir
        self._options = options
        self._name = name
        self._strict = strict
        self._trigger = trigger
        self._profiler: Profiler = profiler if profiler is not None else JaxProfiler()
        self._environment = Environment()
        self._started = datetime.fromtimestamp(0)
        self._start_ns = 0
        self._start_seconds = 0.0
        self._problems: list[str] = []
        self._trace: Any = None

    @property
    def trace(self) -> Any:
        """The captured run as a `tpuprof.Trace`, loaded on first use.

        Raises:
            CaptureError: there is no trace.
        """
        if self.path is None:
            raise self.error or CaptureError("This capture has no trace yet.", hint="Read it after the with block.")
        if self._trace is None:
            self._trace = importlib.import_module("tpuprof").load(self.path)
        return self._trace

    def start(self) -> None:
        """Starts recording.

        Raises:
            CaptureActiveError: another capture of this process is running; it goes on.
            MissingDependencyError: jax is not installed.
            CaptureError: the profiler failed and the capture is strict, or it was started before.
        """
        if self.state is not CaptureState.NEW:
            raise CaptureError("A capture can be started only once.", hint="Make a new one with tpuprof.capture().")
        _claim(self)
        try:
            self._begin()
        except BaseException as error:
            self.state = CaptureState.FAILED
            _release(self)
            if not isinstance(error, Exception):
                raise
            self._fail(error)
            if self._strict or isinstance(error, MissingDependencyError):
                raise self.error from error  # pyright: ignore[reportGeneralTypeIssues]
            return
        self.state = CaptureState.RECORDING

    def stop(self, *, complete: bool = True, reason: str | None = None, drain: bool = True) -> None:
        """Stops recording and writes the trace; does nothing when the capture has ended or failed.

        Args:
            complete: whether the window came to its planned end; noted in the sidecar.
            reason: why it did not, for the sidecar.
            drain: wait for device work first; not when the process is about to be killed.

        Raises:
            CaptureError: the capture was never started; or it is strict and the trace was lost.
        """
        if self.state is CaptureState.NEW:
            raise CaptureError("This capture was never started.", hint="Call start() first, or use a with block.")
        if self.state is not CaptureState.RECORDING:
            return
        if reason is not None:
            self._problems.append(reason)
        try:
            self._end(complete, drain)
            self.state = CaptureState.DONE
        except BaseException as error:
            self.state = CaptureState.FAILED
            if not isinstance(error, Exception):
                raise
            self._fail(error)
            if self._strict:
                raise self.error from error  # pyright: ignore[reportGeneralTypeIssues]
        finally:
            _release(self)

    def __enter__(self) -> Capture:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
            return
        with suppress(CaptureError):  # also when strict: the body's exception is the one to see
            self.stop(complete=False, reason=f"The captured code raised {kind.__name__}.")

    def __repr__(self) -> str:
        return f"<Capture {self.state.value}, path={str(self.path) if self.path else None!r}>"

    def _begin(self) -> None:
        begin = time.perf_counter()
        if self._logdir is None:
            self._logdir = Path(tempfile.mkdtemp(prefix="tpuprof-"))
        open_logdir(self._logdir)
        self._environment = self._profiler.prepare()
        self._profiler.drain()
        self._profiler.start(self._options, self._logdir)
        self._start_ns = time.time_ns()
        self._started = datetime.fromtimestamp(self._start_ns / 1e9)
        self._start_seconds = time.perf_counter() - begin

    def _end(self, complete: bool, drain: bool) -> None:
        assert self._logdir is not None
        times = [time.perf_counter()]
        try:
            if drain:
                self._profiler.drain()
        except Exception as error:  # the devices failed: what was recorded until then is all the more wanted
            self._problems.append(f"Waiting for the devices failed: {type(error).__name__}: {error}")
            complete = False
        finally:
            times.append(time.perf_counter())
            stop_ns = time.time_ns()
            data = self._profiler.stop()
        times.append(time.perf_counter())
        identity = ProcessIdentity(
            host_name(), os.getpid(), self._environment.process_index, self._environment.process_count
        )
        trace_file = store(data, self._logdir, identity, started=self._started, name=self._name)
        times.append(time.perf_counter())
        self.path = trace_file.parent
        drain_s, stop_s, write_s = (round(b - a, 6) for a, b in pairwise(times))
        content = describe(
            trace_file=trace_file,
            trace_bytes=len(data),
            environment=self._environment,
            identity=identity,
            options=self._options,
            timing=Timing(self._start_ns, stop_ns, round(self._start_seconds, 6), drain_s, stop_s, write_s),
            trigger=self._trigger,
            complete=complete,
            errors=self._problems,
        )
        try:
            write_sidecar(trace_file, content)
        except OSError as error:  # the trace is safe; only its description is missing
            self._fail(CaptureError("The sidecar cannot be written.", where=str(self.path), why=f"{error}."))

    def _fail(self, error: Exception) -> None:
        if isinstance(error, TpuprofError):
            self.error = error
        else:
            self.error = CaptureError("The profiler failed.", why=f"{type(error).__name__}: {error}")
            self.error.__cause__ = error
        self._report(self.error)


def _log(error: TpuprofError) -> None:
    logger.warning("capture: %s The program goes on without it.", error)


_slot_lock = threading.Lock()
_active: Capture | None = None


def _claim(new: Capture) -> None:
    """Makes `new` the capture of this process. A capture that gives way is ended first."""
    global _active
    holder = _active
    if holder is not None and holder.on_preempt is not None:
        holder.on_preempt()
    with _slot_lock:
        if _active is not None:
            raise CaptureActiveError(
                "A capture of this process is already running.",
                hint="Leave its with block, or stop it, before another one starts.",
            )
        _active = new


def _release(old: Capture) -> None:
    global _active
    with _slot_lock:
        if _active is old:
            _active = None


def _forget() -> None:
    # A forked child has neither the session nor the thread that may have held the lock.
    global _active, _slot_lock
    _slot_lock = threading.Lock()
    _active = None


os.register_at_fork(after_in_child=_forget)
