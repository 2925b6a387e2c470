"""Ending a process by SIGTERM without losing the trace, and without making the process harder to kill.

A Python signal handler runs only when the main thread returns to Python code. A training step that hangs in
the runtime never does, and a program that used to die at once would become unkillable. So the signal is also
read from the interpreter's wake-up descriptor by a thread, which can write the trace and end the process by
itself.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class TerminationGuard:
    """Runs `before_death` once when SIGTERM comes, then lets the signal have its usual effect.

    Only takes the place of the default action: a program that handles SIGTERM is left alone.
    """

    def __init__(self, before_death: Callable[[], None]) -> None:
        self.installed = False
        self._before_death = before_death
        self._pid = os.getpid()
        self._inside = threading.local()
        self._pending = False
        self._reader: int | None = None
        self._writer: int | None = None

    def install(self) -> None:
        """Puts the handler in place; only the main thread can, and only where nobody else handles SIGTERM."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        signal.signal(signal.SIGTERM, self._handle)
        self.installed = True
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        if previous != -1:  # an event loop is listening there
            signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
            os.close(reader)
            os.close(writer)
        else:
            self._reader, self._writer = reader, writer

    def wait(self, seconds: float) -> bool:
        """Sleeps in the watching thread until SIGTERM comes, at most; then ends the process."""
        if self._reader is None:
            time.sleep(min(seconds, 1.0) if self.installed else seconds)
            return False
        ready, _, _ = select.select([self._reader], [], [], seconds)
        if ready and signal.SIGTERM in os.read(self._reader, 512) and self.installed:
            self._before_death()
            _default_action()
            os.kill(self._pid, signal.SIGTERM)
        return self.installed

    def remove(self) -> None:
        """Gives SIGTERM its default action back."""
        if not self.installed:
            return
        self.installed = False
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._release_wakeup()
        elif signal.getsignal(signal.SIGTERM) == self._handle:
            # Only the main thread may change Python's table; the system's can be changed from here.
            _default_action()

    def after_fork(self) -> None:
        """In a child: a signal to the child must not look like one to the parent, which shares the pipe."""
        with suppress(Exception):
            self.remove()

    def section(self) -> _Section:
        """A context manager around work that a signal handler in the same thread must not re-enter."""
        return _Section(self._inside, self._leave_section)

    def _handle(self, number: int, frame: Any) -> None:
        if self.installed and os.getpid() == self._pid:
            if getattr(self._inside, "depth", 0):
                self._pending = (
                    True  # this thread is in the middle of starting or writing: let it end that first
                )
                return
            self._before_death()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _leave_section(self) -> None:
        if self._pending and threading.current_thread() is threading.main_thread():
            self._pending = False
            self._handle(signal.SIGTERM, None)

    def _release_wakeup(self) -> None:
        if self._writer is None:
            return
        current = signal.set_wakeup_fd(-1)
        if current not in (self._writer, -1):
            signal.set_wakeup_fd(current, warn_on_full_buffer=False)


class _Section:
    def __init__(self, inside: threading.local, leave: Callable[[], None]) -> None:
        self._inside = inside
        self._leave = leave

    def __enter__(self) -> None:
        self._inside.depth = getattr(self._inside, "depth", 0) + 1

    def __exit__(self, *error: object) -> None:
        self._inside.depth -= 1
        if not self._inside.depth:
            self._leave()


def _default_action() -> None:
    with suppress(Exception):
        set_signal: Any = ctypes.pythonapi.PyOS_setsig
        set_signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        set_signal.restype = ctypes.c_void_p
        set_signal(int(signal.SIGTERM), None)
