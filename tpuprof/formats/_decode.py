"""Compiled loops over the bytes of an XPlane file. Import this module late: it loads numba.

Every loop treats its input as hostile: it reads only inside ``[pos, end)`` of the buffer, writes only inside its
output arrays, and advances at least one byte per turn. What cannot be decoded is counted and skipped.

The buffer is passed as an address (see _native). The callers in xplane_wire keep it alive and check that
``[pos, end)`` lies inside it.

The wire format in one paragraph: a message is a sequence of fields, each a varint tag (field number * 8 + wire type)
and a value: 0 varint, 1 eight bytes, 2 a length and that many bytes, 3 and 4 the ends of a group (long obsolete),
5 four bytes. Fields may come in any order and any number; of a repeated scalar the last one counts; unknown fields,
and known ones with an unexpected wire type, are skipped.
"""
# numba's decorators and types are untyped; the functions below are typed again where they are used (xplane_wire).
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, types

from tpuprof.formats._native import compiled, load_byte

DONE, FULL, CUT, BAD = 0, 1, 2, 3  # why a scan stopped

# Columns of a line's header, as count_line fills it.
HEAD_ID, HEAD_TIMESTAMP, HEAD_DURATION, HEAD_DISPLAY_ID = 0, 1, 2, 3
HEAD_NAME, HEAD_DISPLAY_NAME = 4, 6  # start and end, -1 where absent
HEAD_SIZE = 8

MISS_EVENT, MISS_KEY, MISS_REF = 0, 1, 2  # which table a missing id was looked up in
NOT_FOUND = -2  # entry of a row table: the id is not defined here
NO_NAME = -1  # entry of a row table: the id is known to be defined nowhere
INVENTED = -10  # entries from here down: row INVENTED - entry of a made-up name, which references do not see

MARK_EVERY = 65536  # events between two resume points of count_line

_U8 = types.uint8[::1]
_I32 = types.int32[::1]
_I64 = types.int64[::1]
_I64_2D = types.int64[:, ::1]
_INT = types.int64


@njit(nogil=True)
def _varint(buf, pos, end):  # -> (value, next position; negative if there is no whole varint)
    if pos < end:
        byte = load_byte(buf, pos)
        if byte < 128:
            return np.uint64(byte), pos + 1
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end:
        byte = load_byte(buf, pos)
        pos += 1
        value |= (np.uint64(byte) & np.uint64(127)) << shift
        if byte < 128:
            return value, pos
        shift += np.uint64(7)
        if shift > np.uint64(63):
            return value, np.int64(-BAD)  # more than ten bytes
    return value, np.int64(-CUT)


@njit(nogil=True)
def _skip(buf, pos, end, tag):  # -> position after the field's value; negative if it is not whole
    depth = 0
    while True:
        wire = tag & 7
        if wire == 0:
            _, pos = _varint(buf, pos, end)
            if pos < 0:
                return pos
        elif wire == 1:
            if end - pos < 8:
                return np.int64(-CUT)
            pos += 8
        elif wire == 2:
            size, pos = _varint(buf, pos, end)
            if pos < 0:
                return pos
            if size > np.uint64(end - pos):
                return np.int64(-CUT)
            pos += np.int64(size)
        elif wire == 5:
            if end - pos < 4:
                return np.int64(-CUT)
            pos += 4
        elif wire == 3:
            depth += 1
        elif wire == 4 and depth > 0:
            depth -= 1
        else:
            return np.int64(-BAD)
        if depth == 0:
            return pos
        tag, pos = _tag(buf, pos, end)
        if pos < 0:
            return pos


@njit(nogil=True)
def _tag(buf, pos, end):  # -> (tag, next position); negative if there is no valid tag
    raw, pos = _varint(buf, pos, end)
    if pos >= 0 and (raw < np.uint64(8) or raw > np.uint64(0xFFFFFFFF)):
        return np.int64(0), np.int64(-BAD)
    return np.int64(raw), pos


@njit(nogil=True)
def span(buf, pos, end):  # -> (start, end) of a length-delimited value; start negative if it is not whole
    size, pos = _varint(buf, pos, end)
    if pos < 0:
        return pos, pos
    if size > np.uint64(end - pos):
        return np.int64(-CUT), pos
    return pos, pos + np.int64(size)


