"""A sign of life on stderr for what takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

PATIENCE_S = 2.0
REFRESH_S = 0.2


@contextmanager
def progress(
    text: str, *, quiet: bool = False, patience_s: float = PATIENCE_S
) -> Generator[Callable[[int, int], None]]:
    """Shows a spinner with the text if stderr is a terminal and the block takes longer than the patience.

    The block receives a function that takes (done, all), which is shown behind the text where there is more than one.
    """
    state = _State(text)
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield state.count
        return
    thread = threading.Thread(target=_spin, args=(state, patience_s), daemon=True)
    thread.start()
    try:
        yield state.count
    finally:
        state.done.set()
        thread.join()


class _State:
    """What the spinner's thread shows, and when it ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.counted = ""
        self.done = threading.Event()

    def count(self, done: int, total: int) -> None:
        self.counted = f" ({done} of {total})" if total > 1 else ""


def _spin(state: _State, patience_s: float) -> None:
    if state.done.wait(patience_s):
        return
    from rich.console import Console
    from rich.text import Text

    from tpuprof.text import clean

    with Console(stderr=True).status(Text(clean(state.text))) as status:
        while not state.done.wait(REFRESH_S):
            status.update(Text(clean(state.text + state.counted)))
