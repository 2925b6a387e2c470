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

LABELS: Mapping[str, str] = {
    "op": "op",
    "module": "program",
    "kind": "kind",
    "coll": "kind",
    "scope": "scope",
    "axis": "mesh axis",
    "source": "source",
    "step": "step",
    "device": "core",
    "q": "search",
}
"""What filters are called for people; their names in the URL mean the same on every page.

``of`` has no chip of its own: it is the program of ``op``, where several have an op of its name. ``coll`` is the kind
of a collective, which is another thing than the kind of an op.
"""

NARROWING = ("scope", "source", "step", "device")
"""Filters of ops that have no picker on pages of ops: other pages set them."""

ONE_OP: Mapping[str, str | None] = {"op": None, "of": None}
"""The changes that take the selected op away."""

_LONGEST = 60
_STEP = re.compile(r"[0-9]{1,15}\Z", re.ASCII)


def show_filters(page: Page, names: Sequence[str], elsewhere: Mapping[str, str] | None = None) -> dict[str, str]:
    """A chip for each of these filters that is set; clicking it takes the filter away. Returns those that are set.

    Args:
        page: the page.
        names: the filters that the page honours.
        elsewhere: filters that it does not honour, and why: their chips say so, and they are not returned.
    """
    apart = elsewhere or {}
    found = {name: value for name in (*names, *apart) if (value := page.get(name))}
    if not found:
        return {}
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key=f"{page.slug}.chips"):
        if any(name not in apart for name in found):
            st.caption("Only", width="content")
        for name, value in found.items():
            label = f"{LABELS[name]}: {plain(shortened(value, _LONGEST))}"
            reason = f"{apart[name]} " if name in apart else ""
            st.button(
                f"{label} (not used here)" if reason else label,
                key=f"{page.slug}.chip.{name}",
                type="tertiary" if reason else "secondary",
                icon=":material/close:",
                help=f"{reason}Take this filter away: {plain(value)}",
                on_click=_take_away,
                args=(name,),
            )
        if len(found) > 1:
            st.button("All away", key=f"{page.slug}.chip.all", type="tertiary", on_click=_take_away, args=tuple(found))
    return {name: value for name, value in found.items() if name not in apart}


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
        source=page.get("source"),
        device=page.get("device"),
        step=int(step) if _STEP.match(step) else None,
    )


def _take_away(*names: str) -> None:
    changes: dict[str, str | None] = dict.fromkeys(names)
    update(**{**changes, **(ONE_OP if "op" in names else {})})
