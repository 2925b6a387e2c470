"""Ops that compute in another type than before, and what comes with it: conversions, and ops of the new type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tpuprof.compare.rows import Row
from tpuprof.compare.side import Item
from tpuprof.compare.signature import common_place, dtype_and_rank, scope_names

_NO_WORK = {"fusion", "wrapped"}


@dataclass(frozen=True, slots=True)
class Types:
    """Element types of ops that have another one on the other side, by program.

    Args:
        base: the types that only the base's ops have.
        new: those that only the new run's have.
        places: the scopes of these ops, as recorded.
    """

    base: Mapping[str | None, frozenset[str]]
    new: Mapping[str | None, frozenset[str]]
    places: Mapping[str | None, Sequence[tuple[str, ...]]]

    def concern(self, row: Row) -> bool:
        """Whether a row's ops changed their type, or are there on one side only because of such a change."""
        if row.ops is None:
            return False
        if next(_retyped(row), None) is not None:
            return True
        if row.ops.matched:
            return False
        items = (*row.ops.base, *row.ops.new)
        types, only = _types(items), (self.base if row.ops.base else self.new).get(row.module, frozenset())
        return all(map(_converts, items)) or bool(types and types <= only)

    def words(self, module: str | None) -> tuple[str | None, str | None, str | None]:
        """Where it happened, and the types of both sides."""
        places = list(self.places.get(module, ()))
        where = "/".join(common_place(places)) or None
        sides = [", ".join(sorted(side.get(module, ()))) or None for side in (self.base, self.new)]
        return where or module, sides[0], sides[1]


def types_of(changed: Sequence[Row]) -> Types:
    """The changes of types among the changed rows."""
    base: dict[str | None, frozenset[str]] = {}
    new: dict[str | None, frozenset[str]] = {}
    places: dict[str | None, list[tuple[str, ...]]] = {}
    for row in changed:
        for one, other in _retyped(row):
            old, fresh = _types([one]), _types([other])
            base[row.module] = base.get(row.module, frozenset()) | (old - fresh)
            new[row.module] = new.get(row.module, frozenset()) | (fresh - old)
            if other.scope:
                places.setdefault(row.module, []).append(scope_names(other.scope)[:-1])
    return Types(base, new, places)


def _retyped(row: Row) -> Iterator[tuple[Item, Item]]:
    """The pairs of ops of a row that make another type."""
    if row.ops is None or row.change in ("split", "merged") or len(row.ops.base) != len(row.ops.new):
        return
    for one, other in zip(row.ops.base, row.ops.new, strict=True):
        types = _types([one]), _types([other])
        if types[0] and types[1] and types[0] != types[1]:
            yield one, other


def _types(items: Iterable[Item]) -> frozenset[str]:
    """Element types of the results; empty if one is unknown."""
    shapes = [item.signature.shapes for item in items]
    return frozenset(dtype_and_rank(s)[0] for each in shapes if each for s in each) if all(shapes) else frozenset()


def _converts(item: Item) -> bool:
    """Whether all that an op is named for is conversions."""
    return set(item.signature.name.replace("-", "_").split("_")) - _NO_WORK == {"convert"}
