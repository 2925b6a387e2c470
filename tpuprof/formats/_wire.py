"""Compiled reading of the protobuf wire format, for the loops over XPlane bytes. Import late: it loads numba.

Every function treats its input as hostile: it reads only inside ``[pos, end)`` of the buffer and advances at least one
byte per turn. The buffer is an address (see _native), which xplane_wire keeps alive and whose range it checks.

The wire format in one paragraph: a message is a sequence of fields, each a varint tag (field number * 8 + wire type)
and a value: 0 varint, 1 eight bytes, 2 a length and that many bytes, 3 and 4 the ends of a group (long obsolete),
5 four bytes. Fields may come in any order and any number; of a repeated scalar the last one counts; unknown fields,
and known ones with an unexpected wire type, are skipped.
"""
# numba's decorators and types are untyped; what is used elsewhere is typed again in xplane_wire.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, types

from tpuprof.formats._native import compiled, load_byte

DONE, FULL, CUT, BAD = 0, 1, 2, 3  # why a scan stopped

_INT = types.int64


@njit(nogil=True)
def varint(buf, pos, end):  # -> (value, next position; negative if there is no whole varint)
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
def skip(buf, pos, end, tag):  # -> position after the field's value; negative if it is not whole
    depth = 0
    while True:
        wire = tag & 7
        if wire == 0:
            _, pos = varint(buf, pos, end)
            if pos < 0:
                return pos
        elif wire == 1:
            if end - pos < 8:
                return np.int64(-CUT)
            pos += 8
        elif wire == 2:
            size, pos = varint(buf, pos, end)
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
        tag, pos = read_tag(buf, pos, end)
        if pos < 0:
            return pos


@njit(nogil=True)
def read_tag(buf, pos, end):  # -> (tag, next position); negative if there is no valid tag
    raw, pos = varint(buf, pos, end)
    if pos >= 0 and (raw < np.uint64(8) or raw > np.uint64(0xFFFFFFFF)):
        return np.int64(0), np.int64(-BAD)
    return np.int64(raw), pos


@njit(nogil=True)
def span(buf, pos, end):  # -> (start, end) of a length-delimited value; start negative if it is not whole
    size, pos = varint(buf, pos, end)
    if pos < 0:
        return pos, pos
    if size > np.uint64(end - pos):
        return np.int64(-CUT), pos
    return pos, pos + np.int64(size)


@njit(nogil=True)
def stat(buf, pos, end):  # -> (metadata id, kind, bits, negative if it is defective)
    """Decode an ``XStat``; the kind is 0 if there is no known value, STR and BYTES give the position of the length."""
    key = np.int64(0)
    kind = np.int64(0)
    bits = np.int64(0)
    while pos < end:
        tag, pos = read_tag(buf, pos, end)
        if pos < 0:
            return key, np.int64(0), bits, pos
        if tag == 8 or tag == 24 or tag == 32 or tag == 56:
            value, pos = varint(buf, pos, end)
            if tag == 8:
                key = np.int64(value)
            else:
                kind = tag >> 3
                bits = np.int64(value)
        elif tag == 17 and end - pos >= 8:
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(load_byte(buf, pos + k)) << np.uint64(8 * k)
            pos += 8
            kind = np.int64(2)
            bits = np.int64(word)
        elif tag == 42 or tag == 50:
            kind = tag >> 3
            bits = pos
            pos = skip(buf, pos, end, np.int64(2))
        else:
            pos = skip(buf, pos, end, tag)
        if pos < 0:
            return key, np.int64(0), bits, pos
    return key, kind, bits, np.int64(0)


@compiled(types.UniTuple(_INT, 3)(_INT, _INT, _INT, types.int64[:, ::1]))
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
        tag, start = read_tag(buf, pos, end)
        if start < 0:
            return n, pos, -start
        if tag & 7 == 2:
            first, last = span(buf, start, end)
            if first < 0:
                return n, pos, -first
        else:
            first = start
            last = skip(buf, start, end, tag)
            if last < 0:
                return n, pos, -last
        out[n, 0] = tag >> 3
        out[n, 1] = tag & 7
        out[n, 2] = first
        out[n, 3] = last
        n += 1
        pos = last
    return n, pos, DONE
