"""Why a step takes longer or shorter: rows that sum to the difference of the mean counted step.

Every picosecond of a counted step belongs to one op, to a wait for peers or to idle time (``claims``), so the time of
every row is a mean over counted (core, step) pairs, and the rows of a side sum to its mean step. All arithmetic is
on whole picoseconds and fractions; only finished rows are floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tpuprof.compare.causes import cause_rows
from tpuprof.compare.matching import Group, Matching, match_ops
from tpuprof.compare.origins import Origin, origins
from tpuprof.compare.rows import Row, op_row
from tpuprof.compare.side import Side, side_of
from tpuprof.compare.splits import find_recuts
from tpuprof.compare.variation import NO_ERRORS, Errors, errors_of
from tpuprof.tables.schemas import PARTS

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_NOTHING = 0.001  # of a step


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The difference of two mean steps, row by row.

    Args:
        base_step_ps: the mean counted step of the base: over (core, step) pairs, as in the breakdown; null if it
            has none.
        new_step_ps: that of the new run.
        step_delta_ps: new minus base; null if a side has no counted step.
        rows: what changed, the largest first; unchanged groups last. Their deltas and ``residual_ps`` sum to
            ``step_delta_ps``.
        residual_ps: what no row explains: time that the partition gives to a kind of op but that no op claims.
        residuals: the same by part.
        matched_time_fraction: share of the ops' time, over both sides, in groups that both sides have; null
            without ops.
        parts: by part of the step (base, new) in ps.
        slowest_core_delta_ps: the difference of the mean step time of the step statistics, where a step takes as
            long as its slowest core; null if a side has no steps.
        reason: why there is no explanation; empty if there is one.
        sides: what both sides brought.
    """

    base_step_ps: float | None
    new_step_ps: float | None
    step_delta_ps: float | None
    rows: tuple[Row, ...] = ()
    residual_ps: float | None = None
    residuals: Mapping[str, float] = field(default_factory=dict[str, float])
    matched_time_fraction: float | None = None
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    slowest_core_delta_ps: float | None = None
    reason: str = ""
    sides: tuple[Side, Side] | None = field(default=None, repr=False)

    @property
    def changed(self) -> tuple[Row, ...]:
        """The rows with a change."""
        return tuple(row for row in self.rows if row.change != "same")

    @property
    def causes(self) -> tuple[Origin, ...]:
        """The changes by what they come from, the surest first; with ``residual_ps`` they sum to the difference."""
        return origins(self.changed, self.sides, _NOTHING * max(self.base_step_ps or 0.0, self.new_step_ps or 0.0))

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON data, every row included."""
        return {
            "base_step_ps": self.base_step_ps,
            "new_step_ps": self.new_step_ps,
            "step_delta_ps": self.step_delta_ps,
            "slowest_core_delta_ps": self.slowest_core_delta_ps,
            "coverage": {"matched_time_fraction": self.matched_time_fraction},
            "causes": [cause.to_json() for cause in self.causes],
            "explanation": [row.to_json() for row in self.rows],
            "residual_ps": self.residual_ps,
            "residuals": {f"{part}_ps": ps for part, ps in self.residuals.items()},
            "reason": self.reason or None,
        }


def explain(base: Trace, new: Trace) -> Explanation:
    """Explains the difference of the mean counted steps of two traces, new minus base.

    Exchanging the traces negates every delta.
    """
    sides = side_of(base), side_of(new)
    explanation = explain_sides(*sides)
    times = base.step_statistics()["mean_ps"], new.step_statistics()["mean_ps"]
    if explanation.step_delta_ps is None or times[0] is None or times[1] is None:
        return explanation
    return replace(explanation, slowest_core_delta_ps=times[1] - times[0])


def explain_sides(base: Side, new: Side) -> Explanation:
    """Explains the difference of two sides."""
    means = _mean(base.step_ps, base), _mean(new.step_ps, new)
    if means[0] is None or means[1] is None:
        empty = " and ".join(
            name for name, mean in zip(("the base", "the new run"), means, strict=True) if mean is None
        )
        reason = f"{empty[0].upper()}{empty[1:]} has no counted step."
        if means[0] is None and means[1] is None:
            reason = "Neither side has a counted step."
        return Explanation(_float(means[0]), _float(means[1]), None, reason=reason)
    pairs = base.pairs, new.pairs
    recuts = find_recuts(match_ops(base, new).groups, pairs)
    matching = Matching(tuple(recut.group for recut in recuts))
    rows = [op_row(recut.group, pairs, recut.change, _errors(recut.group, base, new)) for recut in recuts]
    rows += cause_rows(base, new)
    delta = means[1] - means[0]
    residuals = {
        part: Fraction(new.unclaimed[part], new.pairs) - Fraction(ps, base.pairs) for part, ps in base.unclaimed.items()
    }
    explained = sum((row.delta for row in rows), Fraction(0))
    rows.sort(key=lambda row: (-abs(row.delta), -max(row.base_ps, row.new_ps), row.kind, row.scope or "", row.group))
    return Explanation(
        base_step_ps=float(means[0]),
        new_step_ps=float(means[1]),
        step_delta_ps=float(delta),
        rows=tuple(rows),
        residual_ps=float(delta - explained),
        residuals={part: float(ps) for part, ps in residuals.items() if ps},
        matched_time_fraction=matching.matched_time_fraction,
        parts={
            part: (float(Fraction(base.parts[part], base.pairs)), float(Fraction(new.parts[part], new.pairs)))
            for part in PARTS
        },
        sides=(base, new),
    )


def _errors(group: Group, base: Side, new: Side) -> Errors:
    if base.per_step is None or new.per_step is None:
        return NO_ERRORS
    rows = [[row for item in items for row in item.rows] for items in (group.base, group.new)]
    variances = base.per_step.of_ops(rows[0]), new.per_step.of_ops(rows[1])
    return errors_of(base.per_step, new.per_step, *variances)


def _mean(ps: int, side: Side) -> Fraction | None:
    return Fraction(ps, side.pairs) if side.pairs else None


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
