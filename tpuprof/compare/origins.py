"""Causes of a difference: rows that changed for one reason, together, and the surest reason first.

What a program does is a fact, and what the machine made of it is not: an op that one side lacks is there in every step
of every capture, while the time of an op that both sides have may differ because something else ran beside it. So a
cause is ranked by how much of it is sure: what more or fewer ops make, in full; of everything else what is left after
two standard errors, and these include what captures of one program differ by.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from tpuprof.compare.repeats import Repeat, loops, repeats
from tpuprof.compare.retyped import Types, types_of
from tpuprof.compare.rows import Row
from tpuprof.compare.side import Item, Side
from tpuprof.compare.splits import fused_otherwise
from tpuprof.tables.schemas import COMPUTE_KINDS

What = Literal["repeats", "recomputation", "types", "collective", "fusion", "ops", "sizes", "time", "idle", "wait"]

_Words = tuple[What, str | None, str | None, str | None]

FACTS: tuple[What, ...] = ("repeats", "recomputation", "types", "collective", "fusion", "ops", "sizes")
"""Causes that the programs themselves show; the others may be the machine's."""

ERRORS = 2
"""So many standard errors of a difference are not believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """One reason of a difference, and the rows that it changed. Times are mean ps per step, new minus base.

    Args:
        what: ``repeats`` (another number of layers), ``recomputation``, ``types``, ``collective`` (more, fewer or
            other ones), ``fusion`` (ops cut anew), ``ops`` (more, fewer or other ones), ``sizes``, ``time`` (the same
            op takes another time), ``idle`` or ``wait``.
        where: the scope, the collective or the op concerned; null if it is the whole program.
        base: the base's state in words; null where there is nothing to say.
        new: the new run's.
        rows: the rows, those that changed most first; each row is in one cause.
        delta: the sum of their deltas.
        count_effect_ps: what more or fewer ops make, no more of a row than all ops of the side with more of them.
        error_ps: the standard error of the delta, with what captures of one program differ by; null if unknown.
    """

    what: What
    where: str | None
    base: str | None
    new: str | None
    rows: tuple[Row, ...]
    delta: Fraction
    count_effect_ps: float
    error_ps: float | None = field(default=None)

    @property
    def delta_ps(self) -> float:
        """New minus base."""
        return float(self.delta)

    @property
    def sure_ps(self) -> float:
        """How much of the delta is no chance, without its sign; all of it where no error is known."""
        beyond = abs(self.delta_ps) - ERRORS * (self.error_ps or 0.0)
        return max(beyond, abs(self.count_effect_ps), 0.0)

    def to_json(self) -> dict[str, Any]:
        """The cause as JSON data; its rows by their places among the changed ones are left to the explanation."""
        return {
            "what": self.what,
            "where": self.where,
            "base": self.base,
            "new": self.new,
            "delta_ps": self.delta_ps,
            "sure_ps": self.sure_ps,
            "delta_error_ps": self.error_ps,
            "groups": [row.group for row in self.rows],
        }


def origins(changed: Sequence[Row], sides: tuple[Side, Side] | None, least_ps: float = 0.0) -> tuple[Origin, ...]:
    """The causes of the changed rows, the surest first; their deltas sum to those of the rows.

    Of equally sure ones those that the programs show come first, then the largest.

    Args:
        changed: the rows.
        sides: what they come from.
        least_ps: causes of which less is sure are nothing to rank by: a tiny new op is no reason of anything.
    """
    again = (*(repeats(*sides) if sides is not None else ()), *loops(changed))
    found: dict[Hashable, list[Row]] = {}
    told: dict[Hashable, _Words] = {}
    types = types_of(changed)
    for row in changed:
        key, words = _reason(row, again, types)
        found.setdefault(key, []).append(row)
        told.setdefault(key, words)
    causes = [_origin(told[key], rows, sides) for key, rows in found.items()]

    def order(cause: Origin) -> tuple[float, bool, Fraction, str]:
        sure = cause.sure_ps if cause.sure_ps >= least_ps else 0.0
        return -sure, cause.what not in FACTS, -abs(cause.delta), cause.where or ""

    return tuple(sorted(causes, key=order))


def _origin(words: _Words, rows: Sequence[Row], sides: tuple[Side, Side] | None) -> Origin:
    what, where, base, new = words
    ordered = tuple(sorted(rows, key=lambda row: -abs(row.delta)))
    if what == "recomputation" and sides is not None:
        base, new = (_again(ordered, side, at) for at, side in enumerate(sides))
    elif what == "collective":
        base, new = (_times(sum(counts)) for counts in zip(*(_counts(row) for row in ordered), strict=True))
    return Origin(
        what=what,
        where=where,
        base=base,
        new=new,
        rows=ordered,
        delta=sum((row.delta for row in ordered), Fraction(0)),
        count_effect_ps=math.fsum(_count_effect(row) for row in ordered if row.recounted),
        error_ps=_error(ordered, sides),
    )


def _count_effect(row: Row) -> float:
    """Of one large op that became many small ones, the mean time of both sides says too much."""
    counts = _counts(row)
    most = row.new_ps if counts[1] > counts[0] else row.base_ps
    return math.copysign(min(abs(row.count_effect_ps), most), row.count_effect_ps)


def _error(rows: Sequence[Row], sides: tuple[Side, Side] | None) -> float | None:
    """Of the sum of the rows, which do not vary independently of each other."""
    if len(rows) == 1:
        return rows[0].capture_error_ps
    variance = 0.0
    for at, side in enumerate(sides or ()):
        registry = {n for row in rows for item in _of_side(row, at) for n in item.rows}
        one = side.per_step.of_ops(sorted(registry)) if side.per_step is not None else None
        if side.per_step is None or one is None:
            return None
        variance += one * side.per_step.between
    return math.sqrt(variance) if sides is not None else None


def _reason(row: Row, again: Sequence[Repeat], types: Types) -> tuple[Hashable, _Words]:
    """Why a row changed: what rows with one reason have in common, and the reason in words."""
    if row.ops is None:
        what: What = "wait" if row.kind == "barrier_wait" else "idle"
        return (what, row.group), (what, row.group, None, None)
    base, new = row.ops.base, row.ops.new
    signature = (new or base)[0].signature
    for repeat in again:
        if repeat.concerns(row):
            return ("repeats", repeat), ("repeats", repeat.where, _times(repeat.base), _times(repeat.new))
    if _recomputed(base) != _recomputed(new):
        return ("recomputation", row.module), ("recomputation", row.module, None, None)
    if types.concern(row):
        return ("types", row.module), ("types", *types.words(row.module))
    if row.recounted or row.change in ("split", "merged"):
        if signature.role == "collective":
            return ("collective", row.module, signature.opcode), ("collective", signature.opcode, None, None)
        what = "fusion" if row.change in ("split", "merged") else "ops"
        if row.kind in COMPUTE_KINDS and signature.place:
            place = "/".join(signature.place)
            return ("place", row.module, place), (what, place, None, None)
        return ("ops", row), (what, row.scope or row.group, None, None)
    if row.kind in COMPUTE_KINDS and row.ops.matched and fused_otherwise(row.ops):
        place = "/".join(signature.place) or None
        return ("place", row.module, place or row), ("fusion", place or row.group, None, None)
    if row.ops.matched and _shapes(base) != _shapes(new):
        return ("sizes", row.module), ("sizes", row.module, None, None)
    return ("time", row), ("time", row.scope or row.group, None, None)


def _again(rows: Sequence[Row], side: Side, at: int) -> str:
    """How many ops of a side run again in a step."""
    items = [item for row in rows for item in _of_side(row, at)]
    return _times(sum(item.count for item in items if _recomputed([item])) / side.pairs)


def _of_side(row: Row, at: int) -> Sequence[Item]:
    return () if row.ops is None else (row.ops.base, row.ops.new)[at]


def _recomputed(items: Iterable[Item]) -> bool:
    return any("recomputed" in item.signature.marks or ".remat" in item.info.name for item in items)


def _shapes(items: Iterable[Item]) -> set[tuple[str, ...] | None]:
    return {item.signature.shapes for item in items}


def _counts(row: Row) -> tuple[float, float]:
    return row.count_base or 0.0, row.count_new or 0.0


def _times(count: float) -> str:
    return f"{count:.0f}" if float(count).is_integer() else f"{count:.4g}"
