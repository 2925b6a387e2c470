"""One file of the cache: a tree of plain data and the arrays and byte strings that it refers to.

The arrays lie in the file as they lie in memory, so that opening it is mapping it: nothing is unpacked, and the pages
belong to the system's cache of files. What a program writes into an array never reaches the file.

Layout: magic, length and checksum of the header; the header as JSON; from the next multiple of 64 on the parts, each at
a multiple of 64 with its checksum in the header. An array of one repeated value is that value in the header.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from math import prod
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from tpuprof.cache.mapping import content

Part = npt.NDArray[Any] | bytes

MAX_HEADER_BYTES = 1 << 30
MAX_DIMENSIONS = 4
MAX_CONSTANT = 1 << 31  # elements of an array of one value, which needs no room in the file
_MAGIC = b"tpuprof cache 1\n"
_HEAD = struct.Struct("<QI")
_ALIGNMENT = 64
_DTYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float64")
_CONSTANT_FROM = 64  # shorter arrays are not worth the look


class NotKeptError(Exception):
    """This cannot be written to the cache, or what the cache holds cannot be used; the text says why."""


def write_container(stream: BinaryIO, tree: Any, parts: Sequence[Part]) -> int:
    """Writes a tree and its parts; returns the number of bytes.

    Raises:
        NotKeptError: a part has a type that has no place in a file, or a text is not valid Unicode.
        OSError: the file cannot be written.
    """
    described: list[list[Any]] = []
    data: list[memoryview] = []
    offset = 0
    for part in parts:
        entry, view = _described(part)
        if view is not None:
            entry += [offset, zlib.crc32(view)]
            data.append(view)
            offset += _aligned(view.nbytes)
        described.append(entry)
    try:
        header = json.dumps({"tree": tree, "parts": described}, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise NotKeptError("a name holds half a character (a lone surrogate)") from error
    before = len(_MAGIC) + _HEAD.size
    start = _aligned(before + len(header))
    stream.write(_MAGIC + _HEAD.pack(len(header), zlib.crc32(header)))
    stream.write(header)
    stream.write(bytes(start - before - len(header)))
    for view in data:
        stream.write(view)
        stream.write(bytes(_aligned(view.nbytes) - view.nbytes))
    return start + offset


def read_container(stream: BinaryIO) -> tuple[Any, list[Part]]:
    """The tree and its parts. Arrays are views of what ``mapping.content`` gives of the file, without a copy.

    Raises:
        NotKeptError: it is no file of the cache, or it is damaged.
        OSError: the file cannot be read.
    """
    whole = content(stream)
    before = len(_MAGIC) + _HEAD.size
    if len(whole) < before or bytes(whole[: len(_MAGIC)]) != _MAGIC:
        raise NotKeptError("it is no file of this cache")
    size, checksum = cast("tuple[int, int]", _HEAD.unpack_from(whole, len(_MAGIC)))
    if size > min(MAX_HEADER_BYTES, len(whole) - before) or zlib.crc32(whole[before : before + size]) != checksum:
        raise NotKeptError("its header is damaged")
    try:
        header: dict[str, Any] = json.loads(bytes(whole[before : before + size]))
        data = whole[_aligned(before + size) :]
        return header["tree"], [_part(entry, data) for entry in header["parts"]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, MemoryError) as error:
        raise NotKeptError("its header makes no sense") from error


def _described(part: Part) -> tuple[list[Any], memoryview | None]:
    if isinstance(part, bytes):
        return ["bytes", [len(part)]], memoryview(part)
    name = part.dtype.name
    if name not in _DTYPES or not 1 <= part.ndim <= MAX_DIMENSIONS:
        raise NotKeptError(f"an array of {part.ndim} dimensions of {part.dtype} has no form in the cache")
    entry: list[Any] = [name, list(part.shape)]
    flat = np.ascontiguousarray(part).reshape(-1)
    # A float is compared by its bits, which tell -0.0 from 0.0 and find NaN equal to itself.
    bits = flat.view(np.int64) if name == "float64" else flat
    if len(bits) >= _CONSTANT_FROM and bits[0] == bits[-1] and bool((bits == bits[0]).all()):
        return [*entry, flat[:1].tobytes().hex()], None
    return entry, memoryview(cast("Any", flat.view(np.uint8)))


def _part(entry: list[Any], data: memoryview) -> Part:
    name, shape, *rest = entry
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(shape)
    if name != "bytes" and (name not in _DTYPES or not 1 <= len(shape) <= MAX_DIMENSIONS):
        raise ValueError(name)
    dtype: np.dtype[Any] = np.dtype("uint8" if name == "bytes" else name)
    count = prod(shape)
    if len(rest) == 1 and name != "bytes":
        if count > MAX_CONSTANT:
            raise ValueError(count)
        value: Any = np.frombuffer(bytes.fromhex(rest[0]), dtype)
        constant: Any = np.full(shape, value[0], dtype)
        return constant
    offset, checksum = rest
    size = count * dtype.itemsize
    if type(offset) is not int or not 0 <= offset <= len(data) - size:
        raise NotKeptError("it is shorter than it should be")
    view = data[offset : offset + size]
    if zlib.crc32(view) != checksum:
        raise NotKeptError("its checksum is wrong")
    if name == "bytes":
        return bytes(view)
    array: Any = np.frombuffer(view, dtype).reshape(shape) if count else np.zeros(shape, dtype)
    return array


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
