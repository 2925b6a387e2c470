"""Results kept for reuse: made once however many people ask at the same time, the least used dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Memo:
    """A bounded dictionary of results, safe for threads.

    While one thread makes a result, others that want the same one wait for it; those that want another one do not.
    A failure is not kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result under ``key``, made by ``make`` where there is none."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.made:
                entry.value = make()
                entry.made = True
        return cast("T", entry.value)

    def has(self, key: Hashable) -> bool:
        """True if the result is there and need not be made."""
        with self._lock:
            entry = self._entries.get(key)
        return entry is not None and entry.made


class _Entry:
    def __init__(self) -> None:
        self.lock = Lock()
        self.made = False
        self.value: Any = None
