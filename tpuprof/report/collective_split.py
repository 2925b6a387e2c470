"""Where the time of collectives goes: exposed or hidden, waiting or moving, per step, by op, kind, axis, scope …"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.analysis import Context
from tpuprof.errors import UsageError
from tpuprof.report.collective_groups import COLUMN_OF
from tpuprof.report.plain import records

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

SPLIT_GROUPS = ("op", *COLUMN_OF)
"""What collectives can be grouped by."""
OCCURRENCE_COLUMNS = (
    "device", "step", "start_ps", "form", "window_ps", "exposed_ps", "hidden_ps", "wait_ps", "transfer_ps",
    "wait_is_lower_bound", "wait_reason", "participants", "bytes",
)  # fmt: skip
_TIMES = ("window_ps", "exposed_ps", "hidden_ps")
_DIGITS = 19  # a step's number has fewer
_FILTERS = ("op", "module", "kind", "scope", "axis", "source", "device", "step")


def collective_split(trace: Trace, by: str, **only: str) -> list[dict[str, Any]]:
    """Groups of collectives in counted steps, the one with the most exposed time first.

    Times are sums over a core's collectives in a step, as the mean over counted steps and cores, in ps; where
    collectives overlap, each counts by itself. ``exposed_ps`` and ``hidden_ps`` add up to ``window_ps``; ``wait_ps``,
    ``transfer_ps`` and ``unknown_ps`` are the division of time by waiting, with ``unknown_ps`` the windows of those
    whose wait is not known (a wait may begin before its window, so that the three can add up to more); the first two
    are null where no wait is known. ``name`` is null
    for collectives of which the trace does not say it; groups by ``op`` have ``module`` too, which is null otherwise.

    Args:
        trace: the run.
        by: one of :data:`SPLIT_GROUPS`.
        only: keeps the collectives with these texts in ``op``, ``module``, ``kind``, ``axis``, ``source``, ``device``,
            ``step``, and below this path in ``scope``.

    Raises:
        UsageError: ``by`` is none of these.
    """
    if by not in SPLIT_GROUPS:
        raise UsageError(f"Cannot group collectives by {by!r}.", hint=f"Choose one of {', '.join(SPLIT_GROUPS)}.")
    context = Context(trace)
    frame = _chosen(context.collectives, only)
    pairs = context.pairs if trace.step_source != "none" else max(len(trace.devices), 1)
    if frame.empty or not pairs:
        return []
    known = frame["wait_ps"].notna()
    columns = ["op", "module"] if by == "op" else [COLUMN_OF[by]]
    rows = frame[columns].assign(
        **{name: frame[name].astype("float64") for name in (*_TIMES, "wait_ps", "transfer_ps")},
        unknown_ps=frame["window_ps"].astype("float64").where(~known, 0.0),
        op_name=frame["op"].cat.codes,
    )
    groups = rows.groupby(columns, observed=True, dropna=False, sort=False)
    sums = groups[[*_TIMES, "unknown_ps"]].sum() / pairs
    sums[["wait_ps", "transfer_ps"]] = groups[["wait_ps", "transfer_ps"]].sum(min_count=1) / pairs
    sums = sums.assign(count=groups.size(), instructions=groups["op_name"].nunique())
    found = [_row(row, by, columns[0]) for row in records(sums.reset_index())]
    return sorted(found, key=lambda row: (-row["exposed_ps"], -row["window_ps"], row["name"] or ""))


def collectives_with(trace: Trace, **only: str) -> set[tuple[str, str | None]]:
    """The (op, module) of the collectives that fit, wherever they ran.

    Args:
        trace: the run.
        only: as for :func:`collective_split`.
    """
    pairs = _chosen(trace.collectives, only)[["op", "module"]].drop_duplicates()
    return {(row["op"], row["module"]) for row in records(pairs)}


def collective_occurrences(trace: Trace, top: int, **only: str) -> tuple[list[dict[str, Any]], int]:
    """The most exposed occurrences of collectives as rows of :data:`OCCURRENCE_COLUMNS` and how many there are in all.

    Args:
        trace: the run; collectives outside counted steps are among them.
        top: how many rows to give at most.
        only: as for :func:`collective_split`.
    """
    frame = _chosen(trace.collectives, only)
    keys = frame[["exposed_ps", "window_ps"]].astype("float64").fillna(-1.0)
    order = keys.assign(start=frame["start_ps"]).sort_values(
        ["exposed_ps", "window_ps", "start"], ascending=[False, False, True], kind="stable"
    )
    return records(frame.loc[order.index[:top], list(OCCURRENCE_COLUMNS)]), len(frame)


def _chosen(frame: pd.DataFrame, only: dict[str, str]) -> pd.DataFrame:
    for name, value in only.items():
        if not value:
            continue
        if name not in _FILTERS:
            raise UsageError(f"Cannot filter collectives by {name!r}.", hint=f"Choose one of {', '.join(_FILTERS)}.")
        column = frame[COLUMN_OF.get(name, name)]
        if name == "step":
            digits = value.removeprefix("-")
            known = digits.isascii() and digits.isdecimal() and len(digits) < _DIGITS
            fitting: list[Any] = [int(value)] if known else []
        else:  # as names that occur, which are few, and not row by row
            fitting = [label for label in column.cat.categories if _fits(name, str(label), value)]
        frame = frame[column.isin(fitting).to_numpy()]
    return frame


def _fits(name: str, label: str, value: str) -> bool:
    return label == value or (name == "scope" and label.startswith(value.rstrip("/") + "/"))


def _row(row: dict[str, Any], by: str, column: str) -> dict[str, Any]:
    times = (*_TIMES, "wait_ps", "transfer_ps", "unknown_ps")
    return {
        "name": row[column],
        "module": row["module"] if by == "op" else None,
        "instructions": row["instructions"],
        "count": row["count"],
        **{name: row[name] for name in times},
    }
