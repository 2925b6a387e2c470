"""The few figures that a run is first judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.report.facts import group_fraction
from tpuprof.report.plain import jsonable, table_of
from tpuprof.tables.stats import step_times

if TYPE_CHECKING:
    from tpuprof.trace import Trace

DEVICE_SPACES = ("hbm", "main")
"""Names of a device's main memory, the one that decides first."""
_NO_MEMORY = {
    "hlo_missing": "The trace does not hold the program's HLO.",
    "buffers_missing": "The program's HLO comes without its buffer assignment.",
    "buffers_damaged": "The buffer assignment of the program cannot be read.",
    "not_scheduled": "The program's HLO is not scheduled.",
}


def key_figures(trace: Trace, report: dict[str, Any]) -> dict[str, Any]:
    """What a run is first judged by: plain numbers, null where unknown.

    ``p50_ps``, ``p95_ps``, ``mean_ps`` and ``count`` are of step times (per step the slowest core), ``step_ps`` the
    mean over cores and steps that all shares are of: ``compute_fraction``, ``wait_fraction``, ``idle_fraction``,
    ``exposed_fraction`` (collectives that no compute hides). ``exposed_ps`` and ``hidden_ps`` are times of collectives
    per step. ``memory_peak_bytes`` is the most that one program needs at once on a device, with ``memory_reason``
    where it is null.

    Args:
        trace: the run.
        report: its report.
    """
    breakdown = report["breakdown"]
    mean, parts = breakdown.get("step_ps"), breakdown.get("parts")
    exposed = table_of(parts).get("collective_exposed_ps")
    peak, reason = memory_peak(trace)
    figures = step_figures(trace)
    return {
        **{key: figures[key] for key in ("count", "mean_ps", "p50_ps", "p95_ps")},
        "step_ps": mean,
        **{f"{group}_fraction": group_fraction(parts, mean, group) for group in ("compute", "wait", "idle")},
        "exposed_fraction": exposed / mean if exposed is not None and mean else None,
        "exposed_ps": exposed,
        "hidden_ps": table_of(breakdown.get("hidden")).get("collective_ps"),
        "memory_peak_bytes": peak,
        "memory_reason": reason,
    }


def step_figures(trace: Trace) -> dict[str, Any]:
    """The statistics of the report on step times, and ``p95_ps``; null where there are none."""
    times = slowest_times(trace)
    p95 = float(np.percentile(times, 95)) if times else None
    return jsonable({**trace.step_statistics(), "p95_ps": p95})


def slowest_times(trace: Trace) -> list[float]:
    """The time of each counted step on its slowest core, in ps: what step statistics are of."""
    return [] if trace.step_source == "none" else step_times(trace.steps).astype("float64").tolist()


def memory_peak(trace: Trace) -> tuple[int | None, str | None]:
    """The most device memory that a program needs at once, in bytes; null with a sentence that says why."""
    summary = trace.memory_summary
    for space in DEVICE_SPACES:
        known = summary[(summary["memory_space"] == space).to_numpy(bool, na_value=False)]["peak_bytes"].dropna()
        if len(known):
            return int(known.max()), None
    reasons = summary["reason"].dropna().astype(str).tolist()
    return None, _NO_MEMORY.get(reasons[0], reasons[0]) if reasons else "No program is known."
