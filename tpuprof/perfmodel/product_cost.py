"""What each way to compute a sharded product costs, and which is the best one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, check_mesh
from tpuprof.perfmodel.collectives import RingKind, all_to_all, torus
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step, Value
from tpuprof.perfmodel.layer import communication_bytes
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.perfmodel.matmul_time import matmul_time
from tpuprof.perfmodel.mesh_collective import AxisLinks
from tpuprof.perfmodel.products import PASSES, Communication, Operation, Way, summed_dims, ways
from tpuprof.perfmodel.rates import Rates
from tpuprof.perfmodel.sharding import objection, shard

_BOOK = "scaling book, sharded matrices"
_KINDS: dict[Operation, RingKind] = {
    "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "AllReduce": "all_reduce",
}  # fmt: skip
_ANY_SIZE = 2


@dataclass(frozen=True, slots=True)
class WayCost:
    """One way with its times on one device.

    Args:
        t_matmul_s: of the local matmul; null if no rate is known.
        t_comm_s: of the collectives, one after the other; null if no bandwidth is known.
        t_lower_s: if both overlap perfectly. t_upper_s: if they do not at all.
        flops: of one device.
        bytes: V of each collective.
    """

    way: Way
    flops: float
    bytes: tuple[float, ...]
    t_matmul_s: float | None
    t_comm_s: float | None
    t_lower_s: float | None
    t_upper_s: float | None
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Value]:
        """The way in words and numbers."""
        steps: list[Value] = [step.to_json() for step in self.way.communications]
        return {
            "communications": steps,
            "out": str(self.way.out),
            "flops_per_device": self.flops,
            "bytes": list(self.bytes),
            "t_matmul_s": self.t_matmul_s,
            "t_comm_s": self.t_comm_s,
            "t_lower_s": self.t_lower_s,
            "t_upper_s": self.t_upper_s,
        }


def needed(lhs: Array, rhs: Array, out: Array | None = None) -> Derivation:
    """The collectives of the usual way to compute a product, whose regime is the case of the book.

    Raises:
        UsageError: as :func:`tpuprof.perfmodel.products.ways`.
    """
    found = ways(lhs, rhs, out)
    value: list[Value] = [step.to_json() for step in found[0].communications]
    others = dict.fromkeys(_said(way) for way in found[1:8])
    others.pop(_said(found[0]), None)
    steps = tuple(Step("another legal way", text, None) for text in others)
    return Derivation(
        value, "list of collectives", "one of the four cases, per mesh axis", _inputs(lhs, rhs, out),
        f"case {found[0].case}", ("each mesh axis is looked at alone",), steps, _BOOK,
    )  # fmt: skip


def local_shapes(lhs: Array, rhs: Array, mesh: Mapping[str, int], out: Array | None = None) -> Derivation:
    """Per-device shapes of both inputs and of the product as it leaves the local matmul, if nothing is gathered first.

    Raises:
        UsageError: a collective is needed before the local matmul, or a sharding is not legal.
    """
    way = ways(lhs, rhs, out)[0]
    if way.before:
        raise UsageError(
            "The inputs are communicated before they are multiplied.",
            why=_said(way),
            hint="Ask for the shapes of each array by itself.",
        )
    arrays = {"lhs": lhs, "rhs": rhs, "out": way.out}
    value: dict[str, Value] = {name: list(shard(array, mesh).local_shape) for name, array in arrays.items()}
    formula = "each dimension / product of its mesh axes"
    return Derivation(value, "shape", formula, _inputs(lhs, rhs, out, mesh), f"case {way.case}", (), (), _BOOK)


def costs(
    lhs: Array, rhs: Array, mesh: Mapping[str, int], rates: Rates, links: AxisLinks | None = None,
    out: Array | None = None,
) -> tuple[WayCost, ...]:  # fmt: skip
    """All ways with their times, the fastest first where times are known (by the time without overlap).

    Args:
        links: the network under the mesh; null leaves the communication out.

    Raises:
        UsageError: a size, an element type or a mesh axis is missing, or as :func:`tpuprof.perfmodel.products.ways`.
    """
    check_mesh(mesh)
    for array in (lhs, rhs, *(() if out is None else (out,))):
        refused = objection(array, mesh)
        if refused:
            raise UsageError(refused, where=str(array), hint="Name the axis in --mesh.")
    priced = [_price(way, mesh, rates, links) for way in ways(lhs, rhs, out)]
    return tuple(sorted(priced, key=lambda cost: cost.t_upper_s if cost.t_upper_s is not None else 0.0))


def best(found: Sequence[WayCost], lhs: Array, rhs: Array, mesh: Mapping[str, int]) -> dict[str, Derivation]:
    """``time`` and ``upper`` of the fastest way, and ``ways``: all of them."""
    fastest = found[0]
    inputs = _inputs(lhs, rhs, fastest.way.out, mesh)
    assumed = ("each mesh axis is a physical axis of its own", "the collectives of one way follow each other")
    if fastest.t_matmul_s is None:
        assumed += ("the time is not known: there is no peak rate and no bandwidth of the memory",)
    if fastest.t_comm_s is None:
        assumed += ("the time is not known: there is no bandwidth of the links",)
    rows: list[Value] = [cost.to_json() for cost in found]
    bound = None
    if fastest.t_matmul_s is not None and fastest.t_comm_s is not None:
        bound = "compute" if fastest.t_matmul_s >= fastest.t_comm_s else "communication"
    return {
        "time": Derivation(
            fastest.t_lower_s, "s", "max(matmul, communication)", inputs, bound,
            (*assumed, "the matmul and the communication overlap perfectly"), fastest.steps, _BOOK,
        ),
        "upper": Derivation(
            fastest.t_upper_s, "s", "matmul + communication", inputs, bound, assumed, fastest.steps, _BOOK
        ),
        "ways": Derivation(rows, "", "every choice per mesh axis", inputs, f"case {fastest.way.case}", assumed),
    }  # fmt: skip


def fastest_products(
    options: Sequence[tuple[Array, Array]], out: Array, mesh: Mapping[str, int] | None = None
) -> Derivation:
    """Which of several shardings of one product gives the output soonest, as numbers counted from 1; ties share.

    Sizes need not be known: with large dimensions the operations per device decide, and among equal ones the bytes
    that are communicated.

    Args:
        options: pairs of inputs.
        out: the sharding that the product must have.
        mesh: sizes of the axes; all axes are taken as equally long if not given.

    Raises:
        UsageError: there is no option, or as :func:`tpuprof.perfmodel.products.ways`.
    """
    if not options:
        raise UsageError("There is no option to compare.")
    keys: list[tuple[float, float]] = []
    steps: list[Step] = []
    for number, (lhs, rhs) in enumerate(options, 1):
        way = ways(lhs, rhs, out)[0]
        split = prod(_size(axis, mesh) for axis in way.compute_axes)
        sent = sum(PASSES[step.operation] * _share(step, way, mesh) for step in way.communications)
        keys.append((1 / split, sent))
        what = f"option {number}: {_said(way)}"
        steps.append(Step(f"{what}; part of the operations", "1 / split", 1 / split))
        steps.append(Step(f"{what}; arrays communicated", "passes * part of the array", sent))
    value: list[Value] = [number for number, key in enumerate(keys, 1) if key == min(keys)]
    inputs = {f"option {n}": Quantity(f"{a} . {b}") for n, (a, b) in enumerate(options, 1)}
    assumed = ["the dimensions are large, so that operations outweigh bytes, and bytes outweigh latency",
               "all arrays that are communicated are equally large"]  # fmt: skip
    if mesh is None:
        assumed.append("all mesh axes are equally long")
    return Derivation(
        value, "option numbers (1-based)", "least operations per device, then least communication",
        {**inputs, "out": Quantity(str(out))}, None, tuple(assumed), tuple(steps), _BOOK,
    )  # fmt: skip


def _price(way: Way, mesh: Mapping[str, int], rates: Rates, links: AxisLinks | None) -> WayCost:
    lhs, rhs = shard(way.lhs, mesh), shard(way.rhs, mesh)
    k = max(lhs.local_shape[summed_dims(way.lhs, way.rhs)[0]], 1)
    matmul = Matmul(
        prod(lhs.local_shape) // k, prod(rhs.local_shape) // k, k, 1, way.lhs.dtype or "bf16", way.rhs.dtype or "bf16",
        way.product.dtype or "bf16",
    )  # fmt: skip
    t_matmul = matmul_time(matmul, rates).t_bound_s
    sizes = tuple(communication_bytes(step, way, mesh) for step in way.communications)
    steps = [] if t_matmul is None else [Step("local matmul", "max(FLOPs / C, bytes / W)", t_matmul, "s")]
    t_comm: float | None = 0.0
    for step, size in zip(way.communications, sizes, strict=True):
        time = None if links is None else _time(step, size, mesh, links)
        t_comm = None if time is None or t_comm is None else t_comm + time.number()
        what = f"{step.operation} of {step.array} over {'+'.join(step.axes)}"
        steps.append(Step(what, f"V = {size:g} B" if time is None else time.formula, time and time.value, "s"))
    lower = upper = None
    if t_matmul is not None and t_comm is not None:
        lower, upper = max(t_matmul, t_comm), t_matmul + t_comm
    return WayCost(way, float(matmul.flops), sizes, t_matmul, t_comm, lower, upper, tuple(steps))


def _time(step: Communication, size: float, mesh: Mapping[str, int], links: AxisLinks) -> Derivation:
    lengths = [mesh[axis] for axis in step.axes if mesh[axis] > 1]
    closes = [axis in links.rings for axis in step.axes if mesh[axis] > 1]
    if not lengths:
        return Derivation(0.0, "s", "nobody to send to", {}, "one device")
    if step.operation == "AllToAll":
        return all_to_all(size, lengths, links.bandwidth, wrap=closes)
    hops = sum(n // 2 if ring else n - 1 for n, ring in zip(lengths, closes, strict=True))
    return torus(
        _KINDS[step.operation], size, links.bandwidth, rings=sum(closes), lines=len(closes) - sum(closes),
        members=prod(lengths), hops=hops, hop_latency=links.hop_latency,
    )  # fmt: skip


def _size(axis: str, mesh: Mapping[str, int] | None) -> int:
    if mesh is None:
        return _ANY_SIZE
    if axis not in mesh:
        raise UsageError(f"The mesh has no axis {axis}.", hint="Give the size of every axis.")
    return mesh[axis]


def _share(step: Communication, way: Way, mesh: Mapping[str, int] | None) -> float:
    arrays = {"A": way.lhs, "B": way.rhs, "C": way.out if step.operation == "AllGather" else way.product}
    others = [axis for axis in arrays[step.array].axes if axis not in step.axes]
    return 1 / prod(_size(axis, mesh) for axis in others)


def _said(way: Way) -> str:
    said = [f"{step.operation} {step.array} over {'+'.join(step.axes)}" for step in way.communications]
    return f"{', '.join(said) or 'no collective'} -> {way.out}"


def _inputs(lhs: Array, rhs: Array, out: Array | None, mesh: Mapping[str, int] | None = None) -> dict[str, Quantity]:
    inputs = {"A": Quantity(str(lhs)), "B": Quantity(str(rhs))}
    if out is not None:
        inputs["C"] = Quantity(str(out))
    if mesh is not None:
        inputs["mesh"] = Quantity(dict(mesh), "device per axis")
    return inputs
