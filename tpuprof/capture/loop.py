"""`Profiler`: captures of a training loop by schedule, by slow steps and on request."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import Any, TypeVar

from tpuprof.capture.budget import Budget
from tpuprof.capture.checking import instance
from tpuprof.capture.decorate import wrapped_calls
from tpuprof.capture.director import Director, Phase
from tpuprof.capture.failures import note_failure
from tpuprof.capture.hosts import check_hosts
from tpuprof.capture.lifeline import Lifeline
from tpuprof.capture.marks import MarkPatch
from tpuprof.capture.options import check_options
from tpuprof.capture.plan import DEFAULT_MAX_CAPTURES, OnRequest, Plan
from tpuprof.capture.recorder import Capture
from tpuprof.capture.requests import Ask, RequestFile, listen
from tpuprof.capture.schedule import Schedule
from tpuprof.capture.session import check_logdir, check_name
from tpuprof.capture.slowsteps import SlowSteps
from tpuprof.capture.steplog import StepLog
from tpuprof.capture.stepmarks import StepMark, leave_steps, observe_steps
from tpuprof.errors import CaptureError, MissingDependencyError

logger = logging.getLogger("tpuprof")
LOOK_S = 0.25
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Profiler:
    """Captures some steps of a loop; a context manager around it.

        with tpuprof.Profiler("runs", schedule=tpuprof.Schedule(skip_first=100, active=3)) as profiler:
            for batch in loader:
                profiler.step()
                state = train_step(state, batch)

    Steps are what `step` begins, or else what the loop marks itself, with `tpuprof.step`, `tpuprof.steps` or jax's
    ``StepTraceAnnotation``. Their times are always logged, below ``<logdir>/step_times``; outside a capture a step
    costs a few microseconds. Nothing that fails in here reaches the loop.

    Args:
        logdir: log directory that receives the runs and the log.
        schedule: the steps to capture; None with neither `on_slow` nor `on_request` takes `Schedule` as it is.
        on_slow: captures the steps that follow a slow one; True takes `SlowSteps` as it is.
        on_request: captures when SIGUSR2 comes or ``<logdir>/capture_request`` is touched; True takes `OnRequest`.
        max_captures: how many captures there are at most.
        budget: what they may cost.
        name: name of the session directories instead of their start times.
        hosts: jax processes that record, such as ``(0, 3)``; None for all, or for those of ``TPUPROF_HOSTS``.
        options: those of `tpuprof.capture`: what to record.

    Attributes:
        captures: the captures so far, the running one too.
        log: the log of step times.

    Raises:
        UsageError: an argument is wrong, or nothing is to be captured.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        schedule: Schedule | None = None,
        *,
        on_slow: SlowSteps | bool | None = None,
        on_request: OnRequest | bool | None = None,
        max_captures: int = DEFAULT_MAX_CAPTURES,
        budget: Budget | None = None,
        name: str | None = None,
        hosts: Iterable[int] | str | None = None,
        **options: Any,
    ) -> None:
        slow = SlowSteps() if on_slow is True else on_slow or None
        request = OnRequest() if on_request is True else on_request or None
        instance("schedule", schedule or Schedule(), Schedule, "Write schedule=tpuprof.Schedule(skip_first=…).")
        instance("on_slow", slow or SlowSteps(), SlowSteps, "Write on_slow=True or tpuprof.SlowSteps(ratio=…).")
        instance("on_request", request or OnRequest(), OnRequest, "Write on_request=True or tpuprof.OnRequest(…).")
        instance("budget", budget or Budget(), Budget, "Write budget=tpuprof.Budget(max_events=…).")
        if schedule is slow is request is None:
            schedule = Schedule()
        self._plan = Plan(
            schedule=schedule, on_slow=slow, on_request=request, max_captures=max_captures, budget=budget or Budget()
        )
        self._logdir = check_logdir(logdir)
        self._options = check_options(**options)
        self._name = None if name is None else check_name(name)
        self._hosts = check_hosts(hosts)
        self.log = StepLog(self._logdir)
        self._lifeline = Lifeline(
            on_exit=lambda: self._director.stop("The program ended inside the window."),
            on_termination=lambda: self._director.stop("The program was terminated inside the window.", drain=False),
            on_fork=self._forked,
            look=self._look,
        )
        self._director = Director(
            self._plan,
            self._new_capture,
            log=self.log,
            section=self._lifeline.guard.section,
            changed=lambda *_, **__: None,
            problem=self._problem,
            over=self._lifeline.release_signal,
        )
        director = self._director
        self._marks = MarkPatch(director, director.give_way, lambda: director.phase is Phase.RECORDING)
        self._requests: RequestFile | None = None
        self._open: StepMark | None = None
        self._open_step = OpenStep(self._end_step)
        self._state = "new"
        self._starting = threading.Lock()

    @property
    def captures(self) -> tuple[Capture, ...]:
        """The captures so far in the order of their start, those that failed and the running one too."""
        return tuple(self._director.captures)

    @property
    def trace(self) -> Any:
        """The newest captured run as a `tpuprof.Trace`.

        Raises:
            CaptureError: nothing has been captured.
        """
        for capture in reversed(self._director.captures):
            if capture.path is not None:
                return capture.trace
        errors = [capture.error for capture in self._director.captures if capture.error is not None]
        raise (
            errors[-1]
            if errors
            else CaptureError(
                f"Nothing was captured in {self._director.steps} steps.", hint=f"The plan was: {self._plan}."
            )
        )

    def start(self) -> None:
        """Begins to follow the steps.

        Raises:
            CaptureError: it was started before.
            MissingDependencyError: jax is not installed.
        """
        if self._state != "new":
            raise CaptureError("A Profiler can be started only once.", hint="Make a new one.")
        try:
            importlib.import_module("jax.profiler")
        except ModuleNotFoundError as error:
            raise MissingDependencyError(
                f"Capturing needs jax, and {error.name} is not installed.",
                hint='Install it: pip install "tpuprof[capture]".',
            ) from error
        self._state = "running"
        observe_steps(self._director)
        try:
            self._marks.apply()
        except Exception as error:  # our own marks still count
            self._problem(f"this jax does not let its step marks be followed: {error!r}")
        wanted = self._plan.on_request
        if wanted is not None:
            self._requests = RequestFile(self._logdir, wanted)
            if wanted.signal is not None:
                listen(wanted.signal, lambda: self._ask(f"signal {wanted.signal}"))
        self._lifeline.start()

    def stop(self, reason: str | None = None) -> None:
        """Ends the open step and a running capture, and follows no more steps; does nothing when that is done.

        Args:
            reason: why the loop ended before its time; noted in the sidecar of a capture that was running.
        """
        if self._state != "running":
            return
        self._state = "stopped"
        self._end_step()
        self._director.stop("The loop ended inside the window." if reason is None else reason)
        leave_steps(self._director)
        self._marks.restore()
        self._lifeline.stop()
        self.log.close()

    def step(self, step_num: int | None = None) -> OpenStep:
        """Begins a step, and ends the one before; call it first in the body of the loop.

        The last step ends with the ``with`` block of the profiler. The result can be entered, to end a step where it
        ends: ``with profiler.step(): …``.

        Args:
            step_num: the number shown in the trace; None takes the number of marks before this one.
        """
        self._end_step()
        if self._state == "running":
            self._open = mark = StepMark(step_num)
            mark.__enter__()
        return self._open_step

    def steps(self, iterable: Iterable[T]) -> Iterator[T]:
        """Yields the items; the loop's body runs inside a step for each."""
        for item in iterable:
            self.step()
            yield item
            self._end_step()

    def capture_now(self, steps: int = 3) -> None:
        """Wants the next `steps` steps captured, whatever the schedule says."""
        self._director.request(Ask(OnRequest(active=steps).active, None, "capture_now"))

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left_early = kind is not None and not issubclass(kind, GeneratorExit)  # which is a break out of `steps`
        self.stop(f"The captured code raised {kind.__name__}." if kind is not None and left_early else None)

    def __call__(self, function: F) -> F:
        """The function, with every call as a step; the profiler starts with the first one."""

        def mark() -> StepMark | nullcontext[None]:
            with self._starting:
                if self._state == "new":
                    self.start()
            # Not the open step of `step`: calls may overlap in threads, and each has its own.
            return StepMark() if self._state == "running" else nullcontext()

        return wrapped_calls(function, mark)

    def __repr__(self) -> str:
        return f"<Profiler {self._state}, {self._director.steps} steps, {len(self._director.captures)} captures>"

    def _end_step(self) -> None:
        mark, self._open = self._open, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def _ask(self, trigger: str) -> None:
        wanted = self._plan.on_request or OnRequest()
        self._director.request(Ask(wanted.active, wanted.for_s, trigger))

    def _look(self) -> float | None:
        director = self._director
        if director.phase is Phase.OVER:
            return None
        try:
            director.look()
            ask = None if self._requests is None else self._requests.look()
            if ask is not None:
                director.request(ask)
        except Exception as error:
            self._problem(f"the capture was given up: {error!r}")
            return None
        return LOOK_S

    def _forked(self) -> None:
        leave_steps(self._director)
        self._director.forked()
        self._marks.restore()
        self._state = "stopped"

    def _problem(self, text: str) -> None:
        note_failure(self._logdir, CaptureError(text))
        logger.warning("capture: %s. The program goes on without it.", text.rstrip("."))

    def _new_capture(self, trigger: str, on_preempt: Callable[[], None]) -> Capture:
        return Capture(
            self._logdir,
            self._options,
            name=self._name,
            hosts=self._hosts,
            trigger=trigger,
            budget=self._plan.budget,
            managed=True,
            on_preempt=on_preempt,
        )


class OpenStep:
    """A step that has begun; leaving it as a context manager ends it."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self._end()
