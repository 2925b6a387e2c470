"""Ops that became several, and several that became one: told by place and by time that moved between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from tpuprof.compare.matching import Group
from tpuprof.compare.side import Item

LEAST_SHARE = Fraction(1, 4)
"""Ops are pieces of another one if that one changed by at least this share of them together, the other way."""

LEAST_CHANGE = Fraction(1, 50)
"""Smaller changes of an op are noise and show nothing."""

MOST_PIECES = 16


@dataclass(frozen=True, slots=True, eq=False)
class Recut:
    """A group, and whether its ops were cut anew.

    Args:
        group: the ops, those that joined it included.
        change: ``split`` (more ops in the new run), ``merged`` (fewer), or null.
    """

    group: Group
    change: Literal["split", "merged"] | None = None


def find_recuts(groups: Sequence[Group], pairs: tuple[int, int]) -> list[Recut]:
    """The groups, those that are pieces of others joined to them.

    A group that only one side has is a piece of a matched group if both compute, one of them is a fusion, they lie
    under the same scope, and the matched group lost (or gained) time as the piece came (or went).

    Args:
        groups: of a matching.
        pairs: counted (core, step) pairs of both sides.
    """
    matched = [group for group in groups if group.matched]
    single = [group for group in groups if not group.matched]
    by_place: dict[Hashable, list[int]] = {}
    for at, group in enumerate(matched):
        for place in {_place(item) for item in (*group.base, *group.new)} - {None}:
            by_place.setdefault(place, []).append(at)
    deltas = [_delta(group, pairs) for group in matched]
    pieces: dict[int, list[Group]] = {}
    rest: list[Group] = []
    for group in sorted(single, key=lambda each: (-abs(_delta(each, pairs)), _sorting(each))):
        at = _whole_of(group, by_place, matched, deltas, pairs, pieces)
        if at is None:
            rest.append(group)
        else:
            pieces.setdefault(at, []).append(group)
    found = [_joined(group, pieces[at]) if at in pieces else Recut(group) for at, group in enumerate(matched)]
    return [*found, *map(Recut, rest)]


def _whole_of(
    piece: Group,
    by_place: dict[Hashable, list[int]],
    matched: Sequence[Group],
    deltas: Sequence[Fraction],
    pairs: tuple[int, int],
    pieces: dict[int, list[Group]],
) -> int | None:
    items = piece.base or piece.new
    place, size = _place(items[0]), _delta(piece, pairs)
    if place is None or not size:
        return None
    fusion = any(item.signature.opcode == "fusion" for item in items)
    candidates: list[int] = []
    for at in by_place.get(place, []):
        group = matched[at]
        already = sum((abs(_delta(other, pairs)) for other in pieces.get(at, [])), Fraction(0))
        enough = max(LEAST_SHARE * (already + abs(size)), LEAST_CHANGE * _longest(group, pairs))
        opposite = deltas[at] * size < 0 and abs(deltas[at]) >= enough
        same_way = all(bool(other.new) == bool(piece.new) for other in pieces.get(at, []))
        fused = fusion or any(item.signature.opcode == "fusion" for item in (*group.base, *group.new))
        if opposite and same_way and fused and len(pieces.get(at, [])) < MOST_PIECES:
            candidates.append(at)
    return min(candidates, key=lambda at: (-abs(deltas[at]), _sorting(matched[at])), default=None)


def _joined(group: Group, pieces: Sequence[Group]) -> Recut:
    base = sorted([*group.base, *(item for piece in pieces for item in piece.base)], key=lambda item: item.order)
    new = sorted([*group.new, *(item for piece in pieces for item in piece.new)], key=lambda item: item.order)
    change: Literal["split", "merged"] = "split" if pieces[0].new else "merged"
    return Recut(replace(group, base=tuple(base), new=tuple(new)), change)


def _place(item: Item) -> Hashable | None:
    """Module and enclosing scope of a compute op; null for others, and where no scope encloses it."""
    signature = item.signature
    if signature.role != "compute" or not signature.place:
        return None
    return signature.module, signature.place, signature.marks


def _delta(group: Group, pairs: tuple[int, int]) -> Fraction:
    old, new = sum(item.ps for item in group.base), sum(item.ps for item in group.new)
    return Fraction(new, pairs[1]) - Fraction(old, pairs[0])


def _longest(group: Group, pairs: tuple[int, int]) -> Fraction:
    """The time of a group per step on the side where it is longer."""
    return max(
        Fraction(sum(item.ps for item in side), n) for side, n in zip((group.base, group.new), pairs, strict=True)
    )


def _sorting(group: Group) -> list[str]:
    return sorted({item.signature.sorting for item in (*group.base, *group.new)})
