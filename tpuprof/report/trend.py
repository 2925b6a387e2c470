"""The result of ``tpuprof history trend``: its JSON document, and in words where a series changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tpuprof.report.history import head, show_fingerprint, show_metric, show_time
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.units import UNKNOWN

if TYPE_CHECKING:
    from tpuprof.history.series import Change, Trend


def trend_result(place: str, metric: str, trends: Sequence[Trend], without_series: int) -> Result:
    """Series with their changes; CSV and JSON lines give the changes.

    Args:
        place: the store.
        metric: its name.
        trends: the series.
        without_series: runs that belong to no series, since their program or hardware is unknown.
    """
    series = [_series(trend) for trend in trends]
    flat = [{**_about(row), **change} for row in series for change in row["changes"]]
    document = {
        **head("history trend", place),
        "metric": metric,
        "runs_without_series": without_series,
        "series": series,
    }
    listings = [_listing(trend) for trend in trends] or [Listing(f"Series of {metric}", "run", _LEVEL_FIELDS, [], 0)]
    return Result(document, "series", _CHANGE_COLUMNS, tuple(listings), flat)


def _about(series: dict[str, Any]) -> dict[str, Any]:
    return {name: series[name] for name in ("metric", "program", "hardware", "branch")}


def _series(trend: Trend) -> dict[str, Any]:
    last = trend.runs[-1] if trend.runs else None
    return {
        "metric": trend.metric,
        "program": trend.program,
        "hardware": trend.hardware,
        "branch": trend.branch,
        "program_text": None if last is None else last.facts.get("program"),
        "hardware_text": None if last is None else last.facts.get("hardware"),
        "verdict": trend.verdict,
        "reason": trend.reason,
        "n_runs": len(trend.runs),
        "runs_without_value": trend.without_value,
        "runs_left_out": trend.left_out,
        "values": [
            {"run": run.id, "time_ns": run.time_ns, "value": value}
            for run, value in zip(trend.runs, trend.values, strict=True)
        ],
        "levels": [
            {"first_run": trend.runs[start].id, "last_run": trend.runs[stop - 1].id, "n_runs": stop - start, "p50": p50}
            for start, stop, p50 in trend.levels
        ],
        "changes": [_change_row(change) for change in trend.changes],
        "pending": None
        if trend.pending is None
        else {
            "direction": trend.pending_direction,
            "first_run": trend.runs[trend.pending.index].id,
            "before": trend.pending.level,
            "after": trend.pending.value,
        },
    }


_CHANGE_KEYS = (
    "direction", "first_run", "first_name", "first_time_ns", "first_commit", "last_before_run", "last_before_commit",
    "earliest_run", "latest_run", "before", "after", "relative", "p_value",
)  # fmt: skip
_CHANGE_COLUMNS = ("metric", "program", "hardware", "branch", *_CHANGE_KEYS)


def _change_row(change: Change) -> dict[str, Any]:
    first, before, point = change.first, change.last_before, change.point
    values = (
        change.direction, first.id, first.name, first.time_ns, first.commit, before.id, before.commit,
        change.earliest.id, change.latest.id, point.before, point.after, point.relative, point.p_value,
    )  # fmt: skip
    return {
        **dict(zip(_CHANGE_KEYS, values, strict=True)),
        "differences": [asdict(difference) for difference in change.differences],
    }


def _listing(trend: Trend) -> Listing:
    """One series: a row per level, and below in words what the first run of each new level was."""
    rows = [
        {
            "runs": f"{trend.runs[start].id} … {trend.runs[stop - 1].id}" if stop - start > 1 else trend.runs[start].id,
            "count": stop - start,
            "since": show_time(trend.runs[start].time_ns),
            "p50": show_metric(trend.metric, level),
            "change": "" if at == 0 else _step(trend.changes[at - 1]),
        }
        for at, (start, stop, level) in enumerate(trend.levels)
    ]
    title = f"{trend.metric} of {series_title(trend)}: {trend.verdict}"
    return Listing(title, "level", _LEVEL_FIELDS, rows, len(rows), tuple(change_sentences(trend)))


def series_title(trend: Trend) -> str:
    """Which series it is: the program, the hardware and the branch."""
    last = trend.runs[-1] if trend.runs else None
    name = UNKNOWN if last is None else last.program_name or UNKNOWN
    hardware = UNKNOWN if last is None else str(last.facts.get("hardware"))
    branch = "" if trend.branch is None else f", branch {trend.branch}"
    return f"{name} ({show_fingerprint(trend.program)}) on {hardware}{branch}"


def change_sentences(trend: Trend) -> list[str]:
    """The changes of a series in words, and what could not be looked at."""
    notes = [_sentence(trend, change) for change in trend.changes]
    if trend.pending is not None:
        first = trend.runs[trend.pending.index]
        values = (
            f"{show_metric(trend.metric, trend.pending.value)} after {show_metric(trend.metric, trend.pending.level)}"
        )
        notes.append(
            f"Not confirmed yet: from run {first.id} on ({first.name}) {values} ({trend.pending_direction}); a level "
            "needs three runs."
        )
    if trend.reason is not None:
        notes.append(trend.reason)
    if trend.without_value:
        notes.append(f"Runs whose {trend.metric} is unknown: {trend.without_value}.")
    if trend.left_out:
        notes.append(f"Older runs that were not searched: {trend.left_out}.")
    return notes


def _sentence(trend: Trend, change: Change) -> str:
    """``regressed +6.2 % from run 12 (name, commit abc) on …``."""
    first, point = change.first, change.point
    commit = "" if first.commit is None else f", commit {first.commit}"
    parts = [
        f"{change.direction} {_step(change)} from run {first.id} on ({first.name}{commit}): "
        f"{show_metric(trend.metric, point.before)} to {show_metric(trend.metric, point.after)}, "
        f"p = {point.p_value:.3g}."
    ]
    if change.earliest is not change.latest:
        parts.append(f"The first such run lies between {change.earliest.id} and {change.latest.id}.")
    differ = [f"{d.what} {d.before or 'none'} → {d.after or 'none'}" for d in change.differences[:6]]
    more = len(change.differences) - len(differ)
    if differ:
        parts.append(f"Since run {change.last_before.id}: {'; '.join(differ)}{f'; {more} more' if more > 0 else ''}.")
    else:
        parts.append(f"Since run {change.last_before.id} nothing else that is recorded changed.")
    return " ".join(parts)


def _step(change: Change) -> str:
    relative = change.point.relative
    return "from zero" if relative is None else f"{100 * relative:+.2f} %"


_LEVEL_FIELDS = (
    Field("runs", "runs"),
    Field("count", "count", show_count, right=True),
    Field("since", "since (UTC)", rank=1),
    Field("p50", "level", right=True),
    Field("change", "change", right=True),
)
