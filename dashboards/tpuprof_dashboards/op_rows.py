"""The ops of a run as rows of tables: made once per selection, filtered and sorted per look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.palette import kind_label
from tpuprof.report.plain import records
from tpuprof.report.roofline import with_costs
from tpuprof.tables.chosen import Chosen, chosen_op_stats
from tpuprof.tables.scopes import scope_path
from tpuprof_dashboards.filters import chosen

if TYPE_CHECKING:
    from tpuprof_dashboards.page import Page

SORTS: Mapping[str, tuple[str, str]] = {
    "self": ("Self time", "self_ps"),
    "recoverable": ("Recoverable time", "recoverable_ps"),
    "mean": ("Mean duration", "mean_ps"),
    "count": ("Occurrences", "occurrences"),
    "efficiency": ("Least efficient", "roofline_efficiency"),
    "flops": ("FLOPs", "flops"),
    "bytes": ("HBM bytes", "hbm_bytes"),
}
"""Order → its name and the column. The least efficient come first, of all others the largest."""

_SEARCHED = ("name", "scope", "source", "kind", "module")


def op_table(page: Page, by: str = "op") -> list[dict[str, Any]]:
    """The ops that the filters choose, grouped; single ops (``by`` is ``op``) with costs. Shared: not to be changed."""
    which, hardware = chosen(page), page.hardware
    if by != "op":
        return page.selection.derived(
            ("op groups", by, which, page.settings),
            lambda: _placed(page, records(chosen_op_stats(page.trace.ops, by, which))),
        )
    return page.selection.derived(
        ("ops", hardware, which, page.settings),
        lambda: _placed(page, with_costs(records(chosen_op_stats(page.trace.ops, "op", which)), page.roofline)),
    )


def _placed(page: Page, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With the place in the scope tree, the kind for people, and the address of the source line."""
    for row in rows:
        row["path"] = scope_path(row["scope"]) if row["scope"] is not None else None
        row["kind_label"] = kind_label(row["kind"]) if row["kind"] is not None else None
        row["source_url"] = page.settings.source_url(row["source"])
    return rows


def searched(rows: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The rows that have the text in their name, scope, source line, kind or program; case does not matter."""
    wanted = text.lower().strip()
    if not wanted:
        return list(rows)
    return [row for row in rows if any(wanted in (row.get(key) or "").lower() for key in _SEARCHED)]


def totals(rows: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """Self time of all rows together, and their share of all ops."""
    return sum(row["self_ps"] for row in rows), sum(row["self_fraction"] or 0.0 for row in rows)


def ordered(rows: Sequence[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """The rows in one of :data:`SORTS`; those whose figure is unknown come last."""
    key = SORTS[sort][1]
    sign = 1 if sort == "efficiency" else -1
    return sorted(rows, key=lambda row: (row.get(key) is None, sign * (row.get(key) or 0)))


def find_op(page: Page) -> dict[str, Any] | None:
    """The op that the URL selects, whatever else it narrows to; of several of its name the one with most self time."""
    name, program = page.get("op"), page.get("of")
    if not name:
        return None
    found = page.selection.derived(("ops by name", page.hardware, page.settings), lambda: _by_name(page)).get(name, [])
    exact = [row for row in found if program and row["module"] == program]
    return exact[0] if exact else found[0] if found else None


def select_op(page: Page, row: Mapping[str, Any]) -> dict[str, str | None]:
    """What the URL says once this op is selected."""
    alike = page.selection.derived(("ops by name", page.hardware, page.settings), lambda: _by_name(page)).get(
        row["name"], []
    )
    return {"op": row["name"], "of": row["module"] if len(alike) > 1 else None}


def _by_name(page: Page) -> dict[str, list[dict[str, Any]]]:
    """All ops, the one with most self time first."""
    found: dict[str, list[dict[str, Any]]] = {}
    stats = records(chosen_op_stats(page.trace.ops, "op", Chosen()))
    for row in _placed(page, with_costs(stats, page.roofline)):
        found.setdefault(row["name"], []).append(row)
    return found
