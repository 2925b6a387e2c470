"""A slice of TPU chips: which axes close to rings, where every device sits, how far apart two devices are.

Sources of the rules: the scaling book (chapter on TPUs) for wraparound, the Cloud TPU pages of v4 and v5p for the
shapes that exist twisted, Camarero, Martinez and Beivide ("Lattice graphs for high-scale interconnection topologies")
for the geometry of twisted tori, libtpu's topology descriptions for the order of device ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip

FULL_RING = 16
"""The length at which an axis of a two-dimensional generation is the whole pod's axis and closes to a ring."""
CUBE = 4
"""Edge of the cube that optical switches join in three-dimensional generations."""
TORUS_AXES = ("x", "y", "z")
"""What the axes are called, in the order of coordinates."""
_HOST_BLOCK = (2, 2, 1)
"""Device ids run block by block of these chips, whatever the number of chips behind one CPU host is."""

Coords = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a runtime device sits: which slice, which chip of it, which core of the chip."""

    slice: int
    coords: Coords
    core: int = 0


class Link(NamedTuple):
    """One direction of the link by which a chip reaches its neighbour: ``step`` is +1 or -1 along ``axis``."""

    slice: int
    coords: Coords
    axis: int
    step: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Chips joined by ICI, or several such slices joined by the data-centre network.

    Args:
        chip: the kind of chip.
        shape: chips per axis of one slice.
        wrap: per axis, whether its ends are joined.
        twisted: the wraparound links of the short axes land half way along the long axes.
        slices: how many slices of this shape there are.

    Raises:
        UsageError: the axes do not fit together. Whether such a slice can be had is what `shape_problem` says.
    """

    chip: Chip
    shape: tuple[int, ...]
    wrap: tuple[bool, ...]
    twisted: bool = False
    slices: int = 1

    def __post_init__(self) -> None:
        if not self.shape or len(self.shape) != len(self.wrap) or min(self.shape) < 1:
            raise UsageError(
                f"Shape {self.shape} with wraparound {self.wrap} is no slice.",
                why="Every axis needs a length of 1 or more and a yes or no for its wraparound.",
            )
        if self.slices < 1:
            raise UsageError(f"{self.slices} slices are none.", hint="Give 1 or more.")
        if self.twisted and not can_twist(self.shape):
            raise UsageError(
                f"{_by(self.shape)} cannot be twisted.",
                why="Twisted tori exist for shapes k x k x 2k and k x 2k x 2k with k a multiple of 4.",
                hint="Leave out _twisted.",
            )

    @property
    def name(self) -> str:
        """The slice as `parse_slice` reads it, such as ``2*v5p:4x4x8_twisted``."""
        many = f"{self.slices}*" if self.slices > 1 else ""
        return f"{many}{self.chip.name}:{_by(self.shape)}{'_twisted' if self.twisted else ''}"

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        # The figures of a chip are in mappings, which have no hash; its name and edition stand for them.
        return hash((self.chip.name, self.chip.edition, self.shape, self.wrap, self.twisted, self.slices))

    @property
    def dims(self) -> int:
        """Number of torus axes."""
        return len(self.shape)

    @property
    def chips_per_slice(self) -> int:
        """Chips of one slice."""
        return prod(self.shape)

    @property
    def devices_per_slice(self) -> int:
        """Runtime devices of one slice."""
        return self.chips_per_slice * self.chip.devices_per_chip

    @property
    def n_chips(self) -> int:
        """Chips of all slices."""
        return self.chips_per_slice * self.slices

    @property
    def n_devices(self) -> int:
        """Runtime devices of all slices."""
        return self.devices_per_slice * self.slices

    @property
    def n_cores(self) -> int:
        """TensorCores of all slices."""
        return self.n_chips * self.chip.cores_per_chip

    @property
    def n_hosts(self) -> int | None:
        """CPU hosts of all slices (a slice smaller than a host has one); null if the chip's host is not known."""
        per_host = self.chip.chips_per_host
        return None if per_host is None else self.slices * -(-self.chips_per_slice // per_host)

    @property
    def diameter(self) -> int:
        """The largest number of hops between two chips of one slice."""
        if not self.twisted:
            return sum(size // 2 if wraps else size - 1 for size, wraps in zip(self.shape, self.wrap, strict=True))
        # Every chip of a twisted torus sees the same surroundings, so one corner stands for all.
        origin = (0,) * self.dims
        return max(self.chip_hops(origin, chip) for chip in product(*map(range, self.shape)))

    def place(self, device: int) -> Place:
        """Where a device sits; ids run slice by slice, then host by host with x fastest, cores of a chip fastest.

        Raises:
            UsageError: there is no such device.
        """
        if not 0 <= device < self.n_devices:
            raise UsageError(
                f"Device {device} is outside {self.name}.",
                why=f"Its {self.n_devices} devices have the ids 0 to {self.n_devices - 1}.",
            )
        slice_index, rest = divmod(device, self.devices_per_slice)
        chip, core = divmod(rest, self.chip.devices_per_chip)
        block = self._id_block()
        host, inside = divmod(chip, prod(block))
        corner = _unravel(host, tuple(size // edge for size, edge in zip(self.shape, block, strict=True)))
        offset = _unravel(inside, block)
        coords = tuple(c * edge + o for c, edge, o in zip(corner, block, offset, strict=True))
        return Place(slice_index, coords, core)

    def coords(self, device: int) -> Coords:
        """Torus coordinates of a device's chip within its slice.

        Raises:
            UsageError: there is no such device.
        """
        return self.place(device).coords

    def device_at(self, place: Place) -> int:
        """The id of the device at a place: the inverse of `place`.

        Raises:
            UsageError: the place is outside the slice.
        """
        inside = len(place.coords) == self.dims and all(
            0 <= c < size for c, size in zip(place.coords, self.shape, strict=True)
        )
        if not inside or not 0 <= place.core < self.chip.devices_per_chip or not 0 <= place.slice < self.slices:
            raise UsageError(
                f"There is no device at {place.coords}, core {place.core}, slice {place.slice} of {self.name}."
            )
        block = self._id_block()
        hosts = tuple(size // edge for size, edge in zip(self.shape, block, strict=True))
        host = _ravel(tuple(c // edge for c, edge in zip(place.coords, block, strict=True)), hosts)
        inner = _ravel(tuple(c % edge for c, edge in zip(place.coords, block, strict=True)), block)
        chip = host * prod(block) + inner
        return place.slice * self.devices_per_slice + chip * self.chip.devices_per_chip + place.core

    def hops(self, a: int, b: int) -> int | None:
        """Links between two devices on the shortest way; 0 on one chip; null between slices, which no link joins.

        Raises:
            UsageError: there is no such device.
        """
        here, there = self.place(a), self.place(b)
        return None if here.slice != there.slice else self.chip_hops(here.coords, there.coords)

    def chip_hops(self, a: Coords, b: Coords) -> int:
        """Links between two chips of one slice on the shortest way."""
        return sum(map(abs, self.displacement(a, b)))

    def displacement(self, a: Coords, b: Coords) -> tuple[int, ...]:
        """Signed steps along each axis of a shortest way between two chips; the positive way if both are as long."""
        return min(self._straight_ways(a, b), key=lambda steps: sum(map(abs, steps)))

    def displacements(self, a: Coords, b: Coords) -> list[tuple[int, ...]]:
        """All shortest ways between two chips: half way round a ring either direction is as long."""
        ways: set[tuple[int, ...]] = set()
        for steps in self._straight_ways(a, b):
            choices = [
                (step, -step) if wraps and step and 2 * abs(step) == size and not self._is_short(size) else (step,)
                for step, size, wraps in zip(steps, self.shape, self.wrap, strict=True)
            ]
            ways.update(product(*choices))
        least = min(sum(map(abs, steps)) for steps in ways)
        return sorted((steps for steps in ways if sum(map(abs, steps)) == least), reverse=True)

    def neighbour(self, chip: Coords, axis: int, step: int) -> Coords | None:
        """The chip one link further along an axis; null where the slice ends.

        Args:
            step: +1 or -1.
        """
        to = list(chip)
        to[axis] += step
        size = self.shape[axis]
        if 0 <= to[axis] < size:
            return tuple(to)
        if not self.wrap[axis] or size == 1:
            return None
        to[axis] %= size
        if self._is_short(size):
            for other, length in enumerate(self.shape):
                if length == 2 * size:
                    to[other] = (to[other] + size) % length
        return tuple(to)

    def route(
        self, a: Coords, b: Coords, *, slice_index: int = 0, steps: tuple[int, ...] | None = None
    ) -> Iterator[Link]:
        """The links of a shortest way between two chips of one slice, axis by axis in order (x first).

        Args:
            steps: another displacement to follow, such as the one that `displacements` names besides the first.
        """
        at = a
        for axis, count in enumerate(self.displacement(a, b) if steps is None else steps):
            step = 1 if count > 0 else -1
            for _ in range(abs(count)):
                yield Link(slice_index, at, axis, step)
                to = self.neighbour(at, axis, step)
                assert to is not None
                at = to

    def _id_block(self) -> tuple[int, ...]:
        block = _HOST_BLOCK[: self.dims] + (1,) * (self.dims - len(_HOST_BLOCK))
        return tuple(edge if size % edge == 0 else 1 for size, edge in zip(self.shape, block, strict=True))

    def _is_short(self, size: int) -> bool:
        return self.twisted and size == min(self.shape)

    def _straight_ways(self, a: Coords, b: Coords) -> Iterator[tuple[int, ...]]:
        if not self.twisted:
            yield tuple(
                _ring_step(there - here, size) if wraps else there - here
                for here, there, size, wraps in zip(a, b, self.shape, self.wrap, strict=True)
            )
            return
        short = min(self.shape)
        for turns in product(*((0, 1, -1) if size == short else (0,) for size in self.shape)):
            # Each turn around a short axis moves half way along every long one.
            shift = short * sum(turns)
            yield tuple(
                there - here + turn * short if size == short else _ring_step(there - here - shift, size)
                for here, there, turn, size in zip(a, b, turns, self.shape, strict=True)
            )


def wraparound(chip: Chip, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """Which axes of a slice close to rings, by the rule of the chip's generation.

    Two-dimensional generations: an axis of 16, or one as long as the pod's. Three-dimensional ones: all axes if
    every axis is a multiple of 4, otherwise none.

    Raises:
        UsageError: the chip has no torus.
    """
    if chip.ici is None:
        raise UsageError(f"{chip.name} has no torus of links.", hint="Slices exist for TPUs.")
    if chip.ici.wrap_rule == "only_16":
        return tuple(size in {FULL_RING, max(chip.pod_shape or (FULL_RING,))} for size in shape)
    whole_cubes = all(size % CUBE == 0 for size in shape)
    return (whole_cubes,) * len(shape)


def can_twist(shape: tuple[int, ...]) -> bool:
    """Whether a three-dimensional shape exists as a twisted torus: k x k x 2k or k x 2k x 2k, k a multiple of 4."""
    short = min(shape)
    return len(shape) == 3 and short % CUBE == 0 and set(shape) == {short, 2 * short}


def _ring_step(distance: int, size: int) -> int:
    forward = distance % size
    return forward if 2 * forward <= size else forward - size


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    # The first axis runs fastest.
    coords: list[int] = []
    for size in shape:
        index, coordinate = divmod(index, size)
        coords.append(coordinate)
    return tuple(coords)


def _ravel(coords: tuple[int, ...], shape: tuple[int, ...]) -> int:
    index = 0
    for coordinate, size in zip(reversed(coords), reversed(shape), strict=True):
        index = index * size + coordinate
    return index


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
