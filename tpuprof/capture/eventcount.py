"""How many events a serialised XSpace holds and how large they are, without a protobuf library.

A capture runs in processes where the reader's dependencies may be missing, and one number does not justify
importing them. Only the lengths of messages are followed: spaces hold planes, planes lines, lines events.
"""

from __future__ import annotations

from collections.abc import Iterator

_PLANES, _LINES, _EVENTS = 1, 3, 4  # field numbers in a space, a plane, a line
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
LOOKED_AT = 200_000  # events; a larger trace is estimated from these


def count_events(data: bytes) -> tuple[int, int]:
    """How many events there are, and their bytes together.

    From `LOOKED_AT` events on, both are estimated from where in the file the last one was. What is broken counts as
    nothing.
    """
    events = size = 0
    for plane_start, plane_end in _messages(data, 0, len(data), _PLANES):
        for line_start, line_end in _messages(data, plane_start, plane_end, _LINES):
            for event_start, event_end in _messages(data, line_start, line_end, _EVENTS):
                events += 1
                size += event_end - event_start
                if events >= LOOKED_AT:
                    whole = len(data) / event_end
                    return round(events * whole), min(round(size * whole), len(data))
    return events, size


def _messages(data: bytes, position: int, end: int, field: int) -> Iterator[tuple[int, int]]:
    """Where the messages of one field begin and end."""
    while position < end:
        key, position = _varint(data, position, end)
        kind = key & 7
        if kind == _LENGTH_DELIMITED:
            length, position = _varint(data, position, end)
            after = position + length
            if after > end:
                return
            if key >> 3 == field:
                yield position, after
            position = after
        elif kind == _VARINT:
            _, position = _varint(data, position, end)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        else:  # no such wire type: the rest cannot be followed
            return


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return 0, end
