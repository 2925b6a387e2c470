"""Build a space event by event: for simulated runs, tests and converters.

space = SpaceBuilder(hostnames=["hostA"])
plane = space.add_plane("/device:TPU:0", stats={"device_type_string": "TPU v5 lite"})
line = plane.add_line("XLA Ops", timestamp_ns=1_700_000_000_000_000_000)
line.add_event("%fusion.1 = …", 0, 400_000_000, display_name="fusion.1", meta_stats={"program_id": 7})
data = space.to_bytes()
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tpuprof.errors import UsageError
from tpuprof.formats.xspace import EventMeta, Events, Line, Plane, Ref, Space, StatKind, StatValue

_DOUBLE, _UINT64, _INT64 = int(StatKind.DOUBLE), int(StatKind.UINT64), int(StatKind.INT64)
_STR, _BYTES, _REF = int(StatKind.STR), int(StatKind.BYTES), int(StatKind.REF)
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_bits_of_double = struct.Struct("<q")
_double = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class EventKind:
    """A handle on event metadata of one plane, to add many events of the kind quickly."""

    row: int


class SpaceBuilder:
    """Collects planes; ``build`` gives the space, ``to_bytes`` the file."""

    def __init__(
        self, *, hostnames: Iterable[str] = (), errors: Iterable[str] = (), warnings: Iterable[str] = ()
    ) -> None:
        self.hostnames = tuple(hostnames)
        self.errors = tuple(errors)
        self.warnings = tuple(warnings)
        self._planes: dict[tuple[int, str], PlaneBuilder] = {}

    def add_plane(self, name: str, plane_id: int = 0, stats: Mapping[str, StatValue] | None = None) -> PlaneBuilder:
        """A new plane.

        Raises:
            UsageError: there is one with this id and name; readers would merge them.
        """
        key = (plane_id, name)
        if key in self._planes:
            raise UsageError(f"There is a plane {name!r} with id {plane_id} already.", hint="Add lines to that one.")
        plane = self._planes[key] = PlaneBuilder(name, plane_id, stats or {})
        return plane

    def build(self) -> Space:
        """What was collected so far."""
        planes = tuple(plane.build() for plane in self._planes.values())
        return Space(planes, self.errors, self.warnings, self.hostnames)

    def to_bytes(self) -> bytes:
        """What was collected so far as a serialised ``XSpace``."""
        from tpuprof.formats.xplane_writer import write_xplane

        return write_xplane(self.build())


class PlaneBuilder:
    """Collects the lines and metadata of one plane. Made by ``SpaceBuilder.add_plane``."""

    def __init__(self, name: str, plane_id: int, stats: Mapping[str, StatValue]) -> None:
        self.name = name
        self.id = plane_id
        self.stats = dict(stats)
        self._lines: dict[tuple[int, str], LineBuilder] = {}
        self._metas: list[EventMeta] = []
        self._meta_ids: set[int] = set()
        self._next_meta_id = 1
        self._kinds: dict[tuple[object, ...], int] = {}
        self.stat_rows: dict[str, int] = {}
        self.blob_rows: dict[bytes, int] = {}
        self._register(self.stats)

    def add_line(
        self,
        name: str,
        line_id: int | None = None,
        timestamp_ns: int = 0,
        *,
        display_name: str = "",
        display_id: int = 0,
        duration_ps: int = 0,
    ) -> LineBuilder:
        """A new line; without an id it gets the next free one from 1 on.

        Raises:
            UsageError: there is one with this id and name; readers would merge them.
        """
        if line_id is None:
            line_id = 1 + max((known for known, _ in self._lines), default=0)
        if (line_id, name) in self._lines:
            raise UsageError(
                f"There is a line {name!r} with id {line_id} already.",
                where=self.name,
                hint="Add events to that one.",
            )
        line = self._lines[line_id, name] = LineBuilder(
            self, Line(line_id, name, timestamp_ns, Events.empty(), display_name, display_id, duration_ps)
        )
        return line

    def add_event_metadata(
        self,
        name: str,
        *,
        meta_id: int | None = None,
        display_name: str = "",
        stats: Mapping[str, StatValue] | None = None,
        metadata: bytes = b"",
        child_ids: Iterable[int] = (),
    ) -> EventKind:
        """Metadata for events to come, or metadata that stands alone, such as the HLO of a program.

        Without an id it gets the next free one from 1 on. Later events that are added by the same name and display
        name, and say nothing else about their metadata, are of this kind.

        Raises:
            UsageError: the id is taken.
        """
        if meta_id is None:
            while self._next_meta_id in self._meta_ids:
                self._next_meta_id += 1
            meta_id = self._next_meta_id
        if meta_id in self._meta_ids:
            raise UsageError(f"There is event metadata with id {meta_id} already.", where=self.name)
        self._meta_ids.add(meta_id)
        stats = dict(stats or {})
        self._register(stats)
        row = len(self._metas)
        self._metas.append(EventMeta(meta_id, name, display_name, stats, metadata, tuple(child_ids)))
        self._kinds[name, display_name] = row
        self._kinds[name, display_name, _frozen(stats)] = row
        return EventKind(row)

    def kind_row(self, name: str, display_name: str, stats: Mapping[str, StatValue] | None) -> int:
        """The row of the metadata with these names and stats, made if it is new."""
        key = (name, display_name) if stats is None else (name, display_name, _frozen(stats))
        row = self._kinds.get(key)
        if row is None:
            row = self.add_event_metadata(name, display_name=display_name, stats=stats).row
        return row

    def build(self) -> Plane:
        """What was collected so far."""
        return Plane(
            id=self.id,
            name=self.name,
            lines=tuple(line.build() for line in self._lines.values()),
            event_meta=tuple(self._metas),
            stat_names=tuple(self.stat_rows),
            stats=dict(self.stats),
            blobs=tuple(self.blob_rows),
        )

    def _register(self, stats: Mapping[str, StatValue]) -> None:
        for name, value in stats.items():
            self.stat_rows.setdefault(name, len(self.stat_rows))
            if isinstance(value, Ref):
                self.stat_rows.setdefault(str(value), len(self.stat_rows))


class LineBuilder:
    """Collects the events of one line. Made by ``PlaneBuilder.add_line``."""

    def __init__(self, plane: PlaneBuilder, line: Line) -> None:
        self._plane = plane
        self._line = line
        self._meta: list[int] = []
        self._offset: list[int] = []
        self._duration: list[int] = []
        self._occurrences: dict[int, int] = {}
        self._ptr: list[int] = [0]
        self._key: list[int] = []
        self._kind: list[int] = []
        self._bits: list[int] = []

    def __len__(self) -> int:
        return len(self._meta)

    def add_event(
        self,
        event: str | EventKind,
        offset_ps: int = 0,
        duration_ps: int = 0,
        *,
        display_name: str = "",
        meta_stats: Mapping[str, StatValue] | None = None,
        stats: Mapping[str, StatValue] | None = None,
        num_occurrences: int | None = None,
    ) -> None:
        """One event, ``offset_ps`` after the line's timestamp.

        Args:
            event: the metadata's name (for an HLO op the whole instruction), or a handle.
            offset_ps: start after the line's timestamp; 0 for aggregated events.
            duration_ps: duration.
            display_name: the metadata's short name.
            meta_stats: stats of the metadata; other values make another kind of the same name.
            stats: stats of this event. Floats become doubles, ints int64 (uint64 above 2^63 - 1), text strings
                (``Ref`` texts references), bytes bytes.
            num_occurrences: makes it an aggregated event, which has no offset.
        """
        row = len(self._meta)
        plane = self._plane
        self._meta.append(
            event.row if isinstance(event, EventKind) else plane.kind_row(event, display_name, meta_stats)
        )
        if num_occurrences is not None:
            self._occurrences[row] = num_occurrences
            offset_ps = 0
        self._offset.append(offset_ps)
        self._duration.append(duration_ps)
        if stats:
            names = plane.stat_rows
            for name, value in stats.items():
                if type(value) is int:
                    kind, bits = _INT64, value
                    if value > _INT64_MAX:
                        kind, bits = _UINT64, value - (1 << 64)
                else:
                    kind, bits = self._encode(value)
                self._key.append(names.setdefault(name, len(names)))
                self._kind.append(kind)
                self._bits.append(bits)
        self._ptr.append(len(self._key))

    def build(self) -> Line:
        """What was collected so far."""
        occurrences = None
        if self._occurrences:
            occurrences = np.full(len(self._meta), -1, np.int64)
            occurrences[list(self._occurrences)] = list(self._occurrences.values())
        events = Events(
            meta=np.array(self._meta, np.int32),
            offset_ps=np.array(self._offset, np.int64),
            duration_ps=np.array(self._duration, np.int64),
            occurrences=occurrences,
            stat_ptr=np.array(self._ptr, np.int64),
            stat_key=np.array(self._key, np.int32),
            stat_kind=np.array(self._kind, np.uint8),
            stat_bits=np.array(self._bits, np.int64),
        )
        line = self._line
        return Line(
            line.id,
            line.name,
            line.timestamp_ns,
            events,
            line.display_name,
            line.display_id,
            line.duration_ps,
        )

    def _encode(self, value: StatValue) -> tuple[int, int]:
        plane = self._plane
        match value:
            case float():
                return _DOUBLE, _bits_of_double.unpack(_double.pack(value))[0]
            case int() if value > _INT64_MAX:
                return _UINT64, int(value) - (1 << 64)
            case int():
                return _INT64, int(value)
            case Ref():
                return _REF, plane.stat_rows.setdefault(str(value), len(plane.stat_rows))
            case str():
                return _STR, plane.blob_rows.setdefault(value.encode(), len(plane.blob_rows))
            case bytes():
                return _BYTES, plane.blob_rows.setdefault(value, len(plane.blob_rows))


def _frozen(stats: Mapping[str, StatValue]) -> frozenset[tuple[str, type, StatValue]]:
    return frozenset((name, type(value), value) for name, value in stats.items())
