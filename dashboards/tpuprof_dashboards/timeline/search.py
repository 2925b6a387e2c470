"""Search in a timeline: which events have every word of a query in their name, kind, scope or program."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.rows import BOOL, I64

MAX_QUERY = 200
KEPT = 3  # queries whose hits are kept per run: people refine one, and several may look at the same run
_found: WeakKeyDictionary[TimelineModel, OrderedDict[str, Hits]]
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """What a query finds.

    Args:
        items: for each item whether it matches.
        rows: for each row the ascending positions of the matching events.
    """

    items: BOOL
    rows: tuple[I64, ...]

    def __len__(self) -> int:
        return sum(len(row) for row in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Matches near a time, in order of (start, row): their rows, and their positions in them."""

    row: I64
    position: I64


_found = WeakKeyDictionary()


def normal(query: str) -> str:
    """The query as it is compared: shortened, case folded, white space as single blanks."""
    return " ".join(query[:MAX_QUERY].casefold().split())


def search(model: TimelineModel, query: str) -> Hits | None:
    """The events that match, or null for an empty query."""
    words = normal(query)
    if not words:
        return None
    with _lock:
        recent = _found.setdefault(model, OrderedDict())
        if words in recent:
            recent.move_to_end(words)
            return recent[words]
    items = _matching(model, words.split(" "))
    hits = Hits(items, tuple(np.flatnonzero(items[row.events.item]) for row in model.rows))
    with _lock:
        recent[words] = hits
        while len(recent) > KEPT:
            recent.popitem(last=False)
    return hits


def nearest(model: TimelineModel, hits: Hits, time: int, limit: int) -> Nearest:
    """At most ``limit`` matches whose starts are nearest to a time."""
    rows: list[I64] = []
    positions: list[I64] = []
    starts: list[I64] = []
    for number, found in enumerate(hits.rows):
        if len(found):
            start = model.rows[number].events.start
            middle = int(np.searchsorted(start[found], time))
            near = found[max(middle - limit, 0) : middle + limit]
            rows.append(np.full(len(near), number, np.int64))
            positions.append(near)
            starts.append(start[near])
    if not rows:
        return Nearest(np.zeros(0, np.int64), np.zeros(0, np.int64))
    row, position, start = np.concatenate(rows), np.concatenate(positions), np.concatenate(starts)
    kept = np.argsort(np.abs(start - time), kind="stable")[:limit]
    order = kept[np.lexsort((row[kept], start[kept]))]
    return Nearest(row[order], position[order])


def _matching(model: TimelineModel, words: list[str]) -> BOOL:
    texts = model.items.search_texts
    return np.array([all(word in text for word in words) for text in texts] or [False], np.bool_)
