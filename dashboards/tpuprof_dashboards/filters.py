"""What narrows a page besides the pickers above it: shown as chips that a click takes away."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from tpuprof.palette import kind_label
from tpuprof.tables.chosen import Chosen
from tpuprof.tables.schemas import OP_KINDS
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

NARROWING = ("scope", "step", "device")
"""Filters of ops that have no picker on pages of ops: other pages set them."""

_LONGEST = 60
_STEP = re.compile(r"[0-9]{1,15}\Z", re.ASCII)


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


def show_op_filters(page: Page) -> str:
    """A search, and pickers of the kind and of the program; returns what is searched for."""
    with st.container(width=165):
        text = page.text("q", "Search", placeholder="name, scope, source", help="Part of a name, scope, source line.")
    with st.container(width=120):
        present = present_values(page, "kind")
        kinds = ["", *(kind for kind in OP_KINDS if kind in present)]
        page.pick("kind", "Kind", kinds, lambda kind: kind_label(kind) if kind else "all")
    programs = present_values(page, "module")
    if len(programs) > 1:
        with st.container(width=140):
            page.pick("module", "Program", ["", *programs], lambda name: shortened(name, 40) if name else "all")
    return text


def present_values(page: Page, column: str) -> list[str]:
    """The different values of a column of table ``ops``, sorted."""

    def values() -> list[str]:
        used = page.trace.ops[column].cat.remove_unused_categories()
        return sorted(str(value) for value in used.cat.categories)

    return page.selection.derived(("values of", column), values)


def chosen(page: Page) -> Chosen:
    """The ops that the filters of the URL choose; ``op`` is not among them, as it selects and does not narrow."""
    step = page.get("step")
    return Chosen(
        module=page.get("module"),
        kind=page.get("kind"),
        scope=page.get("scope"),
        device=page.get("device"),
        step=int(step) if _STEP.match(step) else None,
    )


def _take_away(name: str) -> None:
    changes: dict[str, str | None] = {name: None}
    if name == "op":
        changes["of"] = None
    update(**changes)
