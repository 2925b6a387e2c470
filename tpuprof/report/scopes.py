"""The tree of name scopes as JSON, rows, and an indented table: the result of ``tpuprof scopes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.documents import head
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.report.plain import records
from tpuprof.tables.schemas import SCOPES
from tpuprof.tables.scopes import SCOPE_KINDS
from tpuprof.units import UNKNOWN, format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.trace import Trace

DEPTH_SHOWN = 4
ROWS_SHOWN = 200
_INDENT = ". "


def _show_cores(value: float | None) -> str:
    return UNKNOWN if value is None else show_count(int(value)) if value == int(value) else f"{value:,.1f}"


_FIELDS = (
    Field("label", "scope", role="name"),
    Field("kind", "mostly", rank=2, role="kind"),
    Field("occurrences_per_core", "count per core", _show_cores, right=True, rank=4),
    Field("total_ps", "total", format_ps, right=True),
    Field("self_ps", "own", format_ps, right=True, rank=1),
    Field("step_fraction", "of step", format_percent, right=True),
    Field("backward_ps", "backward", format_ps, right=True, rank=3),
    Field("recomputed_ps", "recomputed", format_ps, right=True, rank=5),
)


def scopes_result(trace: Trace, depth: int | None) -> Result:
    """Name scopes as a tree; ``scopes`` nests them, CSV and JSON lines have one row per scope, depth first.

    Args:
        depth: how many levels of names to give, null for all; what lies deeper is in the total times only.
    """
    rows = records(trace.scopes)
    kept = rows if depth is None else [row for row in rows if row["depth"] <= depth]
    whole = _nested(kept)
    document = {
        **head(trace, "scopes"),
        "depth": depth,
        "total": max(len(rows) - 1, 0),
        "cores": len(trace.devices),
        **{key: whole.get(key) for key in ("total_ps", "backward_ps", "recomputed_ps", "step_fraction", "kinds")},
        "scopes": whole.get("scopes", []),
    }
    return Result(document, "scopes", SCOPES.names, (scopes_listing(kept, depth, max(len(rows) - 1, 0)),), kept)


def scopes_listing(rows: list[dict[str, Any]], depth: int | None, total: int) -> Listing:
    """The tree for people: names indented by their depth, scopes without any time left out."""
    level = DEPTH_SHOWN if depth is None else depth
    shown = [row for row in rows if 0 < row["depth"] <= level and row["total_ps"]]
    whole = rows[0]["total_ps"] if rows else 0
    lines = [{**row, "label": _INDENT * (row["depth"] - 1) + row["name"], "kind": _main_kind(row)} for row in shown]
    title = f"Name scopes: self time of their ops over all cores ({format_ps(whole)} in all)"
    # Columns of zeros say nothing.
    fields = tuple(f for f in _FIELDS if f.key not in ("backward_ps", "recomputed_ps") or any(r[f.key] for r in lines))
    return Listing(title, "scope", fields, lines[:ROWS_SHOWN], total)


def flame_nodes(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The tree in few enough nodes to draw: the ``most`` scopes with the largest total time, with all around them.

    Scopes that are left out become one node per parent, whose ``path`` is null and ``scopes`` their number. A node's
    ``self_ps`` plus the ``total_ps`` of its children is its ``total_ps``, as in the table.

    Args:
        rows: of table `scopes`, depth first.
        most: how many of them to keep.

    Returns:
        the nodes, parents before children, siblings by total time, with the keys of the table and ``above``, the
        place of the parent in the list (null for the whole), ``kind``, that with most time, and ``scopes``.
    """
    ranked = sorted(range(len(rows)), key=lambda at: (-rows[at]["total_ps"], at))[:most]
    kept = {at for at in ranked if rows[at]["total_ps"] or not at}
    places: dict[str, int] = {}
    found: list[dict[str, Any]] = []
    rest: dict[str, dict[str, Any]] = {}
    for at, row in enumerate(rows):
        if at in kept:  # a scope takes no more than what it lies in, and stands after it: its parent is kept too
            places[row["path"]] = len(found)
            above = None if row["parent"] is None else places[row["parent"]]
            found.append({**row, "above": above, "kind": _main_kind(row), "scopes": 1})
        elif row["parent"] in places and row["total_ps"]:
            _add(rest, row)
    for parent, node in rest.items():
        found.append({**node, "above": places[parent], "kind": _main_kind(node)})
    return found


def _add(rest: dict[str, dict[str, Any]], row: dict[str, Any]) -> None:
    """Adds a scope to what is left out of its parent."""
    fresh = {**row, "path": None, "marks": None, "scopes": 0}
    node = rest.setdefault(row["parent"], fresh)
    node["scopes"] += 1
    node["name"] = f"{node['scopes']:,} more" if node["scopes"] > 1 else row["name"]
    if node["scopes"] == 1:
        node["self_ps"] = node["total_ps"]
        return
    sums = [key for key in row if key.endswith("_ps") or key.startswith("occurrences")]
    for key in sums:
        node[key] += row["total_ps" if key == "self_ps" else key]
    fractions = (node["step_fraction"], row["step_fraction"])
    node["step_fraction"] = None if None in fractions else sum(fractions)


def _main_kind(row: dict[str, Any]) -> str | None:
    best = max(SCOPE_KINDS, key=lambda kind: row[f"{kind}_ps"])
    return best if row[f"{best}_ps"] else None


def _nested(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows, which come depth first, as a tree."""
    by_path: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for row in rows:
        node: dict[str, Any] = {
            "name": row["name"],
            "path": row["path"],
            "marks": row["marks"].split(",") if row["marks"] else [],
            **{key: row[key] for key in ("total_ps", "self_ps", "occurrences", "occurrences_per_core")},
            **{key: row[key] for key in ("backward_ps", "recomputed_ps", "step_fraction")},
            "kinds": {f"{kind}_ps": row[f"{kind}_ps"] for kind in SCOPE_KINDS if row[f"{kind}_ps"]},
            "scopes": [],
        }
        by_path[row["path"]] = node
        if row["parent"] is None:
            whole = node
        else:
            by_path[row["parent"]]["scopes"].append(node)
    return whole
