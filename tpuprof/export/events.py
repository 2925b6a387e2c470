"""Leaving out events of a plane, and everything that only they used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpuprof.formats.xspace import Events, Line, Plane, StatKind
from tpuprof.tables.arrays import ints
from tpuprof.tables.sweep import BOOL


def keep_events(plane: Plane, keep: Mapping[int, BOOL]) -> Plane:
    """The plane with the chosen events of its lines; lines that lose all of theirs go too.

    Metadata, texts and names that no remaining event uses are left out as well, so that nothing of the rest stays.

    Args:
        plane: the plane.
        keep: by row of ``plane.lines`` which events to keep; lines without an entry stay whole.
    """
    lines: list[Line] = []
    for row, line in enumerate(plane.lines):
        mask = keep.get(row)
        if mask is None or bool(mask.all()):
            lines.append(line)
        elif mask.any():
            lines.append(replace(line, events=_take(line.events, mask)))
    return _pruned(replace(plane, lines=tuple(lines)))


def _take(events: Events, mask: BOOL) -> Events:
    sizes = np.diff(events.stat_ptr)
    stats = np.repeat(mask, sizes)
    pointers = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[mask], dtype=np.int64)])
    return Events(
        meta=events.meta[mask],
        offset_ps=events.offset_ps[mask],
        duration_ps=events.duration_ps[mask],
        occurrences=None if events.occurrences is None else events.occurrences[mask],
        stat_ptr=pointers,
        stat_key=events.stat_key[stats],
        stat_kind=events.stat_kind[stats],
        stat_bits=events.stat_bits[stats],
    )


def _pruned(plane: Plane) -> Plane:
    metas: set[int] = set()
    names: set[int] = set()
    blobs: set[int] = set()
    for line in plane.lines:
        events = line.events
        text = (events.stat_kind == StatKind.STR) | (events.stat_kind == StatKind.BYTES)
        metas.update(ints(np.unique(events.meta)))
        names.update(ints(np.unique(events.stat_key)))
        names.update(ints(np.unique(events.stat_bits[events.stat_kind == StatKind.REF])))
        blobs.update(ints(np.unique(events.stat_bits[text])))
    wanted_ids = {child for row in metas if row >= 0 for child in plane.event_meta[row].child_ids}
    metas.update(row for row, meta in enumerate(plane.event_meta) if meta.id in wanted_ids)
    meta_of, name_of, blob_of = (
        _renumbering(used, size)
        for used, size in (
            (metas, len(plane.event_meta)),
            (names, len(plane.stat_names)),
            (blobs, len(plane.blobs)),
        )
    )
    return replace(
        plane,
        lines=tuple(replace(line, events=_renumbered(line.events, meta_of, name_of, blob_of)) for line in plane.lines),
        event_meta=tuple(meta for row, meta in enumerate(plane.event_meta) if row in metas),
        stat_names=tuple(name for row, name in enumerate(plane.stat_names) if row in names),
        blobs=tuple(blob for row, blob in enumerate(plane.blobs) if row in blobs),
    )


def _renumbering(used: set[int], size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The new row of each old one; the last entry is for row -1, which stays."""
    table = np.full(size + 1, -1, np.int64)
    rows = sorted(row for row in used if row >= 0)
    table[rows] = np.arange(len(rows))
    return table


def _renumbered(
    events: Events,
    meta_of: np.ndarray[tuple[int], np.dtype[np.int64]],
    name_of: np.ndarray[tuple[int], np.dtype[np.int64]],
    blob_of: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Events:
    bits = events.stat_bits.copy()
    reference = events.stat_kind == StatKind.REF
    text = (events.stat_kind == StatKind.STR) | (events.stat_kind == StatKind.BYTES)
    bits[reference] = name_of[bits[reference]]
    bits[text] = blob_of[bits[text]]
    return replace(
        events,
        meta=meta_of[events.meta].astype(np.int32),
        stat_key=name_of[events.stat_key].astype(np.int32),
        stat_bits=bits,
    )
