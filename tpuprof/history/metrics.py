"""The figures of a run that are kept: what each means, which way is worse, and taking them from a trace."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tpuprof.tables.schemas import IDLE_CAUSES, PARTS

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions, Utilisation
    from tpuprof.trace import Trace

Worse = Literal["up", "down"]
_CALL = re.compile(r"PjitFunction\(")


@dataclass(frozen=True, slots=True)
class MetricKind:
    """A metric: its name (unit included), what it means, and in which direction it gets worse (null: neither)."""

    name: str
    meaning: str
    worse: Worse | None = "up"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of one run; null with the reason where it is unknown.

    Args:
        name: its name in :data:`METRICS`.
        value: the figure.
        reason: why it is unknown.
        at_least: whether the true figure may be larger.
    """

    name: str
    value: float | None
    reason: str | None = None
    at_least: bool = False


METRICS: dict[str, MetricKind] = {
    kind.name: kind
    for kind in (
        MetricKind("step_p50_ps", "Median of the step times."),
        MetricKind("step_p95_ps", "95th percentile of the step times."),
        MetricKind("step_mean_ps", "Mean of the step times."),
        MetricKind("step_min_ps", "Fastest step."),
        MetricKind("step_max_ps", "Slowest step."),
        MetricKind("step_cv", "Coefficient of variation of the step times."),
        MetricKind("n_steps", "Steps that count.", None),
        *(MetricKind(f"{part}_ps", f"Part {part} of the mean step.") for part in PARTS),
        MetricKind("hidden_collective_ps", "Collectives hidden under compute, per step.", None),
        MetricKind("hidden_dma_ps", "Copies hidden under compute, per step.", None),
        *(MetricKind(f"idle_{cause}_ps", f"Idle time of the mean step by cause {cause}.") for cause in IDLE_CAUSES),
        MetricKind("outside_steps_ps", "Time outside steps, mean over cores."),
        MetricKind("mfu", "Model FLOPs utilisation; a lower bound where a kernel's FLOPs are unknown.", "down"),
        MetricKind("hbm_utilisation", "Use of the HBM's bandwidth.", None),
        MetricKind("memory_peak_bytes", "Device memory of the program that needs most."),
        MetricKind("recompiles", "Compilations inside the window, on the first host."),
    )
}
"""Every metric by name."""


def metrics_of(
    trace: Trace,
    step_times: np.ndarray[tuple[int], np.dtype[np.int64]],
    hardware: HardwareOptions | None = None,
) -> tuple[Metric, ...]:
    """All metrics of a run, unknown ones with the reason.

    Args:
        trace: the run.
        step_times: times of the counted steps in ps.
        hardware: what the run is set against; null for what the trace names.

    Raises:
        UsageError: ``hardware`` names no chip, or a figure in it is wrong.
        InputError: a file named by it cannot be read.
    """
    used = _used(trace, hardware)
    found = {
        **_steps(step_times),
        **_partition(trace),
        **_utilisation(used),
        **_memory(trace),
        **_recompiles(trace),
    }
    outside = trace.outside_steps_ps
    found["outside_steps_ps"] = (outside, None if outside is not None else "There are no steps.")
    bounded = {"mfu"} if used.mfu is not None and used.is_lower_bound else set[str]()
    return tuple(Metric(name, *_finite(*found[name]), at_least=name in bounded) for name in METRICS)


_Found = dict[str, tuple[float | None, str | None]]


def _steps(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> _Found:
    names = ["step_p50_ps", "step_p95_ps", "step_mean_ps", "step_min_ps", "step_max_ps", "step_cv"]
    count: _Found = {"n_steps": (float(len(times)), None)}
    if not len(times):
        return {**count, **_unknown(names, "No step counts.")}
    p50, p95 = (float(value) for value in np.percentile(times, [50, 95]))
    mean = float(times.mean())
    spread = float(times.std(ddof=1)) / mean if len(times) > 1 and mean > 0 else None
    values = [p50, p95, mean, float(times.min()), float(times.max()), spread]
    reasons = [*([None] * 5), None if spread is not None else "It needs two steps."]
    return {**count, **dict(zip(names, zip(values, reasons, strict=True), strict=True))}


def _partition(trace: Trace) -> _Found:
    parts = [f"{part}_ps" for part in PARTS]
    hidden = {"hidden_collective_ps": "collective_ps", "hidden_dma_ps": "dma_ps"}
    causes = {f"idle_{cause}_ps": f"{cause}_ps" for cause in IDLE_CAUSES}
    mean = trace.breakdown()
    if mean is None:
        return _unknown(
            [*parts, *hidden, *causes], "No step counts." if trace.devices else "No device op was recorded."
        )
    found: _Found = {name: (float(mean["parts"][name]), None) for name in parts}
    found |= {name: (float(mean["hidden"][key]), None) for name, key in hidden.items()}
    for name, key in causes.items():
        value = mean["idle_causes"][key]
        why = mean["idle_causes_reason"] or "The cause is unknown in a step."
        found[name] = (None, why) if value is None else (float(value), None)
    return found


def _used(trace: Trace, hardware: HardwareOptions | None) -> Utilisation:
    from tpuprof.roofline import HardwareOptions, roofline

    return roofline(trace, hardware or HardwareOptions()).utilisation


def _utilisation(used: Utilisation) -> _Found:
    reason = used.reason or "No figure follows from what is known of the ops."
    values = {"mfu": used.mfu, "hbm_utilisation": used.hbm_utilisation}
    return {name: (value, None if value is not None else reason) for name, value in values.items()}


def _memory(trace: Trace) -> _Found:
    from tpuprof.tables.memory import peak

    most = peak(trace)
    if most is None:
        return _unknown(["memory_peak_bytes"], "The trace holds no buffer assignment.")
    return {"memory_peak_bytes": (float(most.total_bytes), None)}


def _recompiles(trace: Trace) -> _Found:
    """Compilations on the first host: in SPMD every host compiles the same."""
    from tpuprof.tables.hostview import host_log
    from tpuprof.tables.hostwork import HOST_CAUSES
    from tpuprof.tables.sweep import Spans, union

    work = None
    if trace.hosts:
        log = host_log(trace.recordings, trace.hosts[0], trace.origin_ns)
        work = None if log is None else log.work
    if work is None or not len(work.start):
        return _unknown(["recompiles"], "The host's work was not recorded.")
    mine = work.cause == HOST_CAUSES.index("compile")
    calls = np.flatnonzero(
        (work.cause == HOST_CAUSES.index("dispatch"))
        & np.isin(work.name, [row for row, name in enumerate(work.names) if _CALL.match(name)])
    )
    # The phases of one compilation lie side by side, or within one call of the function.
    spans = union(Spans(work.start[mine], work.end[mine]))
    seen: set[tuple[str, int]] = set()
    for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
        around = calls[(work.start[calls] <= start) & (work.end[calls] >= end)]
        outermost = int(around[np.argmax(work.end[around] - work.start[around])]) if len(around) else None
        seen.add(("alone", start) if outermost is None else ("call", outermost))
    return {"recompiles": (float(len(seen)), None)}


def _unknown(names: list[str], reason: str) -> _Found:
    return dict.fromkeys(names, (None, reason))


def _finite(value: float | None, reason: str | None) -> tuple[float | None, str | None]:
    if value is not None and not math.isfinite(value):
        return None, "The figure is not finite."
    return value, reason
