"""Page Roofline: what ops reach, against what the hardware allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from tpuprof.charts import roofline_chart
from tpuprof.charts.points import roofline_points
from tpuprof.palette import kind_label
from tpuprof.report.plain import records
from tpuprof.report.roofline import roofline_section
from tpuprof.units import format_percent, format_si
from tpuprof_dashboards.columns import MOST_ROWS, Shown, height_for, show_table
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import NARROWING, ONE_OP, chosen, show_filters, show_op_filters
from tpuprof_dashboards.hardware import show_hardware, show_inputs
from tpuprof_dashboards.op_panel import show_op
from tpuprof_dashboards.op_rows import find_op, op_table, searched, select_op
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picking import pick_mark, pick_table
from tpuprof_dashboards.text import code, plain, sentence, shortened
from tpuprof_dashboards.tiles import Tile, show_tiles

_OPS = (
    Shown("op", "op", "text", pinned=True, width=220),
    Shown("kind_label", "kind", "text", help="What the op is.", width=110),
    Shown("self_ps", "self time", help="Over all executions in counted steps on all cores."),
    Shown("efficiency", "of bound"),
    Shown("bound_by", "bound by", width=80),
    Shown("recoverable_ps", "recoverable"),
    Shown("mean_ps", "mean", help="Mean self time of one execution."),
    Shown("bound_ps", "bound"),
    Shown("intensity", "FLOP/B", "number"),
    Shown("achieved_flops", "achieved", "flop_rate"),
    Shown("achieved_hbm", "HBM rate", "byte_rate"),
    Shown("dtype", "type", "text", width=80),
    Shown("executions", "executions", "count"),
    Shown("cost_source", "cost from", "text", width=80),
    Shown("reason", "not known because", "text"),
)
_MATMULS = (
    Shown("shape", "matmul", "text", pinned=True, width=330),
    Shown("self_ps", "self time"),
    Shown("efficiency", "of peak"),
    Shown("achieved_flops", "achieved", "flop_rate"),
    Shown("padding_waste", "padding", "percent"),
    Shown("compute_ps", "at peak"),
    Shown("executions", "executions", "count"),
    Shown("ops", "ops", "count"),
    Shown("flops", "FLOPs"),
)


def render(page: Page) -> None:
    """Draws the page."""
    if not page.trace.devices:
        show_empty("The trace holds no device work, so there is nothing to set against the hardware.",
                   "Page Runs has the other runs.")  # fmt: skip
        return
    with st.spinner("Counting what ops do", show_time=True):
        roofline = page.roofline
        op = find_op(page)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        show_hardware(page)
        rows = searched(op_table(page), show_op_filters(page))
    show_inputs(page)
    for entry in roofline.quality:
        if entry.severity != "info":
            st.warning(sentence(entry.message))
    section = page.selection.derived(("roofline section", page.hardware), lambda: roofline_section(page.roofline))
    if roofline.hardware.chip is None:
        why = roofline.hardware.reason.partition(". ")[0].removesuffix(".")  # what follows is of the command line
        show_empty(
            "Without the peaks of the hardware there is no roofline.",
            f"{plain(why)}. Pick the chip above, or give its peaks: `bf16=197T,hbm=819GB/s` is a v5e. The address "
            "keeps them, so that a link shows the same. What ops do is on the page Ops either way.",
        )
    else:
        show_tiles(_tiles(section))
        if section["reason"]:
            st.caption(plain(section["reason"]))
    show_filters(page, (*NARROWING, "op") if op is None else NARROWING)
    if page.get("op") and op is None:
        st.warning(f"There is no op {code(shortened(page.get('op'), 200))} in this run.")
    if roofline.hardware.chip is not None:
        _chart(page, rows, section, op)
    if op is not None:
        show_op(page, op)
    _tables(page, rows, op)


def _tiles(section: Mapping[str, Any]) -> list[Tile]:
    least = "at least, " if section["mfu_is_lower_bound"] else ""
    peak = f"{least}of {format_si(section['peak_flops'], 'FLOP/s')}"
    bandwidth = format_si(section["hbm_bandwidth"], "B/s")
    unknown = section["time_without_cost_model_fraction"]
    return [
        Tile("mfu", "MFU", format_percent(section["mfu"], 1), peak if section["mfu"] is not None else "unknown"),
        Tile("hfu", "HFU", format_percent(section["hfu"], 1), "with recomputation"),
        Tile("hbm_utilisation", "HBM", format_percent(section["hbm_utilisation"], 1), f"of {bandwidth}"),
        Tile("without_cost", "Cost not known", format_percent(unknown, 1), "of the step"),
    ]


def _chart(page: Page, rows: list[dict[str, Any]], section: Mapping[str, Any], op: Mapping[str, Any] | None) -> None:
    marked = None if op is None else (op["name"], op["module"])
    key = ("roofline chart", page.hardware, chosen(page), page.get("q"), marked)
    drawing = page.selection.derived(key, lambda: roofline_chart(rows, section, select="picked", marked=marked))

    def clicked(mark: Mapping[str, Any]) -> dict[str, str | None]:
        points, _ = roofline_points(rows)
        at = mark.get("point")
        if not isinstance(at, int) or not 0 <= at < len(points):
            return {}
        return select_op(page, {"name": points[at]["op"], "module": points[at]["program"]})

    pick_mark(page, drawing, "roofline.chart", "picked", clicked, marked)


def _tables(page: Page, rows: list[dict[str, Any]], op: Mapping[str, Any] | None) -> None:
    shown = page.choice("table", "Table", {"ops": "Ops", "matmuls": "Matmul shapes"})
    if shown == "matmuls":
        _matmuls(page)
        return
    wanted = {(row["name"], row["module"]) for row in rows}
    table = [row for row in page.selection.derived(("roofline rows", page.hardware), lambda: _by_recoverable(page))
             if (row["op"], row["module"]) in wanted]  # fmt: skip
    if not table:
        st.caption("No op of a counted step has a bound." if page.roofline.rates is not None else "No table of bounds: "
                   "the hardware is not known.")  # fmt: skip
        return
    st.caption(
        "Ops of counted steps, the most recoverable time first. Select one, here or in the chart, for its bound."
    )
    at = next(
        (
            n
            for n, row in enumerate(table[:MOST_ROWS])
            if op and (row["op"], row["module"]) == (op["name"], op["module"])
        ),
        None,
    )
    pick_table(
        table, _OPS, "roofline.table", lambda row: select_op(page, {"name": row["op"], "module": row["module"]}),
        picked=at, otherwise=ONE_OP, height=height_for(len(table)),
    )  # fmt: skip


def _by_recoverable(page: Page) -> list[dict[str, Any]]:
    rows = [{**row, "kind_label": kind_label(row["kind"])} for row in records(page.roofline.table)]
    return sorted(rows, key=lambda row: (row["recoverable_ps"] is None, -(row["recoverable_ps"] or 0), -row["self_ps"]))


def _matmuls(page: Page) -> None:
    rows = page.selection.derived(("matmul rows", page.hardware), lambda: records(page.roofline.matmuls))
    if not rows:
        show_empty("No matrix multiplication of known shape ran in a counted step.",
                   "Shapes come from the HLO in the trace, or from `--hlo` of the commands.")  # fmt: skip
        return
    st.caption("Shapes as batch x m x k x n. Self time is that of the ops that hold them, whatever else they do.")
    show_table(rows, _MATMULS, "roofline.matmuls", height=height_for(len(rows)))
