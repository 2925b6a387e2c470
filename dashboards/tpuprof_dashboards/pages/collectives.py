"""Page Collectives: what communication costs, how much of it is hidden or waiting, and what the links allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from tpuprof.charts import collective_split_chart, collectives_chart
from tpuprof.charts.stacks import PICKED
from tpuprof.report.collective_split import collective_occurrences, collective_split, collectives_with
from tpuprof.report.plain import table_of
from tpuprof.text import plural
from tpuprof.units import format_bytes, format_percent, format_ps, format_si
from tpuprof_dashboards.columns import Shown
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import ONE_OP, show_filters
from tpuprof_dashboards.findings import show_findings
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picked import row_at, row_named
from tpuprof_dashboards.picking import pick_mark, pick_table
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.tiles import Tile, show_tiles

MOST_OCCURRENCES = 300
_FILTERS = {"module": "module", "coll": "kind", "axis": "axis", "scope": "scope", "source": "source",
            "device": "device", "step": "step"}  # fmt: skip
"""Filters of the URL that narrow the page down, with their names in the tables. ``op`` does not: it is looked at."""
_BY = {"op": "Op", "kind": "Kind", "axis": "Mesh axis", "scope": "Scope", "source": "Source", "module": "Program"}
_AS_FILTER = {"kind": "coll"}
_SHOW = {"exposed": "Exposed or hidden", "wait": "Waiting or moving", "bound": "Against the links' bound"}
_TABLE = (
    Shown("name", "collective", pinned=True, help="The instruction: of an asynchronous one, the start half."),
    Shown("kind", "kind"),
    Shown("mesh_axes", "mesh axes"),
    Shown("participants", "group", "count"),
    Shown("bytes", "size"),
    Shown("count", "count", "count", help="Occurrences on all cores."),
    Shown("window_ps", "window", help="From begin to end, mean per occurrence."),
    Shown("exposed_ps", "exposed", help="The window minus compute on the core, mean per occurrence."),
    Shown("hidden_ps", "hidden", help="Its overlap with compute on the core, mean per occurrence."),
    Shown("wait_ps", "wait", help="From a core's arrival to the last one of its group, mean where it is known."),
    Shown("transfer_ps", "transfer", help="The window without the wait in it, mean where it is known."),
    Shown("bus_bandwidth", "bus bandwidth", help="What every member of a group moves over the transfer time."),
    Shown("predicted_ps", "least", help="The least that the hardware's links allow."),
    Shown("expected_ps", "usual", help="What such collectives were measured to take on this chip."),
    Shown("bound_fraction", "of bound", "percent", help="The least time over the transfer."),
    Shown("regime", "decided by", help="What decides the prediction."),
    Shown("module", "program"),
)
_OCCURRENCES = (
    Shown("device", "core", pinned=True),
    Shown("step", "step", "number"),
    Shown("start_ps", "at", help="When it begins, from the start of the trace."),
    Shown("form", "form"),
    Shown("window_ps", "window"),
    Shown("exposed_ps", "exposed"),
    Shown("hidden_ps", "hidden"),
    Shown("wait_ps", "wait"),
    Shown("transfer_ps", "transfer"),
    Shown("wait_reason", "wait unknown because"),
)


def render(page: Page) -> None:
    """Draws the page."""
    report = page.report_or_wait()
    rows: list[dict[str, Any]] = report["collectives"]
    if not rows:
        show_empty(
            "This run has no collectives.",
            "It ran on one device, or nothing in its programs is sharded so that devices must communicate.",
        )
        return
    show_tiles(_tiles(report))
    chips = show_filters(page, ("op", *_FILTERS))
    only = {_FILTERS[name]: value for name, value in chips.items() if name in _FILTERS}
    with st.container(horizontal=True, vertical_alignment="bottom", key="collectives.options"):
        show = page.choice("split", "Show", _SHOW)
        by = page.choice("group", "Group by", _BY) if show != "bound" else "op"
    key = tuple(sorted(only.items()))
    kept = _kept(page, rows, only, key)
    if not kept:
        show_empty("No collective fits these filters.", "Take one of them away above.")
        return
    if show == "bound":
        bounds = tuple(row["predicted_ps"] for row in kept)  # they depend on the hardware, which can be picked
        drawing = page.selection.derived(("collectives.bound", key, bounds), lambda: collectives_chart(kept))
        show_chart(page, drawing, "collectives.bound")
    else:
        _split(page, by, show, only, key)
    _table(page, kept)
    _occurrences(page, kept, only, key)
    show_findings(page, [finding for finding in report["findings"] if finding["rule"].startswith("TPU30")])


def _tiles(report: dict[str, Any]) -> list[Tile]:
    breakdown, rows = report["breakdown"], report["collectives"]
    step, exposed = breakdown.get("step_ps"), table_of(breakdown.get("parts")).get("collective_exposed_ps")
    barrier = table_of(breakdown.get("parts")).get("barrier_wait_ps")
    hidden = table_of(breakdown.get("hidden")).get("collective_ps")
    first = rows[0]
    return [
        Tile("exposed", "Exposed", format_percent(exposed / step if step and exposed is not None else None, 1),
             f"{format_ps(exposed)} per step"),
        Tile("hidden", "Hidden", format_ps(hidden), "per step"),
        Tile("barrier", "At barriers", format_ps(barrier), "per step"),
        Tile("collective_ops", "Collectives", f"{len(rows):,}", "different ones"),
        Tile("largest_collective", "Most exposed", str(first["kind"]).replace("_", " "),
             f"{format_ps(first['exposed_ps'])} each, {format_bytes(first['bytes'])}"),
        Tile("bus_bandwidth", "Its bus bandwidth", format_si(first["bus_bandwidth"], "B/s", 3),
             "n/a" if first["bound_fraction"] is None else f"{format_percent(first['bound_fraction'], 0)} of the bound",
             first["prediction_reason"] or ""),
    ]  # fmt: skip


def _kept(page: Page, rows: list[dict[str, Any]], only: dict[str, str], key: Any) -> list[dict[str, Any]]:
    """The rows of the report whose op and program fit the filters."""
    if not only:
        return rows
    names = page.selection.derived(("collectives.names", key), lambda: collectives_with(page.trace, **only))
    return [row for row in rows if (row["name"], row["module"]) in names]


def _split(page: Page, by: str, show: str, only: dict[str, str], key: Any) -> None:
    groups = page.selection.derived(("collectives.split", by, key), lambda: collective_split(page.trace, by, **only))
    drawing = page.selection.derived(
        ("collectives.split.chart", by, show, key), lambda: collective_split_chart(groups, show)
    )

    def clicked(mark: Mapping[str, Any]) -> dict[str, str | None]:
        name = mark.get("key")
        group = next((group for group in groups if group["name"] is not None and group["name"] == name), None)
        if group is None:  # the bar of those of which the trace does not say it
            return {}
        return _looked_at(group) if by == "op" else {_AS_FILTER.get(by, by): str(name)}

    picked = (page.get("op"), page.get("of"), key)
    pick_mark(page, drawing, f"collectives.split.{by}.{show}", PICKED, clicked, picked)
    if drawing.chart is not None:
        st.caption("Click a bar to look at it." if by == "op" else "Click a bar for its collectives alone.")


def _table(page: Page, rows: list[dict[str, Any]]) -> None:
    st.subheader("Collectives", anchor=False)
    st.caption("Means per occurrence, the most exposed time in all first. Click a row for its occurrences.")
    at = next((n for n, row in enumerate(rows) if _is_looked_at(page, row)), None)
    pick_table(rows, _TABLE, "collectives.table", _looked_at, picked=at, otherwise={**ONE_OP, "at": None})
    unknown = [row for row in rows if row["predicted_ps"] is None]
    if unknown:
        reason = next((row["prediction_reason"] for row in unknown if row["prediction_reason"]), None)
        why = ""
        if reason:  # what follows its first sentence is of the command line
            why = f" {plain(reason.partition('. ')[0].removesuffix('.'))}."
            why += " Page Roofline takes a chip or peaks." if page.roofline.hardware.chip is None else ""
        st.caption(
            f"For {len(unknown):,} of {plural(len(rows), 'collective')} what they should take is not known.{why}"
        )


def _looked_at(row: Mapping[str, Any]) -> dict[str, str | None]:
    """What the URL says once this collective was selected."""
    return {"op": str(row["name"]), "of": row["module"], "at": None}


def _is_looked_at(page: Page, row: Mapping[str, Any]) -> bool:
    return row["name"] == page.get("op") and page.get("of") in ("", row["module"])


def _occurrences(page: Page, rows: list[dict[str, Any]], only: dict[str, str], key: Any) -> None:
    op, of = page.get("op"), page.get("of")
    if not op:
        return
    st.subheader(f"Every {plain(op)}", anchor=False)
    if not any(_is_looked_at(page, row) for row in rows):
        st.caption("It is none of the collectives above.")
        return
    one = {**only, "op": op, "module": of or only.get("module", "")}
    found, total = page.selection.derived(
        ("collectives.occurrences", op, of, key), lambda: collective_occurrences(page.trace, MOST_OCCURRENCES, **one)
    )
    if not found:
        st.caption("It never ran in what is chosen.")
        return
    st.caption(f"{plural(total, 'occurrence')}, the most exposed first. Click one for its place on the timeline.")
    at = row_at(page, found)
    pick_table(
        found, _OCCURRENCES, "collectives.occurrences", row_named, picked=at, otherwise={"at": None}, total=total
    )
    with st.container(horizontal=True, key="collectives.links"):
        if at is not None:
            row = found[at]
            step = "" if row["step"] is None else str(row["step"])
            page.link("timeline", f"On the timeline: {plain(row['device'])}", ":material/view_timeline:",
                      op=op, step=step, view="", device=str(row["device"]))  # fmt: skip
        page.link("ops", "The op itself", ":material/table_rows:", op=op, of=of)
