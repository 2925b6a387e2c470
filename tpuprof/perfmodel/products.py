"""Sharded matmuls: which collectives a product of two sharded arrays needs, with every legal alternative.

The rules are those of the scaling book, chapter "Sharded matrices". Mesh axes are independent of each other, so each is
looked at alone, and a way to compute the product is one choice per axis. In the words used here, ``C = A . B`` sums
over the dimension J; A has free dimensions I and B has free dimensions K.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, join_axes
from tpuprof.perfmodel.sharding import objection, split_over

Operation = Literal["AllGather", "ReduceScatter", "AllReduce", "AllToAll"]
Name = Literal["A", "B", "C"]
MAX_AXES = 6
MAX_WAYS = 1000
PASSES: dict[Operation, float] = {"AllGather": 1, "ReduceScatter": 1, "AllReduce": 2, "AllToAll": 0.25}
"""What an operation costs on a ring, in units of the array's size over the bandwidth of the axis."""


@dataclass(frozen=True, slots=True)
class Communication:
    """One collective of a way to compute a product.

    Args:
        operation: what is done.
        axes: the mesh axes over which it is done.
        array: the array that it is done to; C is the product.
    """

    operation: Operation
    axes: tuple[str, ...]
    array: Name

    def to_json(self) -> dict[str, str]:
        """``op``, ``mesh_axis``, ``array``."""
        return {"op": self.operation, "mesh_axis": join_axes(self.axes), "array": self.array}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a product.

    Args:
        before: collectives on A and B, before the local matmul.
        after: collectives on C, after it.
        lhs, rhs: A and B as they are when they are multiplied.
        product: C as the local matmul leaves it; ``partial`` holds the axes over which it is still to be summed.
        out: C at the end.
        case: of the book: 1 no communication needed, 2 the sum is split on one input only, 3 on both alike,
            4 the inputs are split over the same axis in dimensions that are not summed.
    """

    before: tuple[Communication, ...]
    after: tuple[Communication, ...]
    lhs: Array
    rhs: Array
    product: Array
    out: Array
    case: int

    @property
    def communications(self) -> tuple[Communication, ...]:
        """All collectives in order."""
        return self.before + self.after

    @property
    def compute_axes(self) -> tuple[str, ...]:
        """The mesh axes over which the operations are split; over others they are repeated."""
        return tuple(dict.fromkeys((*self.lhs.axes, *self.rhs.axes)))


@dataclass(frozen=True, slots=True)
class _Choice:
    """What one mesh axis does: dimensions of A, B and C (null is none) at the multiplication and at the end."""

    lhs: int | None
    rhs: int | None
    partial: bool
    product: int | None
    out: int | None
    communications: tuple[tuple[Operation, Name], ...]


@dataclass(frozen=True, slots=True)
class _Dims:
    """Which dimensions are summed, and where the others of A and B are in C."""

    left: int
    right: int
    of_lhs: dict[int, int]
    of_rhs: dict[int, int]


def ways(lhs: Array, rhs: Array, out: Array | None = None) -> tuple[Way, ...]:
    """All ways to compute a product, the usual one first.

    Args:
        lhs, rhs: sharded inputs. The letter that both share is summed over; without letters it is the last dimension
            of the first and the first of the second.
        out: how the product is to be sharded; null leaves it as it comes, whole or split.

    Raises:
        UsageError: a sharding is not legal, the arrays do not fit, or there are too many mesh axes.
    """
    for array in (lhs, rhs, out):
        refused = objection(array) if array is not None else ""
        if refused:
            raise UsageError(refused, where=str(array), hint="Change the sharding.")
    if lhs.partial or rhs.partial:
        raise UsageError("An input still has partial sums.", hint="Reduce it first: a product of sums is no sum.")
    dims = _match(lhs, rhs)
    blank = _blank(lhs, rhs, out, dims)
    axes = tuple(dict.fromkeys((*lhs.axes, *rhs.axes, *(out.axes if out is not None else ()))))
    if len(axes) > MAX_AXES:
        raise UsageError(f"{len(axes)} mesh axes; at most {MAX_AXES} are considered.")
    choices = [tuple(_choices(axis, lhs, rhs, out, dims)) for axis in axes]
    case = max((_case(axis, lhs, rhs, dims) for axis in axes), default=1)
    found: list[Way] = []
    for picked in product(*choices):
        found.append(_way(dict(zip(axes, picked, strict=True)), lhs, rhs, blank, case))
        if len(found) == MAX_WAYS:
            break
    return tuple(found)


def summed_dims(lhs: Array, rhs: Array) -> tuple[int, int]:
    """The dimensions of both inputs that are summed over.

    Raises:
        UsageError: the arrays do not fit.
    """
    dims = _match(lhs, rhs)
    return dims.left, dims.right


def _case(axis: str, lhs: Array, rhs: Array, dims: _Dims) -> int:
    a, b = _place(lhs, axis), _place(rhs, axis)
    if a is not None and b is not None and a != dims.left and b != dims.right:
        return 4
    if a == dims.left and b == dims.right:
        return 3
    return 2 if a == dims.left or b == dims.right else 1


def _choices(axis: str, lhs: Array, rhs: Array, out: Array | None, dims: _Dims) -> Iterator[_Choice]:
    a, b = _place(lhs, axis), _place(rhs, axis)
    asked, want = out is not None, None if out is None else _place(out, axis)
    summed_a, summed_b = a == dims.left, b == dims.right
    if summed_a and summed_b:
        yield from _summed((), asked, want, dims)
        yield from _whole((("AllGather", "A"), ("AllGather", "B")), asked, want, dims)
    elif summed_a:
        if b is None:
            yield from _whole((("AllGather", "A"),), asked, want, dims)
            yield from _summed((), asked, want, dims)  # the other input is whole: its piece is cut out for free
        else:
            yield from _split(None, b, dims.of_rhs[b], (("AllGather", "A"),), asked, want)
            yield from _summed((("AllToAll", "B"),), asked, want, dims)
    elif summed_b:
        if a is None:
            yield from _whole((("AllGather", "B"),), asked, want, dims)
            yield from _summed((), asked, want, dims)
        else:
            yield from _split(a, None, dims.of_lhs[a], (("AllGather", "B"),), asked, want)
            yield from _summed((("AllToAll", "A"),), asked, want, dims)
    elif a is not None and b is not None:
        keep_b = tuple(_split(None, b, dims.of_rhs[b], (("AllGather", "A"),), asked, want))
        keep_a = tuple(_split(a, None, dims.of_lhs[a], (("AllGather", "B"),), asked, want))
        yield from (*keep_a, *keep_b) if asked and want == dims.of_lhs[a] else (*keep_b, *keep_a)
    elif a is not None:
        yield from _split(a, None, dims.of_lhs[a], (), asked, want)
        if asked and want is None:
            yield from _whole((("AllGather", "A"),), asked, want, dims)
    elif b is not None:
        yield from _split(None, b, dims.of_rhs[b], (), asked, want)
        if asked and want is None:
            yield from _whole((("AllGather", "B"),), asked, want, dims)
    else:
        yield from _whole((), asked, want, dims)


def _summed(first: tuple[tuple[Operation, Name], ...], asked: bool, want: int | None, dims: _Dims) -> Iterator[_Choice]:
    """Both inputs split along the sum: partial results, summed afterwards."""
    if not asked or want is None:
        yield _Choice(dims.left, dims.right, True, None, None, (*first, ("AllReduce", "C")))
    if not asked:
        yield _Choice(dims.left, dims.right, True, None, 0, (*first, ("ReduceScatter", "C")))
    elif want is not None:
        yield _Choice(dims.left, dims.right, True, None, want, (*first, ("ReduceScatter", "C")))


def _split(
    lhs: int | None, rhs: int | None, at: int, first: tuple[tuple[Operation, Name], ...], asked: bool, want: int | None
) -> Iterator[_Choice]:
    """One input split along a free dimension: so is the product."""
    if not asked or want == at:
        yield _Choice(lhs, rhs, False, at, at, first)
    elif want is None:
        yield _Choice(lhs, rhs, False, at, None, (*first, ("AllGather", "C")))
    else:
        yield _Choice(lhs, rhs, False, at, want, (*first, ("AllToAll", "C")))


def _whole(first: tuple[tuple[Operation, Name], ...], asked: bool, want: int | None, dims: _Dims) -> Iterator[_Choice]:
    """Both inputs whole: every device could compute everything, or only the piece that it keeps."""
    if not asked or want is None:
        yield _Choice(None, None, False, None, None, first)
        return
    lhs = next((dim for dim, at in dims.of_lhs.items() if at == want), None)
    rhs = next((dim for dim, at in dims.of_rhs.items() if at == want), None)
    yield _Choice(lhs, rhs, False, want, want, first)


def _way(picked: dict[str, _Choice], lhs: Array, rhs: Array, blank: Array, case: int) -> Way:
    done: dict[tuple[Operation, Name], list[str]] = {}
    for axis, choice in picked.items():
        for step in choice.communications:
            done.setdefault(step, []).append(axis)
    steps = [Communication(operation, tuple(axes), array) for (operation, array), axes in done.items()]
    local = _placed(blank, {axis: choice.product for axis, choice in picked.items()})
    partial = tuple(axis for axis, choice in picked.items() if choice.partial)
    return Way(
        tuple(step for step in steps if step.array != "C"),
        tuple(step for step in steps if step.array == "C"),
        _placed(lhs, {axis: choice.lhs for axis, choice in picked.items()}),
        _placed(rhs, {axis: choice.rhs for axis, choice in picked.items()}),
        replace(local, partial=partial),
        _placed(blank, {axis: choice.out for axis, choice in picked.items()}),
        case,
    )


def _placed(array: Array, places: dict[str, int | None]) -> Array:
    """The array with each axis on one dimension; axes that stay keep their order."""
    for dim in range(len(array.dims)):
        stay = [axis for axis in array.dims[dim].axes if places.get(axis, dim) == dim]
        come = [axis for axis, at in places.items() if at == dim and axis not in stay]
        array = split_over(array, dim, (*stay, *come))
    return array


def _place(array: Array, axis: str) -> int | None:
    return next((dim for dim, d in enumerate(array.dims) if axis in d.axes), None)


def _match(lhs: Array, rhs: Array) -> _Dims:
    if not lhs.dims or not rhs.dims:
        raise UsageError(f"{lhs} and {rhs} have no dimension to sum over.")
    letters = {d.letter: n for n, d in enumerate(lhs.dims) if d.letter}
    shared = [(letters[d.letter], n) for n, d in enumerate(rhs.dims) if d.letter in letters]
    named = letters and any(d.letter for d in rhs.dims)
    if len(shared) > 1 or (named and not shared):
        raise UsageError(
            f"{lhs} and {rhs} share {len(shared)} dimensions; exactly one is summed over.",
            hint="Use the same letter in both for it, and different letters for the others.",
        )
    left, right = shared[0] if shared else (len(lhs.dims) - 1, 0)
    if lhs.dims[left].size != rhs.dims[right].size:
        raise UsageError(f"The sizes that are summed over differ: {lhs.dims[left]} and {rhs.dims[right]}.")
    of_lhs = {n: at for at, n in enumerate(n for n in range(len(lhs.dims)) if n != left)}
    of_rhs = {n: at + len(of_lhs) for at, n in enumerate(n for n in range(len(rhs.dims)) if n != right)}
    return _Dims(left, right, of_lhs, of_rhs)


def _blank(lhs: Array, rhs: Array, out: Array | None, dims: _Dims) -> Array:
    """The product without mesh axes, in the element type that is asked for or else of the first input."""
    free = [lhs.dims[n] for n in dims.of_lhs] + [rhs.dims[n] for n in dims.of_rhs]
    plain = tuple(replace(dim, axes=()) for dim in free)
    if out is None:
        return Array(lhs.dtype, plain, (), "C")
    if out.partial or [d.letter or d.size for d in out.dims] != [d.letter or d.size for d in plain]:
        expected = Array(None, plain, (), "C")
        raise UsageError(f"The product of {lhs} and {rhs} is {expected}, not {out}.", hint="Change the output.")
    return Array(out.dtype or lhs.dtype, plain, (), "C")
