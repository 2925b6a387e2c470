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

GRACE_S = 1.0


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
        self._handling = threading.Event()  # the main thread has seen the signal
        self._reader: int | None = None
        self._writer: int | None = None
        self._handler_address: int | None = None
        self._lifted = False

    def install(self) -> None:
        """Puts the handler in place; only the main thread can, and only where nobody else handles SIGTERM."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not _is_default(signal.getsignal(signal.SIGTERM)) or _current_action() is not None:
            return
        signal.signal(signal.SIGTERM, self._handle)
        self._handler_address = _current_action()
        self.installed = True
        previous = signal.set_wakeup_fd(-1)
        if previous != -1:  # an event loop is listening there
            signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
            return
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def wait(self, seconds: float) -> None:
        """Sleeps in the watching thread until SIGTERM comes, at most; then ends the process."""
        if self._reader is None:
            time.sleep(seconds)
            return
        ready, _, _ = select.select([self._reader], [], [], seconds)
        if not ready or signal.SIGTERM not in os.read(self._reader, 512):
            return
        # As a rule the main thread gets to its handler, and knows better than we whether the signal was ours.
        if self._handling.wait(GRACE_S) or not self._in_place():
            return
        self._before_death()
        _set_action(None)
        os.kill(self._pid, signal.SIGTERM)

    def remove(self) -> None:
        """Gives SIGTERM its default action back."""
        in_place = self._in_place()
        self.installed = False
        self._disconnect()
        main = threading.current_thread() is threading.main_thread()
        if main and self._writer is not None:
            current = signal.set_wakeup_fd(-1)
            if current not in (self._writer, -1):
                signal.set_wakeup_fd(current, warn_on_full_buffer=False)
            else:  # nobody writes there any more; elsewhere Python still might
                os.close(self._writer)
                self._writer = None
        if not in_place:
            return
        if main:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        else:  # only the main thread may change Python's table; the system's can be changed from here
            _set_action(None)

    def release_reader(self) -> None:
        """Closes what the watching thread read from; only that thread calls it, after `remove`."""
        reader, self._reader = self._reader, None
        if reader is not None:
            os.close(reader)

    def before_fork(self) -> None:
        """Lets a child be born without us.

        It shares the pipe, so a signal to it would look like one to its parent; and Python forgets signals that
        reach a child before its own life begins, so that a handler would lose what the default action does not.
        """
        if self._in_place():
            self._lifted = True
            _set_action(None)

    def after_fork_in_parent(self) -> None:
        """Listens again."""
        if self._lifted:
            self._lifted = False
            _set_action(self._handler_address)

    def after_fork_in_child(self) -> None:
        """The child is not watched, and dies of SIGTERM as it always would."""
        with suppress(Exception):
            self.remove()
            if self._lifted:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Python's table still names us

    def _disconnect(self) -> None:
        # Which descriptor Python writes to can only be changed in the main thread; what is behind it, anywhere.
        if self._writer is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_NONBLOCK)
            os.dup2(nowhere, self._writer, inheritable=False)
            os.close(nowhere)

    def _in_place(self) -> bool:
        # Code below Python, such as the preemption notice of jax.distributed, replaces the handler unseen by Python.
        return (
            self.installed
            and signal.getsignal(signal.SIGTERM) == self._handle
            and _current_action() == self._handler_address
        )

    def section(self) -> _Section:
        """A context manager around work that a signal handler in the same thread must not re-enter."""
        return _Section(self._inside, self._leave_section)

    def _handle(self, number: int, frame: Any) -> None:
        if self.installed and os.getpid() == self._pid:
            self._handling.set()
            if getattr(self._inside, "depth", 0):
                self._pending = True  # this thread is in the middle of starting or writing: let it end that first
                return
            self._before_death()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _leave_section(self) -> None:
        if self._pending and threading.current_thread() is threading.main_thread():
            self._pending = False
            self._handle(signal.SIGTERM, None)


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


def _is_default(handler: Any) -> bool:
    """Whether it is the default action, or a guard that was removed in a thread where Python's table cannot change."""
    owner = getattr(handler, "__self__", None)
    return handler is signal.SIG_DFL or (isinstance(owner, TerminationGuard) and not owner.installed)


# Python's own functions for this refuse to work outside the main thread; the C functions do not mind.


def _current_action() -> int | None:
    """The address of the handler of SIGTERM; None for the default action, or where it cannot be known."""
    try:
        get_signal: Any = ctypes.pythonapi.PyOS_getsig
    except AttributeError:
        return None
    get_signal.argtypes = (ctypes.c_int,)
    get_signal.restype = ctypes.c_void_p
    return get_signal(int(signal.SIGTERM))


def _set_action(address: int | None) -> None:
    try:
        set_signal: Any = ctypes.pythonapi.PyOS_setsig
    except AttributeError:
        return
    set_signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    set_signal.restype = ctypes.c_void_p
    set_signal(int(signal.SIGTERM), address)
