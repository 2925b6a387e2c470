"""The figures of a capture that budgets are held against; unknown ones with the reason."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.compare.capture import Capture, step_figures
from tpuprof.gate.budgets import KINDS

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions
    from tpuprof.trace import Trace

NO_TRACE = "Step times alone do not say it: give a trace."


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: times in ps; null with the reason where it is unknown.

    Args:
        value: the figure.
        whole_ps: for times within a step the mean step, of which they are a share; null for others.
        reason: why it is unknown.
        at_least: whether the true figure may be larger.
    """

    value: float | None
    whole_ps: float | None = None
    reason: str | None = None
    at_least: bool = False


def figures_of(capture: Capture, names: Collection[str], hardware: HardwareOptions | None = None) -> dict[str, Figure]:
    """The figures of these names.

    Args:
        capture: whose.
        names: budgets.
        hardware: what the run is set against; null for what the trace names.

    Raises:
        UsageError: ``hardware`` names no chip, or a figure in it is wrong.
        InputError: a file named by it cannot be read, or the run's files cannot be read again.
    """
    found: dict[str, Figure] = {}
    steps = step_figures(capture.samples.step_ps)
    for name, key in (("step_time_p50", "p50_ps"), ("step_time_p95", "p95_ps")):
        value = steps[key]
        found[name] = Figure(value, reason=None if value is not None else "No step counts.")
    if all(KINDS[name].of_steps for name in names):
        return {name: found[name] for name in names}
    if capture.trace is None:
        return {name: found.get(name, Figure(None, reason=NO_TRACE)) for name in names}
    found |= _of_trace(capture.trace, hardware)
    return {name: found[name] for name in names}


def _of_trace(trace: Trace, hardware: HardwareOptions | None) -> dict[str, Figure]:
    from tpuprof.history.metrics import metrics_of
    from tpuprof.tables.stats import step_times

    times = step_times(trace.steps).to_numpy(np.int64)
    metrics = {metric.name: metric for metric in metrics_of(trace, times, hardware)}
    mean = trace.breakdown()
    whole = None if mean is None else float(mean["step_ps"])

    def metric(name: str, whole_ps: float | None = None) -> Figure:
        found = metrics[name]
        return Figure(found.value, whole_ps, found.reason, found.at_least)

    return {
        "exposed_collectives": metric("collective_exposed_ps", whole),
        "idle": metric("idle_ps", whole),
        "memory_peak": metric("memory_peak_bytes"),
        "recompiles": metric("recompiles"),
        "mfu": metric("mfu"),
    }
