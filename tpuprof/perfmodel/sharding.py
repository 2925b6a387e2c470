"""What a sharding means: the piece of an array that each device holds, and whether it is allowed at all.

Formulas: scaling book, chapter "Sharded matrices".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, Dim, check_mesh
from tpuprof.perfmodel.derivation import Derivation, Quantity, Value

_BOOK = "scaling book, sharded matrices"
MAX_SHARDS = 1 << 20


@dataclass(frozen=True, slots=True)
class Sharding:
    """An array on a mesh; made by :func:`shard`.

    Args:
        array: with its mesh axes.
        mesh: sizes of all axes, also of those that the array does not use.
        local_shape: of the piece that a device holds; the largest one where a dimension does not divide.
        ways: into how many different pieces it is split.
        copies: how many devices hold the same piece.
        uneven: dimensions that their axes do not divide; the last pieces are smaller, and padded by XLA.
    """

    array: Array
    mesh: Mapping[str, int]
    local_shape: tuple[int, ...]
    ways: int
    copies: int
    uneven: tuple[int, ...] = ()

    @property
    def devices(self) -> int:
        """Devices of the mesh."""
        return prod(self.mesh.values())

    @property
    def device_bytes(self) -> float:
        """Bytes of one device's piece."""
        return packed_bytes(_dtype(self.array), prod(self.local_shape))

    @property
    def total_bytes(self) -> float:
        """Bytes of the pieces of all devices together."""
        return self.device_bytes * self.devices

    def answers(self) -> dict[str, Derivation]:
        """Shapes, counts and, with an element type, bytes: of a device's piece, of one copy, of all devices."""
        inputs = {"array": Quantity(str(self.array)), "mesh": Quantity(dict(self.mesh), "device per axis")}
        noted = tuple(
            f"{self.mesh_text(dim)} does not divide dimension {dim}: the last piece is smaller, and padded when run"
            for dim in self.uneven
        )
        shape = Derivation(
            list(self.local_shape), "shape", "each dimension / product of its mesh axes", inputs, None, noted,
            source=_BOOK,
        )  # fmt: skip
        found = {
            "local-shape": shape,
            "elements": Derivation(prod(self.array.shape), "element", "product of the dimensions", inputs),
            "local-elements": Derivation(prod(self.local_shape), "element", "product of the local dimensions", inputs),
            "copies": Derivation(
                self.copies, "ratio", "product of the mesh axes that do not split the array", inputs, source=_BOOK
            ),
        }
        if self.array.dtype is None:
            return found
        step = (shape.as_step("piece of a device"),)
        size = f"{packed_bytes(self.array.dtype, 1):g} B"
        return found | {
            "bytes": Derivation(self.array.bytes(), "B", f"elements * {size}", inputs, source=_BOOK),
            "device-bytes": Derivation(
                self.device_bytes, "B", f"local elements * {size}", inputs, None, noted, step, _BOOK
            ),
            "total-bytes": Derivation(
                self.total_bytes, "B", f"local elements * {size} * devices", inputs, None, noted, step, _BOOK
            ),
        }

    def mesh_text(self, dim: int) -> str:
        """The axes of a dimension with their sizes, such as ``X=3``."""
        return ",".join(f"{axis}={self.mesh[axis]}" for axis in self.array.dims[dim].axes)


