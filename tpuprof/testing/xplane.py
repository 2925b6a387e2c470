"""A built host as the bytes of an XPlane file."""

from __future__ import annotations

from typing import Any

from tpuprof.formats.xplane_schema import full_messages
from tpuprof.testing.builder import Event, HostBuilder, Layout, LineBuilder, PlaneBuilder
from tpuprof.testing.values import Ref, Stat, Unsigned, as_bytes

_U64 = 0xFFFF_FFFF_FFFF_FFFF


def serialize(host: HostBuilder, layout: Layout) -> bytes:
    """The file of one host. Equal builders and layouts give equal bytes."""
    space = full_messages().XSpace()
    for plane in host.planes:
        for number, lines in enumerate(_chunks(plane, layout.chunk_events)):
            _Plane(space.planes.add(), plane, layout).fill(lines, first=number == 0)
    space.errors.extend(as_bytes(text) for text in host.errors)
    space.warnings.extend(as_bytes(text) for text in host.warnings)
    space.hostnames.extend(as_bytes(name) for name in host.hostnames)
    return space.SerializeToString(deterministic=True)


def _chunks(plane: PlaneBuilder, size: int | None) -> list[list[tuple[LineBuilder, list[Event]]]]:
    """The lines of a plane with their events, cut into pieces of at most ``size`` events of a line."""
    if size is None:
        return [[(line, line.events) for line in plane.lines]]
    pieces = max([1, *(-(-len(line) // size) for line in plane.lines)])
    return [
        [
            (line, line.events[piece * size : (piece + 1) * size])
            for line in plane.lines
            if piece == 0 or len(line) > piece * size
        ]
        for piece in range(pieces)
    ]


class _Plane:
    """One plane message being filled, with the tables of ids that it needs."""

    def __init__(self, message: Any, plane: PlaneBuilder, layout: Layout) -> None:
        self.message = message
        self.plane = plane
        self.layout = layout
        self.stat_ids: dict[bytes, int] = {}
        self.meta_ids: dict[object, int] = {}
        self.taken = {entry.id for entry in plane.entries}

    def fill(self, lines: list[tuple[LineBuilder, list[Event]]], *, first: bool) -> None:
        self.message.id = self.plane.id
        self.message.name = as_bytes(self.plane.name)
        for line, events in lines:
            self._line(line, events)
        if first:
            self._stats(self.message.stats, self.plane.stats)
            for entry in self.plane.entries:
                self._metadata(entry.id, as_bytes(entry.name), b"", entry.stats)
        for name, number in self.stat_ids.items():
            entry = self.message.stat_metadata.add(key=number)
            entry.value.id, entry.value.name = number, name

    def _line(self, line: LineBuilder, events: list[Event]) -> None:
        message = self.message.lines.add(
            id=line.id,
            name=as_bytes(line.name),
            timestamp_ns=line.timestamp_ns,
            duration_ps=line.duration_ps,
            display_name=as_bytes(line.display_name),
        )
        for event in events:
            self._event(message.events.add(), line, event)

    def _event(self, message: Any, line: LineBuilder, event: Event) -> None:
        message.metadata_id = self._meta_id(event)
        message.duration_ps = event.duration_ps
        if event.occurrences is not None:
            message.num_occurrences = event.occurrences
        elif line.clock == "plain":
            message.offset_ps = event.start_ps
        else:
            message.offset_ps = event.start_ps + self.plane.shift_at(event.start_ps)
        if line.clock == "device":
            times = {"device_offset_ps": event.start_ps, "device_duration_ps": event.duration_ps}
            self._stats(message.stats, {name: Unsigned(value) for name, value in times.items()})
        self._stats(message.stats, event.stats)

    def _meta_id(self, event: Event) -> int:
        # repr tells 1 from 1.0 and from True, which as dictionary keys are one.
        key = (event.name, event.text, tuple((name, repr(value)) for name, value in event.meta.items()))
        if key not in self.meta_ids:
            number = self._next(len(self.meta_ids))
            while number in self.taken:
                number += 1
            self.taken.add(number)
            self.meta_ids[key] = number
            short = as_bytes(event.name)
            long, display = (short, b"") if event.text is None else (as_bytes(event.text), short)
            self._metadata(number, long, display, event.meta)
        return self.meta_ids[key]

    def _metadata(self, number: int, name: bytes, display_name: bytes, stats: dict[str, Stat]) -> None:
        entry = self.message.event_metadata.add(key=number)
        entry.value.id, entry.value.name, entry.value.display_name = number, name, display_name
        self._stats(entry.value.stats, stats)

    def _stats(self, target: Any, stats: dict[str, Stat]) -> None:
        for name, value in stats.items():
            message = target.add(metadata_id=self._stat_id(name))
            match value:
                case Ref(text):
                    message.ref_value = self._stat_id(text)
                case Unsigned(number):
                    message.uint64_value = number & _U64
                case str() | bytes():
                    setattr(message, "str_value" if isinstance(value, str) else "bytes_value", as_bytes(value))
                case float():
                    message.double_value = value
                case int() if value >= 1 << 63:
                    message.uint64_value = value
                case int():
                    message.int64_value = value

    def _stat_id(self, name: str) -> int:
        return self.stat_ids.setdefault(as_bytes(name), self._next(len(self.stat_ids)))

    def _next(self, count: int) -> int:
        return self.layout.first_id + count * self.layout.id_step
