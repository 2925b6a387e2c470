"""Which findings of the analyzers came, went, or changed their weight."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tpuprof.analysis import Analyzer, Finding
    from tpuprof.trace import Trace

_NUMBER = re.compile(r"\d+")
WORTH = 0.005
"""Changes of the impact below this share of a step are not told."""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding that is not the same on both sides; impacts in ps per step, null on the side that lacks it."""

    change: Literal["new", "gone", "more", "less"]
    rule: str
    title: str
    message: str
    base_ps: float | None
    new_ps: float | None

    def to_json(self) -> dict[str, Any]:
        """The change as JSON data."""
        return {
            "change": self.change,
            "rule": self.rule,
            "title": self.title,
            "message": self.message,
            "base_impact_ps": self.base_ps,
            "new_impact_ps": self.new_ps,
        }


def finding_changes(base: Trace, new: Trace, analyzers: Iterable[Analyzer] | None = None) -> list[FindingChange]:
    """The findings that differ, what got worse first.

    Findings are the same if rule and place agree, whatever the numbers in names of ops; of several alike the impacts
    are held against each other in order.
    """
    from tpuprof.registry import analyze

    chosen = None if analyzers is None else list(analyzers)
    ours, theirs = (_by_place(analyze(trace, chosen).findings) for trace in (base, new))
    found: list[FindingChange] = []
    for place in {**ours, **theirs}:
        old, fresh = ours.get(place, []), theirs.get(place, [])
        found += [_one(one, other) for one, other in zip(old, fresh, strict=False) if _differ(one, other)]
        found += [_change("gone", one, one.impact_ps, None) for one in old[len(fresh) :]]
        found += [_change("new", other, None, other.impact_ps) for other in fresh[len(old) :]]
    return sorted(found, key=lambda each: (-((each.new_ps or 0.0) - (each.base_ps or 0.0)), each.rule, each.message))


def _by_place(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        place = ";".join(f"{key}={finding.scope[key]}" for key in sorted(finding.scope) if key not in ("step", "steps"))
        found.setdefault((finding.rule, _NUMBER.sub("#", place)), []).append(finding)
    return found


def _differ(one: Finding, other: Finding) -> bool:
    if not (one.impact_ps and other.impact_ps and one.impact_fraction and other.impact_fraction):
        return (one.impact_ps or 0.0) != (other.impact_ps or 0.0)
    step_ps = max(one.impact_ps / one.impact_fraction, other.impact_ps / other.impact_fraction)
    return abs(one.impact_ps - other.impact_ps) >= WORTH * step_ps


def _one(one: Finding, other: Finding) -> FindingChange:
    more = (other.impact_ps or 0.0) > (one.impact_ps or 0.0)
    return _change("more" if more else "less", other, one.impact_ps, other.impact_ps)


def _change(
    change: Literal["new", "gone", "more", "less"], finding: Finding, base_ps: float | None, new_ps: float | None
) -> FindingChange:
    return FindingChange(change, finding.rule, finding.title, finding.message, base_ps, new_ps)
