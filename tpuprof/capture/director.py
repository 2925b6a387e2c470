"""Decides at every step, and between steps, whether to record: the heart of `Profiler` and of the launcher.

WAITING → RECORDING → WAITING … → OVER. Steps are followed in the thread that marks them, times and requests by `look`,
which a daemon thread of the owner calls. Whatever goes wrong in here is reported and ends the captures, never the
program.
"""

from __future__ import annotations

import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from statistics import median
from typing import Any

from tpuprof.capture.budget import Estimate, estimate
from tpuprof.capture.plan import Plan
from tpuprof.capture.recorder import TERMINATION_S, Capture, CaptureState
from tpuprof.capture.requests import Ask
from tpuprof.capture.schedule import StepWindow
from tpuprof.capture.slowsteps import SlowStepDetector
from tpuprof.capture.steplog import StepLog
from tpuprof.errors import CaptureError, TpuprofError

LOCK_TIMEOUT_S = 120.0
PATIENCE_S = 10.0  # for a step to begin after somebody asked, before a span of time is recorded instead
_AROUND = 20  # steps whose times are compared with those of a capture
_NEVER = 1 << 62


class Phase(enum.Enum):
    """Where the captures of this process stand."""

    WAITING = 0
    RECORDING = 1
    OVER = 2


