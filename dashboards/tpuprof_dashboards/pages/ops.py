"""Page Ops: which ops take the time, alone or by kind, scope, source line or program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from tpuprof.tables.schemas import OP_STATS
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.columns import MOST_ROWS, Shown, height_for
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import NARROWING, ONE_OP, show_filters, show_op_filters
from tpuprof_dashboards.op_panel import show_op
from tpuprof_dashboards.op_rows import SORTS, find_op, op_table, ordered, searched, select_op, totals
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picking import pick_table
from tpuprof_dashboards.text import code, plain, shortened

_GROUPS = {"op": "Op", "kind": "Kind", "scope": "Scope", "source": "Source", "module": "Program"}
_SHARE = Shown("self_fraction", "share", bar=True, help="Share of the self time of all ops on all cores.", width=110)
_KIND = Shown("kind_label", "kind", "text", help="What the op is.", width=110)
_TIMES = (
    Shown("self_ps", "self time", help="Time not in nested ops, over all occurrences and cores."),
    Shown("occurrences", "count", help="Occurrences on all cores."),
    Shown("mean_ps", "mean", help="Mean duration of an occurrence."),
    Shown("total_ps", "total", help="Durations with nested ops, over all occurrences and cores."),
)
_COSTS = (
    Shown("roofline_efficiency", "of bound", help="The least possible time over the measured one."),
    Shown("bound_by", "bound by", help="What needs longest at full rate: compute, hbm, vmem or host."),
    Shown("recoverable_ps", "recoverable", help="Self time above the bound, all executions of counted steps together."),
    Shown("flops", "FLOPs", help="Operations of one execution."),
    Shown("hbm_bytes", "HBM", help="Bytes read from and written to HBM by one execution."),
)
_PLACES = (
    Shown("path", "scope", "text", help="The name scopes of the program, outside in."),
    Shown("source", "source", "text", help="The source line."),
    Shown("source_url", "open", "link", help="Opens the source line.", width=60),
    Shown("module", "program", "text", help="The program, with its id."),
)


def render(page: Page) -> None:
    """Draws the page."""
    if not page.trace.devices:
        show_empty("The trace holds no device work, so there are no ops.", "Page Runs has the other runs.")
        return
    by, sort, text = _controls(page)
    with st.spinner("Adding up ops", show_time=True):
        rows = op_table(page, by)
        op = find_op(page)
    show_filters(page, (*NARROWING, "op") if op is None else NARROWING)
    found = ordered(searched(rows, text), sort)
    _summary(page, found, len(rows), by)
    if page.get("op") and op is None:
        st.warning(f"There is no op {code(shortened(page.get('op'), 200))} in this run.")
    if not found:
        show_empty("No op fits.", "Take a filter away, or search for another part of a name, scope or source line.")
    else:
        _table(page, found, by, op)
    if op is not None:
        show_op(page, op)


def _controls(page: Page) -> tuple[str, str, str]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = show_op_filters(page)
        with st.container(width=140):
            by = page.get("by") if page.get("by") in _GROUPS else "op"
            names = [name for name, (_, column) in SORTS.items() if by == "op" or column in OP_STATS.names]
            sort = page.pick("sort", "Largest first", names, lambda name: SORTS[name][0])
        by = page.choice("by", "Group by", _GROUPS)
    return by, sort, text


def _summary(page: Page, found: list[dict[str, Any]], total: int, by: str) -> None:
    noun = {"source": "source line", "module": "program"}.get(by, by)
    count = plural(len(found), noun) if len(found) == total else f"{len(found):,} of {plural(total, noun)}"
    self_ps, share = totals(found)
    cores = plural(len(page.trace.devices), "core")
    st.caption(
        f"{count}: {format_ps(self_ps)} of self time on {cores}, {plain(format_percent(share, 1))} of all ops. "
        + ("Select one to see what it is and does." if by == "op" else "Select one for its ops.")
    )


def _table(page: Page, found: list[dict[str, Any]], by: str, op: dict[str, Any] | None) -> None:
    shown = found[:MOST_ROWS]
    if by != "op":
        name = Shown("name", _GROUPS[by].lower(), "text", pinned=True, width=300)
        columns = (name, *(() if by == "kind" else (_KIND,)), _SHARE, *_TIMES)
        pick_table(
            shown, columns, f"ops.table.{by}", lambda row: _drill(by, row), total=len(found),
            height=height_for(len(shown), 15),
        )  # fmt: skip
        return
    several = len({row["module"] for row in found}) > 1
    name = Shown("name", "op", "text", pinned=True, width=220)
    columns = (name, _KIND, _SHARE, *_TIMES[:3], *_COSTS, *(_PLACES if several else _PLACES[:-1]))
    at = next((n for n, row in enumerate(shown) if op and _same(row, op)), None)
    pick_table(
        shown, columns, "ops.table", lambda row: select_op(page, row), picked=at, otherwise=ONE_OP,
        total=len(found), height=height_for(len(shown), 15 if op is None else 8),
    )  # fmt: skip


def _same(row: Mapping[str, Any], op: Mapping[str, Any]) -> bool:
    return row["name"] == op["name"] and row["module"] == op["module"]


def _drill(by: str, row: Mapping[str, Any]) -> dict[str, str | None]:
    """From a group to its ops."""
    if by == "scope":
        return {"by": None, "scope": row["path"] or row["name"]}
    if row[by] is None:  # the ops that have none: no filter says that
        return {}
    return {"by": None, by: row["name"]}
