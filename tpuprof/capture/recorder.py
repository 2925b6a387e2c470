"""The capture itself: a small state machine that a failing profiler cannot turn against the program.

NEW → RECORDING → DONE, or FAILED from anywhere. One capture per process at a time.
"""

from __future__ import annotations

import enum
import importlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tpuprof.capture.budget import Budget, check_disk, overrun, resident_bytes
from tpuprof.capture.decorate import captured_call
from tpuprof.capture.environment import Environment
from tpuprof.capture.failures import earlier_failures, note_failure
from tpuprof.capture.hosts import check_hosts, expected_processes
from tpuprof.capture.lifeline import Lifeline
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.profiler import JaxProfiler, Profiler
from tpuprof.capture.runid import join_run
from tpuprof.capture.session import open_logdir, store
from tpuprof.capture.sidecar import Timing, add_facts, describe, write_sidecar
from tpuprof.capture.slot import claim, release
from tpuprof.capture.stopping import patiently
from tpuprof.errors import CaptureError, MissingDependencyError, TpuprofError

logger = logging.getLogger("tpuprof")
TERMINATION_S = 30.0  # for the trace of a process that was told to end; who told it is about to kill it
LOOK_S = 0.25  # how often a recording is compared with its budget
F = TypeVar("F", bound=Callable[..., Any])


class CaptureState(enum.Enum):
    """Where a capture stands."""

    NEW = "new"
    RECORDING = "recording"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # other processes of the program were asked for


