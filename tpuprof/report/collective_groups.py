"""Collectives grouped by kind, mesh axis, scope, source line or program: the result of ``collectives --by``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.analysis import Context
from tpuprof.errors import UsageError
from tpuprof.report.documents import head
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.report.plain import records
from tpuprof.units import format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

COLUMN_OF = {"kind": "kind", "axis": "mesh_axes", "scope": "scope", "source": "source", "module": "module"}
"""The column of table ``collectives`` for each grouping."""

_UNKNOWN = {
    "axis": "(axes unknown)",
    "scope": "(no scope)",
    "source": "(no source)",
    "module": "(no module)",
}
_TIMES = ("window_ps", "exposed_ps", "hidden_ps", "wait_ps")
COLUMNS = ("name", "instructions", "count", "unmatched", *_TIMES, "exposed_per_step_ps", "exposed_fraction")
_FIELDS = (
    Field("instructions", "ops", show_count, right=True, rank=3),
    Field("count", "count", show_count, right=True, rank=4),
    Field("window_ps", "window", format_ps, right=True, rank=2),
    Field("exposed_ps", "exposed", format_ps, right=True),
    Field("hidden_ps", "hidden", format_ps, right=True),
    Field("wait_ps", "wait", format_ps, right=True, rank=3),
    Field("exposed_per_step_ps", "exposed/step", format_ps, right=True, rank=1),
    Field("exposed_fraction", "share", format_percent, right=True),
)


def collective_groups(trace: Trace, by: str) -> list[dict[str, Any]]:
    """Groups of collectives, the one with the most exposed time first.

    ``instructions`` is the number of different ones, ``count`` that of occurrences on all cores, ``unmatched`` those
    of which a half is missing, which have no times. Times are sums over all cores and occurrences in ps, waits over
    those whose wait is known (null if none is); where collectives overlap, each counts by itself.
    ``exposed_per_step_ps`` is the mean over counted steps and cores (as the breakdown; over cores of the whole where
    there are no steps, null where none counts); ``exposed_fraction`` the share of the exposed time of all
    collectives, null if that is 0.

    Args:
        trace: the run.
        by: ``kind``, ``axis``, ``scope``, ``source`` or ``module``.

    Raises:
        UsageError: ``by`` is none of these.
    """
    if by not in COLUMN_OF:
        raise UsageError(f"Cannot group collectives by {by!r}.", hint=f"Choose one of {', '.join(COLUMN_OF)}.")
    frame = trace.collectives
    if frame.empty:
        return []
    column = frame[COLUMN_OF[by]]
    name = column.astype("object").where(column.notna(), _UNKNOWN.get(by))
    op = frame["op"].astype("object") + "\0" + frame["module"].astype("object").where(frame["module"].notna(), "")
    rows = frame[list(_TIMES)].assign(name=name, op=op, unmatched=frame["window_ps"].isna().astype("int64"))
    groups = rows.groupby("name", sort=False)
    sums = groups[[*_TIMES, "unmatched"]].sum(min_count=1)
    sums = sums.assign(count=groups.size(), instructions=groups["op"].nunique())
    context = Context(trace)
    in_steps = context.collectives
    labels = in_steps[COLUMN_OF[by]].astype("object").where(in_steps[COLUMN_OF[by]].notna(), _UNKNOWN.get(by))
    per_step = in_steps[["exposed_ps"]].assign(name=labels).groupby("name", sort=False)["exposed_ps"].sum()
    everything = int(frame["exposed_ps"].sum())
    sums = sums.assign(in_steps=per_step.reindex(sums.index).fillna(0))
    found = [_row(row, context.pairs, everything) for row in records(sums.reset_index())]
    return sorted(found, key=lambda row: (-(row["exposed_ps"] or 0), row["name"]))


def collective_groups_result(trace: Trace, by: str, top: int | None, shown: int) -> Result:
    """Groups of collectives as a document with its listing.

    Args:
        trace: the run.
        by: as for ``collective_groups``.
        top: how many rows to give at most, null for all.
        shown: how many of them the listing for people shows at most.

    Raises:
        UsageError: ``by`` is no grouping.
    """
    rows = collective_groups(trace, by)
    given = rows if top is None else rows[:top]
    document: dict[str, Any] = {
        **head(trace, "collectives"),
        "by": by,
        "total": len(rows),
        "collectives": given,
    }
    title = f"Collectives by {'mesh axis' if by == 'axis' else by}: sums over all cores, share of the exposed time"
    noun = {"axis": "mesh axis group", "source": "source line"}.get(by, by)
    fields = (Field("name", by, role="kind" if by == "kind" else "tail" if by in ("scope", "source") else "name"),)
    listing = Listing(title, noun, fields + _FIELDS, given[:shown], len(rows))
    return Result(document, "collectives", COLUMNS, (listing,))


def _row(row: dict[str, Any], pairs: int, everything: int) -> dict[str, Any]:
    exposed = row["exposed_ps"]
    return {
        "name": row["name"],
        "instructions": row["instructions"],
        "count": row["count"],
        "unmatched": row["unmatched"],
        **{key: row[key] for key in _TIMES},
        "exposed_per_step_ps": row["in_steps"] / pairs if pairs and exposed is not None else None,
        "exposed_fraction": exposed / everything if everything and exposed is not None else None,
    }
