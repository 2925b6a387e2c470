"""Page Memory: what programs need, what is live at the peak, and how full the allocators were."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import streamlit as st

from tpuprof.charts import allocators_chart, memory_curve_chart, memory_needs_chart
from tpuprof.charts.drawing import Drawing
from tpuprof.report.memory import UNKNOWN_MEMORY, memory_capacity, memory_groups, memory_result
from tpuprof.report.plain import records
from tpuprof.tables.allocators import taken_over_time
from tpuprof.tables.memory_curve import memory_curve
from tpuprof.tables.scopes import in_scope, scope_path
from tpuprof.text import plural
from tpuprof.units import format_bytes, format_percent, format_ps
from tpuprof_dashboards.columns import Shown, height_for, show_table
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import ONE_OP, show_filters
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picking import pick_table
from tpuprof_dashboards.text import code, plain, shortened
from tpuprof_dashboards.tiles import Tile, show_tiles

_BY = {"buffer": "Buffer", "scope": "Scope", "kind": "Kind", "op": "Op", "source": "Source"}
_BUFFERS = (
    Shown("op", "op", "text", pinned=True, width=220),
    Shown("kind", "kind", "text", width=90),
    Shown("bytes", "size"),
    Shown("peak_fraction", "of the peak", bar=True, help="Share of what is in use at the peak.", width=120),
    Shown("padding_bytes", "padding", help="Size without what its elements need."),
    Shown("shape", "shape", "text"),
    Shown("path", "scope", "text"),
    Shown("source", "source", "text"),
    Shown("source_url", "open", "link", help="Opens the source line.", width=60),
    Shown("opcode", "opcode", "text", width=100),
)
_PROGRAMS = (
    Shown("module", "program", "text", pinned=True, width=260),
    Shown("memory_space", "memory", "text", width=80),
    Shown("peak_bytes", "peak"),
    Shown("total_bytes", "needs"),
    Shown("arguments_bytes", "arguments"),
    Shown("output_bytes", "output"),
    Shown("aliased_bytes", "aliased"),
    Shown("temp_bytes", "temp"),
    Shown("padding_bytes", "padding"),
    Shown("peak_op", "peak at", "text"),
    Shown("reason", "not known because", "text"),
)
_ALLOCATORS = (
    Shown("allocator", "allocator", "text", pinned=True),
    Shown("host", "host", "text"),
    Shown("max_bytes", "most taken"),
    Shown("max_step", "in step", "count"),
    Shown("max_reserved_bytes", "reserved"),
    Shown("capacity_bytes", "capacity"),
    Shown("process_peak_bytes", "most since start"),
    Shown("max_fragmentation", "fragmented", "percent"),
    Shown("allocations", "allocations", "count"),
    Shown("releases", "releases", "count"),
)


_ALIKE = "A program needs the same in every step and on every core that runs it."
"""Why the filters of steps and cores do not apply."""


def render(page: Page) -> None:
    """Draws the page."""
    with st.spinner("Following buffers through the programs", show_time=True):
        document = page.selection.derived(("memory", page.settings), lambda: _document(page))
    programs = document["programs"]
    if not programs:
        show_empty("No program ran on a device while this was captured.", "Capture while the job is running steps.")
        return
    row = _picked(page, programs)
    if row["peak_bytes"] is None and row["total_bytes"] is None:
        reason = UNKNOWN_MEMORY.get(row["reason"] or "", "The trace does not say.")
        show_empty(
            f"What {code(row['module'])} needs is not known.",
            f"{plain(reason)} `tpuprof capture` keeps the HLO; `tpuprof memory PROFILE` reads a saved memory profile.",
        )
    else:
        _program(page, document, row)
    _several(page, programs, row)
    _allocators(page, document["allocators"])


def _document(page: Page) -> dict[str, Any]:
    document = memory_result(page.trace, "buffer", None, 1).document
    for row in document["live"]:
        row["path"] = None if row["scope"] is None else scope_path(row["scope"])
        row["source_url"] = page.settings.source_url(row["source"])
        unpadded = row["unpadded_bytes"]
        row["padding_bytes"] = None if unpadded is None else row["bytes"] - unpadded
    return document


def _picked(page: Page, programs: list[dict[str, Any]]) -> dict[str, Any]:
    """The program and memory that are looked at: by default those with the largest need."""
    names = list(dict.fromkeys(row["module"] for row in programs))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=380):
            module = page.pick("module", "Program", names, lambda name: shortened(name, 60),
                               help="The programs that ran, the one that needs most first.")  # fmt: skip
        rows = [row for row in programs if row["module"] == module]
        spaces = [row["memory_space"] or "" for row in rows]
        if len(rows) > 1:
            space = page.choice("space", "Memory", {space: space for space in spaces})
            return rows[spaces.index(space)]
    return rows[0]


def _capacity(page: Page, space: str | None) -> tuple[float, str] | None:
    if space != "hbm":
        return None
    return page.selection.derived(
        ("capacity", page.hardware), lambda: memory_capacity(page.trace, page.roofline.hardware)
    )


def _program(page: Page, document: dict[str, Any], row: dict[str, Any]) -> None:
    capacity = _capacity(page, row["memory_space"])
    show_tiles(_tiles(row, capacity))
    if capacity is not None:
        st.caption(f"Capacity of one device: {plain(capacity[1])}.")
    elif row["memory_space"] == "hbm":
        st.caption("The capacity is not known: pick the chip on the page Roofline.")
    module, space = row["module"], row["memory_space"]
    if row["reason"]:
        st.info(plain(UNKNOWN_MEMORY.get(row["reason"], row["reason"])))
        return
    key = ("memory curve", module, space, page.hardware)
    limit = None if capacity is None else capacity[0]
    show_chart(page, page.selection.derived(key, lambda: _curve(page, module, space, limit)), "memory.curve")
    places = [f"op {code(row['peak_op'])}"]
    if row["peak_scope"]:
        places.append(f"scope {code(scope_path(row['peak_scope']))}")
    if row["peak_source"]:
        link = page.settings.source_url(row["peak_source"])
        places.append(f"source {code(row['peak_source'])}" + (f" [open]({link})" if link else ""))
    st.caption(f"At the peak: {' · '.join(places)}")
    live = [each for each in document["live"] if (each["module"], each["memory_space"]) == (module, space)]
    _live(page, live, row)


def _curve(page: Page, module: str, space: str, capacity: float | None) -> Drawing:
    curve = memory_curve(page.trace.built, module, space)
    if curve is None:
        return Drawing(None, "No chart of memory over the program: its schedule is not known.")
    return memory_curve_chart([asdict(point) for point in curve.points], curve.positions, capacity)


def _tiles(row: dict[str, Any], capacity: tuple[float, str] | None) -> list[Tile]:
    most = row["peak_bytes"] if row["peak_bytes"] is not None else row["total_bytes"]
    share = f"{format_percent(most / capacity[0], 1)} of {format_bytes(capacity[0])}" if capacity else "of one device"
    return [
        Tile("peak_bytes", "Peak", format_bytes(row["peak_bytes"]), share),
        Tile("total_bytes", "Needs", format_bytes(row["total_bytes"]), "with all working memory"),
        Tile("arguments_bytes", "Arguments", format_bytes(row["arguments_bytes"]), "given by the caller"),
        Tile("output_bytes", "Output", format_bytes(row["output_bytes"]),
             f"{format_bytes(row['aliased_bytes'])} in arguments"),
        Tile("temp_bytes", "Temp", format_bytes(row["temp_bytes"]), f"at most {format_bytes(row['temp_peak_bytes'])}"),
        Tile("padding_bytes", "Padding", format_bytes(row["padding_bytes"]), "at the peak"),
    ]  # fmt: skip


def _live(page: Page, live: list[dict[str, Any]], row: dict[str, Any]) -> None:
    st.subheader("Live at the peak", anchor=False)
    by = page.choice("by", "Group by", _BY)
    scope = show_filters(page, ("scope", "op"), dict.fromkeys(("step", "device"), _ALIKE)).get("scope", "")
    rows = [each for each in live if not scope or in_scope(each["path"] or "(no scope)", scope)]
    held = row["live_buffers"]
    cut = f" The table holds the largest {len(live):,} of {held:,}." if held and held > len(live) else ""
    sizes = format_bytes(sum(each["bytes"] for each in rows))
    st.caption(f"{plural(len(rows), 'buffer')} of {plural(len(live), 'buffer')}, {sizes}.{cut} "
               "Select one to narrow other pages to its scope or op.")  # fmt: skip
    if not rows:
        show_empty("Nothing of this scope is live at the peak.", "Take the filter away.")
        return
    if by == "buffer":
        at = next((n for n, each in enumerate(rows) if each["op"] and each["op"] == page.get("op")), None)
        pick_table(rows, _BUFFERS, "memory.live", lambda each: {"op": each["op"], "of": None}, picked=at,
                   otherwise=ONE_OP, height=height_for(len(rows)))  # fmt: skip
    else:
        _groups(page, rows, by, row["peak_bytes"])
    with st.container(horizontal=True):
        if page.get("op"):
            page.link("ops", f"Op {plain(shortened(page.get('op'), 40))} on page Ops", ":material/table_rows:")
        if scope:
            page.link("ops", f"Ops of {plain(shortened(scope, 40))}", ":material/table_rows:", op="")
            page.link("scopes", "This scope on page Scopes", ":material/account_tree:")


def _groups(page: Page, rows: list[dict[str, Any]], by: str, most: int | None) -> None:
    column = "path" if by == "scope" else by
    found = memory_groups(rows, column)
    groups = [
        {
            **group,
            "name": group["name"] or f"(no {by})",
            "known": group["name"],
            "peak_fraction": group["bytes"] / most if most else None,
        }
        for group in found
    ]
    columns = (
        Shown("name", _BY[by].lower(), "text", pinned=True, width=260),
        Shown("bytes", "size", help="All of its buffers that are live at the peak."),
        Shown("peak_fraction", "of the peak", bar=True, help="Share of what is in use at the peak.", width=160),
        Shown("buffers", "buffers", "count", help="How many are live at the peak."),
    )
    height = height_for(len(groups))
    if by in ("scope", "op"):
        pick_table(groups, columns, f"memory.live.{by}", lambda group: {by: group["known"], "of": None}, height=height)
    else:
        show_table(groups, columns, f"memory.live.{by}", height=height)


def _several(page: Page, programs: list[dict[str, Any]], row: dict[str, Any]) -> None:
    if len(programs) < 2:
        return
    st.subheader("Programs", anchor=False)
    main = [row for row in programs if row["memory_space"] in ("hbm", "main")]
    if len(main) > 1:
        capacity = _capacity(page, main[0]["memory_space"])
        drawing = page.selection.derived(
            ("memory needs", page.hardware), lambda: memory_needs_chart(main, capacity[0] if capacity else None)
        )
        show_chart(page, drawing, "memory.needs")
    shown = [{**each, "reason": UNKNOWN_MEMORY.get(each["reason"] or "", each["reason"])} for each in programs]
    pick_table(
        shown, _PROGRAMS, "memory.programs", lambda each: {"module": each["module"], "space": each["memory_space"]},
        picked=programs.index(row), height=height_for(len(shown), 8),
    )  # fmt: skip


def _allocators(page: Page, allocators: list[dict[str, Any]]) -> None:
    st.subheader("Allocators during the capture", anchor=False)
    if not allocators:
        st.caption(
            "The hosts recorded no allocations. TPU and GPU runtimes do so while memory is taken or given back; a "
            "capture of a steady loop often has none."
        )
        return
    capacity = _capacity(page, "hbm")
    drawing = page.selection.derived(
        ("allocators", page.hardware),
        lambda: allocators_chart(records(taken_over_time(page.trace.memory_events)), capacity[0] if capacity else None),
    )
    show_chart(page, drawing, "memory.allocators")
    fullest = allocators[0]
    if fullest["max_bytes"] is not None:
        after = format_ps(fullest["max_at_ps"])
        st.caption(f"Fullest: {plain(fullest['allocator'])}, {format_bytes(fullest['max_bytes'])} at {after}.")
    show_table(allocators, _ALLOCATORS, "memory.allocator_table", height=height_for(len(allocators), 8))
