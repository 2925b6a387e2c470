"""The report: a plain dictionary with the JSON keys of the contract, from which every view is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tpuprof import registry
from tpuprof.analysis import Context
from tpuprof.quality import ordered
from tpuprof.report.collectives import collective_rows
from tpuprof.report.plain import jsonable, records
from tpuprof.report.roofline import roofline_section, with_costs
from tpuprof.tables.schemas import IDLE_CAUSES, KIND_SOURCES, PARTS

if TYPE_CHECKING:
    from tpuprof.analysis import Analyzer
    from tpuprof.roofline import HardwareOptions, Roofline
    from tpuprof.trace import Trace

SCHEMA_VERSION = 1

_OP_KEYS = ("name", "kind", "kind_source", "detail", "module", "scope", "source", "occurrences", "total_ps", "self_ps")


def build_report(
    trace: Trace, analyzers: Iterable[Analyzer] | None = None, hardware: HardwareOptions | None = None
) -> dict[str, Any]:
    """The full analysis of a trace as JSON data (``schema_version`` 1).

    Times are in ps: rows as integers, means as floats. What is unknown is null; where a whole section is unknown,
    its ``reason`` says why.

    Args:
        trace: the run.
        analyzers: where findings come from; null for all installed analyzers.
        hardware: what the run is set against; null for what the trace names.

    Raises:
        UsageError: ``hardware`` names no chip, or a figure in it is wrong.
        InputError: a file named by it cannot be read.
    """
    return context_report(Context(trace, hardware=hardware), analyzers)


def context_report(context: Context, analyzers: Iterable[Analyzer] | None = None) -> dict[str, Any]:
    """The same from a context, whose roofline others may be using too.

    Raises:
        UsageError: its hardware names no chip, or a figure in it is wrong.
        InputError: a file named by it cannot be read.
    """
    trace, limits = context.trace, context.roofline
    mean, ops = trace.breakdown(), op_rows(trace, limits)
    analysis = registry.analyze_context(context, analyzers)
    breakdown = _no_breakdown(trace) if mean is None else jsonable(mean)
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "report",
        "run": run_facts(trace),
        "quality": [jsonable(entry.to_json()) for entry in ordered((*trace.quality, *limits.quality))],
        "steps": jsonable(trace.step_statistics()),
        "outside_steps_ps": jsonable(trace.outside_steps_ps),
        "critical_device": trace.critical_device(),
        "breakdown": breakdown,
        "roofline": roofline_section(limits),
        "collectives": collective_rows(trace, limits),
        "ops": ops,
        "attribution": attribution(ops),
        "findings": [jsonable(finding.to_json()) for finding in analysis.findings],
        "analyzers": [outcome.to_json() for outcome in analysis.outcomes],
    }


def run_facts(trace: Trace) -> dict[str, Any]:
    """What was captured: ``run`` of the report. ``device_kind`` is null if unknown or if the kinds differ."""
    kinds = {device.kind for device in trace.devices}
    window = trace.window_ps
    return {
        "name": trace.name,
        "hosts": list(trace.hosts),
        "devices": [{"id": d.id, "kind": d.kind, "host": d.host} for d in trace.devices],
        "device_kind": kinds.pop() if len(kinds) == 1 else None,
        "n_devices": len(trace.devices),
        "window_ps": None if window is None else int(window[1] - window[0]),
        "step_source": trace.step_source,
        "n_steps": int(trace.n_steps),
        "versions": jsonable(trace.metadata.get("versions", {})),
    }


def op_rows(trace: Trace, roofline: Roofline) -> list[dict[str, Any]]:
    """Ops aggregated over cores, largest self time first, with what they cost where that is known."""
    stats = trace.op_stats(by="op")
    return with_costs(records(stats[list(_OP_KEYS)]), roofline)


def attribution(ops: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rows rest on, as shares of the self time of all ops; null without any.

    ``kind_sources`` says what decided the kinds (hlo, category, name, none), the others how much time belongs to no
    name scope and to no source line.
    """
    total = sum(op["self_ps"] for op in ops)

    def share(chosen: Callable[[dict[str, Any]], bool]) -> float | None:
        return sum(op["self_ps"] for op in ops if chosen(op)) / total if total else None

    return {
        "kind_sources": {source: share(lambda op, s=source: op["kind_source"] == s) for source in KIND_SOURCES},
        "without_scope_fraction": share(lambda op: op["scope"] is None),
        "without_source_fraction": share(lambda op: op["source"] is None),
    }


def _no_breakdown(trace: Trace) -> dict[str, Any]:
    reason = "No step counts." if trace.devices else "No device op was recorded."
    return {
        "step_ps": None,
        "parts": {f"{part}_ps": None for part in PARTS},
        "hidden": {"collective_ps": None, "dma_ps": None},
        "idle_causes": {f"{cause}_ps": None for cause in IDLE_CAUSES},
        "idle_causes_reason": reason,
        "per_device": [],
    }
