"""Tables in which a click on a row changes the URL, and the URL selects a row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from tpuprof_dashboards.columns import MOST_ROWS, Shown, show_table
from tpuprof_dashboards.page import update

Changes = Mapping[str, str | None]


def pick_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Shown],
    key: str,
    changes: Callable[[Mapping[str, Any]], Changes],
    *,
    picked: int | None = None,
    otherwise: Changes | None = None,
    total: int | None = None,
    height: int | Literal["auto", "content", "stretch"] = "auto",
) -> None:
    """Draws the rows; selecting one changes the URL.

    Args:
        rows: as for ``show_table``.
        columns: likewise.
        key: of the table on its page.
        changes: what the URL says once a row was selected: filter → value.
        picked: the row that the URL says is selected.
        otherwise: what the URL says once the row was unselected; null to leave it as it is.
        total: how many rows there are in all.
        height: as for ``show_table``.
    """
    shown = rows[:MOST_ROWS]
    at = picked if picked is not None and picked < len(shown) else None
    # The browser keeps what was selected for as long as the key stays: it changes with the rows, and when something
    # else than this table selected one, so that no row looks selected that is not.
    memory = f"tpuprof.picked.{key}"
    seed, last = st.session_state.get(memory, (None, None))
    if memory not in st.session_state or last != at:
        seed = at
        st.session_state[memory] = (seed, at)
    names = "\n".join(str(next(iter(row.values()), "")) for row in shown)
    print_ = hashlib.sha256(names.encode(errors="replace")).hexdigest()[:12]
    widget = f"{key}.{print_}.{seed}"

    def on_select() -> None:
        found = [int(row) for row in st.session_state[widget]["selection"]["rows"]]
        chosen = found[0] if found and found[0] < len(shown) else None
        st.session_state[memory] = (seed, chosen)
        if chosen is not None:
            update(**changes(shown[chosen]))
        elif otherwise is not None:
            update(**otherwise)

    show_table(
        rows, columns, widget, total=total, select="single-row", height=height, on_select=on_select, selected=at
    )  # fmt: skip
