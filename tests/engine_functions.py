"""Functions that the tests of the engine run in other processes, which import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from tpuprof.errors import NotATraceError

BLOB = bytes(range(256)) * 256


def square(value: int) -> int:
    # Later items are done first, so that order is the engine's work.
    time.sleep(0.02 * (value == 0))
    return value * value


def process_of(_: int) -> int:
    return os.getpid()


def arrays(n: int) -> dict[str, Any]:
    return {"big": np.arange(n), "strided": np.arange(2 * n)[::2], "empty": np.zeros((0, 3)), "blob": bytes(BLOB)}


def refuse(value: int) -> int:
    if value % 2:
        raise NotATraceError(f"{value} is odd.", where=f"file {value}", why="Odd files happen.", hint="Even it out.")
    return value


class UnpicklableError(Exception):
    def __init__(self, one: int, *, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail_strangely(value: int) -> int:
    raise UnpicklableError(value, two=2)


def noisy(value: int) -> int:
    print("a library prints what it likes")
    os.write(1, b"even past Python\n")
    return value


def die(value: int) -> int:
    if value == 1:
        os.kill(os.getpid(), 9)
    return value


def leave(value: int) -> int:
    os._exit(7)


def note_and_wait(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)
