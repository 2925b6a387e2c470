"""Compiled loops over the events of an XPlane line. Import this module late: it loads numba.

They write only inside their output arrays. What cannot be decoded is counted and skipped.
"""
# numba's decorators and types are untyped; the functions below are typed again where they are used (xplane_wire).
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, types

from tpuprof.formats._native import compiled
from tpuprof.formats._wire import read_tag, skip, span, stat, varint

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
        tag, pos = read_tag(buf, pos, end)
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
                tag, at = read_tag(buf, at, stop)
                if at < 0:
                    break
                if tag == 34:
                    here_stats += 1
                elif tag == 16:
                    is_aggregated = 0
                elif tag == 40:
                    is_aggregated = 1
                at = skip(buf, at, stop, tag)
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
            value, pos = varint(buf, pos, end)
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
            pos = skip(buf, pos, end, tag)
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
        tag, pos = read_tag(buf, pos, end)
        if pos < 0:
            break
        if tag != 34:
            pos = skip(buf, pos, end, tag)
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
            tag, at = read_tag(buf, at, stop)
            if at < 0:
                break
            if tag == 8:
                value, at = varint(buf, at, stop)
                event_id = np.int64(value)
            elif tag == 16:
                value, at = varint(buf, at, stop)
                event_offset = np.int64(value)
                event_occurrences = np.int64(-1)
            elif tag == 24:
                value, at = varint(buf, at, stop)
                event_duration = np.int64(value)
            elif tag == 40:
                value, at = varint(buf, at, stop)
                event_occurrences = max(np.int64(value), np.int64(0))
                event_offset = np.int64(0)
            elif tag == 34:
                a, b = span(buf, at, stop)
                if a < 0:
                    at = a
                    break
                at = b
                key, kind, bits, good = stat(buf, a, b)
                if s >= stop_s:
                    continue  # only in an event that turns out to be defective and was not counted
                row = np.int64(NO_NAME)
                if good < 0:
                    defects += 1
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
                at = skip(buf, at, stop, tag)
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
