"""Values of constants: read from HLO text or from a literal message, and written back.

Only plain numbers are read, and only small arrays: constants matter here for loop bounds and indices. 8-bit
and smaller floats, tuples and long arrays give null.
"""

from __future__ import annotations

import re
import struct
from math import prod
from typing import Any

from tpuprof.hlo.scan import without_comments
from tpuprof.hlo.shapes import Shape

Number = int | float | bool | complex
MAX_ELEMENTS = 1024
_WORD = re.compile(r"\(\s*([^,()]+),\s*([^,()]+)\)|[^\s,{}()]+")
# dtype -> (field of the literal message, struct code where the field is bytes)
_FIELDS = {
    "pred": ("preds", ""), "s8": ("s8s", "b"), "u8": ("u8s", "B"), "s16": ("s16s", "<h"),
    "u16": ("u16s", "<H"),
    "s32": ("s32s", ""), "u32": ("u32s", ""), "s64": ("s64s", ""), "u64": ("u64s", ""),
    "s4": ("s4s", "nibble"), "u4": ("u4s", "nibble"),
    "f16": ("f16s", "<e"), "bf16": ("bf16s", "bf16"), "f32": ("f32s", ""), "f64": ("f64s", ""),
    "c64": ("c64s", "pair"), "c128": ("c128s", "pair"),
}  # fmt: skip


def parse_literal_text(text: str, shape: Shape) -> tuple[Number, ...] | None:
    """The elements in row-major order, rounded to the element type; null where elided or not read."""
    count = _count(shape)
    if count is None or len(text) > 100 * (count + 2) + 1000 or "..." in text:
        return None
    values: list[Number] = []
    for match in _WORD.finditer(without_comments(text)):
        value = _number(match, shape.dtype)
        if value is None or len(values) >= count:
            return None
        values.append(value)
    return tuple(values) if len(values) == count else None


def decode_literal(message: Any, shape: Shape, minor_to_major: tuple[int, ...]) -> tuple[Number, ...] | None:
    """The elements of a literal message in row-major order; null where there are too many or they are not
    read.

    Args:
        message: a LiteralProto.
        shape: the shape of the constant.
        minor_to_major: the order in which the message holds the elements; empty for row-major.
    """
    count = _count(shape)
    if count is None:
        return None
    name, code = _FIELDS[shape.dtype]
    stored: Any = getattr(message, name)
    values: list[Number]
    try:
        if code == "":
            values = [_rounded(value, shape.dtype) for value in stored[: count + 1]]
        elif code == "pair":
            flat = list(stored[: 2 * count + 2])
            values = [complex(re, im) for re, im in zip(flat[::2], flat[1::2], strict=True)]
        else:
            values = _unpack(bytes(stored), code, count, shape.dtype)
    except (struct.error, ValueError):
        return None
    if len(values) != count:
        return None
    return _row_major(values, shape.dims, minor_to_major)


def encode_literal(message: Any, values: tuple[Number, ...], shape: Shape) -> None:
    """Puts elements in row-major order into a literal message, which holds them in the shape's layout."""
    name, code = _FIELDS[shape.dtype]
    if shape.layout is not None:
        positions = _positions(shape.dims, shape.layout.minor_to_major)
        values = tuple(values[source] for _, source in sorted(zip(positions, range(len(values)), strict=True)))
    if code == "":
        getattr(message, name).extend(values)
    elif code == "pair":
        getattr(message, name).extend(part for v in values for part in (complex(v).real, complex(v).imag))
    else:
        setattr(message, name, _pack(values, code))


def _count(shape: Shape) -> int | None:
    if shape.dtype not in _FIELDS or not all(0 <= size <= MAX_ELEMENTS for size in shape.dims):
        return None
    count = prod(shape.dims)
    return count if count <= MAX_ELEMENTS else None


def _number(match: re.Match[str], dtype: str) -> Number | None:
    try:
        if match[1] is not None:
            return complex(_float(match[1], dtype), _float(match[2], dtype)) if dtype in ("c64", "c128") else None
        word = match[0]
        if dtype == "pred":
            return {"true": True, "1": True, "false": False, "0": False}.get(word)
        if dtype[0] in "su":
            return int(word) if len(word) <= 20 else None
        return _float(word, dtype)
    except (ValueError, OverflowError):
        return None


def _float(word: str, dtype: str) -> float:
    word = word.strip()
    if word.lstrip("-").startswith("nan"):
        return float("nan")
    value = _rounded(float(word), {"c64": "f32", "c128": "f64"}.get(dtype, dtype))
    return float(value.real)


def _rounded(value: Number, dtype: str) -> Number:
    if dtype == "f32" and isinstance(value, float):
        return _through(value, "<f")
    if dtype == "f16" and isinstance(value, float):
        return _through(value, "<e")
    if dtype == "bf16" and isinstance(value, float):
        return _from_bf16(_to_bf16(value))
    return value


def _through(value: float, code: str) -> float:
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _to_bf16(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", _through(value, "<f")))[0]
    if value != value:
        return (bits >> 16) | 0x40
    return min((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, 0xFFFF)


def _from_bf16(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def _unpack(data: bytes, code: str, count: int, dtype: str) -> list[Number]:
    if code == "nibble":
        # Two elements per byte, the first in the low half.
        nibbles = [(byte >> shift) & 15 for byte in data for shift in (0, 4)][:count]
        return [n - 16 if dtype == "s4" and n > 7 else n for n in nibbles]
    if code == "bf16":
        return [_from_bf16(bits) for bits in struct.unpack(f"<{count}H", data)]
    return list(struct.unpack(f"<{count}{code[-1]}", data))


def _pack(values: tuple[Number, ...], code: str) -> bytes:
    if code == "nibble":
        nibbles = [int(v.real) & 15 for v in values] + [0] * (len(values) % 2)
        return bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))
    if code == "bf16":
        return struct.pack(f"<{len(values)}H", *(_to_bf16(float(v.real)) for v in values))
    return struct.pack(f"<{len(values)}{code[-1]}", *values)


def _row_major(values: list[Number], dims: tuple[int, ...], order: tuple[int, ...]) -> tuple[Number, ...]:
    if len(order) != len(dims):
        return tuple(values)
    return tuple(values[position] for position in _positions(dims, order))


def _positions(dims: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """For the elements in row-major order: where each lies in memory."""
    strides = [0] * len(dims)
    step = 1
    for dimension in order:
        strides[dimension] = step
        step *= dims[dimension]
    positions = [0]
    for size, stride in zip(dims, strides, strict=True):
        positions = [base + index * stride for base in positions for index in range(size)]
    return positions
