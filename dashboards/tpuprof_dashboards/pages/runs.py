"""Page Runs: what is in the log directory, and picking one or two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.report.run_list import runs_result
from tpuprof.text import plural
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.pickers import HOW_TO_CAPTURE
from tpuprof_dashboards.text import code, plain

if TYPE_CHECKING:
    from tpuprof.formats.recording import RunFiles

_COLUMNS = (
    Shown("name", "run", pinned=True, help="Name of the session; by default the time of the capture."),
    Shown("n_hosts", "hosts", "count", help="Hosts that wrote files for this run."),
    Shown("size_bytes", "size", help="All files of the run together."),
    Shown("kind", "hardware", help="What the run ran on; known once it was opened."),
    Shown("n_steps", "steps", "count", help="Steps that were found on all cores; known once it was opened."),
    Shown("step_ps", "step", help="Mean step time, per step on the slowest core; known once it was opened."),
    Shown("quality", "data quality", help="The worst thing noticed about the recording; known once it was opened."),
    Shown("formats", "formats", help="Kinds of files that were found."),
    Shown("path", "path", help="Where the run is."),
)


def render(page: Page) -> None:
    """Lists the runs; selecting one opens it, selecting two compares them."""
    if not page.runs:
        show_empty(f"There is no run under {code(page.settings.logdir)} yet.", HOW_TO_CAPTURE)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = page.text("q", "Search", placeholder="part of a name or path")
    listed = runs_result(page.settings.logdir, page.runs).document["runs"]
    rows = [
        {**row, "formats": ", ".join(row["formats"]), **_known(page, files)}
        for row, files in zip(listed, page.runs, strict=True)
        if wanted.lower() in f"{row['name']} {row['path']}".lower()
    ]
    place = code(page.settings.logdir)
    st.caption(f"{plural(len(rows), 'run')} under {place}, newest first. Select one to open it, two to compare them.")
    selected = show_table(rows, _COLUMNS, "runs.table", select="multi-row")
    names = [rows[at]["name"] for at in selected]
    if len(names) == 1:
        page.link("overview", f"Open {plain(names[0])}", ":material/speed:", run=names[0], steps="", devices="")
    elif len(names) == 2:
        new, base = names  # the list is newest first
        page.link("compare", f"Compare {plain(new)} with {plain(base)}", ":material/compare_arrows:",
                  run=new, base=base, steps="", devices="")  # fmt: skip
    elif names:
        st.caption("Select one run to open it, or two to compare them.")
    unopened = [files for files in page.runs if not page.library.is_open(files)]
    if unopened and st.button(
        f"Read the newest {min(len(unopened), 3)} for the columns on hardware, steps and quality"
    ):
        for files in unopened[:3]:
            with st.spinner(f"Reading {code(files.name)}", show_time=True):
                page.library.open(files)
        update()
        st.rerun()


def _known(page: Page, files: RunFiles) -> dict[str, Any]:
    """What is known of a run that is in memory anyway."""
    if not page.library.is_open(files):
        return {}
    from tpuprof.quality import worst

    trace = page.library.open(files).trace
    kinds = sorted({device.kind or device.platform for device in trace.devices})
    count = len(trace.quality)
    return {
        "kind": f"{len(trace.devices)} × {', '.join(kinds)}" if kinds else None,
        "n_steps": trace.n_steps,
        "step_ps": trace.step_statistics()["mean_ps"],
        "quality": f"{worst(trace.quality)} ({plural(count, 'entry')})" if count else "nothing to report",
    }
