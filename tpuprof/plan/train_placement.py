"""Mesh axes on the axes of the torus, and what a collective along one costs there; each kind of axis is routed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import inf, prod

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import TORUS_AXES, Place, Slice
from tpuprof.perfmodel.collective_time import collective_time
from tpuprof.plan.train_layout import AXES, Layout

CORE = -1
"""The axis of the cores of a chip that are devices of their own."""
_LARGE = 1e12


@dataclass(frozen=True, slots=True)
class Piece:
    """So many positions of one torus axis, each ``stride`` links after the one before."""

    axis: int
    count: int
    stride: int = 1

    def text(self) -> str:
        """Such as ``x8`` or ``x4/2``."""
        name = "core" if self.axis == CORE else TORUS_AXES[self.axis]
        return f"{name}{self.count}" + (f"/{self.stride}" if self.stride > 1 else "")


@dataclass(frozen=True, slots=True)
class Cost:
    """Expected time of a collective by its size: ``max(least, t0 + size * slope)``.

    Args:
        size_1: bytes whose time is the slope; ``collective_time`` says what size means for each kind.
        least: of any size, seconds.
        regime: what bounds large ones.
    """

    t0: float
    slope: float
    least: float
    regime: str

    def seconds(self, size: float) -> float:
        """Expected time; nothing takes no time."""
        return max(self.least, self.t0 + size * self.slope) if size > 0 else 0.0


FREE = Cost(0.0, 0.0, 0.0, "none")


def place(layout: Layout, where: Slice) -> dict[str, tuple[Piece, ...]]:
    """The torus axes of each mesh axis.

    The axis that talks the most is placed first. An axis takes whole torus axes where its size allows it, because
    those close to rings; else it breaks the fewest.

    Raises:
        UsageError: the sizes do not fit the slice.
    """
    left = {index: (size, 1) for index, size in enumerate(where.shape)}
    cores = where.chip.devices_per_chip
    if cores > 1:
        left[CORE] = (cores, 1)
    placed: dict[str, tuple[Piece, ...]] = {}
    for name in AXES:
        size = getattr(layout, name)
        if size == 1:
            placed[name] = ()
            continue
        best, score = None, (inf, inf, inf)
        axes = list(left)
        for counts in product(*(_divisors(left[axis][0]) for axis in axes)):
            if prod(counts) != size:
                continue
            chosen = dict(zip(axes, counts, strict=True))
            rank = _rank(chosen, left, where)
            if rank < score:
                best, score = chosen, rank
        if best is None:
            raise UsageError(f"The axis {name}={size} does not fit the shape of {where.name}.")
        placed[name] = tuple(Piece(axis, count, left[axis][1]) for axis, count in best.items() if count > 1)
        left = {axis: (length // best[axis], stride * best[axis]) for axis, (length, stride) in left.items()}
    return placed


def cost(where: Slice, pieces: tuple[Piece, ...], kind: str) -> Cost:
    """What a collective along an axis costs, all groups at work.

    Raises:
        UsageError: the bandwidth of its links is not known.
    """
    if not pieces:
        return FREE
    used = {piece.axis for piece in pieces}
    # Rows of chips beside the group's own carry groups of their own, over links of their own: one is enough.
    shape = tuple(size if axis in used else 1 for axis, size in enumerate(where.shape))
    twisted = where.twisted and shape == where.shape
    small = Slice(where.chip, shape, tuple(wrap and size > 1 for wrap, size in zip(where.wrap, shape, strict=True)),
                  twisted)  # fmt: skip
    # A scatter with sums sends the bytes of a gather backwards over the same links.
    return _cost(small, pieces, "all_gather" if kind == "reduce_scatter" else kind)


def network_cost(where: Slice, kind: str) -> Cost:
    """What a collective between the slices costs, each device with its like in the others.

    Raises:
        UsageError: the bandwidth of the network is not known.
    """
    if where.slices == 1:
        return FREE
    one = Slice(where.chip, (1,) * where.dims, (False,) * where.dims, False, where.slices)
    cores = where.chip.devices_per_chip
    groups = tuple(
        tuple(one.device_at(Place(index, (0,) * where.dims, core)) for index in range(where.slices))
        for core in range(cores)
    )
    return _timed(one, groups, kind)


def _rank(chosen: dict[int, int], left: dict[int, tuple[int, int]], where: Slice) -> tuple[float, float, float]:
    broken = 0
    directions = 0.0
    for axis, count in chosen.items():
        length, stride = left[axis]
        if count == 1:
            continue
        broken += count != length and stride == 1  # an axis that is split already is no further loss
        if axis != CORE:
            rings = where.wrap[axis] and stride * count == where.shape[axis]
            directions += (2 if rings else 1) / stride
    # Among equals the shorter axes are taken, so that long rings are left for the axis with the most members.
    return broken, -directions, sum(left[axis][0] for axis, count in chosen.items() if count > 1)


@lru_cache(maxsize=4096)
def _cost(where: Slice, pieces: tuple[Piece, ...], kind: str) -> Cost:
    groups: dict[tuple[int, ...], list[int]] = {}
    ranges = [range(size) for size in where.shape]
    for coords in product(*ranges, range(where.chip.devices_per_chip)):
        key = list(coords)
        for piece in pieces:
            at = len(where.shape) if piece.axis == CORE else piece.axis
            inside = coords[at] // piece.stride % piece.count
            key[at] -= inside * piece.stride
        groups.setdefault(tuple(key), []).append(where.device_at(Place(0, coords[:-1], coords[-1])))
    members = [tuple(group) for group in groups.values()]
    if kind == "collective_permute":  # to the next stage, the last one to none
        return _timed(where, tuple(pair for group in members for pair in pairwise(group)), kind)
    return _timed(where, tuple(members), kind)


@lru_cache(maxsize=256)
def _timed(where: Slice, groups: tuple[tuple[int, ...], ...], kind: str) -> Cost:
    large = collective_time(kind, _LARGE, where, groups=groups)
    none = collective_time(kind, 0.0, where, groups=groups)
    if large.expected_s is None or none.expected_s is None:
        raise UsageError(
            f"How long a collective takes on {where.chip.name} is not known.",
            why=large.derivation.assumptions[-1] if large.derivation.assumptions else "",
            hint="Plan with a chip whose links are known: tpuprof hardware lists them.",
        )
    t0 = 0.0 if large.calibration is None else large.calibration.t0_s
    return Cost(t0, (large.expected_s - t0) / _LARGE, none.expected_s, large.regime)


@lru_cache(maxsize=256)
def _divisors(size: int) -> tuple[int, ...]:
    return tuple(count for count in range(1, size + 1) if size % count == 0)
