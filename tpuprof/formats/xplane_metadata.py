"""The metadata of a plane: what ids mean, over all chunks of the plane.

An id is looked up in the chunk that uses it; failing that, in the nearest earlier chunk that defines it, then in the
first later one. So a chunk that redefines an id for something else cannot change what other chunks mean by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tpuprof.formats.xplane_chunks import Chunk, Notes
from tpuprof.formats.xplane_schema import messages
from tpuprof.formats.xplane_wire import INVENTED, MISS_EVENT, MISS_KEY, NO_NAME, RowTable
from tpuprof.formats.xspace import I64, U8, EventMeta, StatValue

MAX_INVENTED = 10_000  # made-up names per plane; further undefined ids share one

_CACHED_TEXT_BYTES = 256


def signed(value: int) -> int:
    """The integer modulo 2^64, in the signed range: ids are compared like this."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


class IdMap:
    """Rows by id, with a map of its own for every chunk."""

    def __init__(self, chunks: int) -> None:
        self.own: list[dict[int, int]] = [{} for _ in range(chunks)]
        self._users: dict[int, list[int]] | None = None

    def find(self, chunk: int, key: int) -> int | None:
        """The row of an id for a chunk, None if no chunk defines it."""
        row = self.own[chunk].get(key)
        if row is not None or len(self.own) == 1:
            return row
        if self._users is None:
            self._users = {}
            for index, own in enumerate(self.own):
                for known in own:
                    self._users.setdefault(known, []).append(index)
        users = self._users.get(key)
        if not users:
            return None
        at = bisect_left(users, chunk)
        return self.own[users[at - 1 if at else 0]][key]

    def bases(self) -> list[dict[int, int]]:
        """For every chunk the ids to decode it with: one shared dict where the chunks do not contradict each other."""
        union: dict[int, int] = {}
        for own in self.own:
            for key, row in own.items():
                if union.setdefault(key, row) != row:
                    return [dict(own) for own in self.own]
        return [union] * len(self.own)