class Director:
    """Follows the steps of this process and captures what the plan says.

    Args:
        plan: what to capture.
        make_capture: makes a managed capture; its arguments are the trigger and what ends it for another one.
        log: receives the time of every step.
        section: a context manager around work that a signal handler in the same thread must not re-enter.
        changed: called with the phase's name in words and facts, when something has happened.
        problem: called with a sentence when the captures are given up because of a fault of ours.
        over: called once, when there is nothing more to capture.
    """

    def __init__(
        self,
        plan: Plan,
        make_capture: Callable[[str, Callable[[], None]], Capture],
        *,
        log: StepLog,
        section: Callable[[], Any],
        changed: Callable[..., None],
        problem: Callable[[str], None],
        over: Callable[[], None],
    ) -> None:
        self.steps = 0  # outermost marks begun
        self.phase = Phase.WAITING
        self.captures: list[Capture] = []
        self.asked: Ask | None = None
        self._plan = plan
        self._make_capture = make_capture
        self._log = log
        self._section, self._changed, self._problem, self._on_over = section, changed, problem, over
        self._detector = None if plan.on_slow is None else SlowStepDetector(plan.on_slow)
        self._detecting = threading.Lock()
        self._quiet_until = 0  # step before which a slow one is not captured
        self._window: StepWindow | None = None
        self._next = _NEVER  # the step at which something is to happen
        self._capture: Capture | None = None
        self._probing = False
        self._stop_at: int | None = None  # step before which the recording ends
        self._end_at: float | None = None  # time.monotonic() at which it does
        self._asked_at = 0.0
        self._estimate: Estimate | None = None
        self._before: deque[int] = deque(maxlen=_AROUND)
        self._during: list[int] = []
        self._after: list[int] | None = None
        self._local = threading.local()
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._plan_next(0)

    # Steps: the observer of marks

    def before_step(self) -> None:
        """A mark is about to be made; the profiler records only marks made while it runs, so start here."""
        if self.phase is Phase.WAITING and (self.steps >= self._next or self.asked is not None) and not self._nesting():
            self._guarded(self._begin_at_step)

    def enter_step(self) -> None:
        """A mark has begun; nested ones belong to their outermost."""
        local = self._local
        depth = getattr(local, "depth", 0)
        local.depth = depth + 1
        if depth == 0:
            local.number = self.steps
            self.steps += 1
            local.begin = time.perf_counter_ns()

    def exit_step(self) -> None:
        """A mark has ended; the one before the stop of a window ends it."""
        local = self._local
        depth = getattr(local, "depth", 0) - 1
        local.depth = max(depth, 0)
        if depth:
            return
        try:
            duration = time.perf_counter_ns() - local.begin
            self._log.step(local.number, local.begin, duration)
            if self.phase is not Phase.RECORDING:
                self._between(local.number, duration)
                return
            self._during.append(duration)
            if self._at_its_end():
                self._guarded(self._end_at_step)
        except Exception as error:
            self._give_up(error)

    def _at_its_end(self) -> bool:
        return self._stop_at is not None and self.steps >= self._stop_at

    def _nesting(self) -> int:
        return getattr(self._local, "depth", 0)

    def _between(self, number: int, duration: int) -> None:
        self._before.append(duration)
        if self._after is not None:
            self._compare(self._after, duration)
        detector = self._detector
        if detector is None or self.phase is Phase.OVER:
            return
        with self._detecting:  # steps may end in several threads
            if not detector.add(duration):
                return
            usual = detector.median
        self._log.event("slow_step", step=number, duration_ns=duration, median_ns=usual)
        rule = self._plan.on_slow
        if rule is not None and self.asked is None and self.steps >= self._quiet_until:
            self.asked = Ask(rule.active, None, f"slow step {number}: {duration / (usual or duration):.2f} medians")

    def _compare(self, after: list[int], duration: int) -> None:
        after.append(duration)
        if len(after) == _AROUND:
            self._after = None
            after_ns = int(median(after))
            self._log.event("overhead", after_ns=after_ns)
            captured = self.captures[-1]
            times: dict[str, Any] = captured.facts.get("step_time") or {}
            captured.add_facts(step_time={**times, "after_ns": after_ns, "after_steps": _AROUND})

    # Times and requests: the thread that looks after us

    def request(self, ask: Ask) -> None:
        """Wants a capture as soon as possible; may be called by signal handlers, so it only remembers."""
        if self.phase is not Phase.OVER and self.asked is None:
            self._asked_at = time.monotonic()
            self.asked = ask

    def look(self) -> None:
        """Ends what has reached its time or its budget, and begins what no step begins."""
        capture = self._capture
        if self.phase is Phase.RECORDING and capture is not None:
            if self._end_at is not None and time.monotonic() >= self._end_at:
                self._guarded(self.finish)
                return
            capture.check_budget()
            if capture.state is not CaptureState.RECORDING:
                self._guarded(self.finish)
        elif self.phase is Phase.WAITING:
            ask = self.asked
            if ask is not None and ask.for_s is not None and self._nobody_steps(ask):
                self.asked = None
                self._guarded(self._start_span, ask.trigger, ask.for_s)

    def record_span(self, for_s: float) -> None:
        """Records a span of time now, in place of the schedule."""
        self._window, self._next = None, _NEVER
        self._guarded(self._start_span, f"{for_s:g} s of time", for_s)

    def _nobody_steps(self, ask: Ask) -> bool:
        return not ask.steps or not self.steps or time.monotonic() - self._asked_at > PATIENCE_S

    # Recording

    def _begin_at_step(self) -> None:
        with self._section(), self._held():
            if self.phase is not Phase.WAITING:
                return  # another thread was faster
            now = self.steps  # other threads may count on while we are here
            ask, window = self.asked, self._window
            if ask is not None and ask.steps:
                self.asked = None
                self._record(ask.trigger, now, steps=ask.steps)
            elif window is not None and now >= self._next:
                if now < window.first and self._estimate is None:
                    self._record("warm-up", now, steps=window.first - now, probing=True)
                elif now < window.first:
                    self._next = window.first  # what a step costs is known from the first warm-up
                else:  # later than its first step where threads have begun others during the warm-up
                    self._record(f"steps {window.first}:{window.stop}", now, steps=window.stop - window.first)

    def _start_span(self, trigger: str, for_s: float) -> None:
        with self._section(), self._held():
            if self.phase is Phase.WAITING:
                self._record(trigger, self.steps, for_s=for_s)

    def _record(
        self, trigger: str, first: int, *, steps: int | None = None, for_s: float | None = None, probing: bool = False
    ) -> None:
        stop = wanted = None if steps is None else first + steps
        if steps is not None and not probing:
            stop = first + self._fitting(steps)
        self._capture = capture = self._make_capture(trigger, self.give_way)
        if not probing:
            self.captures.append(capture)
        self._probing, self._stop_at, self._during = probing, stop, []
        self._describe(capture, first, stop, wanted)
        capture.start()
        self._end_at = None if for_s is None else time.monotonic() + for_s
        self.phase = Phase.RECORDING
        if capture.state is CaptureState.RECORDING:
            self._log.event("capture_started", trigger=trigger, step=first, stop=stop)
            self._changed("recording")
        else:
            if probing:
                self._probing = False
                self.captures.append(capture)
            self._close(capture)
            if capture.state is CaptureState.SKIPPED:
                self._changed("skipped")

    def _fitting(self, steps: int) -> int:
        if self._estimate is None:
            return steps
        fits = self._estimate.fitting(self._plan.budget, steps)
        if fits == 0:
            raise CaptureError(
                f"One step has about {self._estimate.step_events:,} events and {self._estimate.size(1):,} bytes of "
                "trace, above the budget.",
                hint="Raise max_events and max_bytes, or record less, such as host_tracer_level=1.",
            )
        return fits

    def _describe(self, capture: Capture, first: int, stop: int | None, wanted: int | None) -> None:
        if self._estimate is not None and stop is not None:
            capture.expected_bytes = self._estimate.size(stop - first)
        capture.facts = {
            "plan": self._plan.as_dict(),
            "first_step": first if stop is not None else None,
            "stop_step": stop,
            "stop_step_wanted": wanted,  # later than stop_step where the budget has no room for all
            "estimate": None if self._estimate is None else self._estimate.as_dict(),
        }

    def _end_at_step(self) -> None:
        with self._section(), self._held():
            capture = self._capture
            if self.phase is not Phase.RECORDING or capture is None or not self._at_its_end():
                return  # another thread was faster, and may have begun the next one
            if self._probing:
                self._end_probe(capture)
            else:
                self._end_recording(capture, None)

    def _end_probe(self, capture: Capture) -> None:
        data = capture.discard()
        self._probing, self._capture = False, None
        if data is None:  # the profiler does not work: the window would cost as much and give as little
            self.captures.append(capture)
            self._close(capture)
            return
        self._estimate = estimate(data, max(len(self._during), 1))
        self._log.event("warm_up", **self._estimate.as_dict())
        self.phase = Phase.WAITING
        self._next = self.steps

    def finish(self, reason: str | None = None, *, drain: bool = True) -> None:
        """Ends a recording, if there is one, and writes it. A `reason` says why it ended early.

        Without `drain` the process is about to be killed: nothing is waited for longer than necessary.
        """
        with self._section(), self._held():
            capture = self._capture
            if self.phase is Phase.RECORDING and capture is not None:
                self._end_recording(capture, reason, drain=drain)

    def _end_recording(self, capture: Capture, reason: str | None, *, drain: bool = True) -> None:
        if self._probing:  # it ends before its time: then it is worth more than nothing
            self._probing = False
            self.captures.append(capture)
        capture.facts["step_time"] = self._step_time()
        timeout_s = None if drain else TERMINATION_S
        capture.stop(complete=reason is None, reason=reason, drain=drain, timeout_s=timeout_s)
        self._close(capture)

    def give_way(self) -> None:
        """Ends a recording because the program wants the profiler for itself."""
        if self._holder != threading.get_ident():  # our own start comes by here, too
            self._guarded(self.finish, "The program started a profile of its own.")

    def stop(self, reason: str | None = None, *, drain: bool = True) -> None:
        """Ends a recording and everything else; never raises."""
        self._guarded(self.finish, reason, drain=drain)
        self._end()

    def forked(self) -> None:
        """In a child made by fork: locks may be held for ever, and the parent is the one to write."""
        self._lock, self._holder = threading.Lock(), None
        self.phase = Phase.OVER
        self._log.close()

    def _step_time(self) -> dict[str, Any]:
        """Nanoseconds of the steps before and inside the capture, for what the recording costs."""
        before, during = list(self._before), self._during
        return {
            "before_ns": int(median(before)) if before else None,
            "before_steps": len(before),
            "during_ns": int(median(during)) if during else None,
            "during_steps": len(during),
        }

    def _close(self, capture: Capture) -> None:
        self._capture, self._stop_at, self._end_at = None, None, None
        self.phase = Phase.WAITING
        path = None if capture.path is None else str(capture.path)
        error = None if capture.error is None else str(capture.error)
        times: dict[str, Any] = capture.facts.get("step_time") or {}
        self._log.event("capture_ended", path=path, error=error, reason=capture.ended_early, step=self.steps, **times)
        self._after = [] if path is not None and self._during else None
        if self._plan.on_slow is not None:
            self._quiet_until = self.steps + self._plan.on_slow.cooldown
        begun = self._window is not None and self._window.begin <= self.steps
        self._plan_next(max(self.steps, self._window.stop if begun and self._window is not None else 0))
        self._changed("done", path=path, reason=capture.ended_early)
        written = sum(one.trace_bytes or 0 for one in self.captures)
        open_ended = self._plan.on_slow is not None or self._plan.on_request is not None
        used_up = len(self.captures) >= self._plan.max_captures or written >= self._plan.budget.max_total_bytes
        if used_up or (self._window is None and not open_ended):
            self._end()

    def _plan_next(self, step: int) -> None:
        schedule = self._plan.schedule
        self._window = None if schedule is None or self._spans_done() else schedule.next_window(step)
        self._next = _NEVER if self._window is None else self._window.begin

    def _spans_done(self) -> bool:
        return bool(self.captures) and self._plan.span is not None and not self.steps

    def _end(self) -> None:
        if self.phase is not Phase.OVER:
            self.phase = Phase.OVER
            self._on_over()

    @contextmanager
    def _held(self) -> Generator[None, None, None]:
        # When a recording hangs in another thread: better no trace than a program that hangs.
        if not self._lock.acquire(timeout=LOCK_TIMEOUT_S):
            raise CaptureError("Another thread did not get the recording started or written in time.")
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def _guarded(self, function: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        told = str(error) if isinstance(error, TpuprofError) else repr(error)
        with suppress(Exception):
            self._problem(f"the capture was given up: {told}")
        with suppress(Exception):
            self._log.event("given_up", error=repr(error))
        with suppress(Exception):
            self._end()
