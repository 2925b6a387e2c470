"""Waiting for a profiler that may take minutes, or for ever, to hand its trace over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

HEARTBEAT_S = 10.0


def patiently(work: Callable[[], None], *, timeout_s: float, beat: Callable[[float], None]) -> bool:
    """Runs `work` in a thread of its own and waits for it; whether it ended in time.

    Work that has not ended goes on by itself. `beat` hears every ten seconds how long it has taken. Where no thread
    can be started, as at the end of the interpreter, the work is done right here, however long it takes.

    Args:
        work: what to do; it must not raise.
        timeout_s: seconds to wait.
        beat: called with the seconds passed.
    """
    begin = time.monotonic()
    ended = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            ended.set()

    try:
        threading.Thread(target=run, name="tpuprof-stop", daemon=True).start()
    except RuntimeError:
        work()
        return True
    while not ended.is_set():
        passed = time.monotonic() - begin
        if passed >= timeout_s:
            return False
        if not ended.wait(min(HEARTBEAT_S - passed % HEARTBEAT_S, timeout_s - passed)) and passed < timeout_s:
            now = time.monotonic() - begin
            if now < timeout_s:
                beat(now)
    return True
