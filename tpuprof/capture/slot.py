"""The one place for a running capture that a process has, because it has one profiler."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol

from tpuprof.errors import CaptureActiveError


class Holder(Protocol):
    """A capture that holds the place, or wants to."""

    on_preempt: Callable[[], None] | None


_lock = threading.Lock()
_active: Holder | None = None


def claim(new: Holder) -> None:
    """Makes `new` the capture of this process. A capture that gives way is ended first.

    Raises:
        CaptureActiveError: the other one does not give way; it goes on.
    """
    global _active
    holder = _active
    if holder is not None and holder.on_preempt is not None:
        holder.on_preempt()
    with _lock:
        if _active is not None:
            raise CaptureActiveError(
                "A capture of this process is already running.",
                hint="Leave its with block, or stop it, before another one starts.",
            )
        _active = new


def release(old: Holder) -> None:
    """Frees the place, if `old` has it."""
    global _active
    with _lock:
        if _active is old:
            _active = None


def _forget() -> None:
    # A forked child has neither the session nor the thread that may have held the lock.
    global _active, _lock
    _lock = threading.Lock()
    _active = None


os.register_at_fork(after_in_child=_forget)
