"""A window as data for the browser: two Arrow tables of numbers, and what they mean as plain values.

Times are picoseconds as 64-bit floats: in the tables from the window's start, elsewhere from the timeline's start. They
are whole numbers, and exact up to 2**53 ps, which is 2.5 hours.

====================  ================================================================================================
``events``            ``row`` u16 · ``start`` f64 · ``length`` f64 (NaN if unknown) · ``self`` f64 (NaN if it is the
                      length) · ``item`` i32 · ``position`` i32 (in the row)
``blocks``            ``row`` u16 · ``start`` f64 · ``span`` f64 · ``busy`` f64 · ``count`` i32 · ``hits`` i32 ·
                      ``colour`` u8
``matches``           ``row`` i32 · ``start`` f64 · ``length`` f64 · ``item`` i32 · ``position`` i32; only in a search
====================  ================================================================================================

``row`` of events and blocks counts the rows of the window, whose numbers are ``window.rows``; both are in order of
(row, start). Names from traces are values of ``items`` and of the layout, never markup.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tpuprof.tables.arrays import ints
from tpuprof.tables.schemas import OPS
from tpuprof_dashboards.timeline.looks import COLOURS
from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.search import nearest
from tpuprof_dashboards.timeline.window import Window

MAX_ITEMS = 5_000
"""Items described in one answer: those with most time in view. Others are named when one looks closer."""

MAX_MATCHES = 5_000
MAX_NAME, MAX_TEXT = 200, 300


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
        "span": model.end - model.start,
        "home": [model.home[0] - model.start, model.home[1] - model.start],
        "events": model.n_events,
        "groups": groups,
        "colours": [[c.key, c.label, c.light, c.dark] for c in COLOURS],
        "overview": [round(float(share), 3) for share in model.busy],
        "about": {"duration": OPS["duration_ps"].meaning, "self": OPS["self_ps"].meaning, "scope": OPS["scope"].meaning},
        "notes": list(model.notes),
    }


def window_data(model: TimelineModel, window: Window) -> dict[str, Any]:
    """The tables ``events``, ``blocks`` and ``matches`` of a window, and ``window``, ``items`` and ``texts`` with them."""
    events, weight = _events(model, window)
    matches, near = _matches(model, window)
    used = np.unique(np.concatenate([events["item"].to_numpy(), near])) if len(near) else events["item"].to_numpy()
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
        "events": events,
        "blocks": _blocks(model, window),
        "matches": matches,
        **_items(model, window, used, weight),
    }


def _events(model: TimelineModel, window: Window) -> tuple[pa.Table, npt.NDArray[np.float64]]:
    """The table of events, and for each item its time in view."""
    parts: dict[str, list[npt.NDArray[Any]]] = {n: [] for n in ("row", "start", "length", "self", "item", "position")}
    for number, (row, cut) in enumerate(zip(window.request.rows, window.cuts, strict=True)):
        events, at = model.rows[row].events, cut.event
        length = (events.end[at] - events.start[at]).astype(np.float64)
        own = np.full(len(at), np.nan)
        if events.self_ps is not None:
            of_children = events.self_ps[at] != events.end[at] - events.start[at]
            own = np.where(of_children, events.self_ps[at], np.nan)
        if events.known is not None:
            length[~events.known[at]] = np.nan
        parts["row"].append(np.full(len(at), number, np.uint16))
        parts["start"].append((events.start[at] - window.t0).astype(np.float64))
        parts["length"].append(length)
        parts["self"].append(own)
        parts["item"].append(events.item[at])
        parts["position"].append(at.astype(np.int32))
    table = _table(parts, {"row": np.uint16, "item": np.int32, "position": np.int32})
    item = table["item"].to_numpy()
    weight = np.bincount(item, np.nan_to_num(table["length"].to_numpy()), minlength=len(model.items))
    return table, weight


def _blocks(model: TimelineModel, window: Window) -> pa.Table:
    parts: dict[str, list[npt.NDArray[Any]]] = {
        n: [] for n in ("row", "start", "span", "busy", "count", "hits", "colour")
    }
    for number, (row, cut) in enumerate(zip(window.request.rows, window.cuts, strict=True)):
        events = model.rows[row].events
        start = events.start[cut.first]
        parts["row"].append(np.full(len(start), number, np.uint16))
        parts["start"].append((start - window.t0).astype(np.float64))
        parts["span"].append((events.end[cut.last - 1] - start).astype(np.float64))
        parts["busy"].append(cut.busy.astype(np.float64))
        parts["count"].append((cut.last - cut.first).astype(np.int32))
        parts["hits"].append(cut.hits.astype(np.int32))
        parts["colour"].append(cut.colour)
    return _table(parts, {"row": np.uint16, "count": np.int32, "hits": np.int32, "colour": np.uint8})


def _matches(model: TimelineModel, window: Window) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """The matches nearest to where one looks, and their items."""
    empty = np.zeros(0, np.int64)
    row, position = empty, empty
    if window.hits is not None:
        found = nearest(model, window.hits, window.request.near, MAX_MATCHES)
        row, position = found.row, found.position
    start, length, item = (np.zeros(len(row), dtype) for dtype in (np.int64, np.float64, np.int32))
    for number in ints(np.unique(row)):
        of_row, events = row == number, model.rows[number].events
        at = position[of_row]
        start[of_row], item[of_row] = events.start[at], events.item[at]
        length[of_row] = events.end[at] - events.start[at]
    table = pa.table(
        {
            "row": row.astype(np.int32),
            "start": (start - model.start).astype(np.float64),
            "length": length,
            "item": item,
            "position": position.astype(np.int32),
        }
    )
    return table, item


def _items(
    model: TimelineModel, window: Window, used: npt.NDArray[Any], weight: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """The items in use, those with most time in view first, and the texts that they share."""
    hits = window.hits
    numbers = np.unique(used)
    numbers = numbers[np.argsort(-weight[numbers], kind="stable")][:MAX_ITEMS]
    texts: dict[str, int] = {"": 0}

    def text(value: str) -> int:
        return texts.setdefault(_short(value, MAX_TEXT), len(texts))

    rows = [
        [
            number,
            _short(item.name, MAX_NAME),
            item.colour,
            text(item.kind),
            text(item.scope),
            text(item.source),
            text(item.module),
            text(item.category),
            int(hits is not None and bool(hits.items[number])),
        ]
        for number in ints(numbers)
        for item in (model.items[number],)
    ]
    return {"items": rows, "texts": list(texts)}


def _table(parts: dict[str, list[npt.NDArray[Any]]], dtypes: dict[str, Any]) -> pa.Table:
    return pa.table(
        {
            name: np.concatenate(columns) if columns else np.zeros(0, dtypes.get(name, np.float64))
            for name, columns in parts.items()
        }
    )


def _short(text: str, limit: int) -> str:
    """The text, its middle left out where it is too long; without lone surrogates, which no UTF-8 can hold."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}…{text[-limit // 3 :]}"
