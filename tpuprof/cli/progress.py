"""A sign of life on stderr for what takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

PATIENCE_S = 2.0


@contextmanager
def progress(text: str, *, quiet: bool = False, patience_s: float = PATIENCE_S) -> Generator[None]:
    """Shows a spinner with the text if stderr is a terminal and the block takes longer than the patience."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(text, done, patience_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _spin(text: str, done: threading.Event, patience_s: float) -> None:
    if done.wait(patience_s):
        return
    from rich.console import Console
    from rich.text import Text

    from tpuprof.text import clean

    with Console(stderr=True).status(Text(clean(text))):
        done.wait()
