"""What narrows a page besides the pickers above it: shown as chips that a click takes away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from tpuprof.tables.chosen import Chosen
from tpuprof_dashboards.page import update
from tpuprof_dashboards.text import plain, shortened

if TYPE_CHECKING:
    from tpuprof_dashboards.page import Page

NAMES: Mapping[str, str] = {
    "op": "op",
    "of": "of program",
    "module": "program",
    "kind": "kind",
    "scope": "scope",
    "step": "step",
    "device": "core",
    "q": "search",
}
"""Filters that mean the same on every page. ``of`` is the program of ``op``, where several have an op of its name."""

_LONGEST = 60


def show_filters(page: Page, names: Sequence[str]) -> None:
    """A chip for each of these filters that is set; clicking it takes the filter away."""
    present = [name for name in names if page.get(name)]
    if not present:
        return
    with st.container(horizontal=True, gap="small", key=f"{page.slug}.chips"):
        for name in present:
            value = page.get(name)
            st.button(
                f"{NAMES[name]}: {plain(shortened(value, _LONGEST))}",
                key=f"{page.slug}.chip.{name}",
                icon=":material/close:",
                help=f"Take this filter away: {plain(value)}",
                on_click=_take_away,
                args=(name,),
            )


def chosen(page: Page) -> Chosen:
    """The ops that the filters of the URL choose; ``op`` is not among them, as it selects and does not narrow."""
    return Chosen(module=page.get("module"), kind=page.get("kind"), scope=page.get("scope"))


def _take_away(name: str) -> None:
    changes: dict[str, str | None] = {name: None}
    if name == "op":
        changes["of"] = None
    update(**changes)
