"""What a captured process runs on: versions, devices with their coordinates, meshes and how they use the devices.

Looked up once, just before the session starts: parameters are alive then, and tell which meshes the program uses.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, cast

from tpuprof.capture.session import ProcessIdentity, host_name

MOST_DEVICES = 256  # local ones; a host has at most a few dozen
MOST_MESHES = 8
MOST_ASSIGNED = 16_384
_DEVICE_FACTS = ("id", "process_index", "local_hardware_id", "coords", "core_on_chip", "slice_index")
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_use_shardy_partitioner",
    "jax_cpu_collectives_implementation",
    "jax_debug_nans",
    "jax_disable_jit",
    "jax_enable_pgle",
)


@dataclass(frozen=True)
class Environment:
    """What the profiler's process runs on.

    Attributes:
        versions: of jax, jaxlib and libtpu; None where not installed.
        platform: ``tpu``, ``gpu``, ``cpu`` …
        device_kinds: local devices of each kind.
        device_count: devices of the whole program.
        process_index, process_count: this process in the program.
        platform_version: what the runtime says of itself, such as the build of libtpu.
        devices: one mapping per local device: id, kind, coordinates …
        meshes: one mapping per mesh seen on live arrays: axes, device ids in mesh order, arrays and bytes.
        settings: jax's settings that change programs or their speed.
    """

    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    platform: str | None = None
    device_kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    device_count: int | None = None
    process_index: int = 0
    process_count: int = 1
    platform_version: str | None = None
    devices: tuple[Mapping[str, Any], ...] = ()
    meshes: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def identity(self) -> ProcessIdentity:
        """Which process of the program this is."""
        return ProcessIdentity(host_name(), os.getpid(), self.process_index, self.process_count)


def observe(jax: Any) -> Environment:
    """Brings the backends of this process up and describes them; only that may raise."""
    devices: list[Any] = list(jax.local_devices())
    return Environment(
        versions={name: installed_version(name) for name in ("jax", "jaxlib", "libtpu")},
        platform=str(devices[0].platform) if devices else None,
        device_kinds=dict(Counter(str(device.device_kind) for device in devices)),
        device_count=int(jax.device_count()),
        process_index=int(jax.process_index()),
        process_count=int(jax.process_count()),
        platform_version=_platform_version(devices),
        devices=tuple(device_facts(device) for device in devices[:MOST_DEVICES]),
        meshes=_quietly(lambda: meshes_of(jax.live_arrays()), ()),
        settings={name: _plain(getattr(jax.config, name)) for name in _SETTINGS if hasattr(jax.config, name)},
    )


def device_facts(device: Any) -> dict[str, Any]:
    """A device as plain values: its number, kind, place in the slice, and memory where the runtime tells."""
    facts: dict[str, Any] = {"kind": str(device.device_kind)}
    for name in _DEVICE_FACTS:
        value = _quietly(lambda name=name: getattr(device, name, None), None)
        if value is not None:
            facts[name] = _plain(value)
    statistics: Mapping[str, int] | None = _quietly(lambda: device.memory_stats(), None)
    if statistics and "bytes_limit" in statistics:
        facts["memory_bytes"] = int(statistics["bytes_limit"])
    return facts


def meshes_of(arrays: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """The meshes that the arrays are laid out on, the one with most bytes first.

    ``axes`` maps names to sizes, ``device_ids`` are the ids in the order of the mesh (null above `MOST_ASSIGNED`),
    ``bytes`` is the size of the arrays as a whole, not per device.
    """
    found: dict[Any, list[int]] = {}
    for array in arrays:
        mesh = getattr(getattr(array, "sharding", None), "mesh", None)
        if mesh is None or not getattr(mesh, "shape", None) or not hasattr(mesh, "devices"):
            continue
        with suppress(Exception):  # deleted arrays tell no size; meshes without devices are abstract
            entry = found.setdefault(mesh, [0, 0])
            entry[0] += 1
            entry[1] += int(array.nbytes)
    largest = sorted(found.items(), key=lambda item: -item[1][1])[:MOST_MESHES]
    return tuple(
        {**facts, "arrays": count, "bytes": size}
        for mesh, (count, size) in largest
        if (facts := _quietly(lambda mesh=mesh: _mesh_facts(mesh), None)) is not None
    )


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, None if it is not there."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def jax_if_loaded() -> Any:
    """The module jax if the program has imported it, else None."""
    return sys.modules.get("jax")


def _mesh_facts(mesh: Any) -> dict[str, Any]:
    devices: list[Any] = list(mesh.devices.flat)
    types = getattr(mesh, "axis_types", None) or ()
    return {
        "axes": {str(name): int(size) for name, size in mesh.shape.items()},
        "axis_types": [str(getattr(kind, "name", kind)) for kind in types],
        "device_ids": [int(device.id) for device in devices] if len(devices) <= MOST_ASSIGNED else None,
    }


def _platform_version(devices: list[Any]) -> str | None:
    text = _quietly(lambda: str(devices[0].client.platform_version), None) if devices else None
    return text[:1000] if text else None


def _quietly(function: Any, otherwise: Any) -> Any:
    """The result of looking at something that differs between versions of jax and between backends."""
    try:
        return function()
    except Exception:
        return otherwise


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in cast("list[Any]", value)]
    return str(value)[:200]
