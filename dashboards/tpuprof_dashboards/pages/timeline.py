"""Page Timeline: what ran when, on every core and on the threads of the hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import streamlit as st

from tpuprof_dashboards.filters import ONE_OP
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.runs import timeline_of
from tpuprof_dashboards.timeline import Selection, timeline

if TYPE_CHECKING:
    import pandas as pd

_SEEN = re.compile(r"(-?\d{1,18})-(-?\d{1,18})\Z", re.ASCII)
HEIGHT = 640


def render(page: Page) -> None:
    """Draws the page."""
    with st.spinner("Laying out the timeline", show_time=True):
        model = timeline_of(page.selection)
    view = _seen(page.get("view")) or stretch_of(page.trace.steps, page.get("step"), page.get("device"))
    selected = timeline(
        model, key="timeline", height=HEIGHT, view=view, search=page.get("op"),
        on_select=_select, on_view=_keep_view,
    )  # fmt: skip
    if selected is not None:
        _links(page, selected)


def _seen(text: str) -> tuple[int, int] | None:
    """The stretch that a link shows; null if it names none."""
    found = _SEEN.match(text)
    if found is None or int(found[1]) >= int(found[2]):
        return None
    return int(found[1]), int(found[2])


def stretch_of(steps: pd.DataFrame, step: str, device: str) -> tuple[int, int] | None:
    """The stretch of a step with a little of its neighbours, on one core if it ran there; null if there is no such."""
    found = steps[steps["step"].astype(str) == step]
    of_core = found[found["device"] == device]
    found = found if of_core.empty else of_core
    if found.empty:
        return None
    start, end = int(found["start_ps"].min()), int((found["start_ps"] + found["duration_ps"]).max())
    margin = (end - start) // 20
    return start - margin, end + margin


def _keep_view(start: int, end: int) -> None:
    update(view=f"{start}-{end}")


def _select(selection: Selection | None) -> None:
    """The op that was clicked is the filter of the other pages."""
    if selection is not None and selection.is_op:
        update(op=selection.name, of=selection.module)
    else:
        update(**ONE_OP)


def _links(page: Page, selected: Selection) -> None:
    """Where else the selected event can be seen; what it is stands below the timeline already."""
    with st.container(horizontal=True):
        if selected.is_op:
            page.link("ops", "All its executions", ":material/table_rows:", op=selected.name, of=selected.module)
        if selected.scope:
            page.link("scopes", "Its scope", ":material/account_tree:", scope=selected.scope)
        url = page.settings.source_url(selected.source)
        if url is not None:
            st.link_button("Its source", url, icon=":material/code:")
