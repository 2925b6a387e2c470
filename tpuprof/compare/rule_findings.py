"""A comparison as findings of the rules 6xx, for the formats that know findings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpuprof.analysis import Evidence, Finding
from tpuprof.compare.leading import Cause
from tpuprof.compare.outcome import Verdict

if TYPE_CHECKING:
    from tpuprof.quality import Severity

SLOWER, CANNOT_TELL, FASTER, CAUSE = "TPU601", "TPU602", "TPU603", "TPU604"
TITLES = {
    SLOWER: "The step got slower",
    CANNOT_TELL: "Whether the step got slower cannot be told",
    FASTER: "The step got faster",
    CAUSE: "A large part of a slower step",
}
_NEEDS_STEPS = "Record more steps or several captures of each side; see tpuprof explain TPU602."


def comparison_findings(verdict: Verdict, causes: Sequence[Cause], step_ps: float | None) -> list[Finding]:
    """The findings of a comparison, none if nothing changed.

    Args:
        verdict: on the step times.
        causes: the largest parts of the difference.
        step_ps: the new mean step, of which impacts are shares; null if unknown.
    """
    found: list[Finding] = []
    if verdict.verdict == "cannot_tell":
        found.append(_verdict(CANNOT_TELL, "warning", verdict, _needs(verdict), step_ps))
    elif verdict.verdict == "regressed":
        hint = causes[0].suggestion if causes else "Capture a trace of each side: tpuprof diff then says what grew."
        found.append(_verdict(SLOWER, "error", verdict, hint, step_ps))
        found += [_cause(cause, step_ps) for cause in causes]
    elif verdict.verdict == "improved":
        found.append(_verdict(FASTER, "info", verdict, "Make it the new baseline.", step_ps))
    return found


def _needs(verdict: Verdict) -> str:
    if verdict.steps_needed:
        return f"About {verdict.steps_needed:,} steps a side would settle it."
    if verdict.captures_needed:
        return f"About {verdict.captures_needed:,} captures a side would settle it."
    return _NEEDS_STEPS


def _verdict(rule: str, severity: Severity, verdict: Verdict, hint: str, step_ps: float | None) -> Finding:
    effect = verdict.effect
    slower = effect.absolute_ps if effect is not None and effect.absolute_ps > 0 else None
    facts = {"p_value": verdict.p_value, "n_base": verdict.n_base, "n_new": verdict.n_new}
    return Finding(
        rule=rule,
        severity=severity,
        title=TITLES[rule],
        message=f"{verdict.reason}.",
        suggestion=hint,
        impact_ps=slower,
        impact_fraction=slower / step_ps if slower is not None and step_ps else None,
        confidence="low" if rule == CANNOT_TELL else "high",
        evidence=tuple(Evidence(name, value) for name, value in facts.items()),
    )


def _cause(cause: Cause, step_ps: float | None) -> Finding:
    place = {"scope": cause.scope, "source": cause.source}
    return Finding(
        rule=CAUSE,
        severity="warning",
        title=TITLES[CAUSE],
        message=cause.message,
        suggestion=cause.suggestion,
        impact_ps=cause.delta_ps,
        impact_fraction=cause.delta_ps / step_ps if step_ps else None,
        confidence="medium",
        evidence=(Evidence("share_of_difference", cause.share),),
        scope={key: value for key, value in place.items() if value is not None},
    )
