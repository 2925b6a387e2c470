"""A tiny protobuf encoder for tests: messages as lists of fields, so that odd but legal encodings can be written."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Field = bytes  # one encoded field


def varint(value: int, size: int = 0) -> bytes:
    """A varint, modulo 2^64; ``size`` pads it to that many bytes, which is legal up to ten."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < size:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int, size: int = 0) -> Field:
    return varint(field << 3) + varint(value, size)


def double(field: int, value: float) -> Field:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def fixed32(field: int, value: int) -> Field:
    return varint(field << 3 | 5) + struct.pack("<I", value)


def data(field: int, payload: bytes) -> Field:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def group(field: int, fields: Iterable[Field]) -> Field:
    return varint(field << 3 | 3) + b"".join(fields) + varint(field << 3 | 4)


def message(field: int, fields: Iterable[Field]) -> Field:
    return data(field, b"".join(fields))
