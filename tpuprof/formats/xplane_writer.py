"""Write a space as XPlane bytes: the exact inverse of the reader.

Files are written in the field order that the profiler's own writer uses. Reading back gives the same planes, lines,
events, stats and texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tpuprof.errors import SchemaError
from tpuprof.formats.xplane_schema import messages
from tpuprof.formats.xspace import I64, EventMeta, Events, Line, Plane, Ref, Space, StatKind, StatValue

_UINT64 = 0xFFFF_FFFF_FFFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


def write_xplane(space: Space) -> bytes:
    """The space as a serialised ``XSpace``.

    Stat names get new ids; event metadata keep theirs, except where two rows of a plane have the same id: the later
    ones are renumbered. Python floats become doubles, integers int64 (uint64 above 2^63 - 1), text strings,
    ``Ref`` references. Two lines of a plane with the same id and name are read back as one.

    Raises:
        SchemaError: an array of the space points to rows that do not exist.
    """
    pieces: list[bytes] = []
    for plane in space.planes:
        _delimited(pieces, 1, _plane(plane))
    for number, texts in ((2, space.errors), (3, space.warnings), (4, space.hostnames)):
        for text in texts:
            _delimited(pieces, number, text.encode())
    return b"".join(pieces)


def _plane(plane: Plane) -> bytes:
    head = messages().XPlane(id=plane.id, name=plane.name.encode())
    rest = messages().XPlane()
    names = _Names(plane)
    ids = _event_ids(plane.event_meta)
    for meta, meta_id in zip(plane.event_meta, ids, strict=True):
        value = rest.event_metadata.add(key=meta_id).value
        value.id, value.metadata = meta_id, meta.metadata
        value.name, value.display_name = meta.name.encode(), meta.display_name.encode()
        value.child_id.extend(meta.child_ids)
        names.write(value.stats, meta.stats)
    names.write(rest.stats, plane.stats)
    # Only now are all names known: those in plane.stat_names and those that only metadata uses.
    for row, name in enumerate(names.all):
        value = rest.stat_metadata.add(key=row + 1).value
        value.id, value.name = row + 1, name.encode()
    event_ids = np.array([*ids, _unused(ids)], np.int64)  # the last one is for events without metadata, row -1
    texts = _Texts(plane.blobs)
    pieces: list[bytes] = [head.SerializeToString()]
    for line in plane.lines:
        _delimited(pieces, 3, _line(plane, line, event_ids, texts))
    pieces.append(rest.SerializeToString())
    return b"".join(pieces)


class _Names:
    """The stat names of a plane with the ids under which they are written: row + 1."""

    def __init__(self, plane: Plane) -> None:
        self.all = list(plane.stat_names)
        self._rows = {name: row for row, name in enumerate(self.all)}

    def id(self, name: str) -> int:
        row = self._rows.setdefault(name, len(self.all))
        if row == len(self.all):
            self.all.append(name)
        return row + 1

    def write(self, into: object, stats: Mapping[str, StatValue]) -> None:
        for name, value in stats.items():
            stat = into.add(metadata_id=self.id(name))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
            match value:
                case float():
                    stat.double_value = value
                case int() if value > _INT64_MAX:
                    stat.uint64_value = value
                case int():
                    stat.int64_value = value
                case Ref():
                    stat.ref_value = self.id(value)
                case str():
                    stat.str_value = value.encode()
                case bytes():
                    stat.bytes_value = value


class _Texts:
    """The blobs of a plane end to end, with the start and length of each."""

    def __init__(self, blobs: tuple[bytes, ...]) -> None:
        self.data = np.frombuffer(b"".join(blobs) or b"\0", np.uint8)
        self.lengths = np.fromiter(map(len, blobs), np.int64, len(blobs))
        self.starts = np.cumsum(self.lengths) - self.lengths


def _event_ids(metas: Iterable[EventMeta]) -> list[int]:
    ids: list[int] = []
    seen: set[int] = set()
    spare = 1 + max((meta.id for meta in metas), default=0)
    for meta in metas:
        meta_id = meta.id
        if meta_id in seen:
            meta_id, spare = spare, spare + 1
        seen.add(meta_id)
        ids.append(meta_id)
    return ids


def _unused(ids: list[int]) -> int:
    known = set(ids)
    return next(candidate for candidate in range(len(known) + 1) if candidate not in known)


def _line(plane: Plane, line: Line, event_ids: I64, texts: _Texts) -> bytes:
    pieces: list[bytes] = []
    _number(pieces, 1, line.id)
    _text(pieces, 2, line.name)
    _number(pieces, 3, line.timestamp_ns)
    pieces.append(_events(plane, line, event_ids, texts))
    _number(pieces, 9, line.duration_ps)
    _number(pieces, 10, line.display_id)
    _text(pieces, 11, line.display_name)
    return b"".join(pieces)


def _events(plane: Plane, line: Line, event_ids: I64, texts: _Texts) -> bytes:
    events = line.events
    if len(events) == 0:
        return b""
    _check(plane, line, events)
    from tpuprof.formats import _encode

    keys = events.stat_key.astype(np.int64) + 1
    bits = np.where(events.stat_kind == StatKind.REF, events.stat_bits + 1, events.stat_bits)
    starts, lengths = np.zeros_like(bits), np.zeros_like(bits)
    is_text = (events.stat_kind == StatKind.STR) | (events.stat_kind == StatKind.BYTES)
    if is_text.any():
        rows = events.stat_bits[is_text]
        starts[is_text], lengths[is_text] = texts.starts[rows], texts.lengths[rows]
    occurrences = np.zeros(0, np.int64) if events.occurrences is None else events.occurrences
    sizes = np.empty(len(events), np.int64)
    common = (
        event_ids[events.meta],
        events.offset_ps,
        events.duration_ps,
        occurrences,
        events.stat_ptr,
        keys,
        events.stat_kind,
        bits,
    )
    common = tuple(map(np.ascontiguousarray, common))
    out = np.empty(_encode.measure_events(*common, lengths, sizes), np.uint8)
    _encode.write_events(out.ctypes.data, 0, *common, starts, lengths, sizes, texts.data.ctypes.data)
    return out.tobytes()


def _check(plane: Plane, line: Line, events: Events) -> None:
    """The compiled loops trust the arrays, so wrong ones must not reach them."""
    n, n_stats = len(events), len(events.stat_key)
    pointers = events.stat_ptr
    arrays = [
        events.offset_ps,
        events.duration_ps,
        *([] if events.occurrences is None else [events.occurrences]),
    ]
    is_text = (events.stat_kind == StatKind.STR) | (events.stat_kind == StatKind.BYTES)
    kinds = [int(kind) for kind in StatKind]
    good = (
        all(len(array) == n for array in arrays)
        and len(pointers) == n + 1
        and pointers[0] == 0
        and pointers[-1] == n_stats == len(events.stat_kind) == len(events.stat_bits)
        and bool(np.all(np.diff(pointers) >= 0))
        and _within(events.meta, -1, len(plane.event_meta))
        and _within(events.stat_key, 0, len(plane.stat_names))
        and bool(np.isin(events.stat_kind, kinds).all())
        and _within(events.stat_bits[events.stat_kind == StatKind.REF], -1, len(plane.stat_names))
        and _within(events.stat_bits[is_text], 0, len(plane.blobs))
    )
    if not good:
        raise SchemaError(
            f"The events of line {line.name!r} do not fit together.",
            where=plane.name,
            why="An array has another length than the others, or points to a row that does not exist.",
        )


def _within(rows: np.ndarray[tuple[int], np.dtype[np.signedinteger]], low: int, end: int) -> bool:
    return len(rows) == 0 or (int(rows.min()) >= low and int(rows.max()) < end)


def _delimited(pieces: list[bytes], number: int, payload: bytes) -> None:
    pieces += [_varint(number << 3 | 2), _varint(len(payload)), payload]


def _number(pieces: list[bytes], number: int, value: int) -> None:
    if value:
        pieces += [_varint(number << 3), _varint(value)]


def _text(pieces: list[bytes], number: int, value: str) -> None:
    if value:
        _delimited(pieces, number, value.encode())


def _varint(value: int) -> bytes:
    value &= _UINT64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
