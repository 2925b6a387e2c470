"""Mesh axes of a program on the axes of a slice, worked out from coordinates and never from the axes' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.hardware.layout import AxisUse, Layout, lay_out
from tpuprof.hardware.topology import TORUS_AXES, Place, Slice

AxisKind = Literal["ring", "line", "uneven", "on_chip", "dcn", "none"]


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One mesh axis on the slice.

    Args:
        name: as the program calls it.
        size: devices along it.
        kind: ``ring`` every torus axis it spans closes; ``line`` one does not; ``uneven`` its devices are no box of
            the torus; ``on_chip`` they are the cores of one chip; ``dcn`` it leaves the slice; ``none`` it has one.
        torus_axes: the axes of the torus that it spans, 0 for x; their number is M in the book's formulas.
        slices: slices that it spans.
        cores: cores of one chip that it spans.
        hops: links between devices that follow each other along the axis, the most of any pair; null across slices.
        shared: groups of this axis on the busiest link; 1 if each has its links for itself.
        layout: the groups themselves.
    """

    name: str
    size: int
    kind: AxisKind
    torus_axes: tuple[int, ...]
    slices: int
    cores: int
    hops: int | None
    shared: int
    layout: Layout

    @property
    def stride(self) -> int | None:
        """Links between neighbouring positions on the torus axis; null unless it is one axis, evenly spaced."""
        return self.layout.axes[0].stride if len(self.layout.axes) == 1 else None


@dataclass(frozen=True, slots=True)
class MeshMapping:
    """A mesh on a slice.

    Args:
        where: the slice.
        shape: devices per mesh axis, by name, the last one fastest.
        devices: ids in row-major order of the mesh.
    """

    where: Slice
    shape: Mapping[str, int]
    devices: tuple[int, ...]

    @property
    def axes(self) -> tuple[MeshAxis, ...]:
        """Every mesh axis on the slice."""
        return tuple(map(self.axis, self.shape))

    def axis(self, name: str) -> MeshAxis:
        """One mesh axis on the slice.

        Raises:
            UsageError: the mesh has no such axis.
        """
        layout = lay_out(self.where, self.groups((name,)))
        return MeshAxis(
            name,
            self.shape[name],
            _kind(layout),
            tuple(use.axis for use in layout.axes),
            layout.slices,
            layout.cores,
            _hops(layout),
            max((_shared(self.where, use) for use in layout.axes), default=1),
            layout,
        )

    def groups(self, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """The devices that a collective over these mesh axes joins.

        Raises:
            UsageError: the mesh has no such axis, or an axis is named twice.
        """
        unknown = [name for name in names if name not in self.shape]
        if unknown or len(set(names)) < len(names):
            raise UsageError(
                f"{', '.join(names)} are no axes of this mesh.", hint=f"Its axes: {', '.join(self.shape) or 'none'}."
            )
        chosen = [list(self.shape).index(name) for name in names]
        groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for index, device in enumerate(self.devices):
            at = _unravel(index, tuple(self.shape.values()))
            others = tuple(part for axis, part in enumerate(at) if axis not in chosen)
            groups.setdefault(others, []).append((tuple(at[axis] for axis in chosen), device))
        return tuple(tuple(device for _, device in sorted(group)) for group in groups.values())


def map_mesh(
    where: Slice, axes: Mapping[str, int], assignment: Sequence[int] | Sequence[Place] | None = None
) -> MeshMapping:
    """A mesh on a slice.

    Args:
        axes: devices per mesh axis.
        assignment: the devices in row-major order of the mesh, as ids or as places; ids in rising order if not given
            (which is what a reshaped ``jax.devices()`` has; ``jax.make_mesh`` may reorder).

    Raises:
        UsageError: the sizes do not multiply to the devices, or a device is outside the slice or named twice.
    """
    for name, size in axes.items():
        if size < 1:
            raise UsageError(f"Mesh axis {name} has {size} devices.", hint="Give 1 or more.")
    count = prod(axes.values())
    given: Sequence[int | Place] = range(count) if assignment is None else assignment
    if count != len(given) or count > where.n_devices:
        found = where.n_devices if assignment is None else len(given)
        raise UsageError(
            f"A mesh of {' x '.join(f'{name}={size}' for name, size in axes.items())} does not fit {where.name}.",
            why=f"It has {count} devices, not {found}.",
        )
    devices = tuple(where.device_at(device) if isinstance(device, Place) else device for device in given)
    lay_out(where, [devices])
    return MeshMapping(where, dict(axes), devices)


def torus_mesh(where: Slice) -> MeshMapping:
    """The slice itself as a mesh: its axes are ``slice``, ``z``, ``y``, ``x`` and ``core``, those of one left out."""
    sizes = {"slice": where.slices, "core": where.chip.devices_per_chip} | dict(
        zip(TORUS_AXES, where.shape, strict=False)
    )
    order = ("slice", *reversed(TORUS_AXES[: where.dims]), "core")
    shape = {name: sizes[name] for name in order if sizes[name] > 1}
    places: list[Place] = []
    for index in range(where.n_devices):
        at = dict(zip(shape, _unravel(index, tuple(shape.values())), strict=True))
        coords = tuple(at.get(name, 0) for name in TORUS_AXES[: where.dims])
        places.append(Place(at.get("slice", 0), coords, at.get("core", 0)))
    return MeshMapping(where, shape, tuple(map(where.device_at, places)))


def _kind(layout: Layout) -> AxisKind:
    if layout.size == 1:
        return "none"
    if not layout.box:
        spans = any(len({place.slice for place in group}) > 1 for group in layout.groups)
        return "dcn" if spans else "uneven"
    if layout.slices > 1:
        return "dcn"
    if not layout.axes:
        return "on_chip"
    if layout.where.twisted and layout.whole_slice:
        return "ring"
    return "ring" if all(use.closes for use in layout.axes) else "line"


def _hops(layout: Layout) -> int | None:
    most = 0
    for group in layout.groups:
        for here, there in pairwise(group):
            if here.slice != there.slice:
                return None
            most = max(most, layout.where.chip_hops(here.coords, there.coords))
    return most


def _shared(where: Slice, use: AxisUse) -> int:
    length = where.shape[use.axis]
    most = 1
    for row in use.lines:
        links = [0] * length
        for own in row:
            for link in range(length) if use.closes else range(own[0], own[-1]):
                links[link] += 1
        most = max(most, *links)
    return most


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    at: list[int] = []
    for size in reversed(shape):
        index, part = divmod(index, size)
        at.append(part)
    return tuple(reversed(at))
