"""A window as data for the browser: two Arrow tables of numbers, and what they mean as plain values.

Times are picoseconds as 64-bit floats: in the tables from the window's start, elsewhere from the timeline's start. They
are whole numbers, and exact up to 2**53 ps, which is 2.5 hours.

====================  ================================================================================================
``events``            ``row`` u16 · ``start`` f64 · ``length`` f64 (NaN if unknown) · ``self`` f64 (NaN if it is the
                      length) · ``item`` i32 · ``position`` i32 (in the row)
``blocks``            ``row`` u16 · ``start`` f64 · ``span`` f64 · ``busy`` f64 · ``count`` i32 · ``hits`` i32 ·
                      ``colour`` u8
``matches``           as ``events``, of the whole run; ``row`` i32 is the row's number; only in a search
====================  ================================================================================================

``row`` of events and blocks counts the rows of the window, whose numbers are ``window.rows``; both are in order of
(row, start). Names from traces are values of ``items`` and of the layout, never markup.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.tables.arrays import ints
from tpuprof.tables.schemas import OPS
from tpuprof_dashboards.timeline.lod import Cut
from tpuprof_dashboards.timeline.lod import cut as cut_row
from tpuprof_dashboards.timeline.looks import COLOURS
from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.rows import I64, Events, Row
from tpuprof_dashboards.timeline.search import nearest
from tpuprof_dashboards.timeline.window import Window

MAX_ITEMS = 5_000
MAX_TEXT_BYTES = 600_000
"""Items described in one answer: those with most time in view. Others are named when one looks closer."""

MAX_MATCHES = 5_000
MAX_NAME, MAX_TEXT = 200, 300
Columns = dict[str, npt.NDArray[Any]]
_NOWHERE = np.zeros(0, np.int64)
_EMPTY = Row(
    Events(_NOWHERE, _NOWHERE, np.zeros(0, np.int32)),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint8),
    np.zeros((1, 0), np.int64),
)


def layout(model: TimelineModel) -> dict[str, Any]:
    """What does not change while one looks at a run: groups, tracks, colours, definitions."""
    groups: list[dict[str, Any]] = []
    first = 0
    for group in model.groups:
        tracks: list[dict[str, Any]] = []
        for track in group.tracks:
            tracks.append(
                {
                    "name": _short(track.name, MAX_NAME),
                    "about": track.about,
                    "first": first,
                    "rows": len(track.rows),
                    "events": len(track),
                    "work": track.is_work,
                }
            )
            first += len(track.rows)
        groups.append(
            {"name": _short(group.name, MAX_NAME), "device": group.device, "note": group.note, "tracks": tracks}
        )
    return {
        "token": model.token,
        "run": _short(model.name, MAX_NAME),
        "origin": model.start,
        "span": model.end - model.start,
        "home": [model.home[0] - model.start, model.home[1] - model.start],
        "events": model.n_events,
        "groups": groups,
        "colours": [[c.key, c.label, c.light, c.dark] for c in COLOURS],
        "overview": [round(float(share), 3) for share in model.busy],
        "about": {
            "start": OPS["start_ps"].meaning,
            "duration": OPS["duration_ps"].meaning,
            "self": OPS["self_ps"].meaning,
            "scope": OPS["scope"].meaning,
        },
        "notes": list(model.notes),
    }


def window_data(model: TimelineModel, window: Window) -> dict[str, Any]:
    """Tables ``events``, ``blocks`` and ``matches`` of a window, and ``window``, ``items`` and ``texts`` with them."""
    events, matches = event_columns(model, window), match_columns(model, window)
    weight = np.bincount(events["item"], np.nan_to_num(events["length"]), minlength=len(model.items)).astype(np.float64)
    used = np.unique(np.concatenate([events["item"], matches["item"]]))
    return {
        "window": {
            "number": window.request.number,
            "t0": window.t0 - model.start,
            "t1": window.t1 - model.start,
            "level": window.level,
            "rows": list(window.request.rows),
            "query": window.request.query,
            "near": window.request.near - model.start,
            "found": None if window.hits is None else len(window.hits),
        },
        "events": _arrow(events),
        "blocks": _arrow(block_columns(model, window)),
        "matches": _arrow(matches),
        **_items(model, window, used, weight),
    }


def event_columns(model: TimelineModel, window: Window) -> Columns:
    """The columns of table ``events``."""
    parts: list[Columns] = []
    for number, (row, cut) in enumerate(zip(window.request.rows, window.cuts, strict=True)):
        of_row = _described(model.rows[row], cut.event, window.t0)
        parts.append({"row": np.full(len(cut.event), number, np.uint16), **of_row})
    return _joined(parts, {"row": np.zeros(0, np.uint16), **_described(_EMPTY, _NOWHERE, 0)})


def block_columns(model: TimelineModel, window: Window) -> Columns:
    """The columns of table ``blocks``."""
    parts: list[Columns] = []
    for number, (row, cut) in enumerate(zip(window.request.rows, window.cuts, strict=True)):
        parts.append(_blocks(model.rows[row], cut, number, window.t0))
    return _joined(parts, _blocks(_EMPTY, cut_row(_EMPTY, 0, 1, 0), 0, 0))


def match_columns(model: TimelineModel, window: Window) -> Columns:
    """The columns of table ``matches``: those nearest to where one looks, in order of (start, row)."""
    empty = {"row": np.zeros(0, np.int32), **_described(_EMPTY, _NOWHERE, 0)}
    if window.hits is None:
        return empty
    found = nearest(model, window.hits, window.request.near, MAX_MATCHES)
    order = np.argsort(found.row, kind="stable")
    parts: list[Columns] = []
    for number in ints(np.unique(found.row)):
        at = found.position[found.row == number]
        of_row = _described(model.rows[number], at, model.start)
        parts.append({"row": np.full(len(at), number, np.int32), **of_row})
    by_row = _joined(parts, empty)
    back = np.argsort(order, kind="stable")
    return {name: column[back] for name, column in by_row.items()}


def _described(row: Row, at: I64, t0: int) -> Columns:
    """Events of a row: start from t0, length (NaN if unknown), self time (NaN if it is the length), item, position."""
    events = row.events
    start, whole = (events.start[at] - t0).astype(np.float64), events.end[at] - events.start[at]
    length, own = whole.astype(np.float64), np.full(len(at), np.nan)
    if events.self_ps is not None:
        own = np.where(events.self_ps[at] == whole, np.nan, events.self_ps[at])
    if events.known is not None:
        length[~events.known[at]] = np.nan
    return {"start": start, "length": length, "self": own, "item": events.item[at], "position": at.astype(np.int32)}


def _blocks(row: Row, cut: Cut, number: int, t0: int) -> Columns:
    start = row.events.start[cut.first]
    return {
        "row": np.full(len(start), number, np.uint16),
        "start": (start - t0).astype(np.float64),
        "span": (row.events.end[cut.last - 1] - start).astype(np.float64),
        "busy": cut.busy.astype(np.float64),
        "count": (cut.last - cut.first).astype(np.int32),
        "hits": cut.hits.astype(np.int32),
        "colour": cut.colour,
    }


def _joined(parts: list[Columns], empty: Columns) -> Columns:
    return {name: np.concatenate([part[name] for part in (empty, *parts)], dtype=empty[name].dtype) for name in empty}


def _items(
    model: TimelineModel, window: Window, used: npt.NDArray[Any], weight: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """The items in use, those with most time in view first, and the texts that they share."""
    hits = window.hits
    texts: dict[str, int] = {"": 0}
    room = MAX_TEXT_BYTES

    def text(value: str) -> int:
        nonlocal room
        value = _short(value, MAX_TEXT)
        if value not in texts:
            room -= _size(value)
        return texts.setdefault(value, len(texts))

    rows: list[list[Any]] = []
    for number in ints(used[np.argsort(-weight[used], kind="stable")][:MAX_ITEMS]):
        item = model.items[number]
        name = _short(item.name, MAX_NAME)
        room -= _size(name)
        if room < 0:
            break
        shared = [text(t) for t in (item.kind, item.scope, item.source, item.module, item.category)]
        rows.append([number, name, item.colour, *shared, int(hits is not None and bool(hits.items[number]))])
    return {"items": rows, "texts": list(texts)}


def _size(text: str) -> int:
    """About how many bytes a text takes as JSON, whose other characters are escaped."""
    return 8 + len(text.encode("ascii", "backslashreplace"))


def _arrow(columns: Columns) -> Any:
    arrow: Any = import_module("pyarrow")  # it has no types
    return arrow.table(columns)


def _short(text: str, limit: int) -> str:
    """The text, its middle left out where it is too long; without lone surrogates, which no UTF-8 can hold."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}…{text[-limit // 3 :]}"
