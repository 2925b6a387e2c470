"""Bytes that arrays take in their memory, tile padding included."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import prod

from tpuprof.hlo.shapes import Layout, Shape

_COMBINED = -1


@lru_cache(maxsize=65536)
def padded_bytes(shape: Shape) -> int | None:
    """Bytes of an array in its layout; 0 for tokens and handles, null if the shape does not tell.

    The tiles of a TPU layout pad the dimensions that they cover: f32[1024,64] in tiles of (8,128) takes twice its size.
    """
    if not shape.is_array:
        return shape.byte_size
    return partial_bytes(shape, shape.dims)


@lru_cache(maxsize=65536)
def partial_bytes(shape: Shape, sizes: tuple[int, ...]) -> int | None:
    """Bytes of a part of an array: ``sizes`` elements along each dimension.

    A dimension that is taken whole counts with its padding, one that is taken in part with its elements.
    """
    bits = shape.bits_per_element
    if bits is None or len(sizes) != len(shape.dims) or min(sizes, default=0) < 0 or min(shape.dims, default=0) < 0:
        return None
    if 0 in sizes:
        return 0
    layout = shape.layout
    elements = prod(sizes)
    if layout is not None and layout.tiles:
        elements = _tiled_elements(shape.dims, sizes, layout)
    if layout is not None and layout.tail_padding > 1 and sizes == shape.dims:
        elements = -(-elements // layout.tail_padding) * layout.tail_padding
    return -(-elements * bits // 8)


def by_space(shapes: Iterable[tuple[Shape, int | None]]) -> dict[str, int] | None:
    """Sums bytes by memory space; null if one of them is unknown."""
    found: dict[str, int] = {}
    for shape, size in shapes:
        if size is None:
            return None
        if size:
            space = space_of(shape)
            found[space] = found.get(space, 0) + size
    return found


def space_of(shape: Shape) -> str:
    """The name of an array's memory space."""
    return "hbm" if shape.layout is None else shape.layout.memory_space_name


def _tiled_elements(dims: tuple[int, ...], sizes: tuple[int, ...], layout: Layout) -> int:
    order = layout.minor_to_major[::-1]
    padded = _pad([dims[axis] for axis in order], layout.tiles)
    if sizes == dims:
        return padded
    tile = layout.tiles[0]
    taken = 1
    for place, axis in enumerate(order):
        at = place + len(tile) - len(order)  # the dimensions that the first tile covers are the most minor ones
        whole = sizes[axis] == dims[axis] and at >= 0 and tile[at] > 0
        taken *= -(-sizes[axis] // tile[at]) * tile[at] if whole else sizes[axis]
    return min(taken, padded)


def _pad(dims: list[int], tiles: tuple[tuple[int, ...], ...]) -> int:
    """Elements after padding: each tile splits the most minor dimensions into tiles and what is in a tile."""
    current = list(dims)
    for tile in tiles:
        if len(current) < len(tile):
            current = [1] * (len(tile) - len(current)) + current
        minor = current[len(current) - len(tile) :]
        kept = current[: len(current) - len(tile)]
        sizes: list[int] = []
        lengths: list[int] = []
        folded = 1
        for length, size in zip(minor, tile, strict=True):
            if size == _COMBINED:
                folded *= length
                continue
            lengths.append(length * folded)
            sizes.append(max(1, size))
            folded = 1
        outer = [-(-length // size) for length, size in zip(lengths, sizes, strict=True)]
        current = kept + outer + sizes
    return prod(current)
