"""What changed between two runs: the verdict on their step times, and the explanation of the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tpuprof.compare.capture import Capture, as_captures, side_json, typical
from tpuprof.compare.circumstances import Difference, comparability
from tpuprof.compare.evidence import Slot, evidence
from tpuprof.compare.explanation import Explanation, explain
from tpuprof.compare.finding_changes import FindingChange, finding_changes
from tpuprof.compare.leading import Cause, leading_causes
from tpuprof.compare.outcome import Thresholds, Verdict
from tpuprof.compare.samples import Samples
from tpuprof.compare.verdict import judge
from tpuprof.compare.why import differences
from tpuprof.errors import UsageError
from tpuprof.quality import ordered
from tpuprof.units import format_percent

if TYPE_CHECKING:
    from tpuprof.analysis import Analyzer
    from tpuprof.trace import Trace

NOT_COMPARABLE = "not comparable"
LITTLE = 0.5
"""Runs with less of their time in common may be of different programs."""


@dataclass(frozen=True, eq=False)
class Diff:
    """Two sides, and what is to be said of them.

    Args:
        verdict: whether the new side is slower.
        base: captures of the base.
        new: captures of the new side.
        thresholds: what counted as a change.
        explanation: of the typical captures of both sides, null where a side has no trace.
        explained: those captures.
        differences: what else differs between them.
        causes: the largest parts of the difference, in its direction.
        changes: of findings.
        evidence: what somebody else needs to look into it, with empty slots.
        notes: what else to know.
    """

    verdict: Verdict
    base: tuple[Capture, ...]
    new: tuple[Capture, ...]
    thresholds: Thresholds
    explanation: Explanation | None = None
    explained: tuple[Capture, Capture] | None = None
    differences: tuple[Difference, ...] = ()
    causes: tuple[Cause, ...] = ()
    changes: tuple[FindingChange, ...] = ()
    evidence: tuple[Slot, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def step_delta_ps(self) -> float | None:
        """The difference that is explained; without an explanation that of the mean steps; null without steps."""
        if self.explanation is not None:
            return self.explanation.step_delta_ps
        sides = [_mean(captures) for captures in (self.base, self.new)]
        return None if sides[0] is None or sides[1] is None else sides[1] - sides[0]

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON data, with the keys of the contract."""
        told, explained = self.verdict, self.explained or (None, None)
        effect = told.effect
        rows = [] if self.explanation is None else [row.to_json() for row in self.explanation.rows]
        return {
            "verdict": told.verdict,
            "reason": told.reason,
            "base": side_json(self.base, explained[0]),
            "new": side_json(self.new, explained[1]),
            "step_delta_ps": self.step_delta_ps,
            "p_value": told.p_value,
            "effect": {
                "relative": None if effect is None else effect.relative,
                "absolute_ps": None if effect is None else effect.absolute_ps,
                "ci_low": None if effect is None else effect.ci_low,
                "ci_high": None if effect is None else effect.ci_high,
            },
            "samples": told.samples,
            "steps_needed": told.steps_needed,
            "captures_needed": told.captures_needed,
            "thresholds": {
                "relative": self.thresholds.relative,
                "absolute_ps": self.thresholds.absolute_ps,
                "alpha": self.thresholds.alpha,
                "min_steps": self.thresholds.min_steps,
            },
            "coverage": {
                "matched_time_fraction": None if self.explanation is None else self.explanation.matched_time_fraction
            },
            "explanation": rows,
            "explanation_reason": _no_explanation(self),
            "residual_ps": None if self.explanation is None else self.explanation.residual_ps,
            "parts": _parts(self.explanation),
            "causes": [cause.to_json() for cause in self.causes],
            "differences": [difference.to_json() for difference in self.differences],
            "finding_changes": [change.to_json() for change in self.changes],
            "evidence": [slot.to_json() for slot in self.evidence],
            "notes": [*told.notes, *self.notes],
            "quality": [
                {**entry.to_json(), "side": side, "run": capture.name}
                for side, captures in (("base", self.base), ("new", self.new))
                for capture in captures
                if capture.trace is not None
                for entry in ordered(capture.trace.quality)
            ],
        }


