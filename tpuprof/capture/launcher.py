"""`tpuprof capture`: runs a program that knows nothing of us, and captures a window of it.

The program keeps its standard streams, its signals and its exit code. Its Python processes load our hook
through ``PYTHONPATH``; those that bring up a jax backend record the window.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tpuprof.capture.hosts import HOSTS_VARIABLE, parse_hosts
from tpuprof.capture.inject import SPEC_VARIABLE
from tpuprof.capture.options import check_options
from tpuprof.capture.plan import Plan, Spec
from tpuprof.capture.requests import ask_by_file
from tpuprof.capture.session import check_logdir, check_name, open_logdir
from tpuprof.capture.status import read_statuses
from tpuprof.errors import UsageError

SITE_DIRECTORY = Path(__file__).with_name("_site")
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGINT")
_FROM_TERMINAL = ("SIGINT", "SIGQUIT")


@dataclass(frozen=True)
class LaunchResult:
    """How a captured program ended.

    Attributes:
        exit_code: the program's own; 128 + n when signal n killed it.
        sessions: the session directories that were written.
        messages: sentences for the user, about where the run is, or why there is none.
    """

    exit_code: int
    sessions: tuple[Path, ...]
    messages: tuple[str, ...]


def launch(
    command: Sequence[str],
    *,
    logdir: str | os.PathLike[str],
    plan: Plan,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    hosts: str | None = None,
) -> LaunchResult:
    """Runs `command` to its end, capturing what `plan` says in its Python processes.

    `hosts` names the jax processes that record, such as ``0,3``; None for all.

    Raises:
        UsageError: the command is empty or does not exist, or the name or log directory is no good.
        CaptureError: the log directory cannot be written; the command has not been started.
    """
    if not command:
        raise UsageError(
            "There is no command to run.",
            hint="Write it after two dashes: tpuprof capture --steps 10:13 -- python train.py",
        )
    check_options(**(options or {}))
    directory = check_logdir(logdir)
    if name is not None:
        check_name(name)
    parse_hosts(hosts or "")
    open_logdir(directory)
    status_dir = Path(tempfile.mkdtemp(prefix="tpuprof-status-"))
    try:
        spec = Spec(plan, str(directory), str(status_dir), name, options or {})
        variables = child_environment(os.environ, spec) | ({} if hosts is None else {HOSTS_VARIABLE: hosts})
        code = _run(command, variables, _asking(plan, directory))
        return _summarise(code, read_statuses(status_dir), plan)
    finally:
        shutil.rmtree(status_dir, ignore_errors=True)


def child_environment(environment: Mapping[str, str], spec: Spec) -> dict[str, str]:
    """The environment that makes Python processes load our hook first."""
    path = environment.get("PYTHONPATH")
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join([str(SITE_DIRECTORY), path] if path else [str(SITE_DIRECTORY)]),
        SPEC_VARIABLE: spec.to_json(),
    }


def _asking(plan: Plan, directory: Path) -> Mapping[int, Callable[[], None]]:
    """Signals that ask for a capture: all processes of the program hear of it through the file.

    They are not passed on, because they would end a wrapper, such as a shell, that does not know them.
    """
    wanted = plan.on_request
    if wanted is None or wanted.signal is None:
        return {}
    return {int(getattr(signal, wanted.signal)): lambda: ask_by_file(directory)}


def _run(command: Sequence[str], environment: dict[str, str], ours: Mapping[int, Callable[[], None]]) -> int:
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if number in ours:
            ours[number]()
            return
        # Keys pressed at a terminal reach the child without us, since it is in our process group.
        if signal.Signals(number).name in _FROM_TERMINAL and _in_foreground():
            return
        if child is None:
            early.append(number)
        elif child.poll() is None:
            child.send_signal(number)

    with _Handlers(forward):
        try:
            child = subprocess.Popen(list(command), env=environment)
        except OSError as error:
            hint = "Write the interpreter, too: python train.py …" if str(command[0]).endswith(".py") else ""
            raise UsageError(
                f"The command {command[0]!r} cannot be started.", why=f"{error.strerror or error}.", hint=hint
            ) from error
        for number in early:
            child.send_signal(number)
        code = child.wait()
    return 128 - code if code < 0 else code


class _Handlers:
    """Our signal handlers for as long as the child runs; signals that we ignore stay ignored."""

    def __init__(self, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handler = handler
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> None:
        for name in _FORWARDED:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue
            with suppress(ValueError):  # not in the main thread: a library user's affair
                self._previous[number] = signal.signal(number, self._handler)

    def __exit__(self, *error: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _summarise(code: int, statuses: Sequence[Mapping[str, Any]], plan: Plan) -> LaunchResult:
    written = [str(path) for status in statuses for path in status.get("paths") or ()]
    sessions = tuple(dict.fromkeys(Path(path) for path in written))
    messages: list[str] = []
    for session in sessions:
        count = written.count(str(session))
        processes = f" ({count} processes)" if count > 1 else ""
        messages.append(f"The run is in {session}{processes}. Read it with: tpuprof report {session}")
    reasons = dict.fromkeys(str(status["reason"]) for status in statuses if status.get("paths") and status["reason"])
    messages += [f"It is not complete: {reason}" for reason in reasons]
    if not written:
        messages.append(f"There is no run: {_why_none(statuses, plan)}")
    return LaunchResult(code, sessions, tuple(messages))


def _why_none(statuses: Sequence[Mapping[str, Any]], plan: Plan) -> str:
    if not statuses:
        return (
            "no Python process of the command loaded the capture hook. It is not loaded by a command that is "
            "not Python, nor by python -I, -E or -S, nor where PYTHONPATH is replaced."
        )
    errors = dict.fromkeys(str(status["error"]) for status in statuses if status.get("error"))
    if errors:
        return " ".join(errors)
    if any(status.get("stage") == "skipped" for status in statuses):
        return "other processes of the program were asked for with --hosts."
    if any(status.get("stage") == "recording" and not status.get("exited") for status in statuses):
        return (
            "the program was killed, or left with os._exit, while it was being recorded, before the trace could be "
            "written."
        )
    users = [status for status in statuses if status.get("stage") == "backend" or status.get("steps")]
    if users:
        return _why_outside(max(users, key=lambda status: int(status.get("steps") or 0)), plan)
    if any(status.get("stage") == "jax" for status in statuses):
        return "the command imported jax, but no jax backend came up while it ran."
    return "the command never imported jax."


def _why_outside(status: Mapping[str, Any], plan: Plan) -> str:
    steps = int(status.get("steps") or 0)
    seconds = float(status.get("elapsed_s") or 0.0)
    ended = "ended" if status.get("exited") else "was killed"
    window = None if plan.schedule is None else plan.schedule.next_window(0)
    if window is not None and steps:
        hint = f" Try --steps {steps // 2}:{steps}." if steps > 1 else ""
        return f"the program {ended} before step {window.first}: it ran {_counted(steps)}.{hint}"
    if plan.span is not None:
        marks = " It marked no steps." if window is not None else ""
        return (
            f"the program {ended} after {seconds:.1f} s, before the window of {plan.span.for_s:g} s that begins "
            f"after {plan.span.after_s:g} s.{marks} "
            f"Try --after {max(seconds / 2, 0.1):.1f}s --for {max(seconds / 4, 0.1):.1f}s."
        )
    if steps or plan.on_slow is plan.schedule is None:
        slow = " no step was slow enough" if plan.on_slow is not None else ""
        asked = " nobody asked for a capture" if plan.on_request is not None else ""
        return f"the program {ended} after {_counted(steps)};{slow}{',' * bool(slow and asked)}{asked}."
    return (
        "the program marked no steps. Mark them with tpuprof.step or jax.profiler.StepTraceAnnotation, "
        "or capture a span of time with --after and --for."
    )


def _counted(steps: int) -> str:
    return f"{steps} step{'s' * (steps != 1)}"
