"""Which processes of a program record: ``hosts=(0, 3)``, ``--hosts 0-3``, or the variable ``TPUPROF_HOSTS``."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tpuprof.errors import UsageError

HOSTS_VARIABLE = "TPUPROF_HOSTS"
_LARGEST_INDEX = 1 << 20


def parse_hosts(text: str) -> frozenset[int] | None:
    """The processes of a list such as ``0,3`` or ``0-3,8``; None, which means all, for ``all`` and nothing.

    Raises:
        UsageError: the text is no such list.
    """
    if text.strip().lower() in ("", "all"):
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            if not (first.isascii() and first.isdecimal() and (not dash or (last.isascii() and last.isdecimal()))):
                raise ValueError
            low = int(first)
            high = int(last) if dash else low
            if not low <= high < _LARGEST_INDEX:
                raise ValueError
        except ValueError:
            raise UsageError(
                f"{text!r} is not a list of hosts.",
                why=f"{part.strip()!r} is neither the index of a process nor a range of them.",
                hint="Write indices of processes, such as 0,3 or 0-3, or all.",
            ) from None
        found.update(range(low, high + 1))
    return frozenset(found)


def check_hosts(hosts: Iterable[int] | str | None) -> frozenset[int] | None:
    """The processes that shall record, from an argument; None for all, unless ``TPUPROF_HOSTS`` names some.

    Raises:
        UsageError: they are no indices of processes, or there are none.
    """
    if hosts is None:
        return parse_hosts(os.environ.get(HOSTS_VARIABLE, ""))
    if isinstance(hosts, str):
        return parse_hosts(hosts)
    found = list(hosts)
    wrong = [host for host in found if isinstance(host, bool) or not isinstance(host, int) or host < 0]  # pyright: ignore[reportUnnecessaryIsInstance]
    if wrong or not found:
        said = f"hosts={found!r} " + ("holds something else than indices of processes." if wrong else "is empty.")
        raise UsageError(said, hint="Give indices of jax processes, such as hosts=(0, 3), or None for all.")
    return frozenset(found)


def expected_processes(count: int, hosts: frozenset[int] | None) -> tuple[int, ...]:
    """The indices of the processes that record a run of a program of `count` processes."""
    return tuple(index for index in range(max(count, 1)) if hosts is None or index in hosts)
