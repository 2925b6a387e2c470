"""Finds analyzers and runs them: each by itself, so that a fault in one never hides what the others found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from tpuprof.analysis import FLOOR, AnalysisResult, Analyzer, Context, Evidence, Finding
from tpuprof.text import plural

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tpuprof.trace import Trace

GROUP = "tpuprof.analyzers"
"""Entry-point group. An entry is an ``Analyzer`` or a class of one that takes no arguments."""
FAILED_RULE = "TPU190"
_FAILED_TITLE = "An analyzer failed"
_FAILED_HINT = "Its findings are missing; the other results stand. Report it to the authors of that package."

Status = Literal["ran", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one analyzer: it ran, was skipped because of what the trace lacks, or failed."""

    name: str
    status: Status
    reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {"name": self.name, "status": self.status, "reasons": list(self.reasons)}


@dataclass(frozen=True, slots=True)
class Analysis:
    """All findings, the largest impact first, and what became of each analyzer, in the order of their names."""

    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]


def discover() -> tuple[Analyzer | Outcome, ...]:
    """The installed analyzers, by name. One that cannot be loaded, or has a name twice, is an outcome ``failed``.

    Entry points are part of an installed distribution: in a checkout that is merely on the path there are none. Give
    ``analyze`` the analyzers then.
    """
    from importlib.metadata import entry_points

    found: dict[str, Analyzer | Outcome] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
        if entry.name not in found:
            found[entry.name] = _load(entry)
            continue
        key = f"{entry.name} ({entry.value})"
        reason = f"Another package has an analyzer {entry.name!r}; this one is not run."
        found[key] = Outcome(key, "failed", (reason,))
    return tuple(found.values())


def analyze(trace: Trace, analyzers: Iterable[Analyzer | Outcome] | None = None, *, floor: float = FLOOR) -> Analysis:
    """Runs analyzers on a trace.

    Args:
        trace: the run; is not changed.
        analyzers: null for all installed ones.
        floor: findings below this share of a step are left out.
    """
    return analyze_context(Context(trace, floor), analyzers)


def analyze_context(context: Context, analyzers: Iterable[Analyzer | Outcome] | None = None) -> Analysis:
    """Runs analyzers on a context, whose facts they share with the caller."""
    trace = context.trace
    findings: list[Finding] = []
    outcomes: list[Outcome] = []
    chosen = discover() if analyzers is None else analyzers
    for analyzer in sorted(chosen, key=lambda a: a.name):
        if isinstance(analyzer, Outcome):
            outcomes.append(analyzer)
            findings += [_failed(analyzer.name, analyzer.reasons[0])]
            continue
        try:
            missing = unmet(analyzer, trace)
            if missing:
                outcomes.append(Outcome(analyzer.name, "skipped", missing))
                continue
            result = _checked(analyzer, analyzer.run(context))
        except Exception as error:  # whatever an analyzer does, the others go on
            reason = f"{type(error).__name__}: {error}"[:500]
            outcomes.append(Outcome(analyzer.name, "failed", (reason,)))
            findings.append(_failed(analyzer.name, reason))
            continue
        outcomes.append(Outcome(analyzer.name, "ran", result.unmet))
        findings.extend(result.findings)
    findings.sort(key=lambda f: (f.impact_ps is None, -(f.impact_ps or 0.0), f.rule))
    return Analysis(tuple(findings), tuple(outcomes))


def unmet(analyzer: Analyzer, trace: Trace) -> tuple[str, ...]:
    """Why an analyzer cannot run on a trace: one sentence per need that is not met."""
    reasons: list[str] = []
    for need in analyzer.needs:
        test = NEEDS.get(need)
        reason = f"This version knows nothing of {need!r}." if test is None else test(trace)
        if reason is not None:
            reasons.append(reason)
    return tuple(reasons)


def _breakdown(trace: Trace) -> str | None:
    if not trace.devices:
        return "No device op was recorded."
    return None if bool(trace.steps["counted"].any()) else "No step counts."


def _steps(trace: Trace) -> str | None:
    return _breakdown(trace) or (None if trace.step_source != "none" and trace.n_steps else "There are no steps.")


def _several_steps(trace: Trace) -> str | None:
    missing = _steps(trace)
    if missing is not None:
        return missing
    count = int(trace.step_statistics()["count"] or 0)
    if count >= SEVERAL:
        return None
    return f"The run has {plural(count, 'counted step')}; it takes {SEVERAL} to compare them."


def _several_cores(trace: Trace) -> str | None:
    return None if len(trace.devices) > 1 else f"The trace holds {len(trace.devices)} core(s): none to compare with."


def _host_causes(trace: Trace) -> str | None:
    reasons = [core.clocks.reason for core in trace.built.cores if core.clocks.reason is not None]
    return f"The clocks of host and device cannot be compared: {reasons[0]}." if reasons else None


SEVERAL = 4
NEEDS: dict[str, Callable[[Trace], str | None]] = {
    "breakdown": _breakdown,
    "steps": _steps,
    "several_steps": _several_steps,
    "several_cores": _several_cores,
    "host_causes": _host_causes,
}
"""What an analyzer can ask for; each gives the reason why a trace lacks it, or null.

``breakdown``: device work in a step, or in the one pseudo-step of a trace without steps. ``steps``: real steps.
``several_steps``: at least four that count. ``several_cores``: two or more. ``host_causes``: host and device clocks
can be compared.
"""


def _load(entry: EntryPoint) -> Analyzer | Outcome:
    try:
        loaded: Any = entry.load()
        if isinstance(loaded, type):
            loaded = cast("type[Any]", loaded)()
    except Exception as error:  # whatever another package does when it is imported
        return Outcome(entry.name, "failed", (f"It cannot be loaded: {type(error).__name__}: {error}"[:500],))
    if not isinstance(loaded, Analyzer):
        return Outcome(
            entry.name, "failed", (f"{entry.value} is no analyzer: it needs name, rules, needs, pages, run.",)
        )
    return loaded


def _checked(analyzer: Analyzer, result: Any) -> AnalysisResult:
    """The result, if it is one.

    Raises:
        TypeError: it is something else, or a finding has a rule that the analyzer does not declare.
    """
    if not isinstance(result, AnalysisResult):
        raise TypeError(f"run returned {type(result).__name__}, not AnalysisResult")
    stray: Sequence[str] = [f.rule for f in result.findings if f.rule not in analyzer.rules]
    if stray:
        raise TypeError(f"a finding has the rule {stray[0]}, which the analyzer does not declare")
    return result


def _failed(name: str, reason: str) -> Finding:
    return Finding(
        rule=FAILED_RULE,
        severity="warning",
        title=_FAILED_TITLE,
        message=f"The analyzer {name!r} failed. {reason}",
        suggestion=_FAILED_HINT,
        confidence="high",
        evidence=(Evidence("analyzer", name), Evidence("reason", reason)),
    )
