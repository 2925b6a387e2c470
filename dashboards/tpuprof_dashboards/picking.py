"""Tables and charts in which a click changes the URL, and nothing but the URL says what is selected."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from tpuprof_dashboards.columns import MOST_ROWS, Shown, show_table
from tpuprof_dashboards.drawing import show_chart
from tpuprof_dashboards.page import update

if TYPE_CHECKING:
    from tpuprof.charts import Drawing
    from tpuprof_dashboards.page import Page

Changes = Mapping[str, str | None]
_MEMORY = "tpuprof.picked."


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
    names = "\n".join(str(next(iter(row.values()), "")) for row in shown)
    print_ = hashlib.sha256(names.encode(errors="replace")).hexdigest()[:12]
    widget = f"{key}.{print_}.{_generation(key, at)}"

    def on_select() -> None:
        found = [int(row) for row in st.session_state[widget]["selection"]["rows"]]
        chosen = found[0] if found and found[0] < len(shown) else None
        _remember(key, chosen)
        if chosen is not None:
            update(**changes(shown[chosen]))
        elif otherwise is not None:
            update(**otherwise)

    show_table(
        rows, columns, widget, total=total, select="single-row", height=height, on_select=on_select, selected=at
    )  # fmt: skip


def pick_mark(
    page: Page,
    drawing: Drawing,
    key: str,
    select: str,
    changes: Callable[[Mapping[str, Any]], Changes],
    picked: Hashable,
) -> None:
    """Draws a chart; clicking a mark changes the URL.

    Args:
        page: the page.
        drawing: the chart; it marks what is selected itself.
        key: of the chart on its page.
        select: the chart's selection parameter.
        changes: what the URL says once a mark with these fields was clicked; empty for nothing else than before.
        picked: what the URL says is selected; the browser forgets its own selection whenever that changes.
    """

    def on_select(marks: list[dict[str, Any]]) -> None:
        if marks:
            update(**changes(marks[-1]))

    show_chart(page, drawing, f"{key}.{_generation(key, picked)}", select=select, on_select=on_select)


def _generation(name: str, current: Hashable) -> int:
    """A part of the key of a widget in which people select things: changes whenever something else selected one.

    The browser keeps what was selected in a widget for as long as its key stays. So nothing looks selected that is
    not, and what is not selected any more can be clicked again.

    Args:
        name: of the widget.
        current: what is selected now, as the URL has it.
    """
    number, last = st.session_state.get(_MEMORY + name, (0, current))
    if last != current:
        number += 1
    st.session_state[_MEMORY + name] = (number, current)
    return number


def _remember(name: str, chosen: Hashable) -> None:
    """Notes that it was the widget itself in which this was selected; for its callback."""
    number, _ = st.session_state.get(_MEMORY + name, (0, None))
    st.session_state[_MEMORY + name] = (number, chosen)
