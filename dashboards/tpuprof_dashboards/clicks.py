"""Clicks in charts and tables: what is selected there stays selected, so that each selection counts once.

A page that sets a filter by a click must let people take the filter away while the row is still marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import streamlit as st


def newly(key: str, selected: object) -> bool:
    """True on the rerun in which the selection of a widget changed to something.

    Args:
        key: of the widget.
        selected: what is selected in it; anything empty or null for nothing.
    """
    name = f"clicks.{key}"
    before, now = st.session_state.get(name), repr(selected) if selected else None
    st.session_state[name] = now
    return now is not None and now != before


def mark_fields(selected: Any) -> dict[str, Any]:
    """The fields of the mark that was clicked in a chart; empty where none is selected.

    Args:
        selected: the state of a point selection with fields: what ``show_chart`` returns.
    """
    marks = cast("list[Any]", selected) if isinstance(selected, list) else []
    return dict(cast("Mapping[str, Any]", marks[-1])) if marks and isinstance(marks[-1], Mapping) else {}
