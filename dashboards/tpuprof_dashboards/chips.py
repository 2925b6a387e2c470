"""Filters that a page honours, as chips that can be taken away one by one."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from tpuprof_dashboards.page import Page, update
from tpuprof_dashboards.text import plain, shortened

LABELS = {
    "op": "op", "of": "of program", "module": "program", "kind": "kind", "coll": "kind", "scope": "scope",
    "axis": "mesh axis", "source": "source", "step": "step", "device": "core", "q": "search",
}  # fmt: skip
"""What filters are called for people; the same names in the URLs of all pages. ``of`` is the program of ``op``, and
``coll`` the kind of a collective, which is another thing than the kind of an op."""


def show_chips(page: Page, names: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """Draws the filters of the URL among these names; a click takes one away. Returns those that are set.

    Args:
        page: the page.
        names: which filters the page honours; a mapping gives them labels other than the usual ones.
    """
    labels = dict(names) if isinstance(names, Mapping) else {name: LABELS[name] for name in names}
    found = {name: value for name in labels if (value := page.get(name))}
    if not found:
        return {}
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center", key=f"{page.slug}.chips"):
        st.caption("Only", width="content")
        for name, value in found.items():
            st.button(
                f"{labels[name]}: {plain(shortened(value, 60))}",
                key=f"{page.slug}.chip.{name}",
                icon=":material/close:",
                help="Take this filter away",
                on_click=update,
                kwargs={"op": "", "of": ""} if name == "op" else {name: ""},
            )
        if len(found) > 1:
            st.button(
                "All away",
                key=f"{page.slug}.chip.all",
                type="tertiary",
                on_click=update,
                kwargs=dict.fromkeys(found, ""),
            )
    return found
