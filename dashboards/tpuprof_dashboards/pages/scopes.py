"""Page Scopes: which parts of the model take the time, as a flame graph of its name scopes and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.palette import kind_label
from tpuprof.report.plain import records
from tpuprof.report.scopes import flame_nodes
from tpuprof.tables.scopes import NO_SCOPE, in_scope, scope_path
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.columns import Shown, height_for
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import show_filters
from tpuprof_dashboards.flame import MOST_NODES, flame_data, show_flame
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.picked import step_and_device
from tpuprof_dashboards.picking import pick_table
from tpuprof_dashboards.text import code, plain, shortened
from tpuprof_dashboards.tiles import Tile, show_tiles

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_COLUMNS = (
    Shown("name", "scope", "text", pinned=True, width=260),
    Shown("kind_label", "mostly", "text", help="The kind of op that takes most of its time.", width=120),
    Shown("total_ps", "total", help="Self time of all ops in the scope, over all cores."),
    Shown("self_ps", "own", help="Self time of the ops of this very scope, over all cores."),
    Shown("step_fraction", "of step", bar=True, help="Its time in steps, over the length of all steps of all cores.",
          width=110),
    Shown("occurrences_per_core", "count per core", "number", help="Occurrences of its ops on each core."),
    Shown("backward_ps", "backward", help="Time in transposed code, which is the backward pass."),
    Shown("recomputed_ps", "recomputed", help="Time in code that rematerialisation runs again."),
    Shown("path", "path", "text", help="All names, outside in."),
)  # fmt: skip

_OFTEN_ZERO = ("backward_ps", "recomputed_ps")  # columns of zeros say nothing


def render(page: Page) -> None:
    """Draws the page."""
    if not page.trace.devices:
        show_empty("The trace holds no device work, so there are no scopes.", "Page Runs has the other runs.")
        return
    step, device = step_and_device(page, show_filters(page, ("step", "device")))
    with st.spinner("Building the tree of scopes", show_time=True):
        rows = page.selection.derived(("scopes", step, device), lambda: _rows(_narrowed(page.trace, step, device)))
    if not rows:
        show_empty("No op ran there, so there are no scopes.", "Take a filter away above.")
        return
    if all(row["path"] in ("", NO_SCOPE) for row in rows):
        show_empty(
            "No op of this run has a name scope.",
            "Scopes come from the HLO: capture with the HLO kept, as `tpuprof capture` does. In the program, "
            "`jax.named_scope` gives names to its parts.",
        )
    focus = _focus(page, rows)
    nodes, data = page.selection.derived(("flame", page.theme, step, device), lambda: _flame(page, rows))
    small = len(rows) - sum(1 for node in nodes if node["path"] is not None)
    cores = plural(1 if device else len(page.trace.devices), "core")
    st.caption(
        f"{plural(len(rows) - 1, 'scope')}, {format_ps(rows[0]['total_ps'])} of self time on {cores}. Width is time, "
        "colour the kind of op with most of it, the strip below all kinds. Click to zoom in, on a wide one out; "
        "arrow keys, Enter, Escape and / work too."
        + (f" {plural(small, 'scope')} with the least time are drawn together or not at all." if small > 0 else "")
    )
    show_flame(data, focus["path"], page.get("q"), "scopes.flame", lambda name, value: update(**{name: value}))
    _focused(page, focus)
    _table(page, rows, focus)


def _narrowed(trace: Trace, step: int | None, device: str) -> Trace:
    return trace.select(devices=[device] if device else None, steps=None if step is None else [step])


def _rows(trace: Trace) -> list[dict[str, Any]]:
    rows = records(trace.scopes)
    mains = {node["path"]: node["kind"] for node in flame_nodes(rows, len(rows))}
    return [{**row, "kind_label": kind_label(mains[row["path"]]) if mains.get(row["path"]) else None} for row in rows]


def _flame(page: Page, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    nodes = flame_nodes(rows, MOST_NODES)
    return nodes, flame_data(nodes, page.theme)


def _focus(page: Page, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The scope that the URL names, as the tree has it or as ops have it; the whole where there is none such."""
    wanted = page.get("scope")
    paths = (wanted, scope_path(wanted)) if wanted else ("",)
    for path in paths:
        found = next((row for row in rows if row["path"] == path), None)
        if found is not None:
            return found
    st.warning(f"This run has no scope {code(shortened(wanted, 200))}. All of it is shown.")
    return rows[0]


def _focused(page: Page, focus: dict[str, Any]) -> None:
    if not focus["path"]:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(shortened(focus["path"], 80)), anchor=False, width="content")
        st.space("stretch")
        page.link("ops", "Its ops", ":material/table_rows:")
        page.link("timeline", "Timeline", ":material/view_timeline:")
        page.link("memory", "Memory", ":material/memory:")
    total = focus["total_ps"]
    tiles = [
        Tile("total_ps", "Total", format_ps(total), "on all cores"),
        Tile("step_fraction", "Of the step", format_percent(focus["step_fraction"], 1), "mean over cores"),
        Tile("self_ps", "Own", format_ps(focus["self_ps"]), "not in scopes inside of it"),
        Tile("backward_ps", "Backward", format_ps(focus["backward_ps"]), _share(focus["backward_ps"], total)),
        Tile("recomputed_ps", "Recomputed", format_ps(focus["recomputed_ps"]), _share(focus["recomputed_ps"], total)),
    ]
    show_tiles(tiles, key="scopes.tiles")
    if focus["marks"]:
        st.caption(f"In JAX: {plain(focus['marks'].replace(',', ', '))}")


def _share(part: int, total: int) -> str:
    return f"{format_percent(part / total, 1)} of it" if total else ""


def _table(page: Page, rows: list[dict[str, Any]], focus: dict[str, Any]) -> None:
    which = page.choice("rows", "Table", {"inside": "Directly inside", "all": "All inside", "flat": "By own time"})
    wanted = page.get("q").lower().strip()
    inside = [row for row in rows if row["path"] != focus["path"] and in_path(row, focus)]
    if which == "inside" and not wanted:
        inside = [row for row in inside if row["parent"] == focus["path"]]
    if which == "flat":
        inside = sorted(inside, key=lambda row: -row["self_ps"])
    found = [row for row in inside if row["total_ps"] and wanted in row["path"].lower()]
    if not found:
        st.caption("No scope lies inside of it." if not wanted else "No scope inside of it has that in its path.")
        return
    st.caption(f"{plural(len(found), 'scope')}. Select one to zoom in.")
    columns = [column for column in _COLUMNS if column.key not in _OFTEN_ZERO or any(row[column.key] for row in found)]
    pick_table(
        found, columns, f"scopes.table.{which}", lambda row: {"scope": row["path"]},
        height=height_for(len(found)),
    )  # fmt: skip


def in_path(row: dict[str, Any], focus: dict[str, Any]) -> bool:
    """True if a scope lies in another one, or is it."""
    return not focus["path"] or in_scope(row["path"], focus["path"])
