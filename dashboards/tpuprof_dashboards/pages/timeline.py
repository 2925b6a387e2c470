"""Page Timeline: what ran when, on every core and on the threads of the hosts."""

from __future__ import annotations

import re

import streamlit as st

from tpuprof.units import UNKNOWN, format_ps
from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.text import code, plain
from tpuprof_dashboards.timeline import Selection, TimelineModel, build_timeline, timeline

_SEEN = re.compile(r"(-?\d{1,18})-(-?\d{1,18})\Z", re.ASCII)
HEIGHT = 640


def render(page: Page) -> None:
    """Draws the page."""
    with st.spinner("Laying out the timeline", show_time=True):
        model = model_of(page)
    selected = timeline(
        model, key="timeline", height=HEIGHT, view=_seen(page.get("view")), search=page.get("op"),
        on_select=_select, on_view=_keep_view,
    )  # fmt: skip
    if selected is not None:
        _details(page, selected)


def model_of(page: Page) -> TimelineModel:
    """The timeline of the selection, made once for everyone."""
    return page.selection.derived("timeline", lambda: build_timeline(page.trace))


def _seen(text: str) -> tuple[int, int] | None:
    """The stretch that a link shows; null if it names none."""
    found = _SEEN.match(text)
    if found is None or int(found[1]) >= int(found[2]):
        return None
    return int(found[1]), int(found[2])


def _keep_view(start: int, end: int) -> None:
    update(view=f"{start}-{end}")


def _select(selection: Selection | None) -> None:
    """The op that was clicked is the filter of the other pages."""
    if selection is not None and selection.is_op:
        update(op=selection.name, module=selection.module)
    else:
        update(op="", module="")


def _details(page: Page, selected: Selection) -> None:
    duration = UNKNOWN if selected.duration_ps is None else format_ps(selected.duration_ps)
    own = "" if selected.self_ps in (None, selected.duration_ps) else f", of it {format_ps(selected.self_ps)} its own"
    lines = [f"**{plain(selected.name)}** · {plain(selected.kind)} · {duration}{own} · {plain(selected.group)}"]
    facts = {"scope": selected.scope, "program": selected.module, "source": selected.source}
    lines += [f"{name} {code(value)}" for name, value in facts.items() if value]
    with st.container(border=True, gap="xsmall"):
        st.markdown("  \n".join(lines))
        with st.container(horizontal=True):
            if selected.is_op:
                page.link(
                    "ops", "All its executions", ":material/table_rows:", op=selected.name, module=selected.module
                )
            if selected.scope:
                page.link("scopes", "Its scope", ":material/account_tree:", scope=selected.scope)
            url = page.settings.source_url(selected.source)
            if url is not None:
                st.link_button("Its source", url, icon=":material/code:")
