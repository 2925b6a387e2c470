"""The device meshes that a program names, and along which of their axes a collective goes.

Replica groups in mesh form name their axes. Groups in the other forms belong to an axis if they are exactly the
groups that the axis makes; which meshes there are, the program says elsewhere: in groups that are in mesh form, or in
the attribute that the partitioner leaves (``xla.sdy.meshes``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod

from tpuprof.errors import HloError
from tpuprof.hlo.groups import MAX_DEVICES, AxisRef, Mesh, ReplicaGroups, mesh_groups
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.scan import split_top_level

ATTRIBUTE = "xla.sdy.meshes"
MAX_MESHES = 8
_GROUPED = ("all-", "reduce-scatter", "collective-", "ragged-")
MAX_AXES = 8  # of more axes the combinations are not tried
_MESH = re.compile(r"#sdy\.mesh<\[(?P<axes>[^\]]*)\](?:,\s*device_ids=\[(?P<devices>[\d,\s]*)\])?>")
_AXIS = re.compile(r'\\?"(?P<name>[^"\\]+)\\?"\s*=\s*(?P<size>\d{1,9})\Z')

Groups = tuple[tuple[int, ...], ...]
Pairs = tuple[tuple[int, int], ...]


def named_meshes(instructions: Iterable[Instruction], attributes: Mapping[str, str]) -> tuple[Mesh, ...]:
    """The distinct meshes that a program names, at most ``MAX_MESHES``; what cannot be read is left out.

    Args:
        instructions: those of the program.
        attributes: the frontend attributes of the program.
    """
    found = dict.fromkeys(_stated(attributes.get(ATTRIBUTE, "")))
    for instruction in instructions:
        if len(found) >= MAX_MESHES:
            break
        if not instruction.opcode.startswith(_GROUPED):
            continue  # attributes are decoded when they are asked for
        try:
            groups = instruction.replica_groups
        except HloError:
            continue
        if groups is not None and groups.mesh is not None and groups.mesh.axes:
            found.setdefault(groups.mesh)
    return tuple(found)[:MAX_MESHES]


def stated_axes(groups: ReplicaGroups) -> tuple[str, ...] | None:
    """The axes that groups in mesh form name, a part of an axis as ``name:(before)size``; null for other forms."""
    if groups.mesh is None or not groups.axes:
        return None  # groups of one device go along no axis
    return tuple(
        groups.mesh.axes[ref.index][0] + (f":({ref.pre_size}){ref.size}" if ref.size else "") for ref in groups.axes
    )


def axes_of_groups(groups: Groups, meshes: Sequence[Mesh]) -> tuple[str, ...] | None:
    """The axes whose devices make exactly these groups; null if there are none, or if meshes name them differently."""
    return _agreed(_axes_of_groups(groups, mesh) for mesh in meshes)


def axes_of_pairs(pairs: Pairs, meshes: Sequence[Mesh]) -> tuple[str, ...] | None:
    """The axes along which any of these (source, target) pairs goes; null as for groups."""
    return _agreed(_axes_of_pairs(pairs, mesh) for mesh in meshes)


def _agreed(answers: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    found = {answer for answer in answers if answer}
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=256)
def _axes_of_groups(groups: Groups, mesh: Mesh) -> tuple[str, ...] | None:
    sizes = {len(group) for group in groups}
    ids = _ids(mesh)
    long = [index for index, (_, size) in enumerate(mesh.axes) if size > 1]
    if len(sizes) != 1 or len(ids) != sum(map(len, groups)) or len(long) > MAX_AXES:
        return None
    size, wanted = sizes.pop(), {frozenset(group) for group in groups}
    for count in range(1, len(long) + 1):
        for axes in combinations(long, count):
            if prod(mesh.axes[index][1] for index in axes) != size:
                continue
            made = mesh_groups(mesh, tuple(AxisRef(index) for index in axes)).groups(len(ids))
            if {frozenset(group) for group in made} == wanted:
                return tuple(mesh.axes[index][0] for index in axes)
    return None


@lru_cache(maxsize=256)
def _axes_of_pairs(pairs: Pairs, mesh: Mesh) -> tuple[str, ...] | None:
    place = {device: at for at, device in enumerate(_ids(mesh))}
    differing: set[int] = set()
    for source, target in pairs:
        if source not in place or target not in place:
            return None
        a, b = place[source], place[target]
        for index in range(len(mesh.axes) - 1, -1, -1):
            size = mesh.axes[index][1]
            if a % size != b % size:
                differing.add(index)
            a, b = a // size, b // size
    return tuple(mesh.axes[index][0] for index in sorted(differing))


def _ids(mesh: Mesh) -> tuple[int, ...]:
    try:
        return mesh.device_ids()
    except HloError:
        return ()


def _stated(text: str) -> Iterable[Mesh]:
    for match in _MESH.finditer(text[: 1 << 16]):
        axes = [_AXIS.match(item.strip()) for item in split_top_level(match["axes"])]
        sizes = tuple((axis["name"], int(axis["size"])) for axis in axes if axis is not None)
        devices = None if match["devices"] is None else tuple(int(i) for i in match["devices"].split(",") if i.strip())
        total = prod(size for _, size in sizes)
        whole = len(sizes) == len(axes) > 0 and 0 < total <= MAX_DEVICES
        if whole and (devices is None or sorted(devices) == list(range(total))):
            yield Mesh(sizes, devices)
