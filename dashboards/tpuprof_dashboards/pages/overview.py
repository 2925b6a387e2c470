"""Page Overview: the step in figures, its parts, what to do first, and the ladder to the ideal step."""

from __future__ import annotations

from typing import Any

import streamlit as st

from tpuprof.charts import device_parts_chart, ladder_chart, mean_step_chart, step_parts_chart
from tpuprof.report.facts import breakdown_basis, finding_notes, headline, side_notes
from tpuprof.report.key_figures import key_figures
from tpuprof.report.plain import rows_of
from tpuprof.report.roofline import ladder_rows
from tpuprof.report.run_list import run_knowledge
from tpuprof.report.step_parts import step_parts
from tpuprof.units import format_bytes, format_percent, format_ps
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.findings import show_finding
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.tiles import Tile, show_quality, show_tiles

_FIRST_FINDINGS = 5


def render(page: Page) -> None:
    """Draws the page."""
    report = page.report_or_wait()
    with st.container(horizontal=True, vertical_alignment="center", key="overview.head"):
        st.caption(" · ".join(plain(fact) for fact in headline(report)), width="content")
        if page.selection.derived("runs.knowledge", lambda: run_knowledge(page.trace))["made"] == "predicted":
            st.badge("predicted, not recorded", icon=":material/calculate:", color="violet")
        st.space("stretch")
        show_quality(report["quality"])
    if not report["run"]["n_devices"]:
        show_empty("The trace holds no device work.", "Capture while the job is running steps; page Runs has others.")
        return
    show_tiles(_tiles(page, report))
    parts = report["breakdown"].get("parts")
    show_chart(page, page.selection.derived("overview.mean", lambda: mean_step_chart(parts)), "overview.mean")
    stepped = report["run"]["step_source"] != "none"
    what = f"{'The mean step' if stepped else 'What was recorded'}, {format_ps(report['breakdown'].get('step_ps'))}"
    st.caption(plain(f"{what}: {breakdown_basis(report)}."))
    _findings(page, report)
    charts = {"step": "Step by step", "device": "Core by core", "ladder": "Ladder to the ideal step"}
    if not stepped:
        del charts["step"]  # what was recorded as a whole is drawn above
    chosen = page.choice("chart", "Where the time goes", charts)
    if chosen == "ladder":
        rungs = ladder_rows(report)  # they depend on the hardware, which need not be the trace's
        drawing = page.selection.derived(("overview.ladder", str(rungs)), lambda: ladder_chart(rungs))
        show_chart(page, drawing, "overview.ladder")
    elif chosen == "device":
        rows = rows_of(report["breakdown"].get("per_device"))
        drawing = page.selection.derived("overview.devices", lambda: device_parts_chart(rows))
        show_chart(page, drawing, "overview.devices")
        page.link("steps", "Who waits for whom: Steps & stragglers", ":material/bar_chart:")
    else:
        drawing = page.selection.derived("overview.steps", lambda: step_parts_chart(step_parts(page.trace)))
        show_chart(page, drawing, "overview.steps")
        page.link("steps", "How steps differ: Steps & stragglers", ":material/bar_chart:")
    for note in side_notes(report):
        st.caption(plain(note))


def _findings(page: Page, report: dict[str, Any]) -> None:
    findings = report["findings"]
    st.subheader("What to do first", anchor=False)
    if not findings:
        st.caption("No analyzer has anything to say about this run.")
    for at, finding in enumerate(findings[:_FIRST_FINDINGS]):
        show_finding(page, finding, at)
    if len(findings) > _FIRST_FINDINGS:
        with st.expander(f"{len(findings) - _FIRST_FINDINGS} more, of less weight", icon=":material/more_horiz:"):
            for at, finding in enumerate(findings[_FIRST_FINDINGS:], _FIRST_FINDINGS):
                show_finding(page, finding, at)
    for note in finding_notes(report):
        st.caption(plain(note))


def _tiles(page: Page, report: dict[str, Any]) -> list[Tile]:
    figures, roofline = key_figures(page.trace, report), report["roofline"]
    hidden, p95 = figures["hidden_ps"], figures["p95_ps"]
    whole = "of the step" if figures["p50_ps"] is not None else "of what was recorded"
    return [
        _step_tile(figures, f"p95 {format_ps(p95)}" if p95 else ""),
        Tile("mfu", "MFU", _percent(roofline.get("mfu")), _mfu_note(roofline), roofline.get("reason") or ""),
        Tile("compute", "Compute", _percent(figures["compute_fraction"]), whole),
        Tile("exposed", "Exposed comm.", _percent(figures["exposed_fraction"]),
             f"hidden {format_ps(hidden)}" if hidden is not None else ""),
        Tile("wait", "Waiting", _percent(figures["wait_fraction"]), "incl. exposed comm."),
        Tile("idle", "Idle", _percent(figures["idle_fraction"]), whole),
        Tile("memory_peak", "Memory peak", format_bytes(figures["memory_peak_bytes"]),
             "unknown" if figures["memory_peak_bytes"] is None else "of one program", figures["memory_reason"] or ""),
    ]  # fmt: skip


def _step_tile(figures: dict[str, Any], note: str) -> Tile:
    """The median step; without steps what was recorded as a whole."""
    if figures["p50_ps"] is None:
        return Tile("recorded", "Recorded", format_ps(figures["step_ps"]), "no steps found")
    return Tile("step_p50", "Step p50", format_ps(figures["p50_ps"]), note)


def _percent(fraction: float | None) -> str:
    return format_percent(fraction, 1)


def _mfu_note(roofline: dict[str, Any]) -> str:
    if roofline.get("mfu") is None:
        return "unknown"
    return f"{'at least, ' if roofline.get('mfu_is_lower_bound') else ''}of {roofline['peak_source'].partition(',')[0]}"
