"""One op: what it is, what it takes by step and by core, and what it should cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.charts import op_steps_chart, op_time_chart
from tpuprof.palette import kind_label
from tpuprof.report.plain import records
from tpuprof.roofline.table import bound
from tpuprof.tables.chosen import Chosen
from tpuprof.tables.one_op import OpRuns, op_runs
from tpuprof.text import plural
from tpuprof.units import UNKNOWN, format_bytes, format_percent, format_ps, format_si
from tpuprof_dashboards.columns import Shown, height_for, show_table
from tpuprof_dashboards.derivation import show_derivation
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.filters import ONE_OP
from tpuprof_dashboards.page import update
from tpuprof_dashboards.text import code, plain, shortened
from tpuprof_dashboards.tiles import Tile, show_tiles

if TYPE_CHECKING:
    from tpuprof.roofline.costs import Cost
    from tpuprof.tables.rows import OpInfo
    from tpuprof_dashboards.page import Page

_MOST_BODY = 60
_LONGEST_TITLE = 60
_MOST_TEXT = 20_000
_SOURCES = {
    "hlo": "Counted from the HLO.",
    "formula": "From a formula for this kernel.",
    "cost_estimate": "As the kernel's author estimated it.",
    "user": "From a formula that was registered for this kernel.",
    "trace": "As the compiler stated it in the trace.",
}
_DEVICES = (
    Shown("device", "core", "text", pinned=True),
    Shown("occurrences", "count", help="Occurrences on this core."),
    Shown("self_ps", "self time", help="Time not in nested ops, on this core."),
    Shown("mean_ps", "mean", help="Mean duration of an occurrence."),
    Shown("min_ps", "shortest", help="Shortest occurrence."),
    Shown("max_ps", "longest", help="Longest occurrence."),
)


def show_op(page: Page, row: Mapping[str, Any]) -> None:
    """Draws the panel of an op: a row of ``op_rows.op_table``."""
    name, module = row["name"], row["module"]
    with st.container(border=True, key=f"{page.slug}.op"):
        _head(page, row)
        show_tiles(_tiles(row, known=page.roofline.rates is not None), key=f"{page.slug}.op.tiles")
        runs = page.selection.derived(
            ("runs of op", name, module), lambda: op_runs(page.trace.ops, Chosen(op=name, module=module or ""))
        )
        views = {"cost": "Cost and bound", "steps": "By step", "spread": "Spread", "cores": "By core", "hlo": "HLO"}
        view = page.choice("view", "Look at", views)
        if view == "cost":
            _cost(page, row)
        elif view == "hlo":
            _hlo(page, row)
        else:
            _occurrences(page, row, runs, view)


def _head(page: Page, row: Mapping[str, Any]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.subheader(plain(shortened(row["name"], _LONGEST_TITLE)), anchor=False, width="content")
        st.badge(plain(kind_label(row["kind"])), color="gray")
        st.space("stretch")
        for slug, label, icon in (
            ("timeline", "Timeline", ":material/view_timeline:"),
            ("roofline", "Roofline", ":material/show_chart:"),
            ("collectives", "Collectives", ":material/hub:"),
            ("ops", "Ops", ":material/table_rows:"),
        ):
            wanted = slug != "collectives" if row["kind"] != "collective" else slug != "roofline"
            if wanted and slug != page.slug:
                page.link(slug, label, icon, op=row["name"], of=page.get("of"))
        st.button(
            "Close", key=f"{page.slug}.close", icon=":material/close:", type="tertiary", on_click=update,
            kwargs=dict(ONE_OP),
        )  # fmt: skip
    places: list[str] = []
    if row["module"]:
        places.append(f"program {code(row['module'])}")
    if row["path"]:
        places.append(f"scope {code(row['path'])}")
    if row["source"]:
        link = row["source_url"]
        places.append(f"source {code(row['source'])}" + (f" [open]({link})" if link else ""))
    st.caption(" · ".join(places) or "The trace names no program, scope or source line for it.")


def _tiles(row: Mapping[str, Any], *, known: bool) -> list[Tile]:
    efficiency, by = row["roofline_efficiency"], row["bound_by"]
    bound_note = f"bound by {by}" if by else "no bound is known" if known else "hardware not known"
    return [
        Tile(
            "self_ps", "Self time", format_ps(row["self_ps"]), f"{format_percent(row['self_fraction'], 1)} of all ops"
        ),
        Tile("mean_ps", "Mean", format_ps(row["mean_ps"]), f"of {plural(row['occurrences'], 'occurrence')}"),
        Tile("flops", "FLOPs", format_si(row["flops"], "FLOP", 3), "of one execution"),
        Tile("hbm_bytes", "HBM", format_si(row["hbm_bytes"], "B", 3), "of one execution"),
        Tile("efficiency", "Of its bound", format_percent(efficiency, 1), bound_note),
        Tile("recoverable_ps", "Recoverable", format_ps(row["recoverable_ps"]), "above the bound, all cores"),
    ]


def _occurrences(page: Page, row: Mapping[str, Any], runs: OpRuns, view: str) -> None:
    kind, key = row["kind"], (row["name"], row["module"])
    if view == "cores":
        show_table(records(runs.devices), _DEVICES, f"{page.slug}.op.cores", height=height_for(len(runs.devices), 8))
        return
    if view == "steps":
        make = lambda: op_steps_chart(records(runs.steps), kind)  # noqa: E731
    else:
        make = lambda: op_time_chart(runs.durations_ps.tolist(), kind)  # noqa: E731
    show_chart(page, page.selection.derived(("op chart", view, *key), make), f"{page.slug}.op.{view}")
    if runs.outside:
        st.caption(f"{plural(runs.outside, 'occurrence')} in no step.")


def _cost(page: Page, row: Mapping[str, Any]) -> None:
    roofline = page.roofline
    work = roofline.work(row["name"], row["module"])
    if work is None:
        what = (
            "Communication is set against its links on the page Collectives."
            if row["kind"] == "collective"
            else "It computes nothing: it waits, or moves data in the background, so that no roofline applies."
        )
        st.info(what if row["kind"] in ("collective", "dma_wait", "host_transfer", "container") else _NOT_COUNTED)
        return
    for sentence in _cost_sentences(work.cost):
        st.markdown(plain(sentence))
    if roofline.rates is None:
        st.info(f"There is no bound. {plain(roofline.hardware.reason)} The page Roofline has pickers for both.")
        return
    answer = bound(work.cost, roofline.rates).derivation()
    if answer.value is None:
        return
    show_derivation(answer, "No execution can take less than", f"{page.slug}.op.bound")
    measured = format_ps(work.self_ps / work.executions) if work.executions else UNKNOWN
    st.markdown(f"Measured: **{measured}** of self time, the mean of {work.executions:,} executions in counted steps.")


_NOT_COUNTED = "It ran in no counted step, and only those are set against the hardware."


def _cost_sentences(cost: Cost) -> list[str]:
    told = [_SOURCES.get(cost.source or "", "")]
    if cost.bytes is not None:
        spaces = ", ".join(f"{format_bytes(size)} of {space}" for space, size in cost.bytes.items() if size)
        told.append(f"It reads and writes {spaces}." if spaces else "It reads and writes no memory.")
    if cost.lower_bound:
        told.append("The FLOPs are a lower bound.")
    if cost.upper_bound:
        told.append("The FLOPs are an upper bound.")
    if cost.remat:
        told.append("It repeats an earlier computation to save memory.")
    told += [text for text in (cost.note, cost.reason) if text]
    return [" ".join(text for text in told if text)] if any(told) else []


def _hlo(page: Page, row: Mapping[str, Any]) -> None:
    infos = page.selection.derived("infos by op", lambda: _infos(page))
    info = infos.get((row["name"], row["module"]))
    text = None if info is None else info.long_name
    if info is None or not text:
        st.info("Neither the HLO nor the text of this op is in the trace. `--hlo` of the commands joins a dump of it.")
        return
    st.code(text[:_MOST_TEXT], language=None, wrap_lines=True)
    if info.instruction is not None:
        st.markdown(f"Opcode {code(info.instruction.opcode)} · shape {code(info.instruction.shape)}")
    body = info.body
    if body:
        st.caption(f"The fused computation: {plural(len(body), 'instruction')}.")
        lines = [str(each).removeprefix("<Instruction ").removesuffix(">") for each in body[:_MOST_BODY]]
        more = [f"… and {len(body) - _MOST_BODY} more"] if len(body) > _MOST_BODY else []
        st.code("\n".join([*lines, *more])[:_MOST_TEXT], language=None, wrap_lines=True)


def _infos(page: Page) -> dict[tuple[str, str | None], OpInfo]:
    return {(info.name, info.module): info for info in reversed(page.trace.built.infos)}
