"""What stands above every page: its title, the same pickers everywhere, and what was captured."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import streamlit as st

from tpuprof.errors import UsageError
from tpuprof.selection import match_devices, parse_steps
from tpuprof.units import format_bytes
from tpuprof_dashboards.failure import show_empty
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.runs import Library, OpenRun, Selection, check_selection
from tpuprof_dashboards.settings import Settings
from tpuprof_dashboards.text import code, plain, shortened

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from tpuprof.formats.recording import RunFiles
    from tpuprof_dashboards.pages import Entry
    from tpuprof_dashboards.view import View

_NO_BASE = ""


def header(entry: Entry, settings: Settings, view: View, library: Library) -> Page | None:
    """Draws the header and opens what the page needs; null where the page cannot be shown and the header says why."""
    runs = library.list()
    with st.container(horizontal=True, vertical_alignment="bottom", key="header"):
        st.title(entry.title, anchor=False, width="content")
        st.space("stretch")
        page = Page(entry.slug, settings, view, library, runs, _theme())
        if entry.needs == "nothing":
            return page
        if not runs:
            show_empty(f"There is no run under {code(settings.logdir)} yet.", HOW_TO_CAPTURE)
            return None
        files = _pick_run("run", "Run", library, runs, view.run)
        base = (
            _pick_run("base", "Compared with", library, runs, view.base, empty=True) if entry.needs == "pair" else None
        )
        place = st.container(horizontal=True, vertical_alignment="bottom", width="content", key="pickers")
    if files is None:
        return None
    run = _opened(library, files)
    page = replace(page, run=run, picked=_pick_part(place, run, view))
    if base is not None:
        other = _opened(library, base)
        with suppress(UsageError):
            page = replace(page, base=other, base_picked=other.selection(view.steps, view.devices))
        if page.base is None:
            page = replace(page, base=other, base_picked=other.selection())
    return page


def _theme() -> Literal["light", "dark"]:
    return "dark" if st.context.theme.type == "dark" else "light"


def _pick_run(
    name: str, label: str, library: Library, runs: Sequence[RunFiles], chosen: str, *, empty: bool = False
) -> RunFiles | None:
    """A list of runs; a name that the directory lacks is said, and nothing is put in its place."""
    key = f"pick.{name}"
    names = [files.name for files in runs]
    found = library.find(runs, chosen) if chosen or not empty else None
    if found is not None and found.name not in names:
        names.append(found.name)  # older than what is listed
    st.session_state[key] = found.name if found is not None else None
    st.selectbox(
        label,
        names,
        key=key,
        width=260,
        format_func=lambda run: shortened(run, 44),
        placeholder="choose a run",
        on_change=_store,
        args=(key, name),
        help="Runs in the log directory, newest first.",
    )
    if found is None and chosen:
        st.warning(
            f"The log directory has no run {code(chosen)}. Choose one above, or start the dashboard on the directory "
            "that has it."
        )
    return found


def _pick_part(place: DeltaGenerator, run: OpenRun, view: View) -> Selection:
    """Steps and devices of the run."""
    trace = run.trace
    ids = [device.id for device in trace.devices]
    with place:
        st.session_state["pick.steps"] = view.steps
        st.text_input(
            "Steps",
            key="pick.steps",
            placeholder=_step_range(run),
            width=110,
            disabled=trace.n_steps < 2,
            on_change=_store_steps,
            help="Only these steps: 3:8 is steps 3 to 7, 5: all from 5 on, 4 one step. Empty for all.",
        )
        known: list[str] = []
        with suppress(UsageError):
            known = match_devices(view.devices, ids) if view.devices else []
        st.session_state["pick.devices"] = known
        st.multiselect(
            "Devices",
            ids,
            key="pick.devices",
            placeholder=f"all {len(ids)}" if len(ids) > 1 else (ids[0] if ids else "none"),
            width=230,
            disabled=len(ids) < 2,
            on_change=_store_devices,
            help="Only these cores. Empty for all.",
        )
    selection, wrong = check_selection(run, view.steps, view.devices)
    problem = st.session_state.pop("pick.problem", None) or wrong
    if problem:
        st.warning(f"{plain(problem)} The whole run is shown." if wrong else plain(problem))
    return selection


def _step_range(run: OpenRun) -> str:
    if not run.trace.n_steps:
        return "no steps"
    return f"all {run.trace.n_steps}"


def _opened(library: Library, files: RunFiles) -> OpenRun:
    """The run, with the progress of reading it where that takes a while."""
    if library.is_open(files):
        return library.open(files)
    what = f"Reading {code(files.name)}: {format_bytes(files.size_bytes)}"
    if len(files.files) > 1:
        what += f" from {len(files.files)} hosts"
    with st.spinner(what, show_time=True):
        return library.open(files)


def _store(key: str, name: str) -> None:
    update(**{name: st.session_state.get(key) or ""}, steps="", devices="") if name == "run" else update(
        **{name: st.session_state.get(key) or ""}
    )


def _store_steps() -> None:
    text = (st.session_state.get("pick.steps") or "").strip()
    try:
        if text:
            parse_steps(text)
    except UsageError as error:
        st.session_state["pick.problem"] = f"{error.what} {error.hint}"
        return
    update(steps=text)


def _store_devices() -> None:
    update(devices=",".join(st.session_state.get("pick.devices") or []))


HOW_TO_CAPTURE = (
    "Capture one from a job: `tpuprof capture --logdir DIR -- python train.py`, or "
    '`with tpuprof.capture("DIR"):` around some steps. `tpuprof demo --logdir DIR` makes one to try with.'
)
