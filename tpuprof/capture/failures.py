"""What became of captures that left no run: a line each in ``<logdir>/capture_failures.jsonl``.

A failed capture has no session in which its sidecar could lie, and a warning in the log of a job is soon lost. Later
captures of the same process name the earlier failures in their sidecars.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from tpuprof.capture.session import host_name
from tpuprof.errors import TpuprofError
from tpuprof.masking import mask_arguments

FILE_NAME = "capture_failures.jsonl"
_KEPT = 20
_earlier: deque[str] = deque(maxlen=_KEPT)


def note_failure(logdir: Path | None, error: TpuprofError, **facts: Any) -> None:
    """Remembers a failure, and appends it to the file where that is possible; never raises."""
    _earlier.append(str(error))
    if logdir is None:
        return
    content = {
        "at_ns": time.time_ns(),
        "host": host_name(),
        "pid": os.getpid(),
        "command": mask_arguments(getattr(sys, "argv", [])),
        "error": type(error).__name__,
        "message": str(error),
        **facts,
    }
    with suppress(OSError, ValueError):
        # One write in append mode: lines of several processes do not mix.
        file = os.open(logdir / FILE_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            os.write(file, (json.dumps(content, default=str) + "\n").encode())
        finally:
            os.close(file)


def earlier_failures() -> list[str]:
    """Messages of the failures in this process so far; the last twenty."""
    return list(_earlier)
