"""Page Steps & stragglers: how steps differ, on which cores, and who keeps whom waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from tpuprof.charts import device_parts_chart, heat_chart, skew_chart, step_time_chart
from tpuprof.charts.heat import PICKED
from tpuprof.palette import LOOKS
from tpuprof.report.cores import core_rows, late_rows
from tpuprof.report.key_figures import slowest_times, step_figures
from tpuprof.report.step_grid import MEASURES, step_grid
from tpuprof.report.step_parts import step_on_core
from tpuprof.text import plural
from tpuprof.units import format_percent, format_ps
from tpuprof_dashboards.columns import Shown
from tpuprof_dashboards.definitions import WAIT_REASONS
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.filters import show_filters
from tpuprof_dashboards.findings import show_findings
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.picked import step_and_device
from tpuprof_dashboards.picking import pick_mark, pick_table
from tpuprof_dashboards.text import code, plain
from tpuprof_dashboards.tiles import Tile, show_tiles

_LABELS = {
    "step": "Step time", "work": "Own work", "exposed": "Exposed comm.", "wait": "Waited for others",
    "late": "Kept others waiting", "idle": "Idle",
}  # fmt: skip
_COLORS = {
    "step": "matmul", "work": "custom_kernel", "exposed": "collective_exposed", "wait": "barrier_wait",
    "late": "host_transfer", "idle": "attention",
}  # fmt: skip
_CORES = (
    Shown("device", "core", pinned=True),
    Shown("mark", "", help="The critical core has the longest mean step.", width="small"),
    Shown("step_ps", "mean step", help="Mean over the counted steps."),
    Shown("p50_ps", "p50", help="Half of the core's steps took no longer."),
    Shown("max_ps", "longest", help="Its longest counted step."),
    Shown("work_ps", "own work", help=MEASURES["work"]),
    Shown("exposed_ps", "exposed", help=MEASURES["exposed"]),
    Shown("idle_ps", "idle", help=MEASURES["idle"]),
    Shown("wait_ps", "waited", help=MEASURES["wait"]),
    Shown("late_ps", "kept others waiting", help=MEASURES["late"] + " Mean over steps with comparable arrivals."),
    Shown("late_steps", "latest in", "count", help="Steps in which it cost the others most."),
)
_LATE = (
    Shown("step", "step", "number"),
    Shown("device", "late core", help="The core that cost the others most in this step."),
    Shown("late_ps", "cost", help="How much earlier the others could have gone on without it."),
    Shown("late_fraction", "of the step", "percent", help="Its cost over the time of the step."),
    Shown("op", "mostly at", help="The collective to which it came latest."),
    Shown("op_late_ps", "cost there", help="Its cost at that collective."),
    Shown("waiting", "waited longest", help="The core that waited longest for others in this step."),
    Shown("wait_ps", "waited", help="How long that core waited in this step in all."),
)


def render(page: Page) -> None:
    """Draws the page."""
    if not page.trace.devices:
        show_empty("The trace holds no device work.", "Capture while the job is running steps.")
        return
    if page.trace.step_source == "none":
        show_empty(
            "No steps were found in this run, so there are none to compare.",
            "Mark them in the training loop with `tpuprof.step()` or `jax.profiler.StepTraceAnnotation`. "
            "Below is what each core did from its first op to its last.",
        )
    figures = page.selection.derived("steps.figures", lambda: step_figures(page.trace))
    if figures["count"]:
        show_tiles(_tiles(figures))
    elif page.trace.step_source != "none":
        show_empty("No step counts in this selection.", "Steps that the edge of the capture cut are left out.")
    step, device = step_and_device(page, show_filters(page, ("step", "device")))
    if page.trace.step_source != "none":
        _heat(page, step, device)
    if step is not None or device:
        _detail(page, step, device)
    _stragglers(page, step, device)
    if figures["count"]:
        st.subheader("How step times are spread", anchor=False)
        drawing = page.selection.derived("steps.times", lambda: step_time_chart(slowest_times(page.trace)))
        show_chart(page, drawing, "steps.times")
    found = page.report_or_wait()["findings"]
    show_findings(page, [finding for finding in found if finding["rule"].startswith(("TPU304", "TPU31", "TPU44"))])


def _tiles(figures: dict[str, Any]) -> list[Tile]:
    labels = (("mean_ps", "Mean"), ("p50_ps", "p50"), ("p95_ps", "p95"), ("p99_ps", "p99"), ("min_ps", "Shortest"),
              ("max_ps", "Longest"))  # fmt: skip
    notes = (plural(figures["count"], "step"), "median", "1 in 20 longer", "1 in 100 longer", "of all", "of all")
    tiles = [
        Tile("step" if key == "mean_ps" else f"step_{key.removesuffix('_ps')}", label, format_ps(figures[key]), note)
        for (key, label), note in zip(labels, notes, strict=True)
    ]
    why = "" if figures["cv"] is not None else "It takes at least two steps."
    return [*tiles, Tile("step_cv", "Variation", format_percent(figures["cv"]), "of the mean", why)]


def _heat(page: Page, step: int | None, device: str) -> None:
    measure = page.choice("measure", "Cores by steps", _LABELS)
    st.caption(MEASURES[measure])
    grid = page.selection.derived(("steps.grid", measure), lambda: step_grid(page.trace, measure))
    marked = (device, step) if device and step is not None else None
    title, color = _LABELS[measure].lower(), LOOKS[_COLORS[measure]].light
    drawing = page.selection.derived(
        ("steps.heat", measure, marked),
        lambda: heat_chart(grid.devices, grid.steps, grid.values_ps.tolist(), title, color, marked),
    )
    if drawing.chart is None:
        show_empty(drawing.caption, _why_unknown(page, measure))
        return
    pick_mark(page, drawing, f"steps.heat.{measure}", PICKED, _cell, (step, device))
    if grid.recorded > len(grid.steps):
        st.caption(f"{grid.recorded - len(grid.steps)} of {plural(grid.recorded, 'recorded step')} do not count: they "
                   "are cut, lack a core, or were held up by the start of the capture.")  # fmt: skip
    if marked is None:
        st.caption("Click a cell to see what the core did in the step.")


def _cell(mark: Mapping[str, Any]) -> dict[str, str | None]:
    """The step and the core of a cell."""
    return {"step": str(int(mark["step"])), "device": str(mark["device"])} if {"step", "device"} <= mark.keys() else {}


def _why_unknown(page: Page, measure: str) -> str:
    if measure not in ("wait", "late"):
        return ""
    reasons = page.trace.collectives["wait_reason"].dropna()
    if not len(page.trace.collectives):
        return "The run has no collectives, so cores do not wait for each other."
    if not len(reasons):
        return "Of the first steps of a capture lateness is not counted: record a few more."
    most = str(reasons.mode().iloc[0])
    return WAIT_REASONS.get(most, plain(most))


def _detail(page: Page, step: int | None, device: str) -> None:
    """One step, one core, or one step of one core, against the mean."""
    rows = page.selection.derived(("steps.detail", step, device), lambda: step_on_core(page.trace, step, device))
    what = " of ".join(filter(None, (f"Step {step}" if step is not None else "", plain(device)))) or ""
    st.subheader(what if step is not None else f"Core {what}", anchor=False)
    if not rows:
        show_empty("Nothing was recorded there.")
        return
    drawing = page.selection.derived(("steps.detail.chart", step, device), lambda: device_parts_chart(rows))
    show_chart(page, replace(drawing, caption="Longest first; means are over counted steps."), "steps.detail")
    filters = {"step": "" if step is None else str(step), "device": device}
    with st.container(horizontal=True, key="steps.links"):
        page.link("timeline", "On the timeline", ":material/view_timeline:", view="", **filters)
        page.link("idle", "Its gaps", ":material/hourglass_empty:", **filters)
        page.link("collectives", "Its collectives", ":material/hub:", **filters)


def _stragglers(page: Page, step: int | None, device: str) -> None:
    rows = page.selection.derived("steps.cores", lambda: core_rows(page.trace))
    if not rows:
        return
    st.subheader("Cores", anchor=False)
    critical = next((row["device"] for row in rows if row["critical"]), None)
    if len(rows) > 1:
        drawing = page.selection.derived("steps.skew", lambda: skew_chart(rows))
        if drawing.chart is not None:
            show_chart(page, drawing, "steps.skew")
        else:
            st.caption(plain(drawing.caption))
        if critical is not None:
            st.caption(f"Critical core (largest mean step): {code(critical)}. Click a row to look at a core.")
    shown = [{**row, "mark": "critical" if row["critical"] and len(rows) > 1 else ""} for row in rows]
    at = next((n for n, row in enumerate(rows) if row["device"] == device), None)
    pick_table(shown, _CORES, "steps.cores", lambda row: {"device": row["device"]}, picked=at,
               otherwise={"device": None})  # fmt: skip
    if len(rows) > 1:
        _late(page, step, device)


def _late(page: Page, step: int | None, device: str) -> None:
    rows = page.selection.derived("steps.late", lambda: late_rows(page.trace))
    st.subheader("Who kept whom waiting", anchor=False)
    if not rows:
        st.caption("In no step is a core known to have kept others waiting.")
        return
    st.caption("Per step the core that cost the others most, the costliest step first. Click a row to look at it.")
    at = next((n for n, row in enumerate(rows) if (row["step"], row["device"]) == (step, device)), None)
    pick_table(rows, _LATE, "steps.late", lambda row: {"step": str(row["step"]), "device": row["device"]}, picked=at,
               otherwise={"step": None, "device": None})  # fmt: skip
