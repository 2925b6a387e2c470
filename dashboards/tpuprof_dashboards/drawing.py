"""Charts on pages: those of ``tpuprof.charts``, in the theme of the page, with the caption that says what is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.charts import themed
from tpuprof_dashboards.memo import Memo
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.ui import vega_chart

if TYPE_CHECKING:
    from tpuprof.charts import Drawing
    from tpuprof_dashboards.page import Page

_SPECS = Memo(96)  # making a spec takes as long as everything else on a page


def show_chart(
    page: Page,
    drawing: Drawing,
    key: str,
    *,
    select: str | None = None,
    on_select: Callable[[list[dict[str, Any]]], None] | None = None,
) -> Any:
    """Draws a chart; returns what is selected in it if ``select`` names a selection parameter of its spec, else null.

    ``on_select`` is called with what is selected whenever a person changes that; by default the page just runs again.
    What is larger than the column scrolls sideways, so that labels keep their size on a narrow screen.
    """
    if drawing.chart is None:
        st.info(plain(drawing.caption))
        return None
    chart = drawing.chart
    # Held with its drawing, so that no other drawing can have its id meanwhile.
    _, spec = _SPECS.get((id(drawing), page.theme), lambda: (drawing, themed(chart, page.theme)))

    def call() -> None:
        if on_select is not None:
            on_select(list(st.session_state[key]["selection"].get(select) or []))

    options: dict[str, Any] = {}
    if select is not None:
        options = {"on_select": "rerun" if on_select is None else call, "selection_mode": select}
    selected = vega_chart(spec, key, width="content", **options)
    if drawing.caption:
        st.caption(plain(drawing.caption))
    return None if select is None else selected.get(select)
