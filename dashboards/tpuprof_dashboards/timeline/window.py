"""What of a timeline is drawn: a request for a stretch of some rows, and its answer of bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuprof_dashboards.timeline.lod import MAX_LEVEL, NO_HITS, Cut, aligned, cut, entries, level_for
from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.search import MAX_QUERY, Hits, search

MAX_ROWS = 160
"""Rows of one answer: more than fit a screen."""

FIRST_ROWS = 64
FEW_DEVICES, MANY_DEVICES = 2, 8
BUDGET = 24_000
"""Events and blocks of one answer; it gets coarser until it keeps to that."""

MAX_WIDTH_PX = 16_384
DEFAULT_WIDTH_PX = 1_600


@dataclass(frozen=True, slots=True)
class Request:
    """What a browser wants to draw.

    Args:
        t0: start, in ps on the trace's clock.
        t1: end, after it.
        width_px: how many pixels that are.
        rows: numbers of rows, ascending.
        query: what is searched for; empty for nothing.
        near: matches are wanted around this time.
        number: counts the requests of one browser, so that it knows an answer.
    """

    t0: int
    t1: int
    width_px: int
    rows: tuple[int, ...]
    query: str = ""
    near: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What is drawn of ``[t0, t1)``, which covers what was asked for: a cut of each row, at one level."""

    request: Request
    t0: int
    t1: int
    level: int
    cuts: tuple[Cut, ...]
    hits: Hits | None

    def __len__(self) -> int:
        return sum(len(each) for each in self.cuts)


def first_request(model: TimelineModel, view: tuple[int, int] | None = None, query: str = "") -> Request:
    """What is asked for before a browser has said anything: the view and half of it on both sides."""
    t0, t1 = view or model.home
    half = max(t1 - t0, 1) // 2
    rows = rows_at_first(model)
    start, end = max(t0 - half, model.start), min(t1 + half, model.end)
    return Request(start, max(end, start + 1), 2 * DEFAULT_WIDTH_PX, rows, query, t0)


def closed_at_first(model: TimelineModel) -> set[int]:
    """Numbers of groups that are closed at first: hosts beside several devices, and all devices but one of many."""
    devices = sum(1 for group in model.groups if group.device)
    return {
        number
        for number, group in enumerate(model.groups)
        if (devices > MANY_DEVICES and number > 0 if group.device else devices > FEW_DEVICES)
    }


def rows_at_first(model: TimelineModel) -> tuple[int, ...]:
    """Numbers of the rows that are on screen before anything is opened: of closed devices those with their ops."""
    closed = closed_at_first(model)
    found: list[int] = []
    first = 0
    for number, group in enumerate(model.groups):
        starts = [first + sum(len(track.rows) for track in group.tracks[:at]) for at in range(len(group.tracks) + 1)]
        work = [start for start, track in zip(starts, group.tracks, strict=False) if track.is_work]
        found.extend(work[:1] if number in closed else range(first, starts[-1]))
        first = starts[-1]
    return tuple(found[:FIRST_ROWS])


def parse_request(raw: object, model: TimelineModel) -> Request | None:
    """A request as a browser sent it, in ps from the timeline's start; null if it makes no sense."""
    if not isinstance(raw, Mapping):
        return None
    values: Mapping[Any, Any] = raw  # pyright: ignore[reportUnknownVariableType]
    t0, t1, near = (_number(values.get(name)) for name in ("t0", "t1", "near"))
    width, number = _number(values.get("width")), _number(values.get("number"))
    if t0 is None or t1 is None or width is None or t1 <= t0:
        return None
    start = min(max(t0, 0), model.end - model.start - 1)
    end = min(max(t1, start + 1), model.end - model.start)
    query = values.get("query")
    return Request(
        model.start + start,
        model.start + end,
        min(max(width, 1), MAX_WIDTH_PX),
        _rows(values.get("rows"), len(model.rows)),
        query[:MAX_QUERY] if isinstance(query, str) else "",
        model.start + min(max(near or 0, 0), model.end - model.start),
        number or 0,
    )


def query(model: TimelineModel, request: Request) -> Window:
    """The answer to a request: as fine as half a pixel if that keeps to ``BUDGET``, else as fine as it can be."""
    hits = search(model, request.query)
    level = level_for(request.t1 - request.t0, request.width_px)
    while (total := _entries(model, request, level)) > BUDGET and level < MAX_LEVEL:
        # A level more halves the buckets, and so the entries at most.
        level = min(level + max((total // BUDGET).bit_length() - 1, 1), MAX_LEVEL)
    cuts = tuple(
        cut(model.rows[row], request.t0, request.t1, level, NO_HITS if hits is None else hits.rows[row])
        for row in request.rows
    )
    t0, t1 = aligned(request.t0, request.t1, level)
    return Window(request, t0, t1, level, cuts, hits)


def _entries(model: TimelineModel, request: Request, level: int) -> int:
    return sum(entries(model.rows[row], request.t0, request.t1, level) for row in request.rows)


def _number(value: object) -> int | None:
    """A finite number as an integer of at most 62 bits; null for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(min(max(value, -(1 << 62)), 1 << 62))


def numbers(value: object) -> tuple[int, ...]:
    """A list of finite numbers as integers; empty if it is anything else."""
    found = tuple(_number(each) for each in _sequence(value))
    return tuple(each for each in found if each is not None) if None not in found else ()


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()  # pyright: ignore[reportUnknownVariableType]


def _rows(value: object, known: int) -> tuple[int, ...]:
    """Row numbers from ranges ``[first, behind the last]``; what does not exist is left out."""
    found: set[int] = set()
    for pair in _sequence(value):
        bounds = numbers(pair)
        if len(bounds) == 2:
            first = max(bounds[0], 0)
            found.update(range(first, min(bounds[1], known, first + MAX_ROWS)))
    return tuple(sorted(found)[:MAX_ROWS])
