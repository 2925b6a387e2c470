"""A collective of a sharded array over mesh axes, each of which is one physical axis of links of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, check_mesh
from tpuprof.perfmodel.checks import not_negative, positive
from tpuprof.perfmodel.collectives import all_to_all, torus
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.sharding import objection, undo

Kind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]
_BOOK = "scaling book, sharded matrices"


@dataclass(frozen=True, slots=True)
class AxisLinks:
    """The links under the axes of a mesh.

    Args:
        bandwidth: of one link in one direction, B/s.
        rings: the mesh axes that close to a ring; the others are lines.
        hop_latency: seconds per hop; 0 leaves the latency out.
    """

    bandwidth: float
    rings: frozenset[str] = frozenset()
    hop_latency: float = 0.0

    def __post_init__(self) -> None:
        positive("The link bandwidth", self.bandwidth)
        not_negative("The hop latency", self.hop_latency)


def one_way(both: float) -> float:
    """Bandwidth of a link in one direction, from that of both directions together (W_ici of the scaling book)."""
    return positive("The bandwidth of both directions", both) / 2


def group_bytes(array: Array, over: tuple[str, ...], mesh: Mapping[str, int]) -> Derivation:
    """V of a collective: bytes of the array as far as it is split over axes that take no part in it.

    An array without an element type is counted in elements.

    Raises:
        UsageError: the sharding is not legal, or a size is not known.
    """
    check_mesh(mesh)
    refused = objection(array, mesh) or next((f"The mesh has no axis {axis}." for axis in over if axis not in mesh), "")
    if refused:
        raise UsageError(refused, where=str(array), hint="Name the axis in the mesh.")
    others = [axis for axis in array.axes if axis not in over]
    whole, unit = (float(prod(array.shape)), "element") if array.dtype is None else (array.bytes(), "B")
    inputs = {"array": Quantity(str(array)), "mesh": Quantity(dict(mesh), "device per axis")}
    step = Step("the whole array", "product of the dimensions * size of an element", whole, unit)
    formula = "array / product of the axes that take no part"
    return Derivation(whole / prod(mesh[a] for a in others), unit, formula, inputs, None, (), (step,), _BOOK)


def over_mesh(
    kind: Kind,
    array: Array,
    over: tuple[str, ...],
    mesh: Mapping[str, int],
    links: AxisLinks,
    *,
    idle: tuple[str, ...] = (),
    approximate: bool = False,
) -> Derivation:
    """Seconds of a collective of a sharded array over some axes of a mesh.

    Args:
        over: the axes; an all-gather or a reduce-scatter runs over axes that split the array, an all-reduce over
            others.
        idle: axes that do not split the array and that help: it is first split over them too, for free, and then
            gathered over all.
        approximate: take the factor (n-1)/n as 1 on rings, as the book does.

    Raises:
        UsageError: the sharding is not legal, an axis cannot take part so, or a size is not known.
    """
    if not over:
        raise UsageError("A collective over no axis.", hint="Name at least one axis of the mesh.")
    unknown = [axis for axis in sorted(links.rings) if axis not in mesh]
    if unknown:
        raise UsageError(
            f"{unknown[0]} closes to a ring, but is no axis of the mesh.", hint=f"Axes: {', '.join(mesh)}."
        )
    _check_roles(kind, array, over, idle)
    taking = (*over, *idle)
    size = group_bytes(array, taking, mesh)
    lengths = [mesh[axis] for axis in taking]
    closes = [axis in links.rings for axis in taking]
    hops = sum(n // 2 if ring else n - 1 for n, ring in zip(lengths, closes, strict=True))
    if kind == "all_to_all":
        time = all_to_all(size.number(), lengths, links.bandwidth, wrap=closes)
    else:
        members = None if approximate and all(closes) else prod(lengths)
        time = torus(
            kind, size.number(), links.bandwidth, rings=sum(closes), lines=len(closes) - sum(closes), members=members,
            hops=hops, hop_latency=links.hop_latency,
        )  # fmt: skip
    assumed = ["each mesh axis is a physical axis of its own", "nobody else uses the links"]
    if idle:
        assumed.append(f"the array is first split over {'+'.join(idle)} too, which needs no communication")
    inputs = {**size.inputs, **time.inputs}
    return replace(time, inputs=inputs, steps=(size.as_step("V"), *time.steps)).assuming(*assumed)


def from_piece(piece: Array, mesh: Mapping[str, int]) -> Array:
    """The whole array whose piece on one device has these sizes."""
    sizes = undo(piece, mesh).value
    assert isinstance(sizes, list)
    dims = (replace(dim, size=size) for dim, size in zip(piece.dims, sizes, strict=True) if isinstance(size, int))
    return replace(piece, dims=tuple(dims))


def _check_roles(kind: Kind, array: Array, over: tuple[str, ...], idle: tuple[str, ...]) -> None:
    if len({*over, *idle}) < len(over) + len(idle):
        raise UsageError("A mesh axis is named twice.", hint="Name each axis once.")
    split = set(array.axes)
    for axis in idle:
        if axis in split:
            raise UsageError(f"{axis} splits {array} already, so it is not idle.", hint="Leave it out.")
    if kind == "all_reduce":
        wrong = [axis for axis in over if axis in split]
        problem = "splits the array, so there are no partial sums over it"
    else:
        wrong = [axis for axis in over if axis not in split]
        problem = "does not split the array"
    if wrong:
        raise UsageError(
            f"{kind} over {wrong[0]}, which {problem}.", where=str(array), hint="Write the sharding in it."
        )
