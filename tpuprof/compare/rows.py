"""One row of an explanation: a group of ops, or of time without ops, on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest
from typing import Any, Literal

from tpuprof.compare.matching import Group
from tpuprof.compare.side import Item
from tpuprof.compare.signature import combined_scopes, common_place, scope_names
from tpuprof.compare.variation import NO_ERRORS, Errors

Change = Literal["new", "gone", "moved", "split", "merged", "count", "duration", "exposure", "same"]

MOST_MEMBERS = 5
_HALF = 0.5
# Rounds of the matching that go by the op alone: what they pair is the same op in another place.
_SAME_OP = ("other scope", "other program", "other place")
_IN_FLIGHT = ("collective_exposed", "dma_wait")


@dataclass(frozen=True, slots=True)
class Member:
    """One op of a row: its name and its time per step; null on the side that lacks it.

    Args:
        base: the op's name in the base.
        new: its name in the new run.
        base_ps: mean ps per step in the base.
        new_ps: mean ps per step in the new run.
        scope: the scope path as recorded.
    """

    base: str | None
    new: str | None
    base_ps: float
    new_ps: float
    scope: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A change. Times and counts are means per counted (core, step) pair; deltas are new minus base.

    Args:
        group: the op without numbers and what it makes, or a name for time without ops.
        kind: the kind of the ops (the new run's where they differ), ``barrier_wait`` or ``idle``.
        scope: their scope path, with ``*`` for indices that differ; null if unknown.
        module: the program's name; null if unknown.
        source: the source line with most of the time; null if unknown.
        change: what happened; ``same`` if nothing did.
        how: how the sides were matched; empty if they were not.
        count_base: occurrences; null for time without ops.
        count_new: likewise.
        base_ps: the time.
        new_ps: likewise.
        count_effect_ps: what the change of the number of occurrences makes.
        duration_effect_ps: what the change of the time of one occurrence makes; with the count effect it is the
            delta, exactly.
        exposure_effect_ps: of collectives and awaited copies the part of the duration effect that comes from less
            (or more) of them being hidden, at the same time in flight; null for others.
        members: the ops that changed most.
        delta: the delta as a fraction.
        error_ps: the standard error of the delta, from how the time varies from step to step, as if steps were
            independent of each other; null with fewer than two steps on a side.
        capture_error_ps: the same with what captures of one program are taken to differ by.
        ops: the ops themselves; null for time without ops.
    """

    group: str
    kind: str
    scope: str | None
    module: str | None
    source: str | None
    change: Change
    how: str
    count_base: float | None
    count_new: float | None
    base_ps: float
    new_ps: float
    count_effect_ps: float
    duration_effect_ps: float
    exposure_effect_ps: float | None
    members: tuple[Member, ...]
    delta: Fraction
    error_ps: float | None = None
    capture_error_ps: float | None = None
    ops: Group | None = field(default=None, repr=False)

    @property
    def delta_ps(self) -> float:
        """New minus base."""
        return float(self.delta)

    @property
    def recounted(self) -> bool:
        """Whether a step has more or fewer of the ops; less than half an op is one that a step cut in two."""
        if self.ops is None or self.count_base is None or self.count_new is None:
            return False
        return not self.ops.matched or abs(self.count_new - self.count_base) >= _HALF

    def to_json(self) -> dict[str, Any]:
        """The row as JSON data."""
        return {
            "group": self.group,
            "kind": self.kind,
            "scope": self.scope,
            "module": self.module,
            "source": self.source,
            "change": self.change,
            "matched_by": self.how or None,
            "count_base": _count(self.count_base),
            "count_new": _count(self.count_new),
            "base_ps": self.base_ps,
            "new_ps": self.new_ps,
            "count_effect_ps": self.count_effect_ps,
            "duration_effect_ps": self.duration_effect_ps,
            "exposure_effect_ps": self.exposure_effect_ps,
            "delta_ps": self.delta_ps,
            "delta_error_ps": self.error_ps,
            "ops": [
                {"base": m.base, "new": m.new, "base_ps": m.base_ps, "new_ps": m.new_ps, "scope": m.scope}
                for m in self.members
            ],
        }


def plain_row(group: str, kind: str, old: Fraction, fresh: Fraction, errors: Errors = NO_ERRORS) -> Row:
    """A row of time without ops."""
    change: Change = "duration" if old and fresh and old != fresh else "new" if fresh > old else "gone"
    delta = fresh - old
    return Row(
        group=group,
        kind=kind,
        scope=None,
        module=None,
        source=None,
        change=change if delta else "same",
        how="",
        count_base=None,
        count_new=None,
        base_ps=float(old),
        new_ps=float(fresh),
        count_effect_ps=0.0,
        duration_effect_ps=float(delta),
        exposure_effect_ps=None,
        members=(),
        delta=delta,
        error_ps=errors.steps,
        capture_error_ps=errors.captures,
    )


