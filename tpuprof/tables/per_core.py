"""One function over the cores of a run: in threads where there is much to do.

What is done per core are array operations and compiled loops, which release the interpreter lock for most of their
time. Threads share the arrays; processes would have to be sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tpuprof.engine import usable_cores

Result = TypeVar("Result")

THREADS_FROM_ROWS = 400_000
"""With fewer op rows in all, threads cost more than they bring."""


def per_core(function: Callable[..., Result], rows: int, *columns: Sequence[Any]) -> list[Result]:
    """The results of the function for each core, in the order of the cores.

    Args:
        function: a pure function, called with one element of each column.
        rows: how many op rows the cores have in all, which decides whether threads pay.
        columns: its arguments, one element per core.

    Raises:
        Exception: what the function raised, for the first core for which it did.
    """
    calls: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
    threads = min(usable_cores(), len(columns[0]))
    if threads < 2 or rows < THREADS_FROM_ROWS:
        return [function(*call) for call in calls]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, *columns))