@compiled(types.UniTuple(_INT, 3)(_INT, _INT, _INT, _I64_2D))
def scan_fields(buf, pos, end, out):
    """List the fields of a message: rows (field number, wire type, start, end) of ``out``.

    For wire type 2 start and end enclose the payload; for others the encoded value. Returns (rows, position, why):
    DONE at the end, FULL when ``out`` is full (call again from the position), CUT when the field at the position runs
    past the end, BAD when there is no valid field at the position.
    """
    n = 0
    while pos < end:
        if n == len(out):
            return n, pos, FULL
        tag, start = _tag(buf, pos, end)
        if start < 0:
            return n, pos, -start
        if tag & 7 == 2:
            first, last = span(buf, start, end)
            if first < 0:
                return n, pos, -first
        else:
            first = start
            last = _skip(buf, start, end, tag)
            if last < 0:
                return n, pos, -last
        out[n, 0] = tag >> 3
        out[n, 1] = tag & 7
        out[n, 2] = first
        out[n, 3] = last
        n += 1
        pos = last
    return n, pos, DONE


@compiled(types.UniTuple(_INT, 5)(_INT, _INT, _INT, _I64, _I64_2D))
def count_line(buf, pos, end, head, marks):
    """First pass over a line: its header into ``head``, and (events, stats, aggregated events, marks, defects).

    ``marks`` rows are resume points for fill_events: (position, event, stat), one at the first event and one every
    MARK_EVERY events. Events that cannot be walked are defects and count as nothing.
    """
    for i in range(HEAD_SIZE):
        head[i] = 0 if i < HEAD_NAME else -1
    n = stats = aggregated = n_marks = defects = 0
    while pos < end:
        here = pos
        tag, pos = _tag(buf, pos, end)
        if pos < 0:
            return n, stats, aggregated, n_marks, defects + 1
        if tag == 34:
            if n == n_marks * MARK_EVERY and n_marks < len(marks):
                marks[n_marks, 0] = here
                marks[n_marks, 1] = n
                marks[n_marks, 2] = stats
                n_marks += 1
            at, stop = span(buf, pos, end)
            if at < 0:
                return n, stats, aggregated, n_marks, defects + 1
            pos = stop
            here_stats = 0
            is_aggregated = 0
            while 0 <= at < stop:
                tag, at = _tag(buf, at, stop)
                if at < 0:
                    break
                if tag == 34:
                    here_stats += 1
                elif tag == 16:
                    is_aggregated = 0
                elif tag == 40:
                    is_aggregated = 1
                at = _skip(buf, at, stop, tag)
            if at < 0:
                defects += 1
                continue
            n += 1
            stats += here_stats
            aggregated += is_aggregated
        elif tag == 18 or tag == 90:
            first, pos = span(buf, pos, end)
            if first < 0:
                return n, stats, aggregated, n_marks, defects + 1
            column = HEAD_NAME if tag == 18 else HEAD_DISPLAY_NAME
            head[column] = first
            head[column + 1] = pos
        elif tag == 8 or tag == 24 or tag == 72 or tag == 80:
            value, pos = _varint(buf, pos, end)
            if pos < 0:
                return n, stats, aggregated, n_marks, defects + 1
            if tag == 8:
                head[HEAD_ID] = np.int64(value)
            elif tag == 24:
                head[HEAD_TIMESTAMP] = np.int64(value)
            elif tag == 72:
                head[HEAD_DURATION] = np.int64(value)
            else:
                head[HEAD_DISPLAY_ID] = np.int64(value)
        else:
            pos = _skip(buf, pos, end, tag)
            if pos < 0:
                return n, stats, aggregated, n_marks, defects + 1
    return n, stats, aggregated, n_marks, defects


