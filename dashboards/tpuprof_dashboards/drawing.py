"""Charts on pages: those of ``tpuprof.charts``, in the theme of the page, with the caption that says what is shown."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import streamlit as st

from tpuprof.charts import themed
from tpuprof_dashboards.text import plain
from tpuprof_dashboards.ui import vega_chart

if TYPE_CHECKING:
    from altair import LayerChart

    from tpuprof.charts import Drawing, Theme
    from tpuprof_dashboards.page import Page

_specs: dict[tuple[int, str], dict[str, Any]] = {}
"""The specs of charts that are alive: a chart is drawn on every rerun, and making the spec of a thousand marks takes
half a second."""


def _spec(chart: LayerChart, theme: Theme) -> dict[str, Any]:
    key = (id(chart), theme)
    found = _specs.get(key)
    if found is None:
        found = _specs[key] = themed(chart, theme)
        weakref.finalize(chart, _specs.pop, key, None)
    return found


def show_chart(page: Page, drawing: Drawing, key: str, *, select: str | None = None) -> Any:
    """Draws a chart; returns what is selected in it if ``select`` names a selection parameter of its spec, else null.

    What is larger than the column scrolls sideways, so that labels keep their size on a narrow screen.
    """
    if drawing.chart is None:
        st.info(plain(drawing.caption))
        return None
    spec = _spec(drawing.chart, page.theme)
    options: dict[str, Any] = {} if select is None else {"on_select": "rerun", "selection_mode": select}
    selected = vega_chart(spec, key, width="content", **options)
    if drawing.caption:
        st.caption(plain(drawing.caption))
    return None if select is None else selected.get(select)
