"""Parts of a program that are repeated, such as layers, and whether the sides have another number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tpuprof.compare.rows import Row
from tpuprof.compare.side import Item, Side
from tpuprof.compare.signature import combined_scopes, scope_names
from tpuprof.tables.schemas import COMPUTE_KINDS

Place = tuple[str, ...]
_Numbered = dict[tuple[str | None, Place], set[Place]]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A numbered scope of which there are more or fewer.

    Args:
        module: the program's name.
        place: the scope with ``*`` for its number; empty of a loop without one.
        base: how many the base has.
        new: how many the new run has.
    """

    module: str | None
    place: Place
    base: int
    new: int

    @property
    def where(self) -> str | None:
        """The scope as a path; null of a loop."""
        return "/".join(self.place) or None

    def concerns(self, row: Row) -> bool:
        """Whether the number of a row's ops changed for this reason: it is inside, or changed in the same ratio."""
        if row.ops is None or row.module != self.module or not row.recounted:
            return False
        items = (*row.ops.base, *row.ops.new)
        if self.place and all((item.signature.scope or ())[: len(self.place)] == self.place for item in items):
            return True
        if not row.count_base or not row.count_new:
            return False
        return Fraction(row.count_new) * self.base == Fraction(row.count_base) * self.new


def repeats(base: Side, new: Side) -> tuple[Repeat, ...]:
    """The numbered scopes of which both sides have some, but not the same number; outer ones before inner ones."""
    ours, theirs = _numbered(base.items), _numbered(new.items)
    found = [
        Repeat(module, place, len(ours[module, place]), len(theirs[module, place]))
        for module, place in sorted(ours.keys() & theirs.keys(), key=lambda key: (len(key[1]), repr(key)))
        if len(ours[module, place]) != len(theirs[module, place])
        and all(_even(side, module, place) for side in (ours, theirs))
    ]
    outer = {(repeat.module, repeat.place) for repeat in found}
    return tuple(
        repeat
        for repeat in found
        if not any((repeat.module, repeat.place[:n]) in outer for n in range(1, len(repeat.place)))
    )


def _even(numbered: _Numbered, module: str | None, place: Place) -> bool:
    """Whether each outer scope has as many of them: where one has fewer, its ops have only gone into others."""
    outer = [len(numbered[module, place[:n]]) for n in range(1, len(place)) if (module, place[:n]) in numbered]
    return not outer or len(numbered[module, place]) % outer[-1] == 0


def loops(changed: Sequence[Row]) -> tuple[Repeat, ...]:
    """Loops of which a step makes more or fewer turns: several compute ops run in them, all as often as each other.

    A scan leaves no number in scope names; that the ops of its body come in one ratio more often is all there is.
    """
    found: Counter[tuple[str | None, int, int]] = Counter()
    for row in changed:
        if row.ops is None or not row.ops.matched or row.kind not in COMPUTE_KINDS:
            continue
        turns = _turns(row.count_base, row.ops.base), _turns(row.count_new, row.ops.new)
        if len(row.ops.base) == len(row.ops.new) and min(turns) > 1 and turns[0] != turns[1]:
            found[row.module, *turns] += 1
    return tuple(Repeat(module, (), base, new) for (module, base, new), n in found.most_common() if n > 1)


def _turns(count: float | None, items: Sequence[Item]) -> int:
    """How often each of some ops runs in a step; 0 if that is no whole number."""
    turns = Fraction(count or 0.0) / len(items)
    return int(turns) if turns.denominator == 1 else 0


def _numbered(items: Iterable[Item]) -> _Numbered:
    """The scopes as recorded, by what they are without numbers."""
    found: _Numbered = {}
    for item in items:
        scope = item.signature.scope
        if scope is None or len(combined_scopes(item.scope)) > 1:
            continue
        recorded = scope_names(item.scope)
        if len(recorded) != len(scope):
            continue
        for depth in range(1, len(scope)):  # the last name is the operation
            if "*" in scope[depth - 1]:
                found.setdefault((item.signature.module, scope[:depth]), set()).add(tuple(recorded[:depth]))
    return found
