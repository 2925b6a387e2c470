"""Compilations as jax reports them: how many, how long, and which of them fell into the captured window.

A compilation inside a window spoils its steps; one after the first steps is often the fault that is looked for.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from tpuprof.capture.environment import jax_if_loaded

MOST_EVENTS = 1000
MOST_REPORTED = 200
_COMPILED = "/jax/core/compile/backend_compile_duration"
_PREFIXES = ("/jax/core/compile/", "/jax/compilation_cache/")


class CompileLog:
    """Collects what jax reports; bounded, and cheap enough to be left on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._since_ns: int | None = None
        self._count = 0
        self._seconds = 0.0

    def watch(self, monitoring: Any = None) -> None:
        """Begins to listen, once; does nothing where jax is not imported or has no such reports."""
        if self._since_ns is not None:
            return
        source = monitoring if monitoring is not None else getattr(jax_if_loaded(), "monitoring", None)
        register = getattr(source, "register_event_duration_secs_listener", None)
        if register is not None:
            self._since_ns = time.time_ns()
            register(self.heard)

    def heard(self, event: str, duration: float, **details: Any) -> None:
        """Takes down one report; called by jax in whatever thread compiles, and must not raise."""
        if not event.startswith(_PREFIXES):
            return
        entry: dict[str, Any] = {
            "event": event.rsplit("/", 1)[-1].removesuffix("_duration"),
            "seconds": round(float(duration), 6),
            "end_ns": time.time_ns(),
        }
        if "fun_name" in details:
            entry["function"] = str(details["fun_name"])[:200]
        with self._lock:
            self._events.append(entry)
            if event == _COMPILED:
                self._count += 1
                self._seconds += float(duration)

    def report(self, start_ns: int, stop_ns: int) -> Mapping[str, Any] | None:
        """What was compiled since `watch`, and the reports that ended inside the window; None if nobody listened.

        ``in_window`` counts compilations, ``seconds_in_window`` adds up their time, ``events`` holds all kinds of
        reports of the window, the latest `MOST_REPORTED`.
        """
        if self._since_ns is None:
            return None
        with self._lock:
            events = [event for event in self._events if start_ns <= event["end_ns"] <= stop_ns]
            count, seconds = self._count, self._seconds
        compiled = [event for event in events if event["event"] == "backend_compile"]
        return {
            "watched_since_ns": self._since_ns,
            "count": count,
            "seconds": round(seconds, 6),
            "in_window": len(compiled),
            "seconds_in_window": round(sum(event["seconds"] for event in compiled), 6),
            "events": events[-MOST_REPORTED:],
        }


compile_log = CompileLog()


def _forked() -> None:
    # The thread that held the lock may not be in the child.
    compile_log._lock = threading.Lock()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_forked)
