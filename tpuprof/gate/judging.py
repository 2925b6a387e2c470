"""Holding the figures of captures against budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tpuprof.compare.capture import Capture
from tpuprof.gate.budgets import KINDS, Budget, Unit
from tpuprof.gate.figures import Figure, figures_of
from tpuprof.units import UNKNOWN, format_bytes, format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions

Status = Literal["pass", "warn", "fail", "unknown"]
_WORST: tuple[Status, ...] = ("fail", "unknown", "warn", "pass")


@dataclass(frozen=True, slots=True)
class Kept:
    """Whether a budget is kept, by the capture that keeps it worst.

    Args:
        budget: the budget.
        status: ``pass``, ``warn``, ``fail``, or ``unknown``, which is no pass.
        value: the figure, in the unit of the budget; null if unknown.
        capture: whose figure it is.
        reason: why it is unknown; empty otherwise.
    """

    budget: Budget
    status: Status
    value: float | None
    capture: str
    reason: str = ""

    @property
    def message(self) -> str:
        """One sentence."""
        name, unit = self.budget.name, self.budget.unit
        if self.status == "unknown":
            return f"{name} of {self.capture} cannot be held against its budget: {self.reason}"
        value = show(self.value, unit)
        if self.status == "pass":
            return f"{name} of {self.capture} is {value}, within its budget ({limits(self.budget)})."
        passed = self.budget.fail if self.status == "fail" else self.budget.warn
        limit = show(passed, unit)
        if limit == value:  # rounded alike, which would read as if it were within its limit
            value, limit = f"{self.value!r} ({value})", f"{passed!r} ({limit})"
        what = "below" if KINDS[name].least else "above"
        of = "its limit" if self.status == "fail" else "its warning"
        return f"{name} of {self.capture} is {value}, {what} {of} of {limit}."

    def to_json(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "name": self.budget.name,
            "status": self.status,
            "value": self.value,
            "unit": self.budget.unit,
            "warn": self.budget.warn,
            "fail": self.budget.fail,
            "run": self.capture,
            "reason": self.reason or None,
            "message": self.message,
        }


def judge_budgets(
    captures: Sequence[Capture], budgets: Sequence[Budget], hardware: HardwareOptions | None = None
) -> tuple[Kept, ...]:
    """Each budget with the capture that keeps it worst; raises as ``figures_of``."""
    names = {budget.name for budget in budgets}
    figures = [(capture, figures_of(capture, names, hardware)) for capture in captures] if names else []
    found: list[Kept] = []
    for budget in budgets:
        each = [_held(budget, capture.name, of[budget.name]) for capture, of in figures]
        found.append(min(each, key=lambda kept: (_WORST.index(kept.status), _badness(kept))))
    return tuple(found)


def show(value: float | None, unit: Unit) -> str:
    """A figure for people."""
    if value is None:
        return UNKNOWN
    if unit == "time":
        return format_ps(value)
    if unit == "bytes":
        return format_bytes(value)
    return f"{value:,.0f}" if unit == "count" else format_percent(value)


def limits(budget: Budget) -> str:
    """The limits for people."""
    sign = "≥" if KINDS[budget.name].least else "≤"
    bands = (("warn", budget.warn), ("fail", budget.fail))
    return ", ".join(f"{name} {sign} {show(limit, budget.unit)}" for name, limit in bands if limit is not None)


def _held(budget: Budget, name: str, figure: Figure) -> Kept:
    value, reason = figure.value, figure.reason or "It is unknown."
    if value is not None and budget.unit == "share":
        value = value / figure.whole_ps if figure.whole_ps else None
        reason = "The mean step is unknown."
    if value is None:
        return Kept(budget, "unknown", None, name, reason)
    least = KINDS[budget.name].least

    def beyond(limit: float | None) -> bool:
        return limit is not None and (value < limit if least else value > limit)

    status: Status = "fail" if beyond(budget.fail) else "warn" if beyond(budget.warn) else "pass"
    if status != "pass" and figure.at_least and least:
        reason = f"It is at least {show(value, budget.unit)}, and ops without a cost model may make it more."
        return Kept(budget, "unknown", value, name, reason)
    return Kept(budget, status, value, name)


def _badness(kept: Kept) -> float:
    value = kept.value or 0.0
    return value if KINDS[kept.budget.name].least else -value
