"""A metric over the runs of a series: where its level changed, which run was the first, and what else changed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tpuprof.errors import UsageError
from tpuprof.history.changepoints import MAX_VALUES, ChangePoint, Pending, change_points, levels, pending_change
from tpuprof.history.metrics import METRICS, Metric
from tpuprof.history.runs import Run
from tpuprof.history.store import Store

MIN_RUNS = 12
"""A test at 1 % can hardly call anything a change in a shorter series, however large it is."""

Direction = Literal["regressed", "improved", "changed"]
Verdict = Literal["regressed", "improved", "changed", "steady", "cannot_tell"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Something besides the metric in which two runs differ; null where a run does not say."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level.

    Args:
        direction: whether the new level is worse; ``changed`` for metrics that have no worse.
        first: the first run of the new level.
        last_before: the run before it.
        earliest: the first run of the new level lies between this one
        latest: and this one in about 95 of 100 cases.
        differences: in what else the two runs differ.
    """

    direction: Direction
    point: ChangePoint
    first: Run
    last_before: Run
    earliest: Run
    latest: Run
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """A metric over a series of runs of one program on one kind of hardware and one branch, oldest first.

    Args:
        values: one per run.
        without_value: runs of the series whose metric is unknown; they are left out.
        left_out: older runs beyond what is searched.
        levels: stretches between changes as (first index, index after the last, median).
        verdict: the direction of the last change; ``cannot_tell`` for a series that is too short.
        pending: the last one or two runs, where they are off the level but too few to be one.
        pending_direction: whether that is worse.
    """

    metric: str
    program: str
    hardware: str
    branch: str | None
    runs: tuple[Run, ...]
    values: tuple[float, ...]
    without_value: int
    left_out: int
    changes: tuple[Change, ...]
    levels: tuple[tuple[int, int, float], ...]
    verdict: Verdict
    reason: str | None
    pending: Pending | None
    pending_direction: Direction | None


def trends(
    store: Store,
    metric: str = "step_p50_ps",
    *,
    tags: Mapping[str, str] | None = None,
    last: int | None = None,
    alpha: float = 0.01,
    min_effect: float = 0.01,
) -> list[Trend]:
    """The metric over every series of the store, the one with the newest run first.

    Args:
        store: the store.
        metric: its name.
        tags: only runs with all of these.
        last: only so many of the newest runs of each series.
        alpha: how often a change is found where there is none.
        min_effect: the smallest change of interest, as a fraction.

    Raises:
        UsageError: there is no such metric.
    """
    if metric not in METRICS:
        raise UsageError(f"There is no metric {metric!r}.", hint=f"Choose one of {', '.join(METRICS)}.")
    groups: dict[tuple[str, str, str | None], list[Run]] = {}
    for run in store.runs(tags=tags):
        if run.series is not None:
            groups.setdefault(run.series, []).append(run)
    chosen = [runs if last is None else runs[max(0, len(runs) - last) :] for runs in groups.values()]
    chosen = sorted((runs for runs in chosen if runs), key=lambda runs: -runs[-1].time_ns)
    metrics = store.metrics([run for runs in chosen for run in runs])
    return [trend(runs, metrics, metric, alpha=alpha, min_effect=min_effect) for runs in chosen]


def trend(
    runs: Sequence[Run],
    metrics: Mapping[int, Mapping[str, Metric]],
    metric: str,
    *,
    alpha: float = 0.01,
    min_effect: float = 0.01,
) -> Trend:
    """The metric over one series.

    Args:
        runs: runs of one series, oldest first, at least one.
        metrics: by run number and name.
        metric: its name.
        alpha: see ``trends``.
        min_effect: see ``trends``.
    """
    known = [(run, value) for run in runs if (value := _value(metrics, run, metric)) is not None]
    searched = known[-MAX_VALUES:]
    kept, values = [run for run, _ in searched], [value for _, value in searched]
    points = change_points(values, alpha=alpha, min_effect=min_effect)
    pending = pending_change(values, points, min_effect=min_effect)
    changes = tuple(_change(point, kept, metric) for point in points)
    reason = None
    if len(values) < MIN_RUNS and not changes:
        reason = f"A series needs {MIN_RUNS} runs with this metric to show a change; this one has {len(values)}."
    verdict: Verdict = changes[-1].direction if changes else "steady" if reason is None else "cannot_tell"
    program, hardware, branch = runs[0].series or ("", "", None)
    return Trend(
        metric=metric,
        program=program,
        hardware=hardware,
        branch=branch,
        runs=tuple(kept),
        values=tuple(values),
        without_value=len(runs) - len(known),
        left_out=len(known) - len(searched),
        changes=changes,
        levels=levels(values, points),
        verdict=verdict,
        reason=reason,
        pending=pending,
        pending_direction=None if pending is None else _direction(metric, pending.level, pending.value),
    )


def differences(before: Run, after: Run) -> tuple[Difference, ...]:
    """In what two runs differ besides their figures: commit and other tags, versions, flags, the compiled program."""
    old, new = _circumstances(before), _circumstances(after)
    names = [*old, *(name for name in new if name not in old)]
    return tuple(Difference(n, old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n))


def _circumstances(run: Run) -> dict[str, str]:
    found: dict[str, str] = {f"tag {name}": value for name, value in run.tags.items()}
    for group, label in (("versions", ""), ("environment", "")):
        values: Any = run.facts.get(group) or {}
        found |= {f"{label}{name}": str(value) for name, value in values.items()}
    # A newer tpuprof may measure otherwise; the one that captured is among the versions, this is the one that added.
    found["added by tpuprof"] = run.tool_version
    if run.structure is not None:
        found["compiled program"] = run.structure[:8]
    found["step source"] = run.step_source
    return found


def _change(point: ChangePoint, runs: Sequence[Run], metric: str) -> Change:
    first, last_before = runs[point.index], runs[point.index - 1]
    return Change(
        direction=_direction(metric, point.before, point.after),
        point=point,
        first=first,
        last_before=last_before,
        earliest=runs[point.earliest],
        latest=runs[point.latest],
        differences=differences(last_before, first),
    )


def _direction(metric: str, before: float, after: float) -> Direction:
    worse = METRICS[metric].worse
    if worse is None:
        return "changed"
    return "regressed" if (after > before) == (worse == "up") else "improved"


def _value(metrics: Mapping[int, Mapping[str, Metric]], run: Run, name: str) -> float | None:
    found = metrics.get(run.id, {}).get(name)
    return None if found is None else found.value
