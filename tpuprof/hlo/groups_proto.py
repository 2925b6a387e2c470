"""Replica groups between the model and instruction messages."""

from __future__ import annotations

from typing import Any

from tpuprof.hlo.groups import AxisRef, Iota, Mesh, ReplicaGroups, iota_groups, mesh_groups


def groups_of(message: Any) -> ReplicaGroups:
    """The groups of a full instruction message, whichever of its fields holds them.

    Raises:
        HloError: sizes in them contradict each other.
    """
    if message.HasField("iota_collective_device_list"):
        return _iota(message.iota_collective_device_list)
    if message.HasField("mesh_axes_replica_group_list"):
        return _mesh(message.mesh_axes_replica_group_list)
    device_list = message.collective_device_list
    if device_list.HasField("iota_replica_group_list") and not device_list.replica_groups:
        return _iota(device_list.iota_replica_group_list)
    groups = device_list.replica_groups or message.replica_groups
    return ReplicaGroups(lists=tuple(tuple(group.replica_ids) for group in groups))


def fill_groups(message: Any, groups: ReplicaGroups) -> None:
    """Writes the groups into the field of an instruction message for their form."""
    if groups.iota is not None:
        target = message.iota_collective_device_list
        target.num_replica_groups, target.num_devices_per_group = groups.grid
        target.iota_reshape_dims.extend(groups.iota.dims)
        target.iota_transpose_perm.extend(groups.iota.perm)
    elif groups.mesh is not None:
        _write_mesh(message.mesh_axes_replica_group_list.mesh, groups.mesh)
        for ref in groups.axes:
            target = message.mesh_axes_replica_group_list.axes.add(mesh_axis_index=ref.index)
            if ref.size:
                target.sub_axis_info.pre_size, target.sub_axis_info.size = ref.pre_size, ref.size
    else:
        message.collective_device_list.SetInParent()
        for group in groups.lists:
            message.collective_device_list.replica_groups.add(replica_ids=group)


def _iota(value: Any) -> ReplicaGroups:
    grid = (value.num_replica_groups, value.num_devices_per_group)
    dims = tuple(value.iota_reshape_dims) or (grid[0] * grid[1],)
    perm = tuple(value.iota_transpose_perm) or tuple(range(len(dims)))
    return iota_groups(grid, dims, perm)


def _mesh(value: Any) -> ReplicaGroups:
    axes = tuple((axis.name.decode("utf-8", "replace"), axis.size) for axis in value.mesh.axes)
    devices: tuple[int, ...] | Iota | None = tuple(value.mesh.device_ids) or None
    if devices is None and value.mesh.HasField("iota_transform"):
        transform = value.mesh.iota_transform
        devices = Iota(tuple(transform.reshape_dims), tuple(transform.transpose_perm))
    refs = tuple(AxisRef(r.mesh_axis_index, r.sub_axis_info.pre_size, r.sub_axis_info.size) for r in value.axes)
    return mesh_groups(Mesh(axes, devices), refs)


def _write_mesh(target: Any, mesh: Mesh) -> None:
    for name, size in mesh.axes:
        target.axes.add(name=name.encode("utf-8", "surrogateescape"), size=size)
    if isinstance(mesh.devices, Iota):
        target.iota_transform.reshape_dims.extend(mesh.devices.dims)
        target.iota_transform.transpose_perm.extend(mesh.devices.perm)
    elif mesh.devices is not None:
        target.device_ids.extend(mesh.devices)
