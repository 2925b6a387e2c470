"""What a capture recorded, as plain Python, read with a schema of the tests and nothing of jax."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tpuprof.formats.xplane_schema import full_messages


class Event(NamedTuple):
    """One event of any line."""

    name: str
    duration_ns: float
    stats: dict[str, Any]


def events_of(path: Path) -> list[Event]:
    """All events of an XPlane file."""
    found: list[Event] = []
    for plane in full_messages().XSpace.FromString(path.read_bytes()).planes:
        names = {entry.key: entry.value.name.decode() for entry in plane.stat_metadata}
        labels = {entry.key: entry.value.name.decode() for entry in plane.event_metadata}
        for line in plane.lines:
            for event in line.events:
                stats = {names[stat.metadata_id]: _value(stat, names) for stat in event.stats}
                found.append(Event(labels[event.metadata_id], event.duration_ps / 1000, stats))
    return found


def _value(stat: Any, names: dict[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    value = getattr(stat, kind)
    return names[value] if kind == "ref_value" else value.decode() if kind == "str_value" else value
