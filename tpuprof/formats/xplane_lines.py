"""The lines of a plane: counted, merged over chunks, decoded in threads, repaired.

A line's arrays are allocated once at their final size, and every chunk is decoded into its own rows of them, so a
plane is never held twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tpuprof.formats.xplane_chunks import Chunk, Notes
from tpuprof.formats.xplane_metadata import Metadata
from tpuprof.formats.xplane_wire import (
    Decoded,
    LinePart,
    Pages,
    Segment,
    allocate,
    count_line,
    decode,
    intern_blobs,
)
from tpuprof.formats.xspace import I64, U8, Events, Line

MAX_THREADS = 8
_THREADS_PAY_BYTES = 1 << 20
_PS_PER_NS = 1000
_INT64 = np.iinfo(np.int64)

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(slots=True, eq=False)
class _Draft:
    """A merged line while it is decoded: its parts with the number of their chunk and their first rows."""

    parts: list[tuple[int, LinePart, int, int]]
    events: Events
    texts: int = 0
    holes: int = 0  # stats without a value, to be dropped


def read_lines(
    buffer: U8, pages: Pages, chunks: Sequence[Chunk], metadata: Metadata, notes: Notes, where: str = ""
) -> tuple[tuple[Line, ...], tuple[bytes, ...]]:
    """All lines of a plane and the values of their STR and BYTES stats.

    Lines with the same id and name are one line. Ids without metadata get made-up names in ``metadata``.
    """

    def count(span: list[int]) -> LinePart:
        part = count_line(buffer, *span)
        pages.release(*span)
        return part

    groups: dict[tuple[int, bytes], list[tuple[int, LinePart]]] = {}
    for index, chunk in enumerate(chunks):
        parts = _map(count, chunk.lines.tolist(), _size)
        for part in _whole_parts(buffer, index, parts, metadata, notes) if chunk.cut else parts:
            groups.setdefault((part.id, part.name), []).append((index, part))
            notes.damaged += part.defects
    drafts = [_draft(parts) for group in groups.values() for parts in _same_clock(group)]
    _decode(buffer, pages, drafts, metadata, notes, where)
    blobs: dict[bytes, int] = {}
    lines = tuple(_finish(buffer, draft, blobs, notes) for draft in drafts)
    return lines, tuple(blobs)


def _size(span: list[int]) -> int:
    return span[1] - span[0]


def _map(function: Callable[[_T], _R], items: Sequence[_T], size: Callable[[_T], int]) -> list[_R]:
    """Map in threads if there is enough work for them; the compiled loops release the GIL."""
    threads = min(
        MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if threads < 2 or len(items) < 2 or sum(map(size, items)) < _THREADS_PAY_BYTES:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _whole_parts(buffer: U8, index: int, parts: Iterable[LinePart], metadata: Metadata, notes: Notes) -> list[LinePart]:
    """The lines of a cut chunk that can be trusted: those for which all metadata was read before the cut.

    Metadata is normally written after the lines. Without it ops have no names and, worse, the stats that correct
    their times would be lost silently.
    """
    whole: list[LinePart] = []
    for part in parts:
        draft = _draft([(index, part)])
        missing = _missing(buffer, list(Segment.cut(part, 0, 0)), index, draft.events, metadata)
        if all(metadata.is_defined(index, which, key) for which, key in missing):
            whole.append(part)
        else:
            notes.dropped_lines += 1
    return whole


def _same_clock(group: list[tuple[int, LinePart]]) -> list[list[tuple[int, LinePart]]]:
    """The group as one list, or as several where timestamps are too far apart for offsets in one int64."""
    base: int | None = None
    result: list[list[tuple[int, LinePart]]] = [[]]
    for index, part in group:
        if part.n_events and base is None:
            base = part.timestamp_ns
        if part.n_events and base is not None and abs(part.timestamp_ns - base) * _PS_PER_NS > _INT64.max // 2:
            base = part.timestamp_ns
            result.append([])
        result[-1].append((index, part))
    return result


def _draft(parts: Sequence[tuple[int, LinePart]]) -> _Draft:
    placed: list[tuple[int, LinePart, int, int]] = []
    event = stat = 0
    for index, part in parts:
        placed.append((index, part, event, stat))
        event += part.n_events
        stat += part.n_stats
    if event == 0:
        return _Draft(placed, Events.empty())
    return _Draft(placed, allocate(event, stat, any(part.n_aggregated for _, part in parts)))


def _decode(buffer: U8, pages: Pages, drafts: Sequence[_Draft], metadata: Metadata, notes: Notes, where: str) -> None:
    tasks = [
        (draft, index, segment)
        for draft in drafts
        for index, part, event, stat in draft.parts
        for segment in Segment.cut(part, event, stat)
    ]

    def run(task: tuple[_Draft, int, Segment]) -> Decoded:
        draft, index, segment = task
        decoded = decode(buffer, segment, *metadata.tables(index), draft.events)
        pages.release(segment.position, segment.end)
        return decoded

    for index in {index for _, index, _ in tasks}:
        metadata.tables(index)  # built before the threads share them
    results = _map(run, tasks, lambda task: task[2].end - task[2].position)
    again = [task for task, result in zip(tasks, results, strict=True) if result.misses]
    by_chunk: dict[int, set[tuple[int, int]]] = {}
    for draft, index, segment in again:
        by_chunk.setdefault(index, set()).update(_missing(buffer, [segment], index, draft.events, metadata))
    for index, missing in by_chunk.items():
        notes.admit(where, metadata=len(missing))
        metadata.learn(index, missing)
    for (draft, _, _), result in zip(tasks, results, strict=True):
        draft.texts += result.texts
        draft.holes += result.unknown + result.defects
        notes.unknown_stats += result.unknown
        notes.damaged += result.defects
    for task in again:
        run(task)


def _missing(
    buffer: U8, segments: Iterable[Segment], index: int, into: Events, metadata: Metadata
) -> set[tuple[int, int]]:
    """The (which, id) pairs of the segments that the chunk's tables lack."""
    missing: set[tuple[int, int]] = set()
    for segment in segments:
        room = np.empty((3 * (segment.last_stat - segment.first_stat) + segment.last - segment.first, 2), np.int64)
        n = decode(buffer, segment, *metadata.tables(index), into, room).misses
        missing.update((which, key) for which, key in np.unique(room[:n], axis=0).tolist())
    return missing


