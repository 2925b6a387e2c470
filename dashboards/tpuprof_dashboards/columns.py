"""Tables: numbers stay numbers, so that they sort, and are scaled once per column, so that they read.

    show_table(rows, [Shown("name", "op"), Shown("self_ps", "self time"), Shown("roofline_efficiency", "efficiency")])

The unit comes from the end of the column's name, as everywhere in tpuprof, and stands in the heading.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import streamlit as st

from tpuprof.charts.drawing import number, time_unit
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, si_step
from tpuprof_dashboards.definitions import meaning
from tpuprof_dashboards.ui import selectable_table

Scale = Literal[
    "time", "seconds", "bytes", "flops", "flop_rate", "byte_rate", "percent", "count", "number", "text", "link"
]

_UNITS: dict[str, str] = {"bytes": "B", "flops": "FLOP", "flop_rate": "FLOP/s", "byte_rate": "B/s"}
_ENDINGS: tuple[tuple[tuple[str, ...], Scale], ...] = (
    (("_ps",), "time"),
    (("bandwidth", "_bytes_per_s"), "byte_rate"),
    (("_flops_per_s",), "flop_rate"),
    (("bytes",), "bytes"),
    (("flops",), "flops"),
    (("fraction", "efficiency", "share", "utilisation"), "percent"),
    (("count", "occurrences", "participants"), "count"),
    (("url",), "link"),
)
MOST_ROWS = 1000
"""Rows sent to the browser at most; what is left out is said below the table."""
_LONGEST = 300
_ROW_PX = 35
_LARGE = 1e5


@dataclass(frozen=True, slots=True)
class Shown:
    """One column.

    Args:
        key: the row's key, with its unit (``self_ps``).
        label: the heading, without unit.
        scale: how to scale it; null to go by the key.
        help: what it means; null for the meaning that the schemas give it.
        width: of the column.
        pinned: keeps its place when the table is scrolled sideways.
        bar: draw the value as a bar, for shares; it is full for the largest one.
        display: for links, the key of the text they show.
    """

    key: str
    label: str
    scale: Scale | None = None
    help: str | None = None
    width: Literal["small", "medium", "large"] | int | None = None
    pinned: bool = False
    bar: bool = False


def show_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Shown],
    key: str,
    *,
    total: int | None = None,
    select: Literal["single-row", "multi-row"] | None = None,
    height: int | Literal["auto", "content", "stretch"] = "auto",
    on_select: Callable[[], None] | None = None,
    selected: int | None = None,
) -> list[int]:
    """Draws the rows and returns which of them are selected, as positions in ``rows``.

    Args:
        rows: plain dictionaries; at most :data:`MOST_ROWS` of them are sent.
        columns: what to show, in order; columns that are null in all rows are left out.
        key: of the widget.
        total: how many rows there are in all, if ``rows`` are the first of more.
        select: let people select rows.
        height: as for ``st.dataframe``.
        on_select: called when people select something; by default the page just runs again.
        selected: the row that is selected at first.
    """
    sent = list(rows[:MOST_ROWS])
    present = [column for column in columns if any(row.get(column.key) is not None for row in sent)]
    frame, config = _frame(sent, present)
    options: dict[str, Any] = {}
    if select is not None:
        options = {"on_select": on_select or "rerun", "selection_mode": select}
    if select is not None and selected is not None:
        options["selection_default"] = {"selection": {"rows": [selected]}}
    found = selectable_table(
        frame, key, hide_index=True, column_config=config, height=height, width="stretch", placeholder="n/a", **options
    )
    count = len(rows) if total is None else total
    if count > len(sent):
        st.caption(f"The first {len(sent):,} of {count:,} rows. Narrow them down by search or filters.")
    return [at for at in found if at < len(sent)]


def height_for(count: int, most: int = 11) -> int | Literal["content"]:
    """The height of a table that shows up to ``most`` rows at once and scrolls beyond."""
    return "content" if count <= most else _ROW_PX * (most + 1) + 2


def scale_of(key: str) -> Scale:
    """How a column is scaled, by the end of its name."""
    for names, scale in _ENDINGS:
        if key.endswith(names):
            return scale
    return "text"


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[Shown]) -> tuple[pd.DataFrame, dict[str, Any]]:
    data: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for column in columns:
        scale = column.scale or scale_of(column.key)
        values = [row.get(column.key) for row in rows]
        common: dict[str, Any] = {"help": column.help or meaning(column.key), "width": column.width}
        common["pinned"] = column.pinned or None
        if scale == "text":
            data[column.key] = [None if value is None else clean(value)[:_LONGEST] for value in values]
            config[column.key] = st.column_config.TextColumn(column.label, **common)
        elif scale == "link":
            data[column.key] = values
            config[column.key] = st.column_config.LinkColumn(
                column.label, display_text=":material/open_in_new:", **common
            )
        else:
            data[column.key], config[column.key] = _numbers(column, scale, values, common)
    return pd.DataFrame(data), config


def _numbers(column: Shown, scale: Scale, values: list[Any], common: dict[str, Any]) -> tuple[Any, Any]:
    numbers = pd.Series([number(value) for value in values], dtype="float64")
    largest = float(numbers.abs().max()) if numbers.notna().any() else 0.0
    if scale == "percent":
        if column.bar:
            top = largest or 1.0  # full for the largest: shares of many small things could not be told apart else
            return numbers, st.column_config.ProgressColumn(
                column.label, format="percent", min_value=0.0, max_value=top, **common
            )
        return numbers * 100, st.column_config.NumberColumn(f"{column.label} (%)", format="%.2f", **common)
    if scale in ("count", "number"):
        if largest >= _LARGE:
            numbers = numbers.round()  # fractions of such figures say nothing, and whole ones get their commas
        whole = bool((numbers.dropna() % 1 == 0).all())
        return numbers, st.column_config.NumberColumn(column.label, format="localized" if whole else "%.4g", **common)
    divisor, unit = unit_for(scale, largest)
    label = f"{column.label} ({unit})" if unit and largest else column.label  # nothing but zeros has no unit
    scaled = numbers / divisor
    return scaled, st.column_config.NumberColumn(label, format=_format(scaled.abs()), **common)


def unit_for(scale: Scale, largest: float) -> tuple[float, str]:
    """What to divide a column by whose largest value is ``largest``, and the unit then."""
    if scale in ("time", "seconds"):
        divisor, unit = time_unit(largest * (PS_PER_S if scale == "seconds" else 1))
        return divisor / (PS_PER_S if scale == "seconds" else 1), unit
    divisor, prefix = si_step(largest)
    return divisor, prefix + _UNITS.get(scale, "")


def _format(sizes: Any) -> str:
    """As many decimals for all, so that figures align, and three figures of each where the smallest would be zero."""
    digits = _digits(float(sizes.max()) if sizes.notna().any() else 0.0)
    present = sizes[sizes > 0]
    needed = -math.floor(math.log10(float(present.min()))) if len(present) and math.isfinite(present.min()) else 0
    return f"%.{max(digits, needed)}f" if needed <= digits + 1 else "%.3g"


def _digits(largest: float) -> int:
    """Decimals that leave about four figures of the largest value and still tell small ones apart."""
    if largest <= 0 or not math.isfinite(largest):
        return 1
    return max(1, 3 - math.floor(math.log10(largest)))
