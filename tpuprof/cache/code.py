"""Which code made what is in the cache: other code may make something else of the same files."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tpuprof._version import __version__

_MAKERS = (".", "cache", "formats", "hlo", "protos", "tables")
_PACKAGE = Path(__file__).parents[1]


@cache
def code_mark() -> list[Any]:
    """The version, and size and time of every module that has a part in making tables.

    A version says enough of a release. Of a working copy it does not: two states of it share one.
    """
    found: list[Any] = []
    for name in _MAKERS:
        _modules(_PACKAGE / name, deep=name != ".", found=found)
    return [__version__, *sorted(found)]


def _modules(folder: Path, *, deep: bool, found: list[Any]) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                info = entry.stat()
                found.append([os.path.relpath(entry.path, _PACKAGE), info.st_size, info.st_mtime_ns])
            elif deep and entry.is_dir() and entry.name != "__pycache__":
                _modules(Path(entry.path), deep=True, found=found)
