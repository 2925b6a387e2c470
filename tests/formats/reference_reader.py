"""A slow and simple XPlane reader on top of protobuf alone, as the oracle of the fast one.

It shares no code with the fast reader but the schema. Everything becomes plain Python: see ``read_plain``.
``plain`` brings a space that the fast reader made into the same form.
"""

from __future__ import annotations

from typing import Any

from tpuprof.formats.xplane_schema import full_messages
from tpuprof.formats.xspace import Space

Plain = dict[str, Any]


def read_plain(data: bytes) -> list[Plain]:
    """The planes of a file, chunks merged.

    A plane is {id, name, stats, lines}, a line {id, name, events}, an event {name, display_name, meta_stats,
    start_ps (null for aggregated events), duration_ps, occurrences, stats}. Values of stats are (kind, value) pairs
    in which the kind says number, text or bytes.

    Raises:
        google.protobuf.message.DecodeError: protobuf refuses the bytes.
    """
    space = full_messages().XSpace.FromString(data)
    planes: dict[tuple[int, bytes], list[Any]] = {}
    for chunk in space.planes:
        planes.setdefault((chunk.id, chunk.name), []).append(chunk)
    return [_plane(chunks) for chunks in planes.values() if any(_says_anything(chunk) for chunk in chunks)]


def _says_anything(chunk: Any) -> bool:
    return bool(chunk.name or chunk.lines or chunk.event_metadata or chunk.stat_metadata or chunk.stats)


def _plane(chunks: list[Any]) -> Plain:
    stats: dict[str, Any] = {}
    lines: dict[tuple[int, bytes], list[Plain]] = {}
    for index, chunk in enumerate(chunks):
        stats.update(_stats(chunks, index, chunk.stats))
        for line in chunk.lines:
            events = lines.setdefault((line.id, line.name), [])
            events += [_event(chunks, index, line, event) for event in line.events]
    return {
        "id": chunks[0].id,
        "name": _text(chunks[0].name),
        "stats": stats,
        "lines": [{"id": key[0], "name": _text(key[1]), "events": events} for key, events in lines.items()],
    }


def _event(chunks: list[Any], index: int, line: Any, event: Any) -> Plain:
    meta_chunk, meta = _lookup(chunks, index, "event_metadata", event.metadata_id)
    aggregated = event.WhichOneof("data") == "num_occurrences"
    return {
        "name": f"event#{event.metadata_id}" if meta is None else _text(meta.name),
        "display_name": "" if meta is None else _text(meta.display_name),
        "meta_stats": {} if meta is None else _stats(chunks, meta_chunk, meta.stats),
        "start_ps": None if aggregated else line.timestamp_ns * 1000 + event.offset_ps,
        "duration_ps": event.duration_ps,
        "occurrences": max(event.num_occurrences, 0) if aggregated else None,
        "stats": _stats(chunks, index, event.stats),
    }


def _lookup(chunks: list[Any], index: int, what: str, key: int) -> tuple[int, Any]:
    """The definition of an id: own chunk, then earlier ones from near to far, then later ones."""
    order = [index, *range(index - 1, -1, -1), *range(index + 1, len(chunks))]
    for candidate in order:
        entries = getattr(chunks[candidate], what)
        for entry in reversed(entries):  # the last entry of a repeated id counts
            if entry.key == key:
                return candidate, entry.value
    return -1, None


def _stats(chunks: list[Any], index: int, stats: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        if kind is None:
            continue
        value = getattr(stat, kind)
        if kind == "ref_value":
            key = value - (1 << 64) if value >= 1 << 63 else value
            _, target = _lookup(chunks, index, "stat_metadata", key)
            value = "" if target is None else _text(target.name)
        elif kind == "str_value":
            value = _text(value)
        _, meta = _lookup(chunks, index, "stat_metadata", stat.metadata_id)
        result[f"stat#{stat.metadata_id}" if meta is None else _text(meta.name)] = _typed(value)
    return result


def _typed(value: Any) -> tuple[str, str]:
    return "str" if isinstance(value, str) else type(value).__name__, repr(value)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def plain(space: Space) -> list[Plain]:
    """A space in the form of ``read_plain``, every event asked one by one through the public methods."""
    planes: list[Plain] = []
    for plane in space.planes:
        lines: dict[tuple[int, str], list[Plain]] = {}
        for line in plane.lines:
            rows = lines.setdefault((line.id, line.name), [])
            events = line.events
            for i in range(len(events)):
                meta = plane.event_meta[events.meta[i]]
                occurrences = -1 if events.occurrences is None else int(events.occurrences[i])
                start_ps = line.timestamp_ns * 1000 + int(events.offset_ps[i])
                rows.append(
                    {
                        "name": meta.name,
                        "display_name": meta.display_name,
                        "meta_stats": _typed_dict(meta.stats),
                        "start_ps": start_ps if occurrences < 0 else None,
                        "duration_ps": int(events.duration_ps[i]),
                        "occurrences": None if occurrences < 0 else occurrences,
                        "stats": _typed_dict(plane.event_stats(events, i)),
                    }
                )
        planes.append(
            {
                "id": plane.id,
                "name": plane.name,
                "stats": _typed_dict(plane.stats),
                "lines": [{"id": key[0], "name": key[1], "events": rows} for key, rows in lines.items()],
            }
        )
    return planes


def _typed_dict(stats: dict[str, Any]) -> dict[str, Any]:
    return {name: _typed(value) for name, value in stats.items()}