def diff(
    base: Trace | Samples | Sequence[Trace | Samples],
    new: Trace | Samples | Sequence[Trace | Samples],
    thresholds: Thresholds | None = None,
    *,
    paired: bool = False,
    analyzers: Iterable[Analyzer] | None = None,
) -> Diff:
    """Compares two sides.

    The verdict is on the step times of all captures. The explanation is of one capture a side, the one whose median
    step is nearest to the middle. Sides that cannot be held against each other (other devices, another number of
    them) are told as ``cannot_tell``, and explained all the same.

    Args:
        base: one or several captures: traces, or step times alone.
        new: likewise.
        thresholds: what counts as a change; the defaults if null.
        paired: captures of equal place belong together.
        analyzers: where findings come from; null for all installed ones.

    Raises:
        UsageError: a side has no capture, or ``paired`` with unequal numbers of them.
    """
    sides = as_captures(base), as_captures(new)
    for name, captures in zip(("base", "new side"), sides, strict=True):
        if not captures:
            raise UsageError(f"The {name} has no capture.", hint="Give at least one run for each side.")
    limits = thresholds or Thresholds()
    told = judge([c.samples for c in sides[0]], [c.samples for c in sides[1]], limits, paired=paired)
    told = _comparable(told, sides)
    ours, theirs = typical(sides[0]), typical(sides[1])
    if ours is None or theirs is None or ours.trace is None or theirs.trace is None:
        made = Diff(told, sides[0], sides[1], limits)
        return replace(made, evidence=evidence(*sides, None, (None, None)))
    explanation = explain(ours.trace, theirs.trace)
    told = _one_step(told, ours.trace, theirs.trace, explanation)
    differ = tuple(differences(ours.trace, theirs.trace, explanation))
    return Diff(
        verdict=told,
        base=sides[0],
        new=sides[1],
        thresholds=limits,
        explanation=explanation,
        explained=(ours, theirs),
        differences=differ,
        causes=leading_causes(explanation, differ),
        changes=tuple(finding_changes(ours.trace, theirs.trace, analyzers)),
        evidence=evidence(*sides, explanation, (ours, theirs)),
        notes=(*_same(ours.trace, theirs.trace), *_which(sides, (ours, theirs)), *_little_in_common(explanation)),
    )


def not_compared(new: Trace | Samples | Sequence[Trace | Samples], reason: str) -> Diff:
    """A comparison that cannot be made, since there is nothing like the run: ``cannot_tell`` with the reason."""
    side = as_captures(new)
    told = Verdict("cannot_tell", reason, n_new=sum(len(c.samples.step_ps) for c in side), captures_new=len(side))
    return Diff(told, (), side, Thresholds(), evidence=evidence((), side, None, (None, None)))


def _comparable(told: Verdict, sides: tuple[tuple[Capture, ...], tuple[Capture, ...]]) -> Verdict:
    """The verdict; ``cannot_tell`` if any two captures of the sides cannot be held against each other."""
    reasons: list[str] = []
    for one in sides[0]:
        for other in sides[1]:
            if one.trace is not None and other.trace is not None:
                reasons += comparability(one.trace, other.trace)
    if not reasons:
        return told
    reason = f"{NOT_COMPARABLE}: {' '.join(dict.fromkeys(reasons))}"
    return replace(told, verdict="cannot_tell", reason=reason, p_value=None, steps_needed=None, captures_needed=None)


def _one_step(told: Verdict, base: Trace, new: Trace, explanation: Explanation) -> Verdict:
    """Runs without steps are one long step each, which is explained and cannot be judged."""
    if told.verdict != "cannot_tell" or {base.step_source, new.step_source} != {"none"} or told.n_base or told.n_new:
        return told
    if explanation.step_delta_ps is None or told.reason.startswith(NOT_COMPARABLE):
        return told
    return replace(told, reason="one step per side: no steps were found, so that the whole of each run is one")


def _which(sides: tuple[tuple[Capture, ...], ...], explained: tuple[Capture, ...]) -> tuple[str, ...]:
    if all(len(side) == 1 for side in sides):
        return ()
    names = " and ".join(capture.name for capture in explained)
    return (f"The explanation is of {names}, whose median steps are nearest to the middle of their sides.",)


def _same(base: Trace, new: Trace) -> tuple[str, ...]:
    files = [{source.path for source in trace.sources} for trace in (base, new)]
    return ("Both sides are the same recording.",) if files[0] & files[1] else ()


def _little_in_common(explanation: Explanation) -> tuple[str, ...]:
    share = explanation.matched_time_fraction
    if share is None or share >= LITTLE:
        return ()
    return (
        f"Only {format_percent(share, 0)} of the ops' time is in ops that both sides have: is it the same program?",
    )


def _mean(captures: Sequence[Capture]) -> float | None:
    times = [time for capture in captures for time in capture.samples.step_ps]
    return sum(times) / len(times) if times else None


def _parts(explanation: Explanation | None) -> dict[str, dict[str, float]]:
    if explanation is None:
        return {}
    return {
        f"{part}_ps": {"base": old, "new": fresh, "delta": fresh - old}
        for part, (old, fresh) in explanation.parts.items()
    }


def _no_explanation(made: Diff) -> str | None:
    if made.explanation is None:
        return "Step times alone cannot be explained: it needs a trace of each side."
    return made.explanation.reason or None
