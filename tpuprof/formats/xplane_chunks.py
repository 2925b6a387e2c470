"""Chunks of planes: where the parts of one ``XPlane`` message lie in the file.

A large plane is written as several messages with the same id and name. Only the structure is read here; nothing is
decoded but the plane's own id and name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tpuprof.errors import InputTooLargeError
from tpuprof.formats.xplane_wire import BAD, CUT, ScanEnd, read_varint, scan
from tpuprof.formats.xspace import I64, U8

# A few bytes of input can ask for an object of a kilobyte, so the numbers of objects are bounded. Real files hold tens
# of planes, up to a few thousand lines, and up to some ten thousand metadata entries per plane.
MAX_PLANES = 100_000
MAX_LINES = 200_000
MAX_METADATA = 2_000_000

_VARINT, _LENGTH = 0, 2
_NO_SPANS = np.zeros((0, 2), np.int64)


@dataclass(slots=True)
class Notes:
    """What a reader notices on the way, as counts, for the quality entries."""

    damaged: int = 0
    unknown_stats: int = 0
    missing_metadata: int = 0
    bad_utf8: int = 0
    dropped_lines: int = 0
    planes: int = 0
    lines: int = 0
    metadata: int = 0

    def admit(self, where: str, *, planes: int = 0, lines: int = 0, metadata: int = 0) -> None:
        """Count objects about to be made.

        Raises:
            InputTooLargeError: there are more of them than any real file has.
        """
        self.planes += planes
        self.lines += lines
        self.metadata += metadata
        for what, count, limit in (
            ("planes", self.planes, MAX_PLANES),
            ("lines", self.lines, MAX_LINES),
            ("metadata entries", self.metadata, MAX_METADATA),
        ):
            if count > limit:
                raise InputTooLargeError(
                    f"The file holds more than {limit} {what}.",
                    where=where,
                    why="No profiler writes that many, so the file is damaged or was made to exhaust memory.",
                )

    def text(self, raw: bytes) -> str:
        """Text for people from bytes that should be UTF-8; invalid bytes become marks and are counted."""
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.bad_utf8 += 1
            return raw.decode("utf-8", "replace")


@dataclass(slots=True, eq=False)
class Chunk:
    """One ``XPlane`` message: spans (start, end) of the payloads of its parts, in file order."""

    id: int = 0
    name: bytes = b""
    lines: I64 = field(default_factory=lambda: _NO_SPANS)
    event_metadata: I64 = field(default_factory=lambda: _NO_SPANS)
    stat_metadata: I64 = field(default_factory=lambda: _NO_SPANS)
    stats: I64 = field(default_factory=lambda: _NO_SPANS)
    cut: bool = False  # the file ends inside this chunk

    @property
    def is_blank(self) -> bool:
        """Nothing in it says that this is a plane."""
        parts = (self.lines, self.event_metadata, self.stat_metadata, self.stats)
        return not self.name and not any(len(spans) for spans in parts)


_PARTS = {3: "lines", 4: "event_metadata", 5: "stat_metadata", 6: "stats"}


def read_chunk(buffer: U8, start: int, end: int, notes: Notes, where: str = "", *, cut: bool = False) -> Chunk:
    """Find the parts of the ``XPlane`` message in ``[start, end)``.

    Args:
        buffer: the file.
        start: where the message starts.
        end: where it ends, or where the file ends.
        notes: receives a count of damage.
        where: the file's name, for errors.
        cut: the message is known to go on after ``end``.
    """
    chunk = Chunk(cut=cut)
    found: dict[int, list[I64]] = {number: [] for number in _PARTS}
    stop = ScanEnd()
    for rows in scan(buffer, start, end, stop):
        numbers, wires = rows[:, 0], rows[:, 1]
        delimited = wires == _LENGTH
        for number, batches in found.items():
            spans = rows[delimited & (numbers == number), 2:]
            if len(spans):
                batches.append(spans)
                is_line = number == 3
                notes.admit(where, lines=len(spans) * is_line, metadata=len(spans) * (not is_line))
        for number, wire, first, last in rows[numbers <= 2].tolist():
            if number == 1 and wire == _VARINT:
                chunk.id = read_varint(buffer, first, last)
            elif number == 2 and wire == _LENGTH:
                chunk.name = buffer[first:last].tobytes()
    if stop.why == BAD or (stop.why == CUT and not cut):
        notes.damaged += 1
    for number, attribute in _PARTS.items():
        if found[number]:
            setattr(chunk, attribute, np.concatenate(found[number]))
    return chunk
