"""The launcher's capture inside one process of the program: waits for its window, records it, writes it.

WAITING → RECORDING → OVER. Steps are followed in the thread that marks them, times in a daemon thread.
Whatever goes wrong in here is reported once and ends the capture, never the program.
"""

from __future__ import annotations

import atexit
import enum
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tpuprof.capture.marks import MarkPatch
from tpuprof.capture.options import check_options
from tpuprof.capture.recorder import Capture, CaptureState
from tpuprof.capture.status import Status
from tpuprof.capture.stepmarks import observe_steps
from tpuprof.capture.termination import TerminationGuard
from tpuprof.capture.window import Spec
from tpuprof.errors import CaptureError

POLL_S = 0.05
IDLE_POLL_S = 1.0
LOCK_TIMEOUT_S = 120.0


class Phase(enum.Enum):
    """Where the launcher's capture of this process stands."""

    WAITING = 0
    RECORDING = 1
    OVER = 2


def arm(spec_text: str, status: Status) -> Controller:
    """Sets up the capture of this process, which has just imported jax."""
    controller = Controller(Spec.from_json(spec_text), status)
    controller.arm()
    return controller


class Controller:
    """Follows the steps and the time of this process, and captures the window once."""

    def __init__(
        self,
        spec: Spec,
        status: Status,
        *,
        make_capture: Callable[[str, Callable[[], None]], Capture] | None = None,
    ) -> None:
        self.steps = 0  # outermost marks begun
        self._spec = spec
        self._window = spec.window
        self._status = status
        self._make_capture = make_capture or self._new_capture
        self._phase = Phase.WAITING
        self._capture: Capture | None = None
        self._by_steps = False
        self._backend_at: float | None = None
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._over = threading.Event()
        self._depth = threading.local()
        self._marks = MarkPatch(self, self.give_way)
        self._termination = TerminationGuard(self._terminated)

    # Setting up and taking down

    def arm(self) -> None:
        """Hooks into step marks, the end of the process and the profiler's other users; starts the clock."""
        self._status.update(stage="jax", window=str(self._window), steps=0)
        observe_steps(self)
        try:
            self._marks.apply()
        except Exception:
            if self._window.after_s is None:  # steps or nothing
                raise
        atexit.register(self.at_exit)
        os.register_at_fork(
            before=self._termination.before_fork,
            after_in_parent=self._termination.after_fork_in_parent,
            after_in_child=self._forked,
        )
        self._termination.install()
        threading.Thread(target=self._watch, name="tpuprof-capture", daemon=True).start()

    def at_exit(self) -> None:
        """Writes what there is when the program ends inside its window, and reports how far it came."""
        self._guarded(self.finish, "The program ended inside the window.")
        self._status.update(steps=self.steps, exited=True)

    def give_way(self) -> None:
        """Ends our capture because the program wants the profiler for itself."""
        if self._holder != threading.get_ident():  # our own start comes by here, too
            self._guarded(self.finish, "The program started a profile of its own.")

    def _forked(self) -> None:
        # No threads survive a fork, locks may be held for ever, and the parent is the one to write.
        self._lock, self._holder = threading.Lock(), None
        self._phase = Phase.OVER
        self._over.set()
        observe_steps(None)
        self._marks.restore()
        self._termination.after_fork_in_child()

    # Steps

    def before_step(self) -> None:
        """A mark is about to be made; the profiler records only marks made while it runs, so start here."""
        if self._phase is Phase.OVER or self._window.first is None or self._nesting() > 0:
            return
        if self._phase is Phase.WAITING and self._window.first <= self.steps < (self._window.stop or 0):
            self._guarded(self._start, True)

    def enter_step(self) -> None:
        """A mark has begun; nested ones belong to their outermost."""
        depth = self._nesting()
        self._depth.value = depth + 1
        if depth == 0:
            self.steps += 1

    def exit_step(self) -> None:
        """A mark has ended; the one before `stop` ends the window."""
        depth = self._nesting() - 1
        self._depth.value = max(depth, 0)
        if depth == 0 and self._by_steps and self._phase is Phase.RECORDING and self.steps >= (self._window.stop or 0):
            self._guarded(self.finish)

    def _nesting(self) -> int:
        return getattr(self._depth, "value", 0)

    # Time

    def _watch(self) -> None:
        try:
            self._watch_time()
        except Exception as error:
            self._status.problem(f"the capture was given up: {error!r}")

    def _watch_time(self) -> None:
        needs_clock = self._window.after_s is not None
        while not self._over.is_set():
            self._termination.wait(POLL_S if needs_clock or self._backend_at is None else IDLE_POLL_S)
            if self._phase is Phase.WAITING and self._time_has_come():
                self._guarded(self._start, False)
                end = self._status.elapsed_s + (self._window.for_s or 0.0)
                while not self._over.is_set() and self._status.elapsed_s < end:
                    self._termination.wait(min(POLL_S, max(end - self._status.elapsed_s, 0.001)))
                if not self._by_steps:
                    self._guarded(self.finish)

    def _time_has_come(self) -> bool:
        if self._backend_at is None:
            if not backend_is_up():
                return False
            self._backend_at = self._status.elapsed_s
            self._status.update(stage="backend", steps=self.steps)
        if self._window.after_s is None:
            return False
        if self._window.first is None:
            return self._status.elapsed_s >= self._window.after_s
        return self.steps == 0 and self._status.elapsed_s - self._backend_at >= self._window.after_s

    # Recording

    def _start(self, by_steps: bool) -> None:
        with self._termination.section(), self._held(LOCK_TIMEOUT_S):
            if self._phase is not Phase.WAITING:
                return
            self._by_steps = by_steps
            window = self._window
            trigger = f"steps {window.first}:{window.stop}" if by_steps else f"{window.for_s:g} s of time"
            self._capture = capture = self._make_capture(f"launcher: {trigger}", self.give_way)
            capture.start()
            self._phase = Phase.RECORDING
            if capture.state is CaptureState.RECORDING:
                self._status.update(stage="recording", steps=self.steps)
            else:
                self._close()

    def finish(self, reason: str | None = None, *, drain: bool = True) -> None:
        """Ends a recording, if there is one, and writes it. A `reason` says why it ended early."""
        with self._termination.section(), self._held(LOCK_TIMEOUT_S):
            capture = self._capture
            if self._phase is Phase.RECORDING and capture is not None:
                capture.stop(complete=reason is None, reason=reason, drain=drain)
                self._close()
                if capture.path is not None:
                    self._status.update(stage="done", path=str(capture.path), reason=reason, steps=self.steps)

    @contextmanager
    def _held(self, timeout_s: float) -> Generator[None, None, None]:
        # When a recording hangs in another thread: better no trace than a program that hangs.
        if not self._lock.acquire(timeout=timeout_s):
            raise CaptureError("Another thread did not get the recording started or written in time.")
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def _close(self) -> None:
        self._phase = Phase.OVER
        self._over.set()
        observe_steps(None)
        self._marks.restore()
        self._termination.remove()

    def _new_capture(self, trigger: str, on_preempt: Callable[[], None]) -> Capture:
        return Capture(
            Path(self._spec.logdir),
            check_options(),
            name=self._spec.name,
            trigger=trigger,
            on_preempt=on_preempt,
            report=lambda error: self._status.problem(str(error)),
        )

    def _terminated(self) -> None:
        """SIGTERM has come: the devices are not waited for, since somebody is about to send SIGKILL."""
        self._guarded(self.finish, "The program was terminated inside the window.", drain=False)
        self._status.update(steps=self.steps, exited=True)

    def _guarded(self, function: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:
            self._status.problem(f"the capture was given up: {error!r}")
            with suppress(Exception):
                self._close()


def backend_is_up() -> bool:
    """Whether this process has brought a jax backend up; looks, and never brings one up itself.

    Processes that import jax and use no device, such as data loaders, must stay that way: on a TPU a second
    process that asks for the devices fails or waits.
    """
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    backends: Any = getattr(bridge, "_backends", None)
    return bool(bridge.backends_are_initialized()) if backends is None else len(backends) > 0
