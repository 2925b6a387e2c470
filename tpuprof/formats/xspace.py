"""The in-memory form of one host's trace: planes, lines and events as arrays.

Every reader produces this form, every writer takes it, and all tables are built from it. Nothing is interpreted here:
it is what the file says, with three repairs that any reader must make. Planes and lines written in chunks are
merged; ids are replaced by dense row numbers (so chunks that reuse an id for something else cannot collide); text is
decoded with replacement marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
StatValue = float | int | str | bytes


class Ref(str):
    """Text that a writer stores once per plane, as a reference to a stat name; readers give plain text."""

    __slots__ = ()


class StatKind(IntEnum):
    """How a stat's value is written; the numbers are the field numbers of the format."""

    DOUBLE = 2
    UINT64 = 3
    INT64 = 4
    STR = 5
    BYTES = 6
    REF = 7


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of one line as arrays of equal length n, their stats in compressed rows.

    The stats of event ``i`` are ``stat_ptr[i]:stat_ptr[i + 1]`` of the ``stat_*`` arrays. A stat's ``stat_bits`` are:
    the IEEE bits of a double, the two's complement bits of an integer (read unsigned ones modulo 2^64), for ``REF``
    a row of ``Plane.stat_names``, for ``STR`` and ``BYTES`` a row of ``Plane.blobs``.
    """

    meta: I32  # row of the plane's event metadata; -1 where the file names no such metadata
    offset_ps: I64  # from the line's timestamp; 0 for aggregated events
    duration_ps: I64  # as written: may be negative in damaged files
    occurrences: I64 | None  # num_occurrences of aggregated events, -1 elsewhere; None if the line has none
    stat_ptr: I64  # n + 1 entries
    stat_key: I32  # row of Plane.stat_names
    stat_kind: U8
    stat_bits: I64

    def __len__(self) -> int:
        return len(self.meta)

    @staticmethod
    def empty() -> Events:
        """No events."""
        i64, i32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return Events(i32, i64, i64, None, np.zeros(1, np.int64), i32, np.zeros(0, np.uint8), i64)

    def take(self, rows: npt.NDArray[np.intp]) -> Events:
        """Some of the events, with their stats."""
        lengths = np.diff(self.stat_ptr)
        ends = np.cumsum(lengths[rows])
        # Positions of the stats: each chosen event's run of them, one after the other.
        index = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
            self.stat_ptr[rows] - (ends - lengths[rows]), lengths[rows]
        )
        return Events(
            self.meta[rows],
            self.offset_ps[rows],
            self.duration_ps[rows],
            None if self.occurrences is None else self.occurrences[rows],
            np.concatenate([np.zeros(1, np.int64), ends]),
            self.stat_key[index],
            self.stat_kind[index],
            self.stat_bits[index],
        )

    def find(self, key: int) -> tuple[npt.NDArray[np.intp], U8, I64]:
        """All occurrences of one stat: (event rows, kinds, bits); empty for ``key`` < 0."""
        if key < 0 or not len(self.stat_key):
            empty = np.zeros(0, np.intp)
            return empty, np.zeros(0, np.uint8), np.zeros(0, np.int64)
        from tpuprof.formats import _stats  # brings numba, which whoever reads a file has loaded

        return _stats.find(self, key)

    def int_stat(self, key: int, missing: int = 0) -> tuple[I64, npt.NDArray[np.bool_]]:
        """An integer stat as (values, present), each of length n; unsigned values wrap modulo 2^64.

        Values of other kinds count as absent. If an event repeats the stat, the last one wins.
        """
        if key < 0 or not len(self.stat_key):
            return np.full(len(self), missing, np.int64), np.zeros(len(self), np.bool_)
        from tpuprof.formats import _stats

        return _stats.int_stat(self, key, missing)


@dataclass(frozen=True, slots=True, eq=False)
class EventMeta:
    """What events of one kind have in common: one entry of a plane's event metadata."""

    id: int
    name: str
    display_name: str
    stats: dict[str, StatValue]
    metadata: bytes = b""
    child_ids: tuple[int, ...] = ()
    bad_utf8: bool = False

    @property
    def label(self) -> str:
        """The short name: the display name where there is one."""
        return self.display_name or self.name


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One line of a plane, all chunks merged. Event start = ``timestamp_ns`` * 1000 + ``offset_ps``."""

    id: int
    name: str
    timestamp_ns: int
    events: Events
    display_name: str = ""
    display_id: int = 0
    duration_ps: int = 0

    @property
    def label(self) -> str:
        """The name that a viewer shows."""
        return self.display_name or self.name


@dataclass(frozen=True, eq=False)
class Plane:
    """One plane, all chunks merged: a device, the host's threads, or metadata."""

    id: int
    name: str
    lines: tuple[Line, ...]
    event_meta: tuple[EventMeta, ...]
    stat_names: tuple[str, ...]  # unique; rows are what Events.stat_key and REF values point to
    stats: dict[str, StatValue] = field(default_factory=dict[str, StatValue])
    blobs: tuple[bytes, ...] = ()  # values of STR and BYTES stats of events

    @cached_property
    def _stat_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.stat_names)}

    def stat_row(self, name: str) -> int:
        """The row of a stat name, -1 if the plane does not know it."""
        return self._stat_rows.get(name, -1)

    def line(self, name: str) -> Line | None:
        """The first line with this name or display name."""
        return next((line for line in self.lines if name in (line.name, line.display_name)), None)

    def text_stat(self, events: Events, stat: str) -> list[str | None]:
        """A text stat of every event, whatever way it was written (reference, text, bytes, number)."""
        result: list[str | None] = [None] * len(events)
        owner, kinds, bits = events.find(self.stat_row(stat))
        for row, kind, value in zip(owner.tolist(), kinds.tolist(), bits.tolist(), strict=True):
            found = self.value(kind, value)
            result[row] = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        return result

    def text_codes(self, events: Events, stat: str) -> I32:
        """A text stat of every event as a code for ``text``, whether it is written inline or as a reference.

        Codes are -1 where the stat is absent. A text that is written in both ways has two codes.
        """
        key = self.stat_row(stat)
        if key < 0 or not len(events.stat_key):
            return np.full(len(events), -1, np.int32)
        from tpuprof.formats import _stats

        return _stats.text_codes(events, key, len(self.stat_names))

    def text(self, code: int) -> str:
        """The text of a code from ``text_codes``."""
        own = code - len(self.stat_names)
        return self.stat_names[code] if own < 0 else self.blobs[own].decode("utf-8", "replace")

    def value(self, kind: int, bits: int) -> StatValue:
        """One stat's value as a Python object; references become the text they point to."""
        match kind:
            case StatKind.DOUBLE:
                return float(np.int64(bits).view(np.float64))
            case StatKind.UINT64:
                return bits & 0xFFFF_FFFF_FFFF_FFFF
            case StatKind.REF:
                return self.stat_names[bits] if 0 <= bits < len(self.stat_names) else ""
            case StatKind.STR:
                return self.blobs[bits].decode("utf-8", "replace")
            case StatKind.BYTES:
                return self.blobs[bits]
            case _:
                return bits

    def event_stats(self, events: Events, index: int) -> dict[str, StatValue]:
        """All stats of one event, for details on demand and for tests."""
        span = slice(int(events.stat_ptr[index]), int(events.stat_ptr[index + 1]))
        return {
            self.stat_names[key]: self.value(kind, bits)
            for key, kind, bits in zip(
                events.stat_key[span].tolist(),
                events.stat_kind[span].tolist(),
                events.stat_bits[span].tolist(),
                strict=True,
            )
        }


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Everything one host recorded in one session."""

    planes: tuple[Plane, ...]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()

    def plane(self, name: str) -> Plane | None:
        """The plane with exactly this name."""
        return next((plane for plane in self.planes if plane.name == name), None)

    def lines(self) -> Iterator[tuple[Plane, Line]]:
        """All lines with their planes."""
        for plane in self.planes:
            for line in plane.lines:
                yield plane, line

    def count_events(self) -> int:
        """The number of events of all lines."""
        return sum(len(line.events) for _, line in self.lines())

    def task_times_ns(self) -> tuple[int | None, int | None]:
        """Start and stop of the session in ns since the epoch, from the plane ``Task Environment``."""
        plane = self.plane("Task Environment")
        stats: dict[str, Any] = dict(plane.stats) if plane else {}
        start, stop = stats.get("profile_start_time"), stats.get("profile_stop_time")
        return (start if isinstance(start, int) else None, stop if isinstance(stop, int) else None)
