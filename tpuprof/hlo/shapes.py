"""Array and tuple shapes with their layouts, and the text they are written in.

``bf16[4096,1024]{1,0:T(8,128)(2,1)S(1)}`` is a bfloat16 array whose last dimension is the most minor one,
tiled (8,128) and then (2,1), in memory space 1. Shapes in compiled modules are those of one device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from tpuprof.dtypes import DTYPE_BITS
from tpuprof.errors import HloError
from tpuprof.hlo.scan import MAX_DEPTH, closing, fail, without_comments

MEMORY_SPACES = {0: "hbm", 1: "vmem", 2: "sync_flags", 4: "smem", 5: "host"}
UNBOUNDED = -1  # the size of a dimension written ``?``
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\[\]]*)\]")
_LAYOUT_PART = re.compile(r"([A-Z]+|#|\*)?\(")
_COMBINED = "*"
_KEPT_LENGTH = 2000  # longer texts are rarely the same again and would fill the memory


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory.

    Args:
        minor_to_major: dimension numbers, the fastest varying first.
        tiles: the tile sizes, the first applied first; -1 is a dimension folded into the next one.
        memory_space: 0 is the default memory (HBM on TPU), 1 VMEM, 2 sync flags, 4 SMEM, 5 host.
        element_size_bits: bits per element where the layout packs elements, else 0.
        tail_padding: the array is padded to a multiple of so many elements; 1 is no padding.
        extra: further parts of the layout as written, e.g. ``D(D,C)``.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    memory_space: int = 0
    element_size_bits: int = 0
    tail_padding: int = 1
    extra: str = ""

    def __str__(self) -> str:
        tiles = "".join("(" + ",".join(_COMBINED if d < 0 else str(d) for d in tile) + ")" for tile in self.tiles)
        tail = "T" + tiles if tiles else ""
        if self.tail_padding > 1:
            tail += f"L({self.tail_padding})"
        if self.element_size_bits:
            tail += f"E({self.element_size_bits})"
        if self.memory_space:
            tail += f"S({self.memory_space})"
        tail += self.extra
        order = ",".join(map(str, self.minor_to_major))
        return "{" + order + (":" + tail if tail else "") + "}"

    @property
    def memory_space_name(self) -> str:
        """``hbm``, ``vmem``, ``sync_flags``, ``smem``, ``host``, or ``space_N`` for another number."""
        return MEMORY_SPACES.get(self.memory_space, f"space_{self.memory_space}")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a value: an array, a tuple of shapes, a token or an opaque handle.

    Args:
        dtype: the element type in lower case (``bf16``), ``tuple``, ``token``, ``opaque``, ``buffer`` or ``unknown``.
        dims: sizes, upper bounds for dynamic dimensions, -1 for an unbounded one.
        layout: null if the text states none, and for scalars with a plain layout.
        tuple_shapes: the parts of a tuple; the one array of a buffer.
        dynamic: per dimension whether its size is known only at run time; empty if all are static.
    """

    dtype: str
    dims: tuple[int, ...] = ()
    layout: Layout | None = None
    tuple_shapes: tuple[Shape, ...] = ()
    dynamic: tuple[bool, ...] = field(default=())

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return "(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        if self.dtype == "buffer":
            return "b(" + ", ".join(map(str, self.tuple_shapes)) + ")"
        dims = ",".join(self._dim_text(i) for i in range(len(self.dims)))
        return f"{self.dtype}[{dims}]{self.layout or ''}"

    def _dim_text(self, index: int) -> str:
        size = self.dims[index]
        if size == UNBOUNDED:
            return "?"
        return f"<={size}" if self.dynamic and self.dynamic[index] else str(size)

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple, an empty one included."""
        return self.dtype == "tuple"

    @property
    def is_array(self) -> bool:
        """Whether this is an array (a scalar is one)."""
        return self.dtype not in ("tuple", "token", "opaque", "buffer")

    @property
    def elements(self) -> int | None:
        """The number of elements, summed over a tuple, by upper bounds; null if a dimension is unbounded."""
        if self.dtype == "unknown":
            return None
        if self.is_array:
            return None if UNBOUNDED in self.dims else prod(self.dims)
        if self.dtype in ("token", "opaque"):
            return 0
        return _sum(part.elements for part in self.tuple_shapes)

    @property
    def bits_per_element(self) -> int | None:
        """Bits that one element takes in memory; null for what is no array of a known type.

        A layout with E(4) packs 4-bit types; a layout without it gives each element a whole byte. A shape
        without layout says nothing of memory, and then the type's own bits count.
        """
        natural = DTYPE_BITS.get(self.dtype)
        if natural is None:
            return None
        if self.layout is None:
            return natural
        return self.layout.element_size_bits or max(8, natural)

    @property
    def byte_size(self) -> int | None:
        """Bytes without tile padding, summed over a tuple (not the pointers of the tuple itself).

        Tokens and opaque handles are 0. Null if a dimension is unbounded or the element type is unknown.
        """
        if not self.is_array:
            return 0 if self.dtype in ("token", "opaque") else _sum(part.byte_size for part in self.tuple_shapes)
        elements, bits = self.elements, self.bits_per_element
        return None if elements is None or bits is None else -(-elements * bits // 8)

    @property
    def memory_space(self) -> int:
        """The memory space of an array, 0 for the default one."""
        return self.layout.memory_space if self.layout else 0

    def leaves(self) -> Iterator[Shape]:
        """The arrays, tokens and handles of a nested tuple in order; the shape itself if it is none."""
        if self.is_tuple:
            for part in self.tuple_shapes:
                yield from part.leaves()
        else:
            yield self


def parse_shape(text: str) -> Shape:
    """The shape that the whole text describes; ``/*index=5*/`` marks are ignored.

    Raises:
        HloError: the text is no shape; names line and column.
    """
    text = without_comments(text).strip()
    return _parse_kept(text) if len(text) <= _KEPT_LENGTH else _parse_whole(text)


@lru_cache(maxsize=16384)
def _parse_kept(text: str) -> Shape:
    return _parse_whole(text)


def _parse_whole(text: str) -> Shape:
    shape, end = shape_at(text, 0)
    end = _skip(text, end)
    if end < len(text):
        raise fail(text, end, f"unexpected {text[end : end + 20]!r} after a shape", where="shape")
    return shape


def shape_at(text: str, start: int, depth: int = 0) -> tuple[Shape, int]:
    """The shape that begins at a position, and the position after it."""
    position = _skip(text, start)
    buffer = text.startswith("b(", position)
    if buffer or text.startswith("(", position):
        return _tuple_at(text, position + buffer, "buffer" if buffer else "tuple", depth)
    match = _ARRAY.match(text, position)
    if match is None:
        raise fail(text, position, f"expected a shape, found {text[position : position + 20]!r}", where="shape")
    dtype = match[1]
    if dtype not in DTYPE_BITS and dtype not in ("token", "opaque"):
        raise fail(text, position, f"unknown element type {dtype!r}", where="shape")
    dims, dynamic = _dims(text, match.start(2), match[2])
    position = match.end()
    layout = None
    if text.startswith("{", position):
        end = closing(text, position)
        layout = _layout(text[position + 1 : end], len(dims))
        position = end + 1
    return Shape(dtype, dims, layout, (), dynamic), position


def shape_text_end(text: str, start: int) -> int:
    """The position after the shape text at ``start``, found by its brackets without reading it."""
    position = _skip(text, start)
    if text.startswith("b(", position):
        position += 1
    if text.startswith("(", position):
        return closing(text, position) + 1
    match = _ARRAY.match(text, position)
    if match is None:
        raise fail(text, position, f"expected a shape, found {text[position : position + 20]!r}")
    position = match.end()
    return closing(text, position) + 1 if text.startswith("{", position) else position


def _tuple_at(text: str, position: int, dtype: str, depth: int) -> tuple[Shape, int]:
    if depth >= MAX_DEPTH:
        raise fail(text, position, f"tuples are nested deeper than {MAX_DEPTH}", where="shape")
    parts: list[Shape] = []
    position = _skip(text, position + 1)
    while not text.startswith(")", position):
        if parts:
            if not text.startswith(",", position):
                raise fail(text, position, "expected ',' or ')' in a tuple shape", where="shape")
            position += 1
        part, position = shape_at(text, position, depth + 1)
        parts.append(part)
        position = _skip(text, position)
    return Shape(dtype, (), None, tuple(parts)), position + 1


def _dims(text: str, start: int, body: str) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    if not body.strip():
        return (), ()
    dims: list[int] = []
    dynamic: list[bool] = []
    for item in body.split(","):
        size = item.strip()
        bounded = size.startswith("<=")
        digits = size[2:] if bounded else size
        if size == "?":
            dims.append(UNBOUNDED)
        elif digits.isascii() and digits.isdecimal() and len(digits) <= 19:
            dims.append(int(digits))
        else:
            raise fail(text, start, f"{size!r} is no dimension", where="shape")
        dynamic.append(bounded or size == "?")
    return tuple(dims), tuple(dynamic) if any(dynamic) else ()


def _layout(body: str, rank: int) -> Layout | None:
    order_text, _, tail = body.partition(":")
    order: list[int] = []
    for item in order_text.split(",") if order_text.strip() else []:
        if not item.strip().isdecimal() or not item.isascii() or len(item) > 9:
            raise HloError(f"{body[:60]!r} is no layout: {item!r} is no dimension number.", where="shape")
        order.append(int(item))
    if len(order) != rank or sorted(order) != list(range(rank)):
        raise HloError(f"The layout {body[:60]!r} does not order the {rank} dimensions of its shape.", where="shape")
    tiles: list[tuple[int, ...]] = []
    numbers = {"S": 0, "E": 0, "L": 1}
    extra = ""
    position = 0
    key = ""
    while position < len(tail):
        match = _LAYOUT_PART.match(tail, position)
        if match is None:
            raise HloError(f"{body[:60]!r} is no layout.", where="shape")
        key = match[1] or key
        end = closing(tail, match.end() - 1)
        inner = tail[match.end() : end]
        if key == "T":
            tiles.append(tuple(_tile_size(item, body) for item in inner.split(",")))
        elif key in numbers:
            numbers[key] = _tile_size(inner, body)
        else:
            extra += tail[position : end + 1]
        position = end + 1
    if not order and not tail:
        return None
    return Layout(tuple(order), tuple(tiles), numbers["S"], numbers["E"], numbers["L"], extra)


def _tile_size(text: str, body: str) -> int:
    text = text.strip()
    if text == _COMBINED:
        return -1
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise HloError(f"{body[:60]!r} is no layout: {text[:20]!r} is no number.", where="shape")
    return int(text)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\n":
        position += 1
    return position


def _sum(values: Iterator[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
