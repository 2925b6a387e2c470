"""Page Idle: why devices wait, in which stretches, and what the host did meanwhile."""

from __future__ import annotations

from typing import Any

import streamlit as st

from tpuprof.charts import idle_causes_chart
from tpuprof.report.facts import idle_causes
from tpuprof.report.gap_rows import Gaps, longest_gaps
from tpuprof.report.idle import idle_mean, idle_rows
from tpuprof.tables.schemas import IDLE_CAUSES
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.columns import Shown
from tpuprof_dashboards.definitions import IDLE_MEANINGS
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import show_filters
from tpuprof_dashboards.findings import show_findings
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picked import row_at, row_named, step_and_device
from tpuprof_dashboards.picking import pick_table
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.tiles import Tile, show_tiles

MOST_GAPS = 200
_GAPS = (
    Shown("duration_ps", "length", help="How long nothing ran on the core."),
    Shown("step", "step", "number"),
    Shown("device", "core"),
    Shown("where", "where", help="Inside the execution of a program, or between two."),
    Shown("host_cause", "host did", help="What its host did for most of the gap, as a cause of idle time."),
    Shown("host_call", "call", help="The host's event that says best what it did there."),
    Shown("host_ps", "for", help="How long of the gap the host did that."),
    Shown("before_op", "after op", help="The op that ended last before the gap."),
    Shown("after_op", "before op", help="The op that starts after the gap."),
    Shown("host_step", "host's step", "number", help="The step annotation that the host was in; it may be ahead."),
    Shown("start_ps", "at", help="When it begins, from the start of the trace."),
)
_CORES = (
    Shown("device", "core", pinned=True),
    Shown("idle_ps", "idle", help="Mean idle time per counted step."),
    *(Shown(f"idle_{cause}_ps", cause.replace("_", " "), help=IDLE_MEANINGS[cause]) for cause in IDLE_CAUSES),
    Shown("idle_not_known_ps", "not known", help="Idle time that no known cause explains."),
)


def render(page: Page) -> None:
    """Draws the page."""
    report = page.report_or_wait()
    reason = report["breakdown"].get("idle_causes_reason")
    if report["breakdown"].get("step_ps") is None:
        show_empty(plain(reason or "No step counts in this run."),
                   "Idle time is that inside counted steps; capture some whole steps.")  # fmt: skip
        return
    step, device = step_and_device(page, show_filters(page, ("step", "device")))
    mean = page.selection.derived(("idle.mean", step, device), lambda: idle_mean(page.trace, step, device))
    if mean is None:
        show_empty("This step does not count.", "It is cut, lacks a core, or the start of the capture held it up.")
        return
    gaps = page.selection.derived(
        ("idle.gaps", step, device), lambda: longest_gaps(page.trace, MOST_GAPS, device, step)
    )
    causes = idle_causes({"breakdown": mean})
    show_tiles(_tiles(mean, causes, gaps, "per step" if report["run"]["step_source"] != "none" else "in all"))
    st.subheader("Causes", anchor=False)
    drawing = page.selection.derived(("idle.causes", step, device), lambda: idle_causes_chart(causes, mean["idle_ps"]))
    show_chart(page, drawing, "idle.causes")
    if reason:
        st.caption(f"Causes on the host are not known: {plain(reason)}.")
    with st.expander("What the causes mean", icon=":material/help:"):
        st.markdown("\n".join(f"- **{cause.replace('_', ' ')}**: {text}" for cause, text in IDLE_MEANINGS.items()))
    _gaps(page, gaps)
    _cores(page, device)
    show_findings(page, [finding for finding in report["findings"] if finding["rule"].startswith(("TPU40", "TPU42"))])


def _tiles(mean: dict[str, Any], causes: list[tuple[str, float]], gaps: Gaps, per: str) -> list[Tile]:
    idle, step = mean["idle_ps"], mean["step_ps"]
    longest = gaps.rows[0] if gaps.rows else None
    cause = (causes[0][0], f"{format_ps(causes[0][1])} {per}") if causes else ("n/a", "no cause is known")
    unknown = mean["idle_not_known_ps"]
    if causes and unknown and unknown > causes[0][1]:
        cause = ("n/a", f"{format_ps(unknown)} {per} not known")
    return [
        Tile("idle", "Idle", format_percent(idle / step if step else None, 1), f"{format_ps(idle)} {per}"),
        Tile("idle_cause", "Largest cause", *cause),
        Tile("gaps", "Gaps", f"{gaps.total:,}", "on all cores"),
        Tile("gap_longest", "Longest gap", format_ps(longest["duration_ps"] if longest else None),
             f"step {longest['step']}" if longest else "there is none"),
        Tile("gap_total", "Together", format_ps(gaps.total_ps), "summed over cores"),
    ]  # fmt: skip


def _gaps(page: Page, gaps: Gaps) -> None:
    st.subheader("Longest gaps", anchor=False)
    if not gaps.rows:
        st.caption("Nothing was idle there.")
        return
    for reason in gaps.unknown:
        st.caption(plain(reason))
    st.caption("Click a row for its place on the timeline.")
    at = row_at(page, gaps.rows)
    pick_table(gaps.rows, _GAPS, "idle.gaps", row_named, picked=at, otherwise={"at": None}, total=gaps.total)
    if at is not None:
        gap = gaps.rows[at]
        filters = {"step": str(gap["step"]), "device": str(gap["device"])}
        with st.container(horizontal=True, key="idle.links"):
            page.link("timeline", f"Step {gap['step']} of {plain(gap['device'])} on the timeline",
                      ":material/view_timeline:", view="", **filters)  # fmt: skip
            page.link("steps", "The step beside others", ":material/bar_chart:", **filters)
            page.link("idle", "Only its gaps", ":material/hourglass_empty:", **filters)


def _cores(page: Page, device: str) -> None:
    rows = page.selection.derived("idle.cores", lambda: idle_rows(page.trace))
    if len(rows) < 2:
        return
    st.subheader("Cores", anchor=False)
    st.caption(f"Means per counted step of {plural(len(rows), 'core')}, the most idle first. Click one for its gaps.")
    columns = [column for column in _CORES if any(row[column.key] != 0 for row in rows)]  # most causes never occur
    at = next((n for n, row in enumerate(rows) if row["device"] == device), None)
    pick_table(rows, columns, "idle.cores", lambda row: {"device": row["device"]}, picked=at,
               otherwise={"device": None})  # fmt: skip
    page.link("steps", "Idle time by core and step", ":material/bar_chart:", measure="idle")
