"""Which ops of two runs are the same, told by structure: from exact to similar, and always the same way.

Each round pairs what is left by a weaker key than the one before: the whole signature; without names (renamed
kernels); without the kind (another source of metadata); sizes without their values (another mesh or batch); without
the scope or the program (moved). What then is left is paired by similarity, the most alike and longest first. Inside
one key ops pair by their numbered scope, then by order of occurrence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tpuprof.compare.side import Item, Side
from tpuprof.compare.signature import Signature, dtype_and_rank
from tpuprof.compare.similarity import similar_pairs

Key = Callable[[Signature], Hashable | None]


def _forms(signature: Signature) -> Hashable:
    """Types and ranks of the results, without sizes."""
    return None if signature.shapes is None else tuple(map(dtype_and_rank, signature.shapes))


def _placed(signature: Signature) -> Hashable | None:
    """Module and scope; null if there is no scope, which says nothing."""
    return None if signature.scope is None else (signature.module, signature.scope, signature.marks)


ROUNDS: tuple[tuple[str, Key], ...] = (
    ("exact", lambda s: s),
    ("renamed", lambda s: _placed(s) and (_placed(s), s.opcode, s.kind, s.shapes, s.groups)),
    ("other metadata", lambda s: _placed(s) and s.shapes and (_placed(s), s.role, s.opcode, s.shapes)),
    ("other sizes", lambda s: (s.module, s.scope, s.marks, s.role, s.opcode, s.name, _forms(s))),
    ("other type", lambda s: _placed(s) and (_placed(s), s.role, s.opcode, s.name)),
    ("other scope", lambda s: s.shapes and (s.module, s.operation, s.kind, s.opcode, s.name, s.shapes, s.groups)),
    ("other program", lambda s: s.shapes and s.scope and (s.scope, s.marks, s.role, s.opcode, s.name, s.shapes)),
    ("other place", lambda s: s.shapes and (s.operation, s.role, s.opcode, s.name, s.shapes, s.groups)),
    ("same name", lambda s: (s.module, s.scope, s.marks, s.role, s.name)),
)
"""Name and key of each round; ops without a key (null) wait for a later round."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Ops of both sides that are the same; one side is empty for what is new or gone.

    Args:
        base: ops of the base, in order of occurrence.
        new: ops of the new run.
        how: the round that matched them; empty if nothing did.
    """

    base: tuple[Item, ...]
    new: tuple[Item, ...]
    how: str = ""

    @property
    def matched(self) -> bool:
        """Whether there is something on both sides."""
        return bool(self.base and self.new)

    def weight(self, *, of_time: bool) -> int:
        """The time of the ops of both sides, or their number."""
        return sum(item.ps if of_time else 1 for item in (*self.base, *self.new))


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """All ops of two sides in groups, each op in one of them."""

    groups: tuple[Group, ...]

    @property
    def matched_time_fraction(self) -> float | None:
        """Share of the ops' time that is in groups with both sides, over both sides; null without ops.

        Where no op takes any time it is the share of ops.
        """
        for of_time in (True, False):
            every = [(group.matched, group.weight(of_time=of_time)) for group in self.groups]
            total = sum(weight for _, weight in every)
            if total:
                return float(Fraction(sum(weight for matched, weight in every if matched), total))
        return None


def match_ops(base: Side, new: Side) -> Matching:
    """Matches the ops of two sides; exchanging the sides exchanges them in the result and changes nothing else."""
    work = _Work(base, new)
    for how, key in ROUNDS:
        work.by_key(how, key)
    work.join_known()
    pools = work.pools(0), work.pools(1)
    for one, other in similar_pairs(*pools):
        mine = [item for item in pools[0][one] if work.is_left(0, item)]
        theirs = [item for item in pools[1][other] if work.is_left(1, item)]
        work.put(mine, theirs, "similar")
    work.join_known()
    return work.result()


class _Work:
    """What is matched and what is left, while the rounds go on."""

    def __init__(self, base: Side, new: Side) -> None:
        self._left = tuple({item.order: item for item in side.items} for side in (base, new))
        self._found: dict[tuple[Signature, Signature], tuple[list[Item], list[Item], str]] = {}

    def is_left(self, side: int, item: Item) -> bool:
        return item.order in self._left[side]

    def pools(self, side: int) -> dict[Signature, list[Item]]:
        found: dict[Signature, list[Item]] = {}
        for item in self._left[side].values():
            found.setdefault(item.signature, []).append(item)
        return found

    def by_key(self, how: str, key: Key) -> None:
        ours, theirs = (_by_key(left.values(), key) for left in self._left)
        for value, mine in ours.items():
            if value in theirs:
                self.put(mine, theirs[value], how)

    def put(self, mine: Sequence[Item], theirs: Sequence[Item], how: str) -> None:
        """Matches as many of these as there are on both sides."""
        for one, other in _pairs(mine, theirs):
            found = self._found.setdefault((one.signature, other.signature), ([], [], how))
            found[0].append(one)
            found[1].append(other)
            del self._left[0][one.order], self._left[1][other.order]

    def join_known(self) -> None:
        """Puts what is left over of an op of which others are matched to these: their number has changed."""
        for side, left in enumerate(self._left):
            at: dict[Signature, tuple[Signature, Signature]] = {}
            for pair in sorted(self._found, key=self._weight):
                at.setdefault(pair[side], pair)
            for item in list(left.values()):
                if item.signature in at:
                    found = self._found[at[item.signature]]
                    (found[1] if side else found[0]).append(item)
                    del left[item.order]

    def _weight(self, pair: tuple[Signature, Signature]) -> tuple[bool, int, list[str]]:
        mine, theirs, _ = self._found[pair]
        ps = sum(item.ps for item in mine) + sum(item.ps for item in theirs)
        return pair[0] != pair[1], -ps, sorted((pair[0].sorting, pair[1].sorting))

    def result(self) -> Matching:
        groups = [Group(_in_order(mine), _in_order(theirs), how) for mine, theirs, how in self._found.values()]
        groups.extend(Group(tuple(items), ()) for items in self.pools(0).values())
        groups.extend(Group((), tuple(items)) for items in self.pools(1).values())
        return Matching(tuple(groups))


def _by_key(items: Iterable[Item], key: Key) -> dict[Hashable, list[Item]]:
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        value = key(item.signature)
        if value:
            found.setdefault(value, []).append(item)
    return found


def _pairs(mine: Sequence[Item], theirs: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Pairs by the scope as recorded, then of what is left by order of occurrence."""
    by_scope: dict[str, deque[Item]] = {}
    for item in theirs:
        by_scope.setdefault(item.scope, deque()).append(item)
    pairs: list[tuple[Item, Item]] = []
    rest: list[Item] = []
    for item in mine:
        same = by_scope.get(item.scope)
        if same:
            pairs.append((item, same.popleft()))
        else:
            rest.append(item)
    others = sorted((item for left in by_scope.values() for item in left), key=lambda item: item.order)
    return [*pairs, *zip(rest, others, strict=False)]


def _in_order(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.order))
