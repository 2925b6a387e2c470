"""Compiled loops that write the events of an XPlane line. Import this module late: it loads numba."""
# numba's decorators and types are untyped; the functions are typed again where they are used (xplane_writer).
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, types

from tpuprof.formats._native import compiled, load_byte, store_byte

_I32 = types.int32[::1]
_I64 = types.int64[::1]
_U8 = types.uint8[::1]
_INT = types.int64


@njit(nogil=True)
def _length(value):  # bytes of a varint
    rest = np.uint64(value)
    size = 1
    while rest >= np.uint64(128):
        rest >>= np.uint64(7)
        size += 1
    return size


@njit(nogil=True)
def _put(out, pos, value):  # write a varint; -> next position
    rest = np.uint64(value)
    while rest >= np.uint64(128):
        store_byte(out, pos, np.uint8(rest & np.uint64(127) | np.uint64(128)))
        rest >>= np.uint64(7)
        pos += 1
    store_byte(out, pos, np.uint8(rest))
    return pos + 1


@njit(nogil=True)
def _stat_length(key, kind, bits, text_length):
    size = 1 + _length(key) if key != 0 else 0
    if kind == 2:
        return size + 9
    if kind == 5 or kind == 6:
        return size + 1 + _length(text_length) + text_length
    return size + 1 + _length(bits)


@compiled(_INT(_I64, _I64, _I64, _I64, _I64, _I64, _U8, _I64, _I64, _I64))
def measure_events(event_ids, offset, duration, occurrences, stat_ptr, keys, stat_kind, stat_bits, text_lengths, sizes):
    """The size of every event message into ``sizes``; returns the size of all ``events`` fields of the line."""
    total = 0
    for i in range(len(event_ids)):
        size = 1 + _length(event_ids[i]) if event_ids[i] != 0 else 0
        if len(occurrences) > 0 and occurrences[i] >= 0:
            size += 1 + _length(occurrences[i])
        else:
            size += 1 + _length(offset[i])
        if duration[i] != 0:
            size += 1 + _length(duration[i])
        for s in range(stat_ptr[i], stat_ptr[i + 1]):
            stat = _stat_length(keys[s], stat_kind[s], stat_bits[s], text_lengths[s])
            size += 1 + _length(stat) + stat
        sizes[i] = size
        total += 1 + _length(size) + size
    return total


@compiled(
    _INT(_INT, _INT, _I64, _I64, _I64, _I64, _I64, _I64, _U8, _I64, _I64, _I64, _I64, _INT)
)  # fmt: skip
def write_events(
    out, pos, event_ids, offset, duration, occurrences, stat_ptr, keys, stat_kind, stat_bits, text_starts,
    text_lengths, sizes, texts,
):  # fmt: skip
    """Write the ``events`` fields to the address ``out`` + ``pos``; ``texts`` is the address of all text bytes.

    The caller has allocated what measure_events said. Returns the position after the last event.
    """
    for i in range(len(event_ids)):
        store_byte(out, pos, np.uint8(34))
        pos = _put(out, pos + 1, sizes[i])
        if event_ids[i] != 0:
            store_byte(out, pos, np.uint8(8))
            pos = _put(out, pos + 1, event_ids[i])
        aggregated = len(occurrences) > 0 and occurrences[i] >= 0
        if not aggregated:
            store_byte(out, pos, np.uint8(16))
            pos = _put(out, pos + 1, offset[i])
        if duration[i] != 0:
            store_byte(out, pos, np.uint8(24))
            pos = _put(out, pos + 1, duration[i])
        for s in range(stat_ptr[i], stat_ptr[i + 1]):
            key = keys[s]
            kind = stat_kind[s]
            bits = stat_bits[s]
            length = text_lengths[s]
            store_byte(out, pos, np.uint8(34))
            pos = _put(out, pos + 1, _stat_length(key, kind, bits, length))
            if key != 0:
                store_byte(out, pos, np.uint8(8))
                pos = _put(out, pos + 1, key)
            if kind == 2:
                store_byte(out, pos, np.uint8(17))
                pos += 1
                rest = np.uint64(bits)
                for _ in range(8):
                    store_byte(out, pos, np.uint8(rest & np.uint64(255)))
                    rest >>= np.uint64(8)
                    pos += 1
            elif kind == 5 or kind == 6:
                store_byte(out, pos, np.uint8(42 if kind == 5 else 50))
                pos = _put(out, pos + 1, length)
                start = text_starts[s]
                for k in range(length):
                    store_byte(out, pos, load_byte(texts, start + k))
                    pos += 1
            else:
                store_byte(out, pos, np.uint8(kind * 8))
                pos = _put(out, pos + 1, bits)
        if aggregated:
            store_byte(out, pos, np.uint8(40))
            pos = _put(out, pos + 1, occurrences[i])
    return pos
