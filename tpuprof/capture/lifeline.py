"""What a recording needs so that it outlives nothing and nobody: the end of the process, SIGTERM, forks, and a thread
that looks after it.

One object per owner. All of it is given back by `stop`, as far as Python allows.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

from tpuprof.capture.termination import TerminationGuard


class Lifeline:
    """Calls its owner back when the process ends, is terminated or forks, and regularly from a daemon thread.

    Args:
        on_exit: the interpreter ends normally.
        on_termination: SIGTERM has come, which kills the process afterwards. Only where nobody else handles it.
        on_fork: in the child, where no thread of ours exists and locks may be held for ever.
        look: called from the thread; returns the seconds until its next call, None for never again.
    """

    def __init__(
        self,
        *,
        on_exit: Callable[[], None],
        on_termination: Callable[[], None],
        on_fork: Callable[[], None],
        look: Callable[[], float | None],
    ) -> None:
        self.guard = TerminationGuard(on_termination)
        self._on_exit = on_exit
        self._on_fork = on_fork
        self._look = look
        self._ended = threading.Event()

    def start(self) -> None:
        """Hooks in. The thread starts at once."""
        atexit.register(self._on_exit)
        _alive.add(self)
        self.guard.install()
        with suppress(RuntimeError):  # the interpreter is ending, and starts no threads any more
            threading.Thread(target=self._watch, name="tpuprof-capture", daemon=True).start()

    def stop(self) -> None:
        """Gives everything back; the thread ends when it looks up next."""
        self._ended.set()
        _alive.discard(self)
        atexit.unregister(self._on_exit)
        self.guard.remove()

    def release_signal(self) -> None:
        """Gives SIGTERM its default action back, and lets the thread end; the end of the process is still followed."""
        self._ended.set()
        self.guard.remove()

    def _watch(self) -> None:
        while not self._ended.is_set():
            seconds = self._look()
            if seconds is None:
                return
            self.guard.wait(seconds)
        self.guard.release_reader()

    def before_fork(self) -> None:
        """Lets a child be born without us."""
        self.guard.before_fork()

    def after_fork_in_parent(self) -> None:
        """Listens again."""
        self.guard.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """The child is not watched."""
        self._ended.set()
        with suppress(Exception):
            self._on_fork()
        atexit.unregister(self._on_exit)
        self.guard.after_fork_in_child()


_alive: WeakSet[Lifeline] = WeakSet()


def _each(name: str) -> Callable[[], None]:
    def call() -> None:
        for lifeline in list(_alive):
            getattr(lifeline, name)()

    return call


# These hooks can never be taken back, so there is one of each for the whole life of the process.
os.register_at_fork(
    before=_each("before_fork"),
    after_in_parent=_each("after_fork_in_parent"),
    after_in_child=_each("after_fork_in_child"),
)
