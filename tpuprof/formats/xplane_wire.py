"""The typed face of the compiled loops: fields of a message, and the events of a line.

Importing this module loads numba (about 0.4 s with a warm cache); readers import it when they read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.errors import InputError
from tpuprof.formats import _decode, _wire
from tpuprof.formats.xspace import I32, I64, U8, Events

Data = bytes | bytearray | memoryview | mmap.mmap
DONE, CUT, BAD = _wire.DONE, _wire.CUT, _wire.BAD
MISS_EVENT, MISS_KEY, MISS_REF = _decode.MISS_EVENT, _decode.MISS_KEY, _decode.MISS_REF
NOT_FOUND, NO_NAME, INVENTED = _decode.NOT_FOUND, _decode.NO_NAME, _decode.INVENTED

_BATCH = 4096
_NO_I64 = np.zeros(0, np.int64)
_NO_MISSES = np.zeros((0, 2), np.int64)


class Pages:
    """The pages of a memory map, to be let go of once they were decoded.

    They stay in the page cache of the system, so coming back to them is cheap, but a file that is decoded once no
    longer counts as memory of this process. Only maps that cannot be written to are touched: from a private copy this
    would take back what was written.
    """

    def __init__(self, data: Data) -> None:
        self._map: mmap.mmap | None = None
        if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            with memoryview(data) as view:
                self._map = data if view.readonly else None

    def release(self, start: int, end: int) -> None:
        """Let go of the whole pages inside ``[start, end)``."""
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        size = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if self._map is not None and size > 0:
            self._map.madvise(mmap.MADV_DONTNEED, first, size)


@dataclass(slots=True)
class ScanEnd:
    """Why and where a scan stopped: ``DONE``, ``CUT`` (the field at ``position`` runs past the end) or ``BAD``."""

    why: int = DONE
    position: int = 0


def as_buffer(data: Data) -> U8:
    """The bytes as a read-only array that shares their memory."""
    buffer = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)
    buffer.flags.writeable = False
    return buffer


def scan(buffer: U8, start: int, end: int, stop: ScanEnd) -> Iterator[I64]:
    """The fields of the message in ``[start, end)``, in batches of rows (number, wire type, start, end).

    Start and end enclose the payload of a length-delimited field and the encoded value of any other. The reason of
    the end is left in ``stop`` when the iterator is exhausted.
    """
    address = _address(buffer, start, end)
    rows = np.empty((min(_BATCH, max(1, end - start)), 4), np.int64)
    why = _wire.FULL
    while why == _wire.FULL:
        n, start, why = _wire.scan_fields(address, start, end, rows)
        yield rows[:n]
    stop.why, stop.position = why, start


def read_varint(buffer: U8, start: int, end: int) -> int:
    """The varint in ``[start, end)`` as a signed 64-bit integer."""
    value = 0
    for shift, byte in enumerate(buffer[start : min(end, start + 10)].tolist()):
        value |= (byte & 0x7F) << (7 * shift)
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return value - (1 << 64) if value >> 63 else value


@dataclass(frozen=True, slots=True, eq=False)
class RowTable:
    """Ids to rows, for the compiled loop: small ids by position, the others by bisection."""

    table: I32
    ids: I64
    rows: I32

    @staticmethod
    def build(mapping: dict[int, int]) -> RowTable:
        """A table of the ids (signed 64-bit) and rows of ``mapping``."""
        ids = np.fromiter(mapping.keys(), np.int64, len(mapping))
        rows = np.fromiter(mapping.values(), np.int32, len(mapping))
        limit = 4 * len(mapping) + 1024
        small = (ids >= 0) & (ids < limit)
        table = np.full(int(ids[small].max()) + 1 if small.any() else 0, NOT_FOUND, np.int32)
        table[ids[small]] = rows[small]
        ids, rows = ids[~small], rows[~small]
        order = np.argsort(ids)
        return RowTable(table, ids[order], rows[order])


@dataclass(frozen=True, slots=True, eq=False)
class LinePart:
    """One line message: its header and what the first pass counted.

    ``marks`` rows are (position, event, stat) from which decoding can start; ``name`` and ``display_name`` are raw.
    """

    start: int
    end: int
    id: int
    name: bytes
    display_name: bytes
    timestamp_ns: int
    duration_ps: int
    display_id: int
    n_events: int
    n_stats: int
    n_aggregated: int
    defects: int
    marks: I64


def count_line(buffer: U8, start: int, end: int) -> LinePart:
    """The header of the line message in ``[start, end)`` and the size of what it holds."""
    head = np.empty(_decode.HEAD_SIZE, np.int64)
    marks = np.empty(((end - start) // (2 * _decode.MARK_EVERY) + 1, 3), np.int64)
    counts: tuple[int, int, int, int, int] = _decode.count_line(_address(buffer, start, end), start, end, head, marks)
    n_events, n_stats, n_aggregated, n_marks, defects = counts
    line_id, timestamp_ns, duration_ps, display_id, a, b, c, d = head.tolist()
    return LinePart(
        start,
        end,
        line_id,
        buffer[a:b].tobytes() if a >= 0 else b"",
        buffer[c:d].tobytes() if c >= 0 else b"",
        timestamp_ns,
        duration_ps,
        display_id,
        n_events,
        n_stats,
        n_aggregated,
        defects,
        marks[:n_marks].copy(),
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a line part that is decoded on its own: events ``first`` to ``last`` of the merged line."""

    part: LinePart
    position: int
    end: int  # where the next segment starts
    first: int
    last: int
    first_stat: int
    last_stat: int

    @staticmethod
    def cut(part: LinePart, event_base: int, stat_base: int) -> Iterator[Segment]:
        """The segments of a part whose first event and stat have these rows in the merged line."""
        if part.n_events == 0:
            return
        marks = part.marks.tolist()
        ends = [*marks[1:], (part.end, part.n_events, part.n_stats)]
        for (position, event, stat), (end, last, last_stat) in zip(marks, ends, strict=True):
            yield Segment(
                part,
                position,
                end,
                event_base + event,
                event_base + last,
                stat_base + stat,
                stat_base + last_stat,
            )


@dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding a segment met: ids without a row, texts, stats without a known value, defective stats."""

    misses: int
    texts: int
    unknown: int
    defects: int


def allocate(n_events: int, n_stats: int, aggregated: bool) -> Events:
    """Events of this size, to be filled by ``decode``; the values are arbitrary until then."""
    stat_ptr = np.empty(n_events + 1, np.int64)
    stat_ptr[n_events] = n_stats
    return Events(
        meta=np.empty(n_events, np.int32),
        offset_ps=np.empty(n_events, np.int64),
        duration_ps=np.empty(n_events, np.int64),
        occurrences=np.empty(n_events, np.int64) if aggregated else None,
        stat_ptr=stat_ptr,
        stat_key=np.empty(n_stats, np.int32),
        stat_kind=np.empty(n_stats, np.uint8),
        stat_bits=np.empty(n_stats, np.int64),
    )


def decode(
    buffer: U8,
    segment: Segment,
    event_rows: RowTable,
    stat_rows: RowTable,
    into: Events,
    misses: npt.NDArray[np.int64] = _NO_MISSES,
) -> Decoded:
    """Decode one segment into its rows of the merged line's arrays; releases the GIL.

    Args:
        buffer: the file.
        segment: what to decode.
        event_rows: rows of event metadata ids.
        stat_rows: rows of stat metadata ids.
        into: arrays of the merged line; STR and BYTES stats get the position of their length as ``stat_bits``.
        misses: room for (``MISS_EVENT`` | ``MISS_KEY`` | ``MISS_REF``, id) rows of ids that the tables lack.
    """
    if segment.last > len(into.meta) or segment.last_stat > len(into.stat_key):
        raise ValueError(f"{segment} does not fit into {len(into.meta)} events, {len(into.stat_key)} stats")
    found: tuple[int, int, int, int] = _decode.fill_events(
        _address(buffer, segment.position, segment.end),
        segment.position,
        segment.end,
        segment.first,
        segment.last,
        segment.first_stat,
        segment.last_stat,
        event_rows.table,
        event_rows.ids,
        event_rows.rows,
        stat_rows.table,
        stat_rows.ids,
        stat_rows.rows,
        into.meta,
        into.offset_ps,
        into.duration_ps,
        _NO_I64 if into.occurrences is None else into.occurrences,
        into.stat_ptr,
        into.stat_key,
        into.stat_kind,
        into.stat_bits,
        misses,
    )
    return Decoded(*found)


def intern_blobs(buffer: U8, stat_kind: U8, stat_bits: I64, texts: int) -> I64:
    """Number the distinct STR and BYTES values: ``stat_bits`` become rows of the result, which holds (start, end)."""
    from tpuprof.formats import _intern

    slots = np.full(1 << max(4, (2 * texts - 1).bit_length()), -1, np.int32)
    spans = np.empty((texts, 2), np.int64)
    size = len(buffer)
    n: int = _intern.intern_blobs(_address(buffer, 0, size), size, stat_kind, stat_bits, slots, spans)
    if n < 0:
        raise InputError("The file changed while it was read.", hint="Read it again when nobody writes to it.")
    return spans[:n]


def _address(buffer: U8, start: int, end: int) -> int:
    if not 0 <= start <= end <= len(buffer):
        raise ValueError(f"[{start}, {end}) is not inside the buffer of {len(buffer)} bytes")
    return buffer.ctypes.data