def _finish(buffer: U8, draft: _Draft, blobs: dict[bytes, int], notes: Notes) -> Line:
    first = draft.parts[0][1]
    base = next((part.timestamp_ns for _, part, _, _ in draft.parts if part.n_events), first.timestamp_ns)
    events = draft.events
    for _, part, start, _ in draft.parts:
        if part.n_events and part.timestamp_ns != base:
            _shift(events, slice(start, start + part.n_events), (part.timestamp_ns - base) * _PS_PER_NS)
    if draft.holes:
        events = _without_holes(events)
    if draft.texts:
        _intern(buffer, events, draft.texts, blobs)
    return Line(
        id=first.id,
        name=notes.text(first.name),
        timestamp_ns=base,
        events=events,
        display_name=notes.text(next((part.display_name for _, part, _, _ in draft.parts if part.display_name), b"")),
        display_id=next((part.display_id for _, part, _, _ in draft.parts if part.display_id), 0),
        duration_ps=max(part.duration_ps for _, part, _, _ in draft.parts),
    )


def _shift(events: Events, rows: slice, shift_ps: int) -> None:
    """Move the offsets of some events to another timestamp; aggregated events have no offset."""
    offset = events.offset_ps[rows]
    # Nonsense offsets saturate instead of wrapping into plausible ones.
    shifted = np.clip(offset, _INT64.min - min(shift_ps, 0), _INT64.max - max(shift_ps, 0)) + shift_ps
    offset[:] = shifted if events.occurrences is None else np.where(events.occurrences[rows] < 0, shifted, offset)


def _without_holes(events: Events) -> Events:
    keep = events.stat_kind != 0
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    return replace(
        events,
        stat_ptr=kept_before[events.stat_ptr],
        stat_key=events.stat_key[keep],
        stat_kind=events.stat_kind[keep],
        stat_bits=events.stat_bits[keep],
    )


def _intern(buffer: U8, events: Events, texts: int, blobs: dict[bytes, int]) -> None:
    spans: I64 = intern_blobs(buffer, events.stat_kind, events.stat_bits, texts)
    rows = np.fromiter(
        (blobs.setdefault(buffer[start:end].tobytes(), len(blobs)) for start, end in spans.tolist()),
        np.int64,
        len(spans),
    )
    if not np.array_equal(rows, np.arange(len(rows))):
        is_text = (events.stat_kind == 5) | (events.stat_kind == 6)
        events.stat_bits[is_text] = rows[events.stat_bits[is_text]]
