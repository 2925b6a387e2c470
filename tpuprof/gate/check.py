"""The gate: a run against others and against its budgets, with one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuprof.analysis import Evidence, Finding
from tpuprof.compare.capture import Capture
from tpuprof.gate.judging import Kept

if TYPE_CHECKING:
    from tpuprof.compare.comparison import Diff

Outcome = Literal["pass", "warn", "fail", "cannot_tell"]
EXCEEDED, UNKNOWN = "TPU611", "TPU612"
TITLES = {EXCEEDED: "A budget is exceeded", UNKNOWN: "A budget cannot be checked"}
EXIT_CODES: dict[Outcome, int] = {"pass": 0, "warn": 0, "fail": 1, "cannot_tell": 5}


@dataclass(frozen=True, eq=False)
class Check:
    """What the gate says of a run.

    Args:
        captures: the run, one capture or several.
        diff: against the base or the baseline; null if there was none to hold it against.
        budgets: each budget with the capture that keeps it worst.
        against: what it was held against, for people; empty if nothing.
        notes: what else to know.
    """

    captures: tuple[Capture, ...]
    diff: Diff | None
    budgets: tuple[Kept, ...]
    against: str = ""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """``fail`` before ``cannot_tell`` before ``warn``: what cannot be told is never a pass."""
        verdict = None if self.diff is None else self.diff.verdict.verdict
        states = {kept.status for kept in self.budgets}
        if verdict == "regressed" or "fail" in states:
            return "fail"
        if verdict == "cannot_tell" or "unknown" in states:
            return "cannot_tell"
        return "warn" if "warn" in states else "pass"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 5 cannot tell."""
        return EXIT_CODES[self.outcome]


def budget_findings(budgets: Sequence[Kept]) -> list[Finding]:
    """The budgets that are not kept as findings of the rules 6xx."""
    found: list[Finding] = []
    for kept in budgets:
        if kept.status == "pass":
            continue
        rule = UNKNOWN if kept.status == "unknown" else EXCEEDED
        budget = kept.budget
        facts = {"budget": budget.name, "value": kept.value, "warn": budget.warn, "fail": budget.fail}
        found.append(
            Finding(
                rule=rule,
                severity="error" if kept.status == "fail" else "warning",
                title=TITLES[rule],
                message=kept.message,
                suggestion="Look at tpuprof report, or change the budget on purpose."
                if rule == EXCEEDED
                else "Give the run what the figure needs, or take the budget away.",
                confidence="high",
                evidence=tuple(Evidence(name, value) for name, value in facts.items()),
            )
        )
    return found