def op_row(
    group: Group,
    pairs: tuple[int, int],
    change: Literal["split", "merged"] | None = None,
    errors: Errors = NO_ERRORS,
) -> Row:
    """The row of a group of ops.

    Args:
        group: the ops.
        pairs: counted (core, step) pairs of both sides.
        change: ``split`` or ``merged`` if they are that; their counts then do not compare, and all of the
            difference is one of duration.
        errors: the standard errors of the difference.
    """
    old, fresh = _Sums.of(group.base, pairs[0]), _Sums.of(group.new, pairs[1])
    shown = group.new or group.base
    main = max(shown, key=lambda item: (item.ps, -item.order))
    delta = fresh.ps - old.ps
    by_count = Fraction(0) if change is not None else _count_effect(old, fresh)
    exposure = _exposure_effect(old, fresh) if main.part in _IN_FLIGHT else None
    return Row(
        group=main.signature.label,
        kind=main.signature.kind,
        scope=_scope(shown),
        module=main.signature.module,
        source=_source(shown),
        change=change or _change(group, old, fresh, by_count, delta, exposure),
        how=group.how,
        count_base=float(old.count),
        count_new=float(fresh.count),
        base_ps=float(old.ps),
        new_ps=float(fresh.ps),
        count_effect_ps=float(by_count),
        duration_effect_ps=float(delta - by_count),
        exposure_effect_ps=None if exposure is None else float(exposure),
        members=_members(group, pairs),
        delta=delta,
        error_ps=errors.steps,
        capture_error_ps=errors.captures,
        ops=group,
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Means per step of the ops of one side."""

    count: Fraction
    ps: Fraction
    window: Fraction

    @staticmethod
    def of(items: Sequence[Item], pairs: int) -> _Sums:
        totals = (sum(i.count for i in items), sum(i.ps for i in items), sum(i.window_ps for i in items))
        return _Sums(*(Fraction(total, pairs) for total in totals))


def _count_effect(old: _Sums, fresh: _Sums) -> Fraction:
    """The change of the count at the mean of both sides' times per occurrence, so that no side is preferred.

    What only one side has is all an effect of its count.
    """
    if not old.count or not fresh.count:
        # Rows without an occurrence of their own (the end of one that began before) have no count to change.
        return fresh.ps - old.ps if old.count != fresh.count else Fraction(0)
    return (fresh.count - old.count) * (old.ps / old.count + fresh.ps / fresh.count) / 2


def _exposure_effect(old: _Sums, fresh: _Sums) -> Fraction | None:
    """The change of the exposed share of the time in flight, at the mean time in flight and count of both sides.

    Null where a side has no time in flight.
    """
    if not (old.count and fresh.count and old.window and fresh.window):
        return None
    shares = old.ps / old.window, fresh.ps / fresh.window
    window = old.window / old.count + fresh.window / fresh.count
    return (shares[1] - shares[0]) * window / 2 * (old.count + fresh.count) / 2


def _change(
    group: Group, old: _Sums, fresh: _Sums, by_count: Fraction, delta: Fraction, exposure: Fraction | None
) -> Change:
    if not group.matched:
        return "new" if group.new else "gone"
    if _moved(group):
        return "moved"
    if not delta and old.count == fresh.count:
        return "same"
    by_duration = delta - by_count
    if abs(by_count) > abs(by_duration) or (not delta and old.count != fresh.count):
        return "count"
    if exposure is not None and abs(exposure) > abs(by_duration - exposure):
        return "exposure"
    return "duration"


def _moved(group: Group) -> bool:
    """Whether the ops have another scope or program: both sides state theirs, and no two are the same."""
    signatures = [{item.signature for item in side} for side in (group.base, group.new)]
    scopes = [{(each.scope, each.marks) for each in side if each.scope is not None} for side in signatures]
    modules = [{each.module for each in side if each.module is not None} for side in signatures]
    return any(one and other and not one & other for one, other in (scopes, modules)) and group.how in _SAME_OP


def _count(value: float | None) -> float | int | None:
    """Whole counts as integers."""
    return int(value) if value is not None and value.is_integer() else value


def _scope(items: Sequence[Item]) -> str | None:
    """The scope names of the ops: with their numbers if all have the same, else with what they have in common."""
    recorded = {item.scope for item in items}
    path = next(iter(recorded))
    if len(recorded) == 1 and len(combined_scopes(path)) == 1:
        return "/".join(scope_names(path)) if path else None
    scopes = [item.signature.scope for item in items if item.signature.scope is not None]
    return "/".join(common_place(scopes)) or None


def _source(items: Sequence[Item]) -> str | None:
    times: Counter[str] = Counter()
    for item in items:
        if item.info.source is not None:
            times[item.info.source] += item.ps
    return max(times, key=lambda source: (times[source], source)) if times else None


def _members(group: Group, pairs: tuple[int, int]) -> tuple[Member, ...]:
    """The ops that changed most, paired in order of occurrence."""
    found: list[tuple[Fraction, Member]] = []
    for one, other in zip_longest(group.base, group.new):
        old = Fraction(one.ps, pairs[0]) if one is not None else Fraction(0)
        fresh = Fraction(other.ps, pairs[1]) if other is not None else Fraction(0)
        scope = next((item.scope for item in (other, one) if item is not None), "")
        names = [None if item is None else item.info.name for item in (one, other)]
        found.append((abs(fresh - old), Member(names[0], names[1], float(old), float(fresh), scope or None)))
    found.sort(key=lambda entry: -entry[0])
    return tuple(member for _, member in found[:MOST_MEMBERS])
