"""Where the groups of a collective lie on a slice: the axes they span, and which of them use the same links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Place, Slice


@dataclass(frozen=True, slots=True)
class AxisUse:
    """How groups lie along one torus axis.

    Args:
        axis: 0 is x.
        count: positions of one group along the axis.
        stride: links between neighbouring positions; null if they are unevenly spaced or groups differ.
        closes: the positions of every group run evenly round the whole of an axis with wraparound.
        lines: in each row of chips, the positions of every group there.
    """

    axis: int
    count: int
    stride: int | None
    closes: bool
    lines: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def positions(self) -> frozenset[tuple[int, ...]]:
        """The positions of all groups, those that lie alike once."""
        return frozenset(own for row in self.lines for own in row)


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups of equal size on a slice.

    Args:
        where: the slice.
        groups: the places of each group's members, in the order of the group.
        box: every group is the product of its positions along the axes, its cores and its slices, and all
            groups have as many of them.
        axes: the torus axes along which a group has more than one position; empty if the groups are no boxes.
        slices: slices that a group spans.
        cores: cores of one chip that a group holds.
    """

    where: Slice
    groups: tuple[tuple[Place, ...], ...]
    box: bool
    axes: tuple[AxisUse, ...]
    slices: int
    cores: int

    @property
    def size(self) -> int:
        """Members of a group."""
        return len(self.groups[0])

    @property
    def chips(self) -> int:
        """Chips of a group in one slice, for boxes."""
        return self.size // (self.slices * self.cores)

    @property
    def whole_slice(self) -> bool:
        """Whether every group holds all chips of the slices it spans."""
        return self.box and self.chips == self.where.chips_per_slice


def lay_out(where: Slice, groups: Iterable[Sequence[int]]) -> Layout:
    """Where groups of device ids lie.

    Raises:
        UsageError: there is no group, a group is empty, sizes differ, a device is outside the slice or in two groups.
    """
    members = [tuple(group) for group in groups]
    check_groups(members)
    places = tuple(tuple(map(where.place, group)) for group in members)
    spans = [_span(group, where.dims) for group in places]
    first = tuple(map(len, spans[0]))
    size = len(members[0])
    box = all(tuple(map(len, span)) == first for span in spans) and prod(first) == size
    positions, n_slices, n_cores = first[: where.dims], first[-2], first[-1]
    axes: tuple[AxisUse, ...] = ()
    if box:
        axes = tuple(_axis_use(where, places, axis) for axis in range(where.dims) if positions[axis] > 1)
    return Layout(where, places, box, axes, n_slices, n_cores)


def check_groups(groups: Sequence[Sequence[int]]) -> None:
    """Raise if groups of devices cannot take part in one collective.

    Raises:
        UsageError: there is no group, a group is empty, sizes differ, or a device is named twice.
    """
    if not groups or not all(groups):
        raise UsageError("A group without members.", why="Every collective has groups of at least one device.")
    sizes = sorted({len(group) for group in groups})
    if len(sizes) > 1:
        raise UsageError(
            f"Groups of {sizes[0]} and {sizes[-1]} devices.", why="All groups of a collective are of one size."
        )
    seen: set[int] = set()
    for device in (device for group in groups for device in group):
        if device in seen:
            raise UsageError(f"Device {device} is named twice.", why="A device belongs to one group.")
        seen.add(device)


def _span(group: tuple[Place, ...], dims: int) -> tuple[frozenset[int], ...]:
    along = [frozenset(place.coords[axis] for place in group) for axis in range(dims)]
    return (*along, frozenset(place.slice for place in group), frozenset(place.core for place in group))


def _axis_use(where: Slice, groups: tuple[tuple[Place, ...], ...], axis: int) -> AxisUse:
    rows: dict[tuple[int, tuple[int, ...]], dict[tuple[int, int], list[int]]] = {}
    for index, group in enumerate(groups):
        for place in group:
            row = (place.slice, place.coords[:axis] + place.coords[axis + 1 :])
            rows.setdefault(row, {}).setdefault((index, place.core), []).append(place.coords[axis])
    lines = tuple(tuple(tuple(sorted(found)) for found in row.values()) for row in rows.values())
    length = where.shape[axis]
    wraps = where.wrap[axis] and length > 2 and not _lands_elsewhere(where, axis)
    spacings = [{b - a for a, b in pairwise(own)} for own in frozenset(own for row in lines for own in row)]
    strides = set[int]().union(*spacings)
    stride = strides.pop() if len(strides) == 1 else None
    closes = wraps and stride is not None and stride * len(lines[0][0]) == length
    return AxisUse(axis, len(lines[0][0]), stride, closes, lines)


def _lands_elsewhere(where: Slice, axis: int) -> bool:
    # A short axis of a twisted torus closes only after a turn through the long axes.
    return where.twisted and where.shape[axis] == min(where.shape)
