"""Page Overview: the step in figures, its parts, the ladder to the ideal step, and what to do first."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from tpuprof.charts import device_parts_chart, ladder_chart, step_parts_chart
from tpuprof.report.facts import breakdown_basis, group_fraction, headline, side_notes
from tpuprof.report.plain import rows_of, table_of
from tpuprof.report.roofline import ladder_rows
from tpuprof.units import format_bytes, format_percent, format_ps
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.page import Page
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.tiles import Tile, show_notice, show_tiles

_FIRST_FINDINGS = 5


def render(page: Page) -> None:
    """Draws the page."""
    report = _report(page)
    st.caption(" · ".join(plain(fact) for fact in headline(report)))
    if not report["run"]["n_devices"]:
        show_empty("The trace holds no device work.", "Capture while the job is running steps; page Runs has others.")
        return
    show_tiles(page.selection.derived("overview.tiles", lambda: _tiles(page, report)))
    findings = report["findings"]
    st.subheader("What to do first", anchor=False)
    if not findings:
        st.caption("No analyzer has anything to say about this run.")
    for finding in findings[:_FIRST_FINDINGS]:
        show_notice(
            finding["severity"], f"{finding['rule']} {finding['title']}", finding["message"], finding["suggestion"],
            finding["impact_ps"], finding["impact_fraction"],
        )  # fmt: skip
    if len(findings) > _FIRST_FINDINGS:
        page.link("report", f"All {len(findings)} findings are in the report", ":material/description:")
    parts, ladder = st.tabs(["Where the time goes", "Ladder to the ideal step"], key="overview.tab")
    with parts:
        _parts(page, report)
    with ladder:
        drawing = page.selection.derived("overview.ladder", lambda: ladder_chart(ladder_rows(report)))
        show_chart(page, drawing, "overview.ladder")
    _quality(report)


def _report(page: Page) -> dict[str, Any]:
    with st.spinner("Analysing the run", show_time=True):
        return page.report


def _tiles(page: Page, report: dict[str, Any]) -> list[Tile]:
    breakdown, roofline = report["breakdown"], report["roofline"]
    steps = report["steps"]
    mean, parts = breakdown.get("step_ps"), breakdown.get("parts")
    times = page.trace.steps
    slowest = times[times["counted"]].groupby("step")["duration_ps"].max().to_numpy()
    p95 = float(np.percentile(slowest, 95)) if len(slowest) else None
    exposed = table_of(parts).get("collective_exposed_ps")
    peak = _peak_bytes(page)
    mfu = roofline.get("mfu")
    return [
        Tile("step_p50", "Step p50", format_ps(steps.get("p50_ps")), f"p95 {format_ps(p95)}" if p95 else ""),
        Tile("mfu", "MFU", _percent(mfu), _mfu_note(roofline), roofline.get("reason") or ""),
        Tile("compute", "Compute", _percent(group_fraction(parts, mean, "compute")), "of the step"),
        Tile(
            "exposed",
            "Exposed comm.",
            _percent(exposed / mean if exposed is not None and mean else None),
            f"hidden {format_ps(breakdown['hidden']['collective_ps'])}" if breakdown.get("hidden") else "",
        ),
        Tile("wait", "Waiting", _percent(group_fraction(parts, mean, "wait")), "incl. exposed comm."),
        Tile("idle", "Idle", _percent(group_fraction(parts, mean, "idle")), "of the step"),
        Tile("memory_peak", "Memory peak", format_bytes(peak), "of one program"),
    ]


def _percent(fraction: float | None) -> str:
    return format_percent(fraction, 1)


def _mfu_note(roofline: dict[str, Any]) -> str:
    if roofline.get("mfu") is None:
        return "unknown"
    return f"{'at least, ' if roofline.get('mfu_is_lower_bound') else ''}of {roofline['peak_source'].partition(',')[0]}"


def _peak_bytes(page: Page) -> int | None:
    summary = page.trace.memory_summary
    known = (
        summary[summary["memory_space"] == "hbm"]["peak_bytes"].dropna()
        if "memory_space" in summary
        else summary.iloc[:0, 0]
    )
    return int(known.max()) if len(known) else None


def _parts(page: Page, report: dict[str, Any]) -> None:
    st.caption(plain(breakdown_basis(report)))
    by = page.choice("bars", "Bars", {"step": "per step", "device": "per core"})
    if by == "device":
        rows = rows_of(report["breakdown"].get("per_device"))
        show_chart(page, page.selection.derived("overview.devices", lambda: device_parts_chart(rows)), "overview.bars")
    else:
        drawing = page.selection.derived("overview.steps", lambda: step_parts_chart(_step_rows(page)))
        show_chart(page, drawing, "overview.bars")
    for note in side_notes(report):
        st.caption(plain(note))


def _step_rows(page: Page) -> list[dict[str, Any]]:
    """The partition of each counted step, as the mean over cores."""
    partition = page.trace.counted(page.trace.partition)
    columns = [name for name in partition.columns if name.endswith("_ps")]
    means = partition.groupby("step")[columns].mean()
    return [{"step": int(step), "parts": row} for step, row in zip(means.index, means.to_dict("records"), strict=True)]


def _quality(report: dict[str, Any]) -> None:
    quality = report["quality"]
    if not quality:
        return
    with st.expander(f"Data quality: {len(quality)} entries", icon=":material/fact_check:"):
        for entry in quality:
            show_notice(entry["severity"], entry["id"], entry["message"])
