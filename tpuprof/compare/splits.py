"""Ops that became several, and several that became one: told by place and by time that moved between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from tpuprof.compare.matching import Group
from tpuprof.compare.side import Item

LEAST_SHARE = Fraction(1, 4)
"""Ops are pieces of another one if that one changed by at least this share of them together, the other way."""

LEAST_CHANGE = Fraction(1, 50)
"""Smaller changes of an op are noise and show nothing."""

_NO_WORK = frozenset({"parameter", "constant", "broadcast", "bitcast", "copy", "convert", "tuple", "get-tuple-element"})

MOST_PIECES = 16
MOST_WHOLES = 32
"""So many ops of one place, those that changed most, are looked at for pieces."""


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
    matched = [_Whole(group, *_times(group, pairs)) for group in groups if group.matched]
    wholes = _by_place(matched)
    rest: list[Group] = []
    pieces = [(group, *_times(group, pairs)) for group in groups if not group.matched]
    pieces.sort(key=lambda piece: (-max(piece[1], piece[2]), _sorting(piece[0])))
    for group, old, fresh in pieces:
        place = _place((group.base or group.new)[0])
        whole = None if place is None else _whole_of(group, fresh - old, wholes.get((place, fresh < old), []))
        if whole is None:
            rest.append(group)
        else:
            whole.pieces.append(group)
            whole.taken += abs(fresh - old)
    return [*(whole.recut() for whole in matched), *map(Recut, rest)]


@dataclass(slots=True, eq=False)
class _Whole:
    """A matched group to which pieces may belong; times of both sides have one unit."""

    group: Group
    old: int
    fresh: int
    pieces: list[Group] = field(default_factory=list[Group])
    taken: int = 0

    @property
    def delta(self) -> int:
        return self.fresh - self.old

    def recut(self) -> Recut:
        if not self.pieces:
            return Recut(self.group)
        base = [*self.group.base, *(item for piece in self.pieces for item in piece.base)]
        new = [*self.group.new, *(item for piece in self.pieces for item in piece.new)]
        joined = Group(_in_order(base), _in_order(new), self.group.how)
        return Recut(joined, "split" if self.pieces[0].new else "merged")


def fused_otherwise(group: Group) -> bool:
    """Whether some fusion of a matched group holds other operations than before, as far as the programs tell.

    Conversions and what moves no data are left out: they come and go with types and layouts.
    """
    if len(group.base) != len(group.new):
        return False
    for one, other in zip(group.base, group.new, strict=True):
        inside = _fused(one), _fused(other)
        if inside[0] is not None and inside[1] is not None and inside[0] != inside[1]:
            return True
    return False


def _fused(item: Item) -> Counter[str] | None:
    """The operations in a fusion; null if it is none or its program is not known."""
    instruction, program = item.info.instruction, item.info.program
    if instruction is None or program is None or instruction.opcode != "fusion":
        return None
    found: Counter[str] = Counter()
    for name in instruction.called_by_role("calls"):
        try:
            inside = program.computation(name).instructions
        except KeyError:
            return None
        found.update(each.opcode for each in inside if each.opcode not in _NO_WORK)
    return found


def _by_place(matched: Sequence[_Whole]) -> dict[Hashable, list[_Whole]]:
    """By place and by whether time was gained those groups whose time changed, the most first and not too many."""
    found: dict[Hashable, list[_Whole]] = {}
    for whole in matched:
        # What is computed again came for that reason, and is no piece of what was computed once.
        again = [
            any("recomputed" in item.signature.marks for item in side) for side in (whole.group.base, whole.group.new)
        ]
        if again[0] == again[1] and whole.delta and abs(whole.delta) >= LEAST_CHANGE * max(whole.old, whole.fresh):
            places = {_place(item) for item in (*whole.group.base, *whole.group.new)} - {None}
            for place in places:
                found.setdefault((place, whole.delta > 0), []).append(whole)
    for wholes in found.values():
        wholes.sort(key=lambda whole: (-abs(whole.delta), _sorting(whole.group)))
        del wholes[MOST_WHOLES:]
    return found


def _whole_of(piece: Group, size: int, wholes: Sequence[_Whole]) -> _Whole | None:
    """The group of which this is a piece: the one that changed most."""
    for whole in wholes:
        enough = abs(whole.delta) >= LEAST_SHARE * (whole.taken + abs(size))
        fused = any(item.signature.opcode == "fusion" for g in (whole.group, piece) for item in (*g.base, *g.new))
        if size and enough and fused and len(whole.pieces) < MOST_PIECES:
            return whole
    return None


def _place(item: Item) -> Hashable | None:
    """Module and enclosing scope of a compute op; null for others, and where no scope encloses it."""
    signature = item.signature
    if signature.role != "compute" or not signature.place:
        return None
    return signature.module, signature.place, signature.marks


def _times(group: Group, pairs: tuple[int, int]) -> tuple[int, int]:
    """The times of both sides per step, over their common denominator."""
    return sum(item.ps for item in group.base) * pairs[1], sum(item.ps for item in group.new) * pairs[0]


def _in_order(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.order))


def _sorting(group: Group) -> list[str]:
    return sorted({item.signature.sorting for item in (*group.base, *group.new)})
