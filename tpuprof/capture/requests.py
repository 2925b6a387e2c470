"""Asking a running program for a capture: by touching a file in its log directory, or by a signal.

The file is ``<logdir>/capture_request``. Whoever changes it asks every process that looks at it; it may say how much:
``steps=5`` or ``for=2s``. It is never deleted, because several processes and hosts may be about to read it.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tpuprof.capture.plan import LONGEST_FOR_S, OnRequest
from tpuprof.errors import UsageError
from tpuprof.units import PS_PER_S, parse_duration_ps

FILE_NAME = "capture_request"
_LARGEST_BYTES = 4096
_STEPS = re.compile(r"steps=([0-9]{1,6})\Z")


@dataclass(frozen=True)
class Ask:
    """One capture that somebody wants as soon as possible.

    Attributes:
        steps: its length.
        for_s: its length in seconds where no steps are marked; None to wait for a step.
        trigger: who wants it, for the sidecar.
    """

    steps: int
    for_s: float | None
    trigger: str


class RequestFile:
    """Notices when the file is written or touched; what is there at the beginning is old."""

    def __init__(self, logdir: Path, default: OnRequest) -> None:
        self._path = logdir / FILE_NAME
        self._default = default
        self._seen = self._state()

    def look(self) -> Ask | None:
        """What was asked for since the last look; never raises."""
        state = self._state()
        if state == self._seen:
            return None
        self._seen = state
        return None if state is None else parse_request(self._text(), self._default)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _text(self) -> str:
        try:
            with self._path.open("rb") as file:
                return file.read(_LARGEST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


def parse_request(text: str, default: OnRequest) -> Ask:
    """What a request file asks for: ``steps=N``, ``for=T``, or the default where it says nothing we know."""
    said = text.strip()
    match = _STEPS.match(said)
    if match is not None and int(match[1]) > 0:
        return Ask(int(match[1]), default.for_s, f"request file: {said}")
    if said.startswith("for="):
        try:
            seconds = parse_duration_ps(said.removeprefix("for=")) / PS_PER_S
        except UsageError:
            seconds = 0.0
        if 0 < seconds <= LONGEST_FOR_S:
            return Ask(0, seconds, f"request file: {said}")
    return Ask(default.active, default.for_s, "request file")


def ask_by_file(logdir: Path) -> None:
    """Asks the programs that capture into `logdir`, as ``touch`` would; never raises."""
    try:
        with open(logdir / FILE_NAME, "ab") as file:
            os.utime(file.fileno())
    except OSError:
        pass


def listen(name: str, ask: Callable[[], None]) -> bool:
    """Has a signal call `ask`, where its default action is still in place; whether it is.

    The handler stays for the life of the process: somebody who asks once too often must not kill the program.
    """
    number = getattr(signal, name, None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(number) is not signal.SIG_DFL:
        return False

    def heard(_number: int, _frame: FrameType | None) -> None:
        ask()

    signal.signal(number, heard)
    signal.siginterrupt(number, False)
    return True
