"""What the views say in words: built once from the report, laid out by each view in its own way.

Everything returned here is already clean (no control characters) and scaled for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpuprof.palette import LOOKS, Look
from tpuprof.quality import SEVERITIES
from tpuprof.report.plain import rows_of, table_of
from tpuprof.tables.schemas import PARTS
from tpuprof.text import clean, plural
from tpuprof.units import format_percent, format_ps

_SOURCES = {
    "steps_line": "from the device's Steps line",
    "host_annotation": "from host step annotations",
    "module": "from runs of the main program",
}

_WORTH_TELLING = 0.001  # shares below this are in the numbers but not in the sentences


@dataclass(frozen=True, slots=True)
class PartLine:
    """One part of the mean step: its time in ps and its share of the step (null if the step has no time)."""

    part: str
    look: Look
    ps: float
    fraction: float | None


@dataclass(frozen=True, slots=True)
class Notice:
    """A quality entry or a finding, ready to be shown: ``id`` is the stable id or the rule."""

    id: str
    severity: str
    title: str
    message: str
    suggestion: str
    source: str | None
    what: str

    @property
    def heading(self) -> str:
        """The id, followed by the title where there is one of its own."""
        return self.id if self.title == self.id else f"{self.id} {self.title}"


def run_name(report: dict[str, Any]) -> str:
    """The run's name."""
    return clean(report["run"]["name"] or "(unnamed run)")


def headline(report: dict[str, Any]) -> list[str]:
    """The facts of the run, most important first: devices, hosts, steps, window, versions."""
    run = report["run"]
    facts = [_devices(run)]
    if run["hosts"]:
        facts.append(plural(len(run["hosts"]), "host"))
    source = _SOURCES.get(run["step_source"])
    facts.append(f"{plural(run['n_steps'], 'step')} {source}" if source else "no steps found")
    if run["window_ps"] is not None:
        facts.append(f"window {format_ps(run['window_ps'])}")
    facts.extend(f"{clean(name)} {clean(version)}" for name, version in run["versions"].items() if version)
    return facts


def _devices(run: dict[str, Any]) -> str:
    count = run["n_devices"]
    if not count:
        return "no devices with ops"
    if run["device_kind"]:
        return f"{count} × {clean(run['device_kind'])}"
    known = any(device["kind"] for device in run["devices"])
    return f"{plural(count, 'device')} of {'several kinds' if known else 'unknown kind'}"