@njit(nogil=True)
def _bisect(ids, rows, key):  # -> the row of an id in sorted ids, or NOT_FOUND
    low = 0
    high = len(ids)
    while low < high:
        middle = (low + high) >> 1
        if ids[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(ids) and ids[low] == key:
        return np.int64(rows[low])
    return np.int64(NOT_FOUND)


@compiled(
    types.UniTuple(_INT, 4)(
        _INT, _INT, _INT, _INT, _INT, _INT, _INT,
        _I32, _I64, _I32, _I32, _I64, _I32,
        _I32, _I64, _I64, _I64, _I64, _I32, _U8, _I64, _I64_2D,
    )
)  # fmt: skip
def fill_events(
    buf, pos, end, i, stop_i, s, stop_s,
    event_table, event_ids, event_rows, stat_table, stat_ids, stat_rows,
    meta, offset, duration, occurrences, stat_ptr, stat_key, stat_kind, stat_bits, misses,
):  # fmt: skip
    """Second pass: decode events ``i`` to ``stop_i`` of a line from ``pos`` on; stats go to rows ``s`` to ``stop_s``.

    Ids become rows by position in a table, else by bisection. ``occurrences`` is empty if the line has no aggregated
    events. Stats without a value that can be read get kind 0, for the caller to drop. STR and BYTES stats leave the
    position of the value's length in ``stat_bits``, for intern_blobs. Ids that the tables do not hold go to ``misses``
    as (which, id) as far as there is room. Returns (missing ids, texts, stats without a known value, defective ones).
    """
    n_misses = texts = unknown = defects = 0
    aggregates = len(occurrences) > 0
    while pos < end and i < stop_i:
        tag, pos = _tag(buf, pos, end)
        if pos < 0:
            break
        if tag != 34:
            pos = _skip(buf, pos, end, tag)
            if pos < 0:
                break
            continue
        at, stop = span(buf, pos, end)
        if at < 0:
            break
        pos = stop
        first_stat = s
        before = n_misses, texts, unknown, defects
        event_id = np.int64(0)
        event_offset = np.int64(0)
        event_duration = np.int64(0)
        event_occurrences = np.int64(-1)
        while 0 <= at < stop:
            tag, at = _tag(buf, at, stop)
            if at < 0:
                break
            if tag == 8:
                value, at = _varint(buf, at, stop)
                event_id = np.int64(value)
            elif tag == 16:
                value, at = _varint(buf, at, stop)
                event_offset = np.int64(value)
                event_occurrences = np.int64(-1)
            elif tag == 24:
                value, at = _varint(buf, at, stop)
                event_duration = np.int64(value)
            elif tag == 40:
                value, at = _varint(buf, at, stop)
                event_occurrences = max(np.int64(value), np.int64(0))
                event_offset = np.int64(0)
            elif tag == 34:
                a, b = span(buf, at, stop)
                if a < 0:
                    at = a
                    break
                at = b
                key = np.int64(0)
                kind = 0
                bits = np.int64(0)
                while a < b:
                    tag, a = _tag(buf, a, b)
                    if a < 0:
                        break
                    if tag == 8:
                        value, a = _varint(buf, a, b)
                        if a < 0:
                            break
                        key = np.int64(value)
                    elif tag == 24 or tag == 32 or tag == 56:
                        value, a = _varint(buf, a, b)
                        if a < 0:
                            break
                        kind = tag >> 3
                        bits = np.int64(value)
                    elif tag == 17:
                        if b - a < 8:
                            a = np.int64(-CUT)
                            break
                        value = np.uint64(0)
                        for k in range(8):
                            value |= np.uint64(load_byte(buf, a + k)) << np.uint64(8 * k)
                        a += 8
                        kind = 2
                        bits = np.int64(value)
                    elif tag == 42 or tag == 50:
                        kind = tag >> 3
                        bits = a
                        a = _skip(buf, a, b, 2)
                        if a < 0:
                            break
                    else:
                        a = _skip(buf, a, b, tag)
                        if a < 0:
                            break
                if s >= stop_s:
                    continue  # only in an event that turns out to be defective and was not counted
                row = np.int64(NO_NAME)
                if a < 0:
                    defects += 1
                    kind = 0
                elif kind == 0:
                    unknown += 1
                else:
                    if 0 <= key < len(stat_table):
                        row = np.int64(stat_table[key])
                    else:
                        row = _bisect(stat_ids, stat_rows, key)
                    if row <= INVENTED:
                        row = INVENTED - row
                    elif row < 0:
                        if n_misses < len(misses):
                            misses[n_misses, 0] = MISS_KEY
                            misses[n_misses, 1] = key
                        n_misses += 1
                        row = np.int64(NO_NAME)
                    if kind == 7:
                        target = bits
                        if 0 <= target < len(stat_table):
                            bits = np.int64(stat_table[target])
                        else:
                            bits = _bisect(stat_ids, stat_rows, target)
                        if bits == NOT_FOUND:
                            if n_misses < len(misses):
                                misses[n_misses, 0] = MISS_REF
                                misses[n_misses, 1] = target
                            n_misses += 1
                        bits = max(bits, np.int64(NO_NAME))
                    elif kind == 5 or kind == 6:
                        texts += 1
                stat_key[s] = row
                stat_kind[s] = kind
                stat_bits[s] = bits
                s += 1
            else:
                at = _skip(buf, at, stop, tag)
        if at < 0:
            s = first_stat  # defective, and reported as such by count_line: the next event takes its rows
            n_misses, texts, unknown, defects = before
            continue
        row = np.int64(NOT_FOUND)
        if 0 <= event_id < len(event_table):
            row = np.int64(event_table[event_id])
        elif len(event_ids) > 0:
            row = _bisect(event_ids, event_rows, event_id)
        if row < 0:
            if n_misses < len(misses):
                misses[n_misses, 0] = MISS_EVENT
                misses[n_misses, 1] = event_id
            n_misses += 1
            row = np.int64(NO_NAME)
        meta[i] = row
        offset[i] = event_offset
        duration[i] = event_duration
        if aggregates:
            occurrences[i] = event_occurrences
        stat_ptr[i] = first_stat
        i += 1
    return n_misses, texts, unknown, defects
