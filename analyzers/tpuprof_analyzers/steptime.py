"""How step times vary: classes of light and heavy steps, single slow ones, and drift."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.tables.schemas import PARTS
from tpuprof.tables.stats import step_times
from tpuprof.units import format_percent, format_ps
from tpuprof_analyzers.common import PAGES, of_step, period_of, steps_text, when
from tpuprof_analyzers.hostside import per_step

FLOATS = npt.NDArray[np.float64]
HEAVIER = 1.2
"""Heavy steps take at least this many times the time of light ones."""
TIGHT = 1 / 3
"""Two classes are two if the spread within each is below this share of their distance."""
OUTLIER_SPREADS = 6.0
MIN_DRIFT_STEPS = 12
DRIFT = 0.05
DRIFT_P = 0.001
MAX_TREND_STEPS = 500


class StepTime:
    """Findings on the distribution of step times.

    They say that steps differ, not why: their severity stays at info, so that causes come first.
    """

    name = "steptime"
    rules = ("TPU441", "TPU442", "TPU443")
    needs = ("several_steps",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """Two classes, or else slow steps; and drift."""
        times = step_times(context.trace.steps).astype("float64")
        first = context.partition.groupby("step")["start_ps"].min()
        times = times.loc[first.loc[times.index].sort_values(kind="stable").index]
        classes = _classes(context, times)
        found = [*classes, *([] if classes else _outliers(context, times)), *_drift(context, times)]
        return AnalysisResult(tuple(found))


def _classes(context: Context, times: pd.Series) -> list[Finding]:
    values = times.to_numpy(np.float64)
    split = two_classes(values)
    if split is None:
        return []
    heavy = values >= split
    light_ps, heavy_ps = float(np.median(values[~heavy])), float(np.median(values[heavy]))
    ps = float((values[heavy] - light_ps).sum()) / len(values)
    if not context.matters(ps):
        return []
    steps = [int(step) for step in times.index[heavy]]
    period = period_of([int(at) for at in np.flatnonzero(heavy)])
    more = _differences(context, steps)
    what = f" They have more {more[0]['part'].replace('_', ' ')}." if more else ""
    return [
        context.finding(
            "TPU441",
            "Light and heavy steps",
            f"Steps come in two classes: {len(values) - len(steps)} take about {format_ps(light_ps)}, "
            f"{when(steps, period, len(values))} about {format_ps(heavy_ps)}.{what} If all were light, the mean step "
            f"would be shorter by {of_step(context, ps)}.",
            "Compare a heavy step with a light one (tpuprof report RUN --steps N). Gradient accumulation, evaluation, "
            "logging and loaders make classes on purpose; then read the report class by class.",
            ps,
            severity="info",
            confidence=context.confidence("steps"),
            evidence={
                "light": {"count": int((~heavy).sum()), "median_ps": light_ps},
                "heavy": {"count": int(heavy.sum()), "median_ps": heavy_ps},
                "steps": steps[:50],
                "period_steps": period,
                "differences": more,
            },
            scope={"step": steps[0]},
        )
    ]


def _outliers(context: Context, times: pd.Series) -> list[Finding]:
    values = times.to_numpy(np.float64)
    typical = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - typical)))
    slow = values > typical + max(OUTLIER_SPREADS * spread, (HEAVIER - 1) * typical)
    ps = float((values[slow] - typical).sum()) / len(values)
    if not context.matters(ps):
        return []
    steps = [int(step) for step in times.index[slow]]
    more = _differences(context, steps)
    what = f" They have more {more[0]['part'].replace('_', ' ')}." if more else ""
    return [
        context.finding(
            "TPU442",
            "A few steps are much slower",
            f"{len(steps)} of {len(values)} steps take at least {format_ps(float(values[slow].min()))} where the "
            f"median is {format_ps(typical)} ({steps_text(steps)}).{what} They cost {of_step(context, ps)} on average.",
            "Look at these steps alone (--steps N): compilation, a checkpoint, a preempted host, or the first steps "
            "after a restart. Give the median, not the mean, when you compare runs.",
            ps,
            severity="info",
            confidence=context.confidence("steps"),
            evidence={
                "median_ps": typical,
                "p90_ps": float(np.percentile(values, 90)),
                "p99_ps": float(np.percentile(values, 99)),
                "max_ps": float(values.max()),
                "steps": steps[:50],
                "differences": more,
            },
            scope={"step": steps[0]},
        )
    ]


def _drift(context: Context, times: pd.Series) -> list[Finding]:
    values = times.to_numpy(np.float64)
    if len(values) < MIN_DRIFT_STEPS:
        return []
    slope, p_value = trend(values)
    typical = float(np.median(values))
    change = slope * (len(values) - 1)
    if not (p_value < DRIFT_P and abs(change) >= DRIFT * typical):
        return []
    quarter = max(len(values) // 4, 1)
    best = min(float(np.median(values[:quarter])), float(np.median(values[-quarter:])))
    ps = max(float(values.mean()) - best, 0.0)
    if not context.matters(ps):
        return []
    direction = "longer" if change > 0 else "shorter"
    return [
        context.finding(
            "TPU443",
            "Step times drift",
            f"Over {len(values)} steps the step gets {direction} by {format_ps(abs(change))} "
            f"({format_percent(abs(change) / typical)} of the median), steadily. At the best quarter's pace the mean "
            f"step would be shorter by {of_step(context, ps)}.",
            "Longer: growing sequences or caches, memory fragmentation, a host that swaps, clocks that throttle. "
            "Shorter: the capture began before the loop had settled; capture later.",
            ps,
            severity="info",
            confidence=context.confidence("steps", at_most="medium"),
            evidence={"change_ps": change, "slope_ps_per_step": slope, "p_value": p_value},
        )
    ]


def two_classes(values: FLOATS) -> float | None:
    """The smallest time of the heavy class if times fall into two tight, well separated classes, else null.

    The split is the one with the smallest spread within the classes; each needs two members.
    """
    ordered = np.sort(values)
    n = len(ordered)
    if n < 4:
        return None
    best: tuple[float, int] | None = None
    for at in range(2, n - 1):
        within = float(ordered[:at].var() * at + ordered[at:].var() * (n - at))
        if best is None or within < best[0]:
            best = (within, at)
    if best is None:
        return None
    light, heavy = ordered[: best[1]], ordered[best[1] :]
    distance = float(heavy.mean() - light.mean())
    tight = max(float(light.std()), float(heavy.std())) <= TIGHT * distance
    return float(heavy[0]) if tight and float(heavy.mean()) >= HEAVIER * float(light.mean()) else None


def trend(values: FLOATS) -> tuple[float, float]:
    """Theil-Sen slope per step and the two-sided p value of the Mann-Kendall test (normal approximation with ties).

    Long series are thinned out first: pairs grow with the square of the length.
    """
    stride = -(-len(values) // MAX_TREND_STEPS)
    thin = values[::stride]
    n = len(thin)
    first, second = np.triu_indices(n, 1)
    rise = thin[second] - thin[first]
    slope = float(np.median(rise / ((second - first) * stride)))
    score = float(np.sign(rise).sum())
    ties = np.unique(thin, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    if variance <= 0:
        return slope, 1.0
    z = max(abs(score) - 1, 0.0) / math.sqrt(variance)
    return slope, math.erfc(z / math.sqrt(2))


def _differences(context: Context, steps: list[int]) -> list[dict[str, Any]]:
    """The parts by which these steps are longer than the others, mean over cores, largest first."""
    rows: list[dict[str, Any]] = []
    for part in PARTS:
        by_step = per_step(context, f"{part}_ps")
        mine = by_step.index.isin(steps)
        if mine.any() and not mine.all():
            rows.append({"part": part, "longer_ps": float(by_step[mine].mean() - by_step[~mine].mean())})
    return sorted((row for row in rows if row["longer_ps"] > 0), key=lambda row: -row["longer_ps"])[:3]