def step_figures(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Step-time statistics as (label, text); empty without statistics."""
    steps = table_of(report["steps"])
    if not steps.get("count") or steps.get("mean_ps") is None:
        return []
    if steps["count"] == 1:
        return [("step", format_ps(steps["mean_ps"]))]
    labels = (("mean", "mean_ps"), ("p50", "p50_ps"), ("p90", "p90_ps"), ("p99", "p99_ps"))
    figures = [(label, format_ps(steps.get(key))) for label, key in labels]
    figures += [("min", format_ps(steps.get("min_ps"))), ("max", format_ps(steps.get("max_ps")))]
    return [*figures, ("cv", format_percent(steps.get("cv")))]


def step_basis(report: dict[str, Any]) -> str:
    """Over what the statistics are taken, e.g. ``per step the slowest core, over 100 steps``."""
    count = table_of(report["steps"]).get("count") or 0
    if not count:
        return "No complete step was found, so there are no step-time statistics."
    return f"per step the slowest core, over {plural(count, 'step')}"


def breakdown_basis(report: dict[str, Any]) -> str:
    """What the breakdown is a mean of."""
    cores = len(rows_of(report["breakdown"].get("per_device")))
    if report["run"]["step_source"] == "none":
        return f"from the first to the last device op, mean over {plural(cores, 'core')}"
    return f"mean over {plural(cores, 'core')} and all counted steps"


def part_lines(parts: dict[str, Any] | None, step_ps: float | None) -> list[PartLine]:
    """The parts that are not zero, in the order of the partition."""
    lines: list[PartLine] = []
    for part in PARTS:
        ps = (parts or {}).get(f"{part}_ps")
        if ps:
            lines.append(PartLine(part, LOOKS[part], ps, ps / step_ps if step_ps else None))
    return lines


def group_fraction(parts: dict[str, Any] | None, step_ps: float | None, group: str) -> float | None:
    """The share of the step that belongs to a group of parts: ``compute``, ``wait`` or ``idle``."""
    if not step_ps or parts is None:
        return None
    return sum((parts.get(f"{part}_ps") or 0) for part in PARTS if LOOKS[part].group == group) / step_ps


def idle_causes(report: dict[str, Any]) -> list[tuple[str, float]]:
    """Known causes of idle time that are not zero, largest first, as (name, ps)."""
    causes = table_of(report["breakdown"].get("idle_causes"))
    known = [(key.removesuffix("_ps").replace("_", " "), ps) for key, ps in causes.items() if ps]
    return sorted(known, key=lambda cause: -cause[1])


def side_notes(report: dict[str, Any]) -> list[str]:
    """Sentences beside the partition: hidden work, idle causes or why there are none, time outside steps."""
    breakdown = report["breakdown"]
    hidden = table_of(breakdown.get("hidden"))
    notes: list[str] = []
    under = [(name, hidden.get(key)) for name, key in (("collectives", "collective_ps"), ("copies", "dma_ps"))]
    told = [f"{name} {format_ps(ps)}" for name, ps in under if ps]
    if told:
        notes.append(f"Hidden under compute, not part of the sum: {', '.join(told)} per step.")
    notes += _idle_notes(report)
    if report["outside_steps_ps"]:
        notes.append(f"Outside steps, mean over cores: {format_ps(report['outside_steps_ps'])}.")
    if report["critical_device"] and len(rows_of(breakdown.get("per_device"))) > 1:
        notes.append(f"Critical core (largest mean step): {clean(report['critical_device'])}.")
    return notes + _attribution_notes(table_of(report.get("attribution")))


def _idle_notes(report: dict[str, Any]) -> list[str]:
    breakdown = report["breakdown"]
    idle = table_of(breakdown.get("parts")).get("idle_ps")
    if not idle or idle < _WORTH_TELLING * (breakdown.get("step_ps") or 0):
        return []
    causes = [(name, ps / idle) for name, ps in idle_causes(report)]
    known = [f"{name} {format_percent(share)}" for name, share in causes if share >= _WORTH_TELLING]
    notes = [f"Idle by cause: {', '.join(known)}."] if known else []
    if breakdown.get("idle_causes_reason"):
        which = "The other causes of idle time" if known else "The causes of idle time"
        notes.append(f"{which} are not known: {_sentence(breakdown['idle_causes_reason'])}")
    return notes


def _attribution_notes(attribution: dict[str, Any]) -> list[str]:
    """What the division rests on; nothing is said of shares next to nothing."""
    words = {"category": "from categories", "name": "by name", "none": "by nothing"}
    sources = table_of(attribution.get("kind_sources"))
    weak = [
        f"{format_percent(sources[key], 1)} {text}"
        for key, text in words.items()
        if (sources.get(key) or 0.0) >= _WORTH_TELLING
    ]
    notes = [f"Kinds of op time not decided by HLO: {', '.join(weak)}."] if weak else []
    bare = attribution.get("without_scope_fraction") or 0.0
    if bare >= _WORTH_TELLING:
        notes.append(f"{format_percent(bare, 1)} of op time belongs to no name scope.")
    return notes


def _sentence(text: str) -> str:
    shown = clean(text).rstrip()
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."


def spread_note(report: dict[str, Any]) -> str | None:
    """How far the cores' mean steps lie apart, null for fewer than two cores."""
    times = [core["step_ps"] for core in rows_of(report["breakdown"].get("per_device")) if core.get("step_ps")]
    if len(times) < 2:
        return None
    low, high = min(times), max(times)
    return f"mean step from {format_ps(low)} to {format_ps(high)}, spread {format_percent((high - low) / high)}"


def op_time_ps(report: dict[str, Any]) -> int:
    """The self time of all ops on all cores: the denominator of every op's share."""
    return sum(op["self_ps"] or 0 for op in report["ops"])


def quality_notices(report: dict[str, Any]) -> list[Notice]:
    """The quality entries, worst first."""
    notices = [
        Notice(clean(q["id"]), q["severity"], clean(q["id"]), clean(q["message"]), "", None, "quality")
        for q in report["quality"]
    ]
    return _worst_first(notices)


def finding_notices(report: dict[str, Any]) -> list[Notice]:
    """The findings, worst first; among equals in the order of the report."""
    notices = [
        Notice(
            clean(f["rule"]),
            f["severity"],
            clean(f["title"]),
            clean(f["message"]),
            clean(f.get("suggestion") or ""),
            table_of(f.get("scope")).get("source"),
            "finding",
        )
        for f in report["findings"]
    ]
    return _worst_first(notices)


def finding_notes(report: dict[str, Any]) -> list[str]:
    """Sentences below the findings: where to read more, and what could not be looked at, with the reason."""
    notes: list[str] = []
    if report["findings"]:
        rules = list(dict.fromkeys(notice.id for notice in finding_notices(report)))
        notes.append(f"More on a rule: tpuprof explain {rules[0]}. Impacts overlap: do not add them.")
    reasons: dict[str, list[str]] = {}
    for outcome in rows_of(report.get("analyzers")):
        for reason in outcome["reasons"] if outcome["status"] == "skipped" else ():
            reasons.setdefault(clean(reason), []).append(clean(outcome["name"]))
    notes += [f"Not looked at by {', '.join(names)}: {_sentence(reason)}" for reason, names in reasons.items()]
    return notes


def _worst_first(notices: list[Notice]) -> list[Notice]:
    ranks = {severity: rank for rank, severity in enumerate(reversed(SEVERITIES))}
    return sorted(notices, key=lambda notice: ranks[notice.severity])
