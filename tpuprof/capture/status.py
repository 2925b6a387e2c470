"""What the processes of a captured program report to the launcher: one small JSON file each.

Loaded at the start of every Python process of the program, hence the few imports.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pathlib import Path


class Status:
    """The report of this process. Never raises: a launcher that is gone is no reason to disturb a program."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pid = os.getpid()
        self._begin = time.monotonic()
        self._fields: dict[str, Any] = {"pid": self._pid}

    def adopt(self) -> None:
        """Makes this the report of a process that was forked before it had anything to report."""
        if os.getpid() != self._pid:
            self._pid = os.getpid()
            self._fields = {"pid": self._pid}

    @property
    def elapsed_s(self) -> float:
        """Seconds since this process started Python."""
        return time.monotonic() - self._begin

    def update(self, **fields: Any) -> None:
        """Adds or replaces fields and stores the report."""
        if os.getpid() != self._pid:  # a fork: the report is the parent's
            return
        self._fields.update(fields, elapsed_s=round(self.elapsed_s, 3))
        path = os.path.join(self._directory, f"{self._pid}.json")
        try:
            with open(f"{path}.tmp", "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(self._fields, file, default=str)
            os.replace(f"{path}.tmp", path)
        except (OSError, ValueError):
            pass  # not contextlib.suppress: its import costs milliseconds

    def problem(self, text: str) -> None:
        """Reports why there will be no trace, to the launcher and, once, on this process's stderr."""
        if "error" not in self._fields:
            if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
                try:  # noqa: SIM105
                    print(f"tpuprof: {text}", file=sys.stderr, flush=True)
                except (OSError, ValueError):
                    pass
            self.update(error=text)


def read_statuses(directory: Path) -> list[dict[str, Any]]:
    """The reports of all processes in the order of their process numbers; unreadable ones are left out."""
    found: list[dict[str, Any]] = []
    for path in directory.glob("*.json"):
        try:
            content: Any = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            found.append(cast("dict[str, Any]", content))
    return sorted(found, key=lambda status: int(status.get("pid", 0)))