class Capture:
    """One capture. Used once, as a context manager, a decorator, or with `start` and `stop`.

    Attributes:
        path: the session directory with the trace; None until there is one.
        error: the error that cost the trace, or part of it; None when all went well.
        state: where the capture stands.
        ended_early: why it ended before its planned end; None when it did not.
        facts: what its owner knows and the sidecar should say, such as the schedule.
        trace_bytes: size of the trace; None until the profiler has handed it over.
        expected_bytes: the size that its owner expects, for which there must be room before it starts.
        on_preempt: called when another capture wants to start; it ends this one. None refuses the other one.
    """

    def __init__(
        self,
        logdir: Path | None,
        options: CaptureOptions,
        *,
        name: str | None = None,
        hosts: frozenset[int] | None = None,
        strict: bool = False,
        trigger: str = "context manager",
        profiler: Profiler | None = None,
        budget: Budget | None = None,
        managed: bool = False,
        on_preempt: Callable[[], None] | None = None,
        report: Callable[[TpuprofError], None] | None = None,
    ) -> None:
        self.path: Path | None = None
        self.error: TpuprofError | None = None
        self.state = CaptureState.NEW
        self.ended_early: str | None = None
        self.facts: dict[str, Any] = {}
        self.trace_bytes: int | None = None
        self.expected_bytes = 0
        self.on_preempt = on_preempt
        self._report = report or _log
        self._logdir = logdir
        self._options = options
        self._name = name
        self._hosts = check_hosts(None) if hosts is None else hosts
        self._expected: tuple[int, ...] = (0,)
        self._sidecar: Path | None = None
        self._strict = strict
        self._trigger = trigger
        self._profiler: Profiler = profiler if profiler is not None else JaxProfiler()
        self._budget = budget or Budget()
        self._environment = Environment()
        self._started = datetime.fromtimestamp(0)
        self._start_ns = 0
        self._start_seconds = 0.0
        self._begin_s = 0.0
        self._begin_bytes: int | None = None
        self._problems: list[str] = []
        self._trace: Any = None
        self._lock = threading.RLock()
        self._stopping = False
        self._over = threading.Event()
        # A managed capture's owner looks after the end of the process, and calls `check_budget`.
        self._lifeline = None if managed else self._new_lifeline()

    @property
    def trace(self) -> Any:
        """The captured run as a `tpuprof.Trace`, loaded on first use.

        Raises:
            CaptureError: there is no trace.
        """
        if self.state is CaptureState.SKIPPED:
            raise CaptureError("This process did not record.", why="Other processes were asked for with hosts.")
        if self.path is None:
            raise self.error or CaptureError("This capture has no trace yet.", hint="Read it after the with block.")
        if self._trace is None:
            self._trace = importlib.import_module("tpuprof").load(self.path)
        return self._trace

    def start(self) -> None:
        """Starts recording.

        Raises:
            MissingDependencyError: jax is not installed.
            CaptureActiveError: another capture of this process is running, which goes on, and this one is strict.
            CaptureError: the profiler failed and the capture is strict, or it was started before.
        """
        if self.state is not CaptureState.NEW:
            raise CaptureError("A capture can be started only once.", hint="Make a new one with tpuprof.capture().")
        try:
            claim(self)
            self._begin()
        except BaseException as error:
            self.state = CaptureState.FAILED
            release(self)
            if not isinstance(error, Exception):
                raise
            self._fail(error)
            if self._strict or isinstance(error, MissingDependencyError):
                raise self.error from error  # pyright: ignore[reportGeneralTypeIssues]
            return
        if self._environment.process_index not in self._expected:
            self.state = CaptureState.SKIPPED
            release(self)
            return
        self.state = CaptureState.RECORDING
        if self._lifeline is not None:
            self._lifeline.start()

    def stop(
        self,
        *,
        complete: bool = True,
        reason: str | None = None,
        drain: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Stops recording and writes the trace; does nothing when the capture has ended or failed.

        Returns when the trace is there, or after ``stop_timeout_s`` of the budget: then the rest happens beside the
        program.

        Args:
            complete: whether the window came to its planned end; noted in the sidecar.
            reason: why it did not, for the sidecar.
            drain: wait for device work first; not when the process is about to be killed.
            timeout_s: how long to wait for the trace; None takes that of the budget.

        Raises:
            CaptureError: the capture was never started; or it is strict and the trace was lost.
        """

        def keep(data: bytes, times: list[float], stop_ns: int) -> None:
            self._keep(data, times, stop_ns, complete and not self._problems)

        if reason is not None and self.state is CaptureState.RECORDING and not self._stopping:
            self.ended_early = reason
            self._problems.append(reason)
        self._stop(keep, drain, timeout_s)

    def discard(self) -> bytes | None:
        """Stops recording and returns the serialised trace instead of keeping it; None when there is none."""
        taken: list[bytes] = []

        def take(data: bytes, times: list[float], stop_ns: int) -> None:
            taken.append(data)

        self._stop(take, True)
        return taken[0] if taken else None

    def add_facts(self, **facts: Any) -> None:
        """Adds to the sidecar what became known after it was written. Never raises."""
        if self._sidecar is not None:
            with suppress(OSError, ValueError):  # it was moved, or the disk is full; it was right before
                add_facts(self._sidecar, facts)

    def check_budget(self) -> None:
        """Ends the recording if it has used up its budget. Never raises."""
        if self.state is not CaptureState.RECORDING or self._stopping:
            return
        now = resident_bytes()
        grown = None if now is None or self._begin_bytes is None else now - self._begin_bytes
        reason = overrun(self._budget, seconds=time.monotonic() - self._begin_s, grown_bytes=grown)
        if reason is not None:
            self._end_quietly(reason, drain=False)

    def __enter__(self) -> Capture:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # also when strict: the body's exception is the one to see
            self._end_quietly(f"The captured code raised {kind.__name__}.")

    def __call__(self, function: F) -> F:
        """The function, with its first call captured."""
        return captured_call(self, function)

    def __repr__(self) -> str:
        return f"<Capture {self.state.value}, path={str(self.path) if self.path else None!r}>"

    def _begin(self) -> None:
        begin = time.perf_counter()
        if self._logdir is None:
            self._logdir = Path(tempfile.mkdtemp(prefix="tpuprof-"))
        open_logdir(self._logdir)
        check_disk(self._logdir, self._budget, self.expected_bytes)
        self._environment = self._profiler.prepare()
        self._expected = expected_processes(self._environment.process_count, self._hosts)
        if self._environment.process_index not in self._expected:
            return
        self._profiler.drain()
        self._begin_bytes, self._begin_s = resident_bytes(), time.monotonic()
        self._profiler.start(self._options, self._logdir)
        self._start_ns = time.time_ns()
        self._started = datetime.fromtimestamp(self._start_ns / 1e9)
        self._start_seconds = time.perf_counter() - begin

    def _stop(
        self, take: Callable[[bytes, list[float], int], None], drain: bool, timeout_s: float | None = None
    ) -> None:
        if self.state is CaptureState.NEW:
            raise CaptureError("This capture was never started.", hint="Call start() first, or use a with block.")
        with nullcontext() if self._lifeline is None else self._lifeline.guard.section():
            with self._lock:
                first = self.state is CaptureState.RECORDING and not self._stopping
                self._stopping |= first
            if not first:  # another thread is at it, or it is over
                if self._stopping:
                    self._over.wait(timeout_s or self._budget.stop_timeout_s)
                return
            self._collect(take, drain, timeout_s or self._budget.stop_timeout_s)
        if self._strict and self.state is CaptureState.FAILED and self.error is not None:
            raise self.error from self.error.__cause__

    def _collect(self, take: Callable[[bytes, list[float], int], None], drain: bool, timeout_s: float) -> None:
        times, drained = [time.perf_counter()], False

        def work() -> None:
            stop_ns = time.time_ns()
            times.append(time.perf_counter())
            try:
                data = self._profiler.stop()
                times.append(time.perf_counter())
                self.trace_bytes = len(data)
                take(data, times, stop_ns)
                self.state = CaptureState.DONE
                if drained:  # devices that worked until now and do not any more: the profiler broke them
                    self._profiler.check_devices()
            except BaseException as error:
                self.state = CaptureState.FAILED if self.path is None else CaptureState.DONE
                self._fail(error)
            finally:
                release(self)
                self._over.set()

        try:
            if drain:
                self._profiler.drain()
                drained = True
        except Exception as error:  # the devices failed: what was recorded until then is all the more wanted
            self._problems.append(f"Waiting for the devices failed: {type(error).__name__}: {error}")
        finally:
            if not patiently(work, timeout_s=timeout_s, beat=self._beat):
                late = f"The trace has not come within {timeout_s:g} s."
                self.facts["late"] = late
                self._fail(CaptureError(late, hint="It is written when it comes; until then nothing can be captured."))
            if self._lifeline is not None:
                self._lifeline.stop()

    def _keep(self, data: bytes, times: list[float], stop_ns: int, complete: bool) -> None:
        assert self._logdir is not None
        check_disk(self._logdir, self._budget, len(data))
        identity = self._environment.identity()
        run = join_run(
            self._logdir,
            identity,
            # How slow a slow step was differs from host to host; which one it was does not.
            reason=self._trigger.rpartition(": ")[0] if "slow step" in self._trigger else self._trigger,
            started=self._start_ns / 1e9,
            name=self._name,
            hurried=self.ended_early is not None,
        )
        trace_file = store(data, self._logdir, identity, started=self._started, name=run.name)
        times.append(time.perf_counter())
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
            run=run,
            expected=self._expected,
        )
        content |= {"budget": self._budget.as_dict(), "earlier_failures": earlier_failures(), **self.facts}
        try:
            self._sidecar = write_sidecar(trace_file, content)
        except OSError as error:  # the trace is safe; only its description is missing
            self._fail(CaptureError("The sidecar cannot be written.", where=str(trace_file.parent), why=f"{error}."))
        self.path = trace_file.parent

    def _end_quietly(self, reason: str, *, drain: bool = True, timeout_s: float | None = None) -> None:
        try:
            self.stop(complete=False, reason=reason, drain=drain, timeout_s=timeout_s)
        except Exception as error:  # strict captures raise; there is nobody here to catch it
            logger.debug("capture: %s", error)

    def _new_lifeline(self) -> Lifeline:
        def look() -> float | None:
            self.check_budget()
            return LOOK_S

        return Lifeline(
            on_exit=lambda: self._end_quietly("The program ended inside the capture."),
            # The devices are not waited for: somebody is about to send SIGKILL.
            on_termination=lambda: self._end_quietly(
                "The program was terminated inside the capture.", drain=False, timeout_s=TERMINATION_S
            ),
            on_fork=self._forked,
            look=look,
        )

    def _forked(self) -> None:
        # The session and its trace are the parent's.
        self._lock = threading.RLock()
        self.state = CaptureState.FAILED
        self._stopping = True
        self._over.set()

    def _beat(self, seconds: float) -> None:
        logger.warning("capture: The profiler has been delivering its trace for %.0f s; still waiting.", seconds)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, TpuprofError):
            self.error = error
        else:
            self.error = CaptureError("The profiler failed.", why=f"{type(error).__name__}: {error}")
            self.error.__cause__ = error
        note_failure(self._logdir, self.error, trigger=self._trigger, options=self._options.as_dict())
        self._report(self.error)


def _log(error: TpuprofError) -> None:
    logger.warning("capture: %s The program goes on without it.", error)
