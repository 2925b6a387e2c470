"""Which devices take part in a collective together.

XLA writes replica groups in three forms: a plain list ``{{0,1},{2,3}}``, an iota ``[4,4]<=[4,4]T(1,0)``
(count up, reshape, transpose, reshape into rows), and a mesh with the axes that are reduced over,
``mesh['x'=4,'y'=4] {'y'}``. The compact forms are kept; the lists are made only when asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tpuprof.errors import HloError
from tpuprof.hlo.scan import integers, split_top_level

MAX_DEVICES = 1 << 22  # the largest number of devices of which lists are made
_IOTA = re.compile(r"\[([\d, ]+)\]\s*<=\s*\[([\d, ]+)\](?:\s*T\(([\d, ]+)\))?\s*\Z")
_MESH = re.compile(r"mesh\[(?P<axes>[^\]]*)\](?:,\s*device_ids=\((?P<devices>[^)]*\)?)\))?\s*\{(?P<used>[^}]*)\}\s*\Z")
_MESH_AXIS = re.compile(r"'([^']*)'=(\d{1,18})\Z")
_AXIS_REF = re.compile(r"'([^']*)'(?::\((\d{1,18})\)(\d{1,18}))?\Z")
_DEVICE_IOTA = re.compile(r"\[([\d, ]+)\](?:\s*T\(([\d, ]+)\))?\Z")
_MAXIMAL = re.compile(r"maximal_mesh\[device_id=(\d{1,18})\]\s*\{\s*\}\s*\Z")


@dataclass(frozen=True, slots=True)
class Iota:
    """Device ids counted from 0, reshaped to ``dims`` and transposed by ``perm``."""

    dims: tuple[int, ...]
    perm: tuple[int, ...]

    def flat(self) -> tuple[int, ...]:
        """The ids in their new order."""
        strides = _strides(self.dims)
        return _counted([(self.dims[axis], strides[axis]) for axis in self.perm])

    def __str__(self) -> str:
        text = "[" + ",".join(map(str, self.dims)) + "]"
        plain = self.perm == tuple(range(len(self.perm)))
        return text if plain else f"{text}T({','.join(map(str, self.perm))})"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes over devices: row-major ids unless ``devices`` says otherwise."""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | Iota | None = None

    def device_ids(self) -> tuple[int, ...]:
        """The device ids in row-major order of the axes."""
        if isinstance(self.devices, Iota):
            return self.devices.flat()
        if self.devices is not None:
            return self.devices
        return tuple(range(_limited(prod(size for _, size in self.axes))))


@dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis by index, or its part of ``size`` after a part of ``pre_size``."""

    index: int
    pre_size: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """The groups of one collective, in the form they were written in. One of the three forms is set.

    Args:
        lists: the plain form; empty means one group of all devices.
        iota: the iota form together with (number of groups, devices per group).
        mesh: the mesh form together with the axes along which a group lies.
    """

    lists: tuple[tuple[int, ...], ...] = ()
    iota: Iota | None = None
    grid: tuple[int, ...] = ()
    mesh: Mesh | None = None
    axes: tuple[AxisRef, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether this is ``{}``: one group of all devices of the program."""
        return self.iota is None and self.mesh is None and not self.lists

    @property
    def num_groups(self) -> int | None:
        """How many groups there are. ``{}`` is 1."""
        if self.iota is not None:
            return self.grid[0]
        if self.mesh is not None:
            size = self.group_size or 1
            return max(1, prod(size for _, size in self.mesh.axes) // size)
        return len(self.lists) or 1

    @property
    def group_size(self) -> int | None:
        """Devices per group, the largest if they differ; null for ``{}``, which depends on the program."""
        if self.iota is not None:
            return prod(self.grid[1:])
        if self.mesh is not None:
            return prod(ref.size or self.mesh.axes[ref.index][1] for ref in self.axes)
        return max(map(len, self.lists)) if self.lists else None

    def groups(self, n_devices: int) -> tuple[tuple[int, ...], ...]:
        """The device ids of every group.

        Args:
            n_devices: what ``{}`` stands for: the number of devices of the program. The other forms ignore
                it.

        Raises:
            HloError: the groups cover more than 4 million devices.
        """
        if self.iota is not None:
            return _rows(self.iota.flat(), prod(self.grid[1:]))
        if self.mesh is not None:
            return self._mesh_groups(self.mesh)
        if not self.lists:
            return (tuple(range(_limited(n_devices))),) if n_devices > 0 else ()
        return self.lists

    def _mesh_groups(self, mesh: Mesh) -> tuple[tuple[int, ...], ...]:
        # Every axis is cut into the parts that the references name; groups run over the named parts in the
        # order of the references, and are ordered by the parts that remain.
        ids = mesh.device_ids()
        strides = _strides(tuple(size for _, size in mesh.axes))
        inside: list[tuple[int, int]] = []
        taken: dict[int, list[tuple[int, int]]] = {}
        for ref in self.axes:
            size = mesh.axes[ref.index][1]
            pre, part = (ref.pre_size, ref.size) if ref.size else (1, size)
            inside.append((part, strides[ref.index] * (size // (pre * part))))
            taken.setdefault(ref.index, []).append((pre, part))
        outside: list[tuple[int, int]] = []
        for index, (_, size) in enumerate(mesh.axes):
            done = 1
            for pre, part in [*sorted(taken.get(index, [])), (size, 1)]:
                if pre > done:
                    outside.append((pre // done, strides[index] * (size // pre)))
                done = pre * part
        members = _counted(inside)
        return tuple(tuple(ids[base + offset] for offset in members) for base in _counted(outside))

    def __str__(self) -> str:
        if self.iota is not None:
            return f"[{','.join(map(str, self.grid))}]<={self.iota}"
        if self.mesh is not None:
            return self._mesh_text(self.mesh)
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.lists) + "}"

    def _mesh_text(self, mesh: Mesh) -> str:
        if not mesh.axes and isinstance(mesh.devices, tuple):
            return f"maximal_mesh[device_id={mesh.devices[0]}] {{}}"
        text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in mesh.axes) + "]"
        if mesh.devices is not None:
            devices = mesh.devices if isinstance(mesh.devices, Iota) else ",".join(map(str, mesh.devices))
            text += f", device_ids=({devices})"
        refs = (
            f"'{mesh.axes[ref.index][0]}'" + (f":({ref.pre_size}){ref.size}" if ref.size else "") for ref in self.axes
        )
        return text + " {" + ",".join(refs) + "}"


def parse_replica_groups(text: str) -> ReplicaGroups:
    """The groups of an attribute text in any of the three forms.

    Raises:
        HloError: the text is none of the forms, or its sizes contradict each other.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        groups = split_top_level(text[1:-1])
        if groups and not groups[0].startswith("{"):
            return ReplicaGroups(lists=(integers(text, "replica_groups"),))
        return ReplicaGroups(lists=tuple(integers(group, "replica_groups") for group in groups))
    match = _IOTA.match(text)
    if match:
        dims = integers(match[2], "replica_groups")
        perm = integers(match[3], "replica_groups") if match[3] else tuple(range(len(dims)))
        return iota_groups(integers(match[1], "replica_groups"), dims, perm)
    match = _MAXIMAL.match(text)
    if match:
        return mesh_groups(Mesh((), (int(match[1]),)), ())
    match = _MESH.match(text)
    if match:
        return _parse_mesh(text, match)
    raise HloError(f"replica_groups={text[:80]!r} is none of the forms {{{{0,1}}}}, [2,4]<=[8], mesh['x'=2] {{'x'}}.")


def iota_groups(grid: tuple[int, ...], dims: tuple[int, ...], perm: tuple[int, ...]) -> ReplicaGroups:
    """The iota form from its parts.

    Raises:
        HloError: the grid and the dims hold different numbers of devices, or perm is no permutation.
    """
    if len(grid) < 1 or sorted(perm) != list(range(len(dims))) or prod(grid) != prod(dims) or 0 in grid:
        raise HloError(f"The replica groups [{grid}]<=[{dims}]T({perm}) contradict themselves.")
    return ReplicaGroups(iota=Iota(dims, perm), grid=grid)


def mesh_groups(mesh: Mesh, axes: tuple[AxisRef, ...]) -> ReplicaGroups:
    """The mesh form from its parts.

    Raises:
        HloError: an axis does not exist or does not divide, parts of one axis overlap, or the device ids do
        not
            fit the axes.
    """
    total = prod(size for _, size in mesh.axes)
    devices = mesh.devices
    count = total if devices is None else prod(devices.dims) if isinstance(devices, Iota) else len(devices)
    good = total > 0 and count == total
    if isinstance(devices, Iota):
        good &= sorted(devices.perm) == list(range(len(devices.dims)))
    spans: dict[int, list[tuple[int, int]]] = {}
    for ref in axes:
        if not 0 <= ref.index < len(mesh.axes):
            raise HloError(f"Replica groups name mesh axis {ref.index} of {len(mesh.axes)}.")
        size = mesh.axes[ref.index][1]
        pre, part = (ref.pre_size, ref.size) if ref.size else (1, size)
        good &= pre > 0 and part > 0 and size > 0 and size % max(1, pre * part) == 0
        spans.setdefault(ref.index, []).append((pre, pre * part))
    for span in spans.values():
        span.sort()
        good &= all(start % max(1, end) == 0 for (_, end), (start, _) in pairwise(span))
    if not good:
        raise HloError(f"The mesh {mesh.axes[:8]} and its axes {axes[:8]} in replica groups contradict themselves.")
    return ReplicaGroups(mesh=mesh, axes=axes)


def _parse_mesh(text: str, match: re.Match[str]) -> ReplicaGroups:
    axes: list[tuple[str, int]] = []
    for item in split_top_level(match["axes"]):
        axis = _MESH_AXIS.match(item)
        if axis is None:
            raise HloError(f"replica_groups={text[:80]!r}: {item[:40]!r} is no mesh axis.")
        axes.append((axis[1], int(axis[2])))
    devices: tuple[int, ...] | Iota | None = None
    if match["devices"] is not None:
        iota = _DEVICE_IOTA.match(match["devices"])
        if iota:
            dims = integers(iota[1], "device_ids")
            devices = Iota(dims, integers(iota[2], "device_ids") if iota[2] else tuple(range(len(dims))))
        else:
            devices = integers(match["devices"], "device_ids")
    names = [name for name, _ in axes]
    refs: list[AxisRef] = []
    for item in split_top_level(match["used"]):
        ref = _AXIS_REF.match(item)
        if ref is None or ref[1] not in names:
            raise HloError(f"replica_groups={text[:80]!r}: {item[:40]!r} is no axis of the mesh.")
        refs.append(AxisRef(names.index(ref[1]), int(ref[2] or 0), int(ref[3] or 0)))
    return mesh_groups(Mesh(tuple(axes), devices), tuple(refs))


def _strides(dims: tuple[int, ...]) -> list[int]:
    strides = [1] * len(dims)
    for axis in range(len(dims) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return strides


def _counted(axes: list[tuple[int, int]]) -> tuple[int, ...]:
    """All sums of index x stride over (size, stride) axes, the last axis fastest."""
    _limited(prod(size for size, _ in axes))
    values = [0]
    for size, stride in axes:
        values = [value + index * stride for value in values for index in range(size)]
    return tuple(values)


def _rows(flat: tuple[int, ...], width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(flat[start : start + width] for start in range(0, len(flat), width))


def _limited(count: int) -> int:
    if count > MAX_DEVICES:
        raise HloError(f"Replica groups over {count} devices pass the limit of {MAX_DEVICES}.")
    return count
