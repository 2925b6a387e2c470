"""The launcher's capture inside one process of the program: a `Director` with everything that it needs around it.

Whatever goes wrong in here is reported once and ends the capture, never the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpuprof.capture.director import Director, Phase
from tpuprof.capture.lifeline import Lifeline
from tpuprof.capture.marks import MarkPatch
from tpuprof.capture.options import check_options
from tpuprof.capture.plan import Spec
from tpuprof.capture.recorder import Capture
from tpuprof.capture.requests import Ask, RequestFile, listen
from tpuprof.capture.status import Status
from tpuprof.capture.steplog import StepLog
from tpuprof.capture.stepmarks import leave_steps, observe_steps

POLL_S = 0.05
IDLE_POLL_S = 1.0
REQUEST_POLL_S = 0.5


def arm(spec_text: str, status: Status) -> Controller:
    """Sets up the capture of this process, which has just imported jax."""
    controller = Controller(Spec.from_json(spec_text), status)
    controller.arm()
    return controller


class Controller:
    """Ties the captures of this process to its steps, its time, its end and the launcher's status directory."""

    def __init__(
        self,
        spec: Spec,
        status: Status,
        *,
        make_capture: Callable[[str, Callable[[], None]], Capture] | None = None,
    ) -> None:
        self._spec = spec
        self._plan = spec.plan
        self._status = status
        self._paths: list[str] = []
        self._reason: str | None = None  # why the last run that is not complete is not
        self._backend_at: float | None = None
        self.lifeline = Lifeline(
            on_exit=self.at_exit, on_termination=self.terminated, on_fork=self._forked, look=self._look
        )
        self.director = Director(
            spec.plan,
            make_capture or self._new_capture,
            log=StepLog(Path(spec.logdir)),
            section=self.lifeline.guard.section,
            changed=self._changed,
            problem=status.problem,
            over=self._over,
        )
        director = self.director
        self._marks = MarkPatch(director, director.give_way, lambda: director.phase is Phase.RECORDING)
        wanted = self._plan.on_request
        self._requests = None if wanted is None else RequestFile(Path(spec.logdir), wanted)

    def arm(self) -> None:
        """Hooks into step marks, the end of the process and the profiler's other users; starts the clock."""
        self._status.update(stage="jax", steps=0)
        observe_steps(self.director)
        try:
            self._marks.apply()
        except Exception:
            if self._plan.span is None:  # steps or nothing
                raise
        wanted = self._plan.on_request
        if wanted is not None and wanted.signal is not None:
            listen(
                wanted.signal,
                lambda: self.director.request(Ask(wanted.active, wanted.for_s, f"signal {wanted.signal}")),
            )
        self.lifeline.start()

    def at_exit(self) -> None:
        """Writes what there is when the program ends inside its window, and reports how far it came."""
        self.director.stop("The program ended inside the window.")
        self._status.update(steps=self.director.steps, exited=True)

    def terminated(self) -> None:
        """SIGTERM has come: the devices are not waited for, since somebody is about to send SIGKILL."""
        self.director.stop("The program was terminated inside the window.", drain=False)
        self._status.update(steps=self.director.steps, exited=True)

    def _forked(self) -> None:
        leave_steps(self.director)
        self.director.forked()
        self._marks.restore()

    def _over(self) -> None:
        # Steps are still followed for the log of their times; SIGTERM gets its default action back.
        self.lifeline.release_signal()

    def _changed(self, stage: str, *, path: str | None = None, reason: str | None = None) -> None:
        if path is not None:
            self._paths.append(path)
            self._reason = reason or self._reason
            facts = {"path": path, "paths": self._paths, "reason": self._reason}
            self._status.update(stage=stage, **facts, steps=self.director.steps)
        elif stage in ("recording", "skipped"):
            self._status.update(stage=stage, steps=self.director.steps)

    def _look(self) -> float | None:
        try:
            return self._next_look()
        except Exception as error:
            self._status.problem(f"the capture was given up: {error!r}")
            return None

    def _next_look(self) -> float | None:
        director = self.director
        if director.phase is Phase.OVER:
            return None
        director.look()
        if director.phase is Phase.WAITING and self._time_has_come() and self._plan.span is not None:
            director.record_span(self._plan.span.for_s)
        if self._requests is not None and (ask := self._requests.look()) is not None:
            director.request(ask)
        if self._backend_at is None or self._plan.span is not None or director.phase is Phase.RECORDING:
            return POLL_S
        return IDLE_POLL_S if self._requests is None else REQUEST_POLL_S

    def _time_has_come(self) -> bool:
        if self._backend_at is None:
            if not backend_is_up():
                return False
            self._backend_at = self._status.elapsed_s
            self._status.update(stage="backend", steps=self.director.steps)
        span = self._plan.span
        if span is None or self.director.captures:
            return False
        if self._plan.schedule is None:
            return self._status.elapsed_s >= span.after_s
        return self.director.steps == 0 and self._status.elapsed_s - self._backend_at >= span.after_s

    def _new_capture(self, trigger: str, on_preempt: Callable[[], None]) -> Capture:
        return Capture(
            Path(self._spec.logdir),
            check_options(**self._spec.options),
            name=self._spec.name,
            trigger=f"launcher: {trigger}",
            budget=self._plan.budget,
            managed=True,
            on_preempt=on_preempt,
            report=lambda error: self._status.problem(str(error)),
        )


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