class Metadata:
    """Event metadata and stat names of one plane, as rows."""

    def __init__(self, buffer: U8, chunks: Sequence[Chunk], notes: Notes) -> None:
        self.names: list[str] = []
        self.events: list[EventMeta] = []
        self._buffer = buffer
        self._notes = notes
        self._name_rows: dict[str, int] = {}
        self._stats = IdMap(len(chunks))
        self._events = IdMap(len(chunks))
        self._texts: dict[bytes, str] = {}
        self._unnamed: set[int] = set()
        self._invented: dict[str, int] = {}
        self._read_names(chunks)
        self._read_events(chunks)
        self._event_base = self._events.bases()
        self._stat_base = self._stats.bases()
        self._tables: dict[int, RowTable] = {}  # by the identity of the base that a table was built from

    def tables(self, chunk: int) -> tuple[RowTable, RowTable]:
        """The tables (event metadata, stat names) with which a chunk's lines are decoded."""
        return self._table(self._event_base[chunk]), self._table(self._stat_base[chunk])

    def is_defined(self, chunk: int, which: int, key: int) -> bool:
        """Whether any chunk says what the id means."""
        return (self._events if which == MISS_EVENT else self._stats).find(chunk, key) is not None

    def learn(self, chunk: int, missing: Iterable[tuple[int, int]]) -> None:
        """Put (which, id) pairs that a chunk's tables lack into them, with made-up names where no chunk defines them.

        Event metadata without a definition is called ``event#<id>``, a stat's key ``stat#<id>``; a reference to an
        undefined name is empty.
        """
        events, stats = self._event_base[chunk], self._stat_base[chunk]
        for which, key in sorted(missing):
            if which == MISS_EVENT:
                row = self._events.find(chunk, key)
                events[key] = self._invent_event(key) if row is None else row
                continue
            row = self._stats.find(chunk, key)
            if row is not None:
                stats[key] = row
            elif which == MISS_KEY:
                stats[key] = INVENTED - self._invent_name(key)
            else:
                stats.setdefault(key, NO_NAME)
        for base in (events, stats):
            self._tables.pop(id(base), None)

    def key_name(self, chunk: int, key: int) -> str:
        """The name of a stat for a chunk, made up if no chunk defines it."""
        row = self._stats.find(chunk, key)
        if row is not None:
            return self.names[row]
        self._count_unnamed(key)
        return f"stat#{key}"

    def ref_text(self, chunk: int, key: int) -> str:
        """The text of a reference for a chunk, empty if no chunk defines it."""
        row = self._stats.find(chunk, signed(key))
        return "" if row is None else self.names[row]

    def plane_stats(self, chunks: Sequence[Chunk]) -> dict[str, StatValue]:
        """The stats of the plane itself, over all chunks; if a name repeats, the last one counts."""
        result: dict[str, StatValue] = {}
        message = messages().XStat
        for index, chunk in enumerate(chunks):
            keys, refs = _Lookup(self.key_name, index), _Lookup(self.ref_text, index)
            result.update(self._stat_dict(keys, refs, self._messages(message, chunk.stats)))
        return result

    def _read_names(self, chunks: Sequence[Chunk]) -> None:
        message = messages().XStatMetadataEntry
        for chunk, own in zip(chunks, self._stats.own, strict=True):
            for entry in self._messages(message, chunk.stat_metadata):
                own[entry.key] = self._name_row(self._notes.text(entry.value.name))

    def _read_events(self, chunks: Sequence[Chunk]) -> None:
        known: dict[tuple[object, ...], int] = {}
        for index, (chunk, own) in enumerate(zip(chunks, self._events.own, strict=True)):
            # Of a repeated id within one message the last entry counts.
            metas = {meta.id: meta for meta in self._event_metas(index, chunk)}
            for key, meta in metas.items():
                # Chunks repeat the metadata they use; equal entries are one row.
                row = known.setdefault(_identity(meta), len(self.events)) if len(chunks) > 1 else len(self.events)
                own[key] = row
                if row == len(self.events):
                    self.events.append(meta)

    def _table(self, base: dict[int, int]) -> RowTable:
        if id(base) not in self._tables:
            self._tables[id(base)] = RowTable.build(base)
        return self._tables[id(base)]

    def _event_metas(self, index: int, chunk: Chunk) -> Iterator[EventMeta]:
        notes = self._notes
        keys, refs = _Lookup(self.key_name, index), _Lookup(self.ref_text, index)
        for entry in self._messages(messages().XEventMetadataEntry, chunk.event_metadata):
            value = entry.value
            bad_before = notes.bad_utf8
            name, display_name = notes.text(value.name), notes.text(value.display_name)
            stats = self._stat_dict(keys, refs, value.stats)
            is_bad = notes.bad_utf8 > bad_before
            notes.bad_utf8 = bad_before + is_bad  # one entry counts once, however many of its texts are bad
            yield EventMeta(
                entry.key, name, display_name, stats, value.metadata, tuple(value.child_id), bad_utf8=is_bad
            )

    def _stat_dict(self, keys: _Lookup, refs: _Lookup, stats: Iterable[Any]) -> dict[str, StatValue]:
        result: dict[str, StatValue] = {}
        for stat in stats:
            kind: str | None = stat.WhichOneof("value")
            if kind is None:
                self._notes.unknown_stats += 1
                continue
            value = getattr(stat, kind)
            if kind == "str_value":
                value = self._text(value)
            elif kind == "ref_value":
                value = refs[value]
            result[keys[stat.metadata_id]] = value
        return result

    def _messages(self, message: Any, spans: I64) -> Iterable[Any]:
        from google.protobuf.message import DecodeError

        buffer = self._buffer
        for start, end in spans.tolist():
            try:
                yield message.FromString(buffer[start:end].tobytes())
            except DecodeError:
                self._notes.damaged += 1

    def _name_row(self, name: str) -> int:
        row = self._name_rows.setdefault(name, len(self.names))
        if row == len(self.names):
            self.names.append(name)
        return row

    def _invent_name(self, key: int) -> int:
        name = f"stat#{key}"
        if name not in self._invented:
            self._count_unnamed(key)
            if len(self._invented) >= MAX_INVENTED:
                return self._name_row("stat#?")
            self._invented[name] = self._name_row(name)
        return self._invented[name]

    def _count_unnamed(self, key: int) -> None:
        self._notes.missing_metadata += key not in self._unnamed
        self._unnamed.add(key)

    def _invent_event(self, key: int) -> int:
        name = f"event#{key}"
        if name not in self._invented:
            self._notes.missing_metadata += 1
            if len(self._invented) >= MAX_INVENTED:
                name = "event#?"
            if name not in self._invented:
                self._invented[name] = len(self.events)
                self.events.append(EventMeta(key, name, "", {}))
        return self._invented[name]

    def _text(self, raw: bytes) -> str:
        text = self._texts.get(raw)
        if text is None:
            bad_before = self._notes.bad_utf8
            text = self._notes.text(raw)
            if len(raw) <= _CACHED_TEXT_BYTES and self._notes.bad_utf8 == bad_before:
                self._texts[raw] = text
        return text


class _Lookup(dict[int, str]):
    """What ids mean to one chunk, asked once per id."""

    def __init__(self, find: Callable[[int, int], str], chunk: int) -> None:
        super().__init__()
        self._find, self._chunk = find, chunk

    def __missing__(self, key: int) -> str:
        name = self[key] = self._find(self._chunk, key)
        return name


def _identity(meta: EventMeta) -> tuple[object, ...]:
    stats = tuple(
        (name, type(value), repr(value) if isinstance(value, float) else value) for name, value in meta.stats.items()
    )
    return meta.id, meta.name, meta.display_name, stats, meta.metadata, meta.child_ids
