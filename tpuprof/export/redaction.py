"""Redaction of a whole run: which hosts and users it names, and its spaces without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tpuprof.export.redact_hlo import redact_hlo
from tpuprof.formats.files import base_name
from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import EventMeta, Line, Plane, Ref, Space, StatKind, StatValue
from tpuprof.redact import Redactor, make_redactor
from tpuprof.tables.arrays import ints
from tpuprof.tables.kept_steps import PLANE as STEPS_PLANE

if TYPE_CHECKING:
    from tpuprof.trace import Trace

# Binary stats that hold numbers only. Others are left out: nobody can say what is in them.
_PLAIN_BYTES = frozenset({"core_details", "memory_access_breakdown"})
_STRUCTURE = frozenset({STEPS_PLANE, "Task Environment", "/host:CPU", "/host:metadata"})
_HLO = frozenset({"hlo_proto"})
_RAW_HOME = re.compile(rb"/(?:home|Users)/[A-Za-z0-9._-]{1,64}/")
_HOST_KEYS = frozenset({"host", "hostname", "hosts", "hostnames", "node", "seen"})


def redactor_for(trace: Trace) -> Redactor:
    """The redactor of a run: its hosts in the order of ``trace.hosts``, and the users that any of its texts names."""
    others: set[str] = set()
    for recording in trace.recordings:
        others.update(recording.space.hostnames)
        others.add(re.split(r"\.(?:xplane\.pb|trace\.json)", base_name(recording.source.path))[0])
    others.update(_named_hosts(trace.metadata))
    others -= {trace.name, *trace.hosts}
    return make_redactor([*trace.hosts, *sorted(others)], _texts(trace))


def redact_recording(recording: Recording, redactor: Redactor) -> Recording:
    """The recording with redacted texts: names, stats, HLO metadata, messages. Times and structure stay."""
    space = recording.space
    return replace(
        recording,
        host=redactor.text(recording.host),
        space=Space(
            tuple(_plane(plane, redactor) for plane in space.planes),
            tuple(map(redactor.text, space.errors)),
            tuple(map(redactor.text, space.warnings)),
            tuple(map(redactor.text, space.hostnames)),
        ),
        source=replace(recording.source, path=redactor.text(base_name(recording.source.path))),
    )


def _plane(plane: Plane, redactor: Redactor) -> Plane:
    lines, blobs = _event_blobs(plane, redactor)
    names, lines = _stat_names(plane, lines, redactor)
    return replace(
        plane,
        name=plane.name if plane.name in _STRUCTURE else redactor.text(plane.name),
        lines=tuple(
            replace(line, name=redactor.text(line.name), display_name=redactor.text(line.display_name))
            for line in lines
        ),
        event_meta=tuple(_meta(meta, redactor) for meta in plane.event_meta),
        stat_names=names,
        stats=_stats(plane.stats, redactor),
        blobs=blobs,
    )


def _meta(meta: EventMeta, redactor: Redactor) -> EventMeta:
    return replace(
        meta,
        name=redactor.text(meta.name),
        display_name=redactor.text(meta.display_name),
        stats=_stats(meta.stats, redactor),
        metadata=b"",
    )


def _stats(stats: dict[str, StatValue], redactor: Redactor) -> dict[str, StatValue]:
    found: dict[str, StatValue] = {}
    for name, value in stats.items():
        if isinstance(value, Ref):
            found[name] = Ref(redactor.value(name, value))
        elif isinstance(value, str):
            found[name] = redactor.value(name, value)
        elif isinstance(value, bytes):
            data = _bytes(name, value, redactor)
            if data is not None:
                found[name] = data
        else:
            found[name] = value
    return found


def _bytes(name: str, value: bytes, redactor: Redactor) -> bytes | None:
    """A binary stat; null if it may hold what cannot be checked."""
    plain = name.lower().replace(" ", "_")
    if plain in _HLO:
        return redact_hlo(value, redactor)
    if plain in _PLAIN_BYTES or not value:
        return value
    text = value.decode("utf-8", "replace")
    return redactor.bytes_(value, name) if text.isprintable() and "\ufffd" not in text else None


def _event_blobs(plane: Plane, redactor: Redactor) -> tuple[list[Line], tuple[bytes, ...]]:
    """Texts of single events: each blob under the names of the stats that use it."""
    keys: dict[int, set[int]] = {}
    for line in plane.lines:
        events = line.events
        rows = np.flatnonzero((events.stat_kind == StatKind.STR) | (events.stat_kind == StatKind.BYTES))
        pairs = np.unique(np.stack([events.stat_bits[rows], events.stat_key[rows]], axis=1), axis=0)
        for blob, key in cast("list[list[int]]", pairs.tolist()):
            keys.setdefault(blob, set()).add(key)
    blobs: list[bytes] = []
    for row, blob in enumerate(plane.blobs):
        changed: bytes | None = blob
        for key in sorted(keys.get(row, ())):
            changed = None if changed is None else _bytes(plane.stat_names[key], changed, redactor)
        blobs.append(b"" if changed is None or row not in keys else changed)
    return list(plane.lines), tuple(blobs)


def _stat_names(plane: Plane, lines: list[Line], redactor: Redactor) -> tuple[tuple[str, ...], list[Line]]:
    """Names of stats stay; texts that events refer to get rows of their own."""
    names: dict[str, int] = {}
    key_row: dict[int, int] = {}
    used_keys = {int(key) for line in lines for key in ints(np.unique(line.events.stat_key))}
    for row in sorted(used_keys):
        key_row[row] = names.setdefault(plane.stat_names[row], len(names))
    text_row: dict[tuple[int, int], int] = {}
    changed: list[Line] = []
    for line in lines:
        events = line.events
        keys = np.array([key_row.get(row, -1) for row in range(len(plane.stat_names))] or [-1], np.int32)
        bits = events.stat_bits.copy()
        rows = np.flatnonzero((events.stat_kind == StatKind.REF) & (events.stat_bits >= 0))
        pairs, inverse = np.unique(
            np.stack([events.stat_key[rows], events.stat_bits[rows]], axis=1), axis=0, return_inverse=True
        )
        table: list[int] = []
        for key, text in cast("list[list[int]]", pairs.tolist()):
            if (key, text) not in text_row:
                said = redactor.value(plane.stat_names[key], plane.stat_names[text])
                text_row[key, text] = names.setdefault(said, len(names))
            table.append(text_row[key, text])
        if len(rows):
            bits[rows] = np.array(table, np.int64)[inverse.reshape(-1)]
        key_column = keys[events.stat_key] if len(events.stat_key) else events.stat_key
        changed.append(replace(line, events=replace(events, stat_key=key_column, stat_bits=bits)))
    return tuple(names), changed


def _texts(trace: Trace) -> Iterator[str]:
    """Every text of the run that may name a user."""
    for recording in trace.recordings:
        yield recording.source.path
        yield from (*recording.space.errors, *recording.space.warnings)
        for plane in recording.space.planes:
            yield from plane.stat_names
            yield from (blob.decode("utf-8", "replace") for blob in plane.blobs)
            yield from _stat_texts(plane.stats)
            for meta in plane.event_meta:
                yield meta.name
                yield meta.display_name
                yield from _stat_texts(meta.stats)
    yield from (info.source or "" for info in trace.built.infos)
    yield from _json_texts(trace.metadata)
    yield trace.path


def _stat_texts(stats: dict[str, StatValue]) -> Iterator[str]:
    for value in stats.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, bytes):
            yield from (found.decode() for found in _RAW_HOME.findall(value))


def _json_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from _json_texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _json_texts(item)


def _named_hosts(value: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            if str(key).lower() in _HOST_KEYS:
                found.update(text for text in _json_texts(item))
            found |= _named_hosts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            found |= _named_hosts(item)
    return found
