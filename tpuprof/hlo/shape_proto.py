"""Shapes between the model and shape messages."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tpuprof.errors import HloError
from tpuprof.hlo.proto_schema import ELEMENT_NUMBERS, ELEMENT_TYPES, messages
from tpuprof.hlo.scan import integer, integers
from tpuprof.hlo.shapes import UNBOUNDED, Layout, Shape

_INT64_MIN = -(1 << 63)
_KEPT_LENGTH = 2000  # longer ones are rarely the same again and would fill the memory
_LEVELS = {0: "D", 1: "C", 2: "S", 3: "H"}


def shape_from_bytes(data: bytes) -> Shape:
    """The shape of a serialised shape message.

    Raises:
        HloError: the bytes are no shape, or its parts contradict each other.
    """
    return _kept(data) if len(data) <= _KEPT_LENGTH else _parse(data)


@lru_cache(maxsize=16384)
def _kept(data: bytes) -> Shape:
    return _parse(data)


def _parse(data: bytes) -> Shape:
    from google.protobuf.message import DecodeError

    try:
        message = messages().ShapeProto.FromString(data)
    except DecodeError as error:
        raise HloError("A shape of the module is no valid protobuf.", why=f"{error}.") from error
    return shape_from_message(message)


def shape_from_message(message: Any) -> Shape:
    """The shape of a shape message; nesting is bounded by the protobuf runtime."""
    dtype = ELEMENT_TYPES.get(message.element_type)
    if dtype is None:
        raise HloError(f"Element type {message.element_type} of a shape is not known.")
    if dtype in ("tuple", "buffer"):
        return Shape(dtype, (), None, tuple(shape_from_message(part) for part in message.tuple_shapes))
    flags = tuple(message.is_dynamic_dimension)
    dims = tuple(UNBOUNDED if size == _INT64_MIN else size for size in message.dimensions)
    if any(size < UNBOUNDED or (size == UNBOUNDED and stored != _INT64_MIN)
           for size, stored in zip(dims, message.dimensions, strict=True)):  # fmt: skip
        raise HloError(f"A shape has a negative dimension: {dims[:8]}.")
    if flags and len(flags) != len(dims):
        raise HloError("A shape has as many dynamic flags as dimensions or none.")
    dynamic = tuple(flag or size == UNBOUNDED for flag, size in zip(flags or (False,) * len(dims), dims, strict=True))
    layout = _layout(message.layout, len(dims)) if message.HasField("layout") else None
    return Shape(dtype, dims, layout, (), dynamic if any(dynamic) else ())


def shape_to_message(shape: Shape, message: Any) -> None:
    """Fills an empty shape message.

    Raises:
        HloError: the element type has no number.
    """
    number = ELEMENT_NUMBERS.get(shape.dtype)
    if number is None:
        raise HloError(f"A shape of element type {shape.dtype!r} cannot be written.")
    message.element_type = number
    for part in shape.tuple_shapes:
        shape_to_message(part, message.tuple_shapes.add())
    if not shape.is_array:
        return
    message.dimensions.extend(_INT64_MIN if size == UNBOUNDED else size for size in shape.dims)
    message.is_dynamic_dimension.extend(shape.dynamic or (False,) * len(shape.dims))
    if shape.layout is not None or not shape.dims:
        _fill_layout(shape.layout or Layout(), message.layout)


def shape_bytes(shape: Shape) -> bytes:
    """The serialised shape message."""
    message = messages().ShapeProto()
    shape_to_message(shape, message)
    return message.SerializeToString()


def _layout(message: Any, rank: int) -> Layout | None:
    order = tuple(message.minor_to_major)
    if len(order) != rank or sorted(order) != list(range(rank)):
        raise HloError(f"The layout {order[:8]} of a shape does not order its {rank} dimensions.")
    extra = ""
    if message.split_configs:
        parts = (f"({s.dimension}:{','.join(map(str, s.split_indices))})" for s in message.split_configs)
        extra += "SC" + "".join(parts)
    if any(message.dim_level_types):
        extra = f"D({','.join(_LEVELS.get(t, '?') for t in message.dim_level_types)})" + extra
    if message.dynamic_shape_metadata_prefix_bytes:
        extra += f"M({message.dynamic_shape_metadata_prefix_bytes})"
    layout = Layout(
        order,
        tuple(tuple(-1 if d < 0 else d for d in tile.dimensions) for tile in message.tiles),
        message.memory_space,
        message.element_size_in_bits,
        message.tail_padding_alignment_in_elements or 1,
        extra,
    )
    return None if not order and layout == Layout() else layout


def _fill_layout(layout: Layout, message: Any) -> None:
    message.minor_to_major.extend(layout.minor_to_major)
    message.memory_space = layout.memory_space
    message.element_size_in_bits = layout.element_size_bits
    message.tail_padding_alignment_in_elements = layout.tail_padding
    for tile in layout.tiles:
        message.tiles.add().dimensions.extend(_INT64_MIN if size < 0 else size for size in tile)
    extra = layout.extra
    while extra:
        key, _, rest = extra.partition("(")
        body, _, extra = rest.partition(")")
        if key == "D":
            levels = {name: number for number, name in _LEVELS.items()}
            message.dim_level_types.extend(levels.get(each.strip(), 0) for each in body.split(","))
        elif key == "M":
            message.dynamic_shape_metadata_prefix_bytes = integer(body, "layout")
        elif key in ("SC", ""):
            dimension, _, indices = body.partition(":")
            message.split_configs.add(dimension=integer(dimension, "layout"), split_indices=integers(indices, "layout"))
        else:
            raise HloError(f"The layout part {key}({body}) cannot be written.")