def shard(array: Array, mesh: Mapping[str, int]) -> Sharding:
    """The pieces of an array on a mesh.

    Raises:
        UsageError: the sharding is not legal, see :func:`objection`, or a size is not known.
    """
    check_mesh(mesh)
    refused = objection(array, mesh)
    if refused:
        raise UsageError(refused, where=str(array), hint="Change the sharding or the mesh.")
    ways = [prod(mesh[axis] for axis in dim.axes) for dim in array.dims]
    shape = array.shape
    local = tuple(ceil(size / way) if way > 1 else size for size, way in zip(shape, ways, strict=True))
    uneven = tuple(n for n, (size, way) in enumerate(zip(shape, ways, strict=True)) if size % way)
    split = prod(ways)
    return Sharding(array, dict(mesh), local, split, prod(mesh.values()) // split, uneven)


def objection(array: Array, mesh: Mapping[str, int] | None = None) -> str:
    """Why a sharding is not legal, as a sentence; empty if it is.

    A mesh axis may split at most one dimension of an array, once, and cannot also hold partial sums of it. With a mesh,
    every axis must be one of it.
    """
    for axis, count in Counter((*array.axes, *array.partial)).items():
        if count > 1:
            return f"The mesh axis {axis} is used {count} times; an axis may split only one dimension of an array."
    for axis in (*array.axes, *array.partial):
        if mesh is not None and axis not in mesh:
            return f"The mesh has no axis {axis}; it has {', '.join(mesh) or 'none'}."
    return ""


def legality(array: Array, mesh: Mapping[str, int] | None = None) -> Derivation:
    """Whether a sharding is legal, with the objection as its regime."""
    refused = objection(array, mesh)
    inputs = {"array": Quantity(str(array))}
    if mesh is not None:
        inputs["mesh"] = Quantity(dict(mesh), "device per axis")
    rule = "no mesh axis twice, and every axis in the mesh"
    return Derivation(not refused, "bool", rule, inputs, refused or "legal", source=_BOOK)


def undo(local: Array, mesh: Mapping[str, int]) -> Derivation:
    """The shape of the whole array whose piece has the sizes of ``local``.

    Raises:
        UsageError: the sharding is not legal, or a size is not known.
    """
    check_mesh(mesh)
    refused = objection(local, mesh)
    if refused:
        raise UsageError(refused, where=str(local), hint="Change the sharding or the mesh.")
    whole = [size * prod(mesh[a] for a in dim.axes) for size, dim in zip(local.shape, local.dims, strict=True)]
    inputs = {"local": Quantity(str(local)), "mesh": Quantity(dict(mesh), "device per axis")}
    assumed = ("every device holds a piece of the same size",)
    formula = "each local dimension * product of its mesh axes"
    return Derivation(whole, "shape", formula, inputs, None, assumed, source=_BOOK)


def undo_all(pieces: Sequence[Array], mesh: Mapping[str, int]) -> Derivation:
    """The shapes of several whole arrays in order: of the operands of a local op, what the global op is.

    Raises:
        UsageError: there is none, or as :func:`undo`.
    """
    if not pieces:
        raise UsageError("There is no piece.", hint="Give one like bf16[4096_X,8192].")
    found = [undo(piece, mesh) for piece in pieces]
    inputs = {f"local {number}": Quantity(str(piece)) for number, piece in enumerate(pieces, 1)}
    return replace(
        found[0], value=[one.value for one in found], unit="shapes", inputs={**inputs, "mesh": found[0].inputs["mesh"]}
    )


def starts(sharding: Sharding, dim: int) -> tuple[int, ...]:
    """The first index that each piece of a dimension holds, by shard number.

    Raises:
        UsageError: there is no such dimension, or it has too many pieces to list.
    """
    if not 0 <= dim < len(sharding.local_shape):
        raise UsageError(f"There is no dimension {dim}.", where=str(sharding.array), hint="Count from 0.")
    ways = prod(sharding.mesh[axis] for axis in sharding.array.dims[dim].axes)
    if ways > MAX_SHARDS:
        raise UsageError(f"Dimension {dim} has {ways} pieces; at most {MAX_SHARDS} can be listed.")
    return tuple(piece * sharding.local_shape[dim] for piece in range(ways))


def mean_over_shards(sharding: Sharding, first: int, dim: int = 0) -> Derivation:
    """Mean over the shards of the first elements that each holds, for an array that counts up along the dimension.

    What ``pmean`` over the mesh axes of a dimension gives for an iota: a check of a ``shard_map`` program by hand.

    Args:
        first: how many elements of each piece.

    Raises:
        UsageError: the dimension is not split, does not divide, or a piece has fewer elements.
    """
    begin = starts(sharding, dim)
    if sharding.uneven or not 1 <= first <= sharding.local_shape[dim]:
        size = sharding.local_shape[dim]
        raise UsageError(
            f"The pieces do not all hold {first} elements of dimension {dim}.",
            where=str(sharding.array),
            hint=f"Ask for 1 to {size} of a dimension that divides evenly.",
        )
    middle = sum(begin) / len(begin)
    value: Value = [middle + index for index in range(first)]
    inputs = {
        "array": Quantity(str(sharding.array)),
        "mesh": Quantity(dict(sharding.mesh), "device per axis"),
        "first": Quantity(first, "element"),
    }
    assumed = ("the array counts up from 0 along the dimension",)
    return Derivation(value, "array", "mean over shards of (shard * local size) + index", inputs, None, assumed)


def split_over(array: Array, dim: int, axes: tuple[str, ...]) -> Array:
    """The array with other mesh axes on one dimension."""
    dims: list[Dim] = list(array.dims)
    dims[dim] = replace(dims[dim], axes=axes)
    return replace(array, dims=tuple(dims))


def _dtype(array: Array) -> str:
    if array.dtype is None:
        raise UsageError("The element type is not known.", where=str(array), hint=f"Write bf16{array}, for example.")
    return array.dtype
