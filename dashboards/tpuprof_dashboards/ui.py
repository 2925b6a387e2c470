"""The functions of streamlit whose types are unknown in part, given types in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import streamlit

_untyped = cast("Any", streamlit)


def component(name: str, js: str, css: str = "", html: str = "") -> Any:
    """``st.components.v2.component``: registers a component of ours and returns what mounts it."""
    return _untyped.components.v2.component(name, html=html or None, css=css or None, js=js)


def selectable_table(frame: Any, key: str, **options: Any) -> list[int]:
    """``st.dataframe``; the positions of the selected rows, none where rows cannot be selected."""
    state = _untyped.dataframe(frame, key=key, **options)
    return [int(at) for at in state["selection"]["rows"]] if "on_select" in options else []


def vega_chart(spec: Mapping[str, Any], key: str, **options: Any) -> dict[str, Any]:
    """``st.vega_lite_chart`` of a whole spec; what is selected in it by parameter, empty where nothing can be."""
    state = _untyped.vega_lite_chart(spec=spec, theme=None, key=key, **options)
    return dict(state["selection"]) if "on_select" in options else {}
