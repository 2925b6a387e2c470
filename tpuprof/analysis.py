"""What an analyzer is and what it returns: the plugin point.

An analyzer is a pure function of a context: it looks at a trace and returns findings. It prints nothing, draws
nothing and opens no files. Built-in analyzers and those of other packages are found the same way, by entry points
(``tpuprof.registry``); views draw findings without knowing where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from tpuprof.quality import Quality, Severity

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.roofline import HardwareOptions, Roofline
    from tpuprof.trace import Trace

Confidence = Literal["low", "medium", "high"]
CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")

FLOOR = 0.02
"""Findings that cost less than this share of a step are not worth a reader's time."""
SERIOUS = 0.10
"""From this share of a step on a finding is a warning."""

ASPECTS = ("cores", "host", "steps", "hlo", "hardware")
_ASPECT_OF_QUALITY = {
    "cores_missing": "cores",
    "planes_without_ops": "cores",
    "device_plane_missing": "cores",
    "clocks_not_comparable": "cores",
    "host_device_offset": "host",
    "several_main_programs": "steps",
    "steps_by_time": "steps",
    "steps_matched_by_order": "steps",
    "step_numbers_repeat": "steps",
    "step_rows_unreadable": "steps",
    "loop_break": "steps",
    "capture_incomplete": "steps",
    "hlo_missing": "hlo",
    "hlo_unreadable": "hlo",
    "hlo_not_joined": "hlo",
    "capture_start_transient": None,
    "lead_in": None,
    "window_not_covered": "steps",
    "sidecar_unreadable": None,
    "collector_warning": None,
    "peaks_disagree": "hardware",
    "rate_above_peak": "hardware",
    "utilisation_above_peak": "hardware",
    "collective_above_links": "hardware",
}
"""What a quality entry casts doubt on. Entries that are not named here cast doubt on everything."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts behind a finding, as plain data (what JSON can hold): a figure, a text, or rows of a small table."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time, and what to do about it.

    Args:
        rule: ``TPUnnn``, which has a page.
        severity: info, warning or error.
        title: a few words, the same for every finding of the rule.
        message: what was found in this run, with names and numbers.
        suggestion: what the author of the program can do.
        impact_ps: time per step that could be gained at most, in ps: an upper bound, as a mean over steps. Impacts of
            several findings overlap and must not be added. Null if it cannot be known.
        impact_fraction: the same as a share of the mean step.
        confidence: low, medium or high; follows from the quality of the data and from the method.
        evidence: the facts, of bounded size.
        scope: plain data that names what is concerned: ``op``, ``module``, ``scope``, ``source``, ``device``, ``step``.
    """

    rule: str
    severity: Severity
    title: str
    message: str
    suggestion: str
    impact_ps: float | None = None
    impact_fraction: float | None = None
    confidence: Confidence = "medium"
    evidence: tuple[Evidence, ...] = ()
    scope: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """The finding as the contract's JSON object."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "title": self.title,
            "message": self.message,
            "impact_ps": self.impact_ps,
            "impact_fraction": self.impact_fraction,
            "confidence": self.confidence,
            "evidence": {item.name: item.value for item in self.evidence},
            "suggestion": self.suggestion,
            "scope": dict(self.scope),
        }


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """What an analyzer found, and which of its questions could not be asked, each with its reason."""

    findings: tuple[Finding, ...] = ()
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What analyzers work on: the trace and a few facts that several of them need, computed once.

    Args:
        trace: the run; must not be changed.
        floor: findings below this share of a step are left out.
        hardware: what the run is set against; null for what the trace names.
    """

    trace: Trace
    floor: float = FLOOR
    hardware: HardwareOptions | None = None

    @cached_property
    def breakdown(self) -> dict[str, Any] | None:
        """The mean step by parts, null if no step counts."""
        return self.trace.breakdown()

    @property
    def step_ps(self) -> float:
        """The mean counted step (over cores and steps) in ps; 0 if there is none."""
        return 0.0 if self.breakdown is None else float(self.breakdown["step_ps"])

    @property
    def pairs(self) -> int:
        """The number of counted (core, step) pairs: what means per step divide by."""
        return int(self.trace.steps["counted"].sum())

    @cached_property
    def partition(self) -> pd.DataFrame:
        """The rows of table ``partition`` that enter statistics."""
        import numpy as np

        counted = np.flatnonzero(self.trace.steps["counted"].to_numpy())
        return self.trace.partition.take(counted)

    @cached_property
    def roofline(self) -> Roofline:
        """What the ops of counted steps cost, against the hardware.

        Raises:
            UsageError: ``hardware`` names no chip, or a figure in it is wrong.
            InputError: a file named by it cannot be read.
        """
        from tpuprof.roofline import HardwareOptions, roofline

        return roofline(self.trace, self.hardware or HardwareOptions())

    @cached_property
    def op_groups(self) -> pd.DataFrame:
        """Ops of counted steps by (op, module): table ``op_stats`` over them, so that ``self_ps`` over ``pairs`` is
        the mean per step."""
        from tpuprof.tables.stats import op_stats

        return op_stats(self.counted(self.trace.ops), "op")

    @cached_property
    def collectives(self) -> pd.DataFrame:
        """The rows of table ``collectives`` that lie in counted steps."""
        return self.counted(self.trace.collectives)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The rows of table ``gaps`` that lie in counted steps."""
        return self.counted(self.trace.gaps)

    def counted(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those rows (with columns ``device`` and ``step``) that lie in counted steps; all of them without steps."""
        return self.trace.counted(rows)

    def fraction(self, ps: float) -> float:
        """A time per step as a share of the mean step; 0 without a step."""
        return ps / self.step_ps if self.step_ps else 0.0

    def matters(self, ps: float) -> bool:
        """Whether a time per step reaches the floor; no time never does."""
        return ps > 0 and self.step_ps > 0 and ps >= self.floor * self.step_ps

    def severity(self, ps: float) -> Severity:
        """``warning`` from a tenth of the step on, else ``info``."""
        return "warning" if self.fraction(ps) >= SERIOUS else "info"

    def confidence(self, *aspects: str, at_most: Confidence = "high") -> Confidence:
        """How far a result can be trusted that depends on these aspects of the data (see ``ASPECTS``).

        An error in what was captured makes it low, a warning or fewer than three steps medium. Entries about aspects
        that are not named do not count. What the roofline notices counts where ``hardware`` is named.
        """
        level = CONFIDENCES.index(at_most)
        noticed = self.roofline.quality if "hardware" in aspects else ()
        for entry in (*self.trace.quality, *noticed):
            if _concerns(entry, aspects):
                level = min(level, {"info": 2, "warning": 1, "error": 0}[entry.severity])
        if self.trace.n_steps < 3:
            level = min(level, 1)
        return CONFIDENCES[level]

    def finding(
        self,
        rule: str,
        title: str,
        message: str,
        suggestion: str,
        impact_ps: float,
        *,
        confidence: Confidence,
        severity: Severity | None = None,
        evidence: Mapping[str, Any] | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Finding:
        """A finding whose severity (unless given) and fraction follow from its impact, cut at the step's length."""
        impact = min(max(float(impact_ps), 0.0), self.step_ps)
        return Finding(
            rule=rule,
            severity=severity or self.severity(impact),
            title=title,
            message=message,
            suggestion=suggestion,
            impact_ps=impact,
            impact_fraction=self.fraction(impact),
            confidence=confidence,
            evidence=tuple(Evidence(name, value) for name, value in (evidence or {}).items()),
            scope={key: value for key, value in (scope or {}).items() if value is not None},
        )


@runtime_checkable
class Analyzer(Protocol):
    """What an analyzer must have. ``run`` must be pure: same trace, same result, and the trace unchanged.

    ``needs`` are names of ``tpuprof.registry.NEEDS``; where one is not met the analyzer is not run and the reason is
    reported. ``pages`` is the package that holds a page ``TPUnnn.md`` for each rule.
    """

    @property
    def name(self) -> str:
        """Unique short name."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """Every rule that a finding may carry."""
        ...

    @property
    def needs(self) -> Sequence[str]:
        """What the trace must have."""
        ...

    @property
    def pages(self) -> str:
        """The package in which the rules' pages lie."""
        ...

    def run(self, context: Context) -> AnalysisResult:
        """Looks at the trace."""
        ...


def _concerns(entry: Quality, aspects: Sequence[str]) -> bool:
    aspect = _ASPECT_OF_QUALITY.get(entry.id, "")
    return aspect == "" or aspect in aspects
