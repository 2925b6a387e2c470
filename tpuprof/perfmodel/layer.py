"""Communication of a layer of two matmuls under a sharding of its input and weights, forward and backward.

Formulas: scaling book, chapters "Training" and "Inference". Nothing here knows a named scheme: data parallelism, fully
sharded data parallelism and tensor parallelism are shardings, and what they cost follows from the rules of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod, sqrt

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, check_mesh
from tpuprof.perfmodel.checks import positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.products import PASSES, Communication, Way, ways
from tpuprof.perfmodel.sharding import objection

_TRAINING = "scaling book, training parallelism"
_INFERENCE = "scaling book, inference"


@dataclass(frozen=True, slots=True)
class Sent:
    """One collective with its bytes.

    Args:
        what: the array, such as ``W1`` or ``dX``.
        size: V, bytes of the array within the group of the collective.
    """

    what: str
    communication: Communication
    size: float

    @property
    def counted_bytes(self) -> float:
        """What enters the time: an all-reduce counts twice."""
        return self.size * PASSES[self.communication.operation]


def mlp_communication(x: Array, w1: Array, w2: Array, mesh: Mapping[str, int]) -> dict[str, Derivation]:
    """Bytes that the collectives of ``(X . W1) . W2`` count for, ``forward`` and ``backward``.

    The output has the sharding of the input. In the backward pass the gathered input is still there, weights are
    gathered again, and gradients get the sharding of what they are a gradient of.

    Args:
        x: [batch, D]; w1: [D, F]; w2: [F, D]; with sizes and element types.

    Raises:
        UsageError: a sharding is not legal, or the arrays do not fit.
    """
    check_mesh(mesh)
    for array in (x, w1, w2):
        refused = objection(array, mesh)
        if refused or len(array.dims) != 2:
            raise UsageError(refused or "It needs two dimensions.", where=str(array))
    x, w1, w2 = (_unnamed(array) for array in (x, w1, w2))
    work = _Layer(mesh)
    first = work.multiply(x, w1, None, "X", "W1", "T")
    work.multiply(first.out, w2, x, "T", "W2", "Y")
    forward = work.take()
    gradient = work.multiply(_turned(first.out), x, w2, "T", "dY", "dW2")
    # The gathered gradient of the output serves both products, as the gathered input serves forward and backward.
    work.multiply(gradient.rhs, _turned(w2), first.out, "dY", "W2", "dT")
    work.multiply(_turned(first.lhs), first.out, w1, "X", "dT", "dW1")
    work.multiply(first.out, _turned(w1), x, "dT", "W1", "dX")
    inputs = {
        "X": Quantity(str(x)), "W1": Quantity(str(w1)), "W2": Quantity(str(w2)),
        "mesh": Quantity(dict(mesh), "device per axis"),
    }  # fmt: skip
    return {"forward": _counted(forward, inputs, False), "backward": _counted(work.take(), inputs, True)}


def weight_stationary(
    hidden_ratio: float,
    *,
    batch: float | None = None,
    width: float | None = None,
    chips: int | None = None,
    bandwidth: float | None = None,
) -> dict[str, Derivation]:
    """The least communication time of a layer whose weights stay where they are, split over both their dimensions.

    ``coefficient`` is c in T = c B D / (sqrt(N) W); with all four numbers also ``time``; with ``chips`` also ``split``,
    the number of chips along the model width.

    Args:
        hidden_ratio: F / D.
        batch: tokens B. width: D. chips: N. bandwidth: of one ICI axis in both directions, B/s.

    Raises:
        UsageError: a number is not above zero, or only some of the four are given.
    """
    ratio = positive("F / D", hidden_ratio)
    inputs = {"F/D": Quantity(hidden_ratio, "ratio")}
    assumed = (
        "2 bytes per element", "T = 2BD/(X W) + 4BF/((N/X) W), and X takes its best value even if that is no integer",
    )  # fmt: skip
    coefficient = Derivation(sqrt(32 * ratio), "", "sqrt(32 * F/D)", inputs, None, assumed, (), _INFERENCE)
    found = {"coefficient": coefficient}
    if chips is not None:
        inputs = {**inputs, "N": Quantity(positive("The number of chips", chips), "chip")}
        found["split"] = Derivation(
            sqrt(chips / (2 * ratio)), "chip", "sqrt(N*D / (2*F))", inputs, None, assumed, (), _INFERENCE
        )
    given = (batch, width, chips, bandwidth)
    if batch is not None and width is not None and chips is not None and bandwidth is not None:
        inputs = {
            **inputs, "B": Quantity(positive("The batch", batch), "token"),
            "D": Quantity(positive("The width", width), "element"),
            "W": Quantity(positive("The bandwidth", bandwidth), "B/s"),
        }  # fmt: skip
        value = coefficient.number() * batch * width / (sqrt(chips) * bandwidth)
        steps = (coefficient.as_step("c"), found["split"].as_step("chips along D"))
        found["time"] = Derivation(value, "s", "c*B*D / (sqrt(N)*W)", inputs, None, assumed, steps, _INFERENCE)
    elif any(value is not None for value in (batch, width, bandwidth)):
        missing = sum(value is None for value in given)
        raise UsageError(f"{missing} of batch, width, chips and bandwidth are missing.", hint="Give all four.")
    return found


class _Layer:
    """Collects the collectives of products on one mesh."""

    def __init__(self, mesh: Mapping[str, int]) -> None:
        self.mesh = mesh
        self.sent: list[Sent] = []

    def multiply(self, lhs: Array, rhs: Array, out: Array | None, a: str, b: str, c: str) -> Way:
        way = ways(lhs, rhs, out)[0]
        names = {"A": a, "B": b, "C": c}
        for step in way.communications:
            size = communication_bytes(step, way, self.mesh)
            self.sent.append(Sent(names[step.array], step, size))
        return way

    def take(self) -> tuple[Sent, ...]:
        sent, self.sent = tuple(self.sent), []
        return sent


def communication_bytes(step: Communication, way: Way, mesh: Mapping[str, int]) -> float:
    """V of a collective: bytes of its array as far as it is split over axes that have no part in the collective.

    Raises:
        UsageError: a size, an element type or a mesh axis is not known.
    """
    array = {"A": way.lhs, "B": way.rhs}.get(step.array)
    if array is None:
        gathers = step.operation == "AllGather"
        array = way.out if gathers else way.product
    others = [axis for axis in array.axes if axis not in step.axes]
    missing = [axis for axis in others if axis not in mesh]
    if missing:
        raise UsageError(f"The mesh has no axis {missing[0]}.", hint="Give the size of every axis.")
    return array.bytes() / prod(mesh[axis] for axis in others)


def _counted(sent: tuple[Sent, ...], inputs: Mapping[str, Quantity], backward: bool) -> Derivation:
    steps = tuple(
        Step(f"{s.communication.operation} of {s.what} over {'+'.join(s.communication.axes)}",
             f"V * {PASSES[s.communication.operation]:g}", s.counted_bytes, "B")
        for s in sent
    )  # fmt: skip
    assumed = ["an AllReduce counts twice", "the output has the sharding of the input"]
    if backward:
        assumed.append("the gathered input is kept from the forward pass, gathered weights are not")
    total = sum(s.counted_bytes for s in sent)
    return Derivation(total, "B", "sum over the collectives", inputs, None, tuple(assumed), steps, _TRAINING)


def _turned(array: Array) -> Array:
    return replace(array, dims=array.dims[::-1])


def _unnamed(array: Array) -> Array:
    """Letters away: dimensions of a layer are matched by place, since several have the same size."""
    array.shape  # noqa: B018  raises where a size is missing
    return replace(array, dims=tuple(replace(dim, letter="") for dim in array.dims))
