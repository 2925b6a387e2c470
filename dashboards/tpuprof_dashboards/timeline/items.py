"""What the events of a timeline are: one entry per op, program, step or host function, however often it occurs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpuprof_dashboards.timeline.looks import COLOURS
from tpuprof_dashboards.timeline.rows import U8


@dataclass(frozen=True, slots=True)
class Item:
    """What events have in common.

    Args:
        name: the event's name, as it came from the trace: never to be read as markup.
        colour: its position in ``COLOURS``.
        kind: of an op as in the tables, else in words.
        scope: the name-scope path; empty if unknown.
        source: the source line; empty if unknown.
        module: the program; empty if unknown.
        category: the category that the trace states; empty if none.
    """

    name: str
    colour: int
    kind: str
    scope: str = ""
    source: str = ""
    module: str = ""
    category: str = ""


class ItemTable:
    """Collects items; equal ones get one number."""

    def __init__(self) -> None:
        self._rows: dict[Item, int] = {}

    def add(self, item: Item) -> int:
        """The number of an item."""
        return self._rows.setdefault(item, len(self._rows))

    def done(self) -> Items:
        """All items."""
        return Items(tuple(self._rows))


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a timeline, by number."""

    all: tuple[Item, ...]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, number: int) -> Item:
        return self.all[number]

    @cached_property
    def colours(self) -> U8:
        """The colour of each."""
        return np.array([item.colour for item in self.all], np.uint8)

    @cached_property
    def search_texts(self) -> tuple[str, ...]:
        """What a search looks at: name, kind, its label, scope and program, case folded."""
        return tuple(
            "\n".join((i.name, i.kind, COLOURS[i.colour].label, i.scope, i.module)).casefold() for i in self.all
        )
