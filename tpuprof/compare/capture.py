"""What a comparison is made of: captures, each with its step times and, where there is one, the trace."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tpuprof.compare.samples import Samples, samples_of

if TYPE_CHECKING:
    from tpuprof.trace import Trace


MOST_TIMES = 2_000
"""As many step times of a side are in the document at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """One capture of a side.

    Args:
        samples: its step times.
        trace: the trace; null where there are only step times.
    """

    samples: Samples
    trace: Trace | None = None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.samples.label or "(unnamed)"


def as_captures(side: Trace | Samples | Sequence[Trace | Samples]) -> tuple[Capture, ...]:
    """The captures of a side, given as one or several traces or lists of step times."""
    given = side if isinstance(side, Sequence) else (side,)
    return tuple(Capture(item) if isinstance(item, Samples) else Capture(samples_of(item), item) for item in given)


def typical(captures: Sequence[Capture]) -> Capture | None:
    """The capture with a trace whose median step is nearest to the middle of all; null if none has a trace."""
    traced = [capture for capture in captures if capture.trace is not None]
    medians = {id(c): statistics.median(c.samples.step_ps) for c in captures if c.samples.step_ps}
    if not traced or not medians:
        return traced[0] if traced else None
    middle = statistics.median(medians.values())
    return min(traced, key=lambda capture: abs(medians.get(id(capture), math.inf) - middle))


def side_json(captures: Sequence[Capture], explained: Capture | None) -> dict[str, Any]:
    """``base`` or ``new`` of the document: what was captured, with the spread of its steps."""
    times = [time for capture in captures for time in capture.samples.step_ps]
    shown = explained or (captures[0] if captures else None)
    return {
        "name": None if shown is None else shown.name,
        "n_captures": len(captures),
        "steps": step_figures(times),
        "step_ps": _thinned(times),
        "captures": [
            {
                "name": each.name,
                "from": "steps" if each.trace is None else "trace",
                **step_figures(each.samples.step_ps),
            }
            for each in captures
        ],
        "run": None if shown is None or shown.trace is None else _run(shown.trace),
    }


def _thinned(times: Sequence[float]) -> list[float]:
    """The times in order; of too many as many of the sorted ones, evenly spaced, which keep the distribution."""
    if len(times) <= MOST_TIMES:
        return list(times)
    ordered = sorted(times)
    return [ordered[round(at * (len(ordered) - 1) / (MOST_TIMES - 1))] for at in range(MOST_TIMES)]


def step_figures(times: Sequence[float]) -> dict[str, float | int | None]:
    """Count, median, 95th percentile, mean, standard deviation and coefficient of variation; null where unknown."""
    names = ("p50_ps", "p95_ps", "mean_ps", "stdev_ps", "cv")
    if not times:
        return {"count": 0, **dict.fromkeys(names)}
    mean = math.fsum(times) / len(times)
    stdev = statistics.stdev(times) if len(times) > 1 else None
    return {
        "count": len(times),
        "p50_ps": float(statistics.median(times)),
        "p95_ps": percentile(times, 0.95),
        "mean_ps": mean,
        "stdev_ps": stdev,
        "cv": stdev / mean if stdev is not None and mean > 0 else None,
    }


def percentile(times: Sequence[float], share: float) -> float:
    """The percentile of a list that is not empty, linear between neighbours."""
    ordered = sorted(times)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _run(trace: Trace) -> dict[str, Any]:
    kinds = {device.kind for device in trace.devices}
    versions = trace.metadata.get("versions")
    window = trace.window_ps
    return {
        "name": trace.name,
        "hosts": list(trace.hosts),
        "device_kind": kinds.pop() if len(kinds) == 1 else None,
        "n_devices": len(trace.devices),
        "step_source": trace.step_source,
        "n_steps": int(trace.n_steps),
        "window_ps": None if window is None else int(window[1] - window[0]),
        "versions": dict(cast("dict[str, Any]", versions)) if isinstance(versions, dict) else {},
    }
