"""Page Runs: what is in the log directory, and picking one or two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.formats.discover import MAX_SESSIONS
from tpuprof.report.run_list import run_knowledge, runs_result
from tpuprof.text import plural
from tpuprof_dashboards.columns import Shown, show_table
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.pickers import HOW_TO_CAPTURE
from tpuprof_dashboards.text import code, plain
from tpuprof_dashboards.tiles import show_quality

if TYPE_CHECKING:
    from tpuprof.formats.recording import RunFiles

_READ_AT_ONCE = 3
_COLUMNS = (
    Shown("name", "run", pinned=True, help="Name of the session; by default the time of the capture."),
    Shown("shown", "shown", help="What the other pages show now.", width="small"),
    Shown("n_hosts", "hosts", "count", help="Hosts that wrote files for this run."),
    Shown("size_bytes", "size", help="All files of the run together."),
    Shown("kind", "hardware", help="What the run ran on; known once it was read."),
    Shown("made", "made", help="Recorded while it ran, or predicted by a plan; known once it was read."),
    Shown("n_steps", "steps", "count", help="Steps that were found on all cores; known once it was read."),
    Shown("step_ps", "step", help="Mean step time, per step on the slowest core; known once it was read."),
    Shown("noticed", "data quality", help="The worst thing noticed about the recording; known once it was read."),
    Shown("formats", "formats", help="Kinds of files that were found."),
    Shown("path", "path", help="Where the run is."),
)


def render(page: Page) -> None:
    """Lists the runs; selecting one opens it, selecting two compares them."""
    if not page.runs:
        show_empty(f"There is no run under {code(page.settings.logdir)} yet.", HOW_TO_CAPTURE)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = page.text("find", "Search", placeholder="part of a name, path or hardware")
    listed = runs_result(page.settings.logdir, page.runs).document["runs"]
    rows = [
        {**row, "formats": ", ".join(row["formats"]), **_known(page, files), "shown": _shown(page, files, at)}
        for at, (row, files) in enumerate(zip(listed, page.runs, strict=True))
    ]
    found = [at for at, row in enumerate(rows) if _matches(row, wanted)]
    place = code(page.settings.logdir)
    count = plural(len(rows), "run") if len(found) == len(rows) else f"{len(found):,} of {plural(len(rows), 'run')}"
    st.caption(f"{count} under {place}, newest first. Select one to open it, two to compare them.")
    if len(rows) >= MAX_SESSIONS:
        st.caption(f"Of each profile directory the newest {MAX_SESSIONS} are listed.")
    if not found:
        show_empty(f"No run matches {code(wanted)}.", "Search for less, or clear the search.")
        return
    selected = show_table([rows[at] for at in found], _COLUMNS, "runs.table", select="multi-row")
    chosen = [page.runs[found[at]] for at in selected]
    _actions(page, chosen)
    _offer_reading(page, [page.runs[at] for at in found], chosen)


def _actions(page: Page, chosen: list[RunFiles]) -> None:
    """What can be done with the selected runs."""
    names = [files.name for files in chosen]
    if len(names) == 1:
        with st.container(horizontal=True, vertical_alignment="center", key="runs.actions"):
            page.link("overview", f"Open {plain(names[0])}", ":material/speed:", run=names[0], steps="", devices="")
            if page.library.is_open(chosen[0]):
                show_quality([entry.to_json() for entry in page.library.open(chosen[0]).trace.quality])
    elif len(names) == 2:
        new, base = names  # the list is newest first
        with st.container(horizontal=True, vertical_alignment="center", key="runs.actions"):
            page.link("compare", f"Compare {plain(new)} with {plain(base)}", ":material/compare_arrows:",
                      run=new, base=base, steps="", devices="")  # fmt: skip
            page.link("compare", "the other way round", run=base, base=new, steps="", devices="")
    elif names:
        st.caption(f"{len(names)} are selected: select one run to open it, or two to compare them.")


def _offer_reading(page: Page, listed: list[RunFiles], chosen: list[RunFiles]) -> None:
    """A button that reads the selected runs, else the newest few, so that the list says more of them."""
    unread = [files for files in listed if not page.library.is_open(files)]
    wanted = [files for files in unread if files in chosen]
    few = (wanted or unread)[:_READ_AT_ONCE]
    if not few:
        return
    what = "it" if len(few) == 1 else f"the newest {len(few)}" if len(unread) > len(few) else f"the other {len(few)}"
    if wanted:
        what = "the selected run" if len(few) == 1 else f"the {len(few)} selected runs"
    if st.button(f"Read {what} for hardware, steps and data quality", icon=":material/refresh:"):
        for files in few:
            with st.spinner(f"Reading {code(files.name)}", show_time=True):
                page.library.open(files)
        update()
        st.rerun()


def _matches(row: dict[str, Any], wanted: str) -> bool:
    text = f"{row['name']} {row['path']} {row.get('kind') or ''} {row.get('made') or ''} {' '.join(row['hosts'])}"
    return all(word in text.lower() for word in wanted.lower().split())


def _shown(page: Page, files: RunFiles, at: int) -> str:
    """Whether the other pages show this run, as the picked one or as what it is compared with."""
    if files.name == page.view.run or (not page.view.run and at == 0):
        return "run"
    return "base" if files.name == page.view.base else ""


def _known(page: Page, files: RunFiles) -> dict[str, Any]:
    """What is known of a run that is in memory anyway."""
    if not page.library.is_open(files):
        return {}
    run = page.library.open(files)
    facts = run.selection().derived("runs.knowledge", lambda: run_knowledge(run.trace))
    count = facts["quality_entries"]
    return {**facts, "noticed": f"{facts['quality']} ({count:,})" if count else "nothing"}
