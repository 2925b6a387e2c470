"""What a run shows of its job: hardware, step, parts of the step, mesh, and what its sidecar says of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tpuprof.calibration.axes import role_of
from tpuprof.calibration.command_line import CommandFacts, command_facts
from tpuprof.calibration.fit import run_origin
from tpuprof.calibration.result import RunOrigin
from tpuprof.errors import UsageError
from tpuprof.hardware import Chip
from tpuprof.hardware.topology import Slice
from tpuprof.plan.train_layout import Layout
from tpuprof.roofline import HardwareOptions, Roofline, roofline
from tpuprof.roofline.hardware import NO_OPTIONS
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.text import clean
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    from tpuprof.trace import Trace

GROUPS = ("compute", "communication", "waiting", "copies", "idle")
"""Parts of a step that a trace and a plan have in common."""
_GATHERS = frozenset({"all_gather", "reduce_scatter"})
_HLO = ("hlo", "formula", "cost_estimate", "user")


@dataclass(frozen=True, slots=True)
class ShownLayout:
    """The layout that a run used.

    Args:
        layout: null if it is not known.
        source: how it is known, in a few words.
        reason: why it is not, as a sentence without a full stop.
        axes: of the program's mesh with their sizes.
    """

    layout: Layout | None
    source: str = ""
    reason: str = ""
    axes: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What a run shows.

    Args:
        origin: the run.
        chip: null if not known, for which ``chip_reason`` is given.
        where: the slice; null if not known, for which ``where_reason`` is given.
        step_s: the mean step, per step the slowest core.
        parts_s: of the mean step over cores, by :data:`GROUPS`; they add up to it.
        layout: that it used.
        remat_share: share of the FLOPs that repeat earlier work; null where the HLO does not tell.
        flops_per_device: of one step without what is repeated; null where it is not known or only a lower bound.
        command: what the command line says of the job.
    """

    origin: RunOrigin
    chip: Chip | None
    chip_reason: str
    where: Slice | None
    where_reason: str
    step_s: float
    parts_s: Mapping[str, float]
    layout: ShownLayout
    remat_share: float | None
    flops_per_device: float | None
    command: CommandFacts


def shown_by(trace: Trace, *, options: HardwareOptions = NO_OPTIONS, axes: Mapping[str, str] | None = None) -> ShownRun:
    """What a run shows of its job.

    Args:
        options: what the user says of the hardware.
        axes: what axes of the mesh are for, where their names do not tell.

    Raises:
        UsageError: the run has no step to plan from, or the options are wrong.
    """
    found = roofline(trace, options)
    mean, statistics = trace.breakdown(), trace.step_statistics()
    if trace.step_source == "none" or mean is None or not statistics["mean_ps"]:
        raise UsageError(
            "The run has no step that counts, so there is nothing to start from.",
            where=trace.path, hint="Name the program of a step with --step-program, or capture a few whole steps.",
        )  # fmt: skip
    where = found.place.where
    known, share = _flops(found)
    origin = run_origin(trace, found)
    devices = where.n_devices if isinstance(where, Slice) else origin.devices
    return ShownRun(
        origin, found.hardware.chip, found.hardware.reason, where if isinstance(where, Slice) else None,
        found.place.reason, statistics["mean_ps"] / PS_PER_S, _parts(trace, mean),
        _layout(trace, devices, axes or {}), share, known, command_facts(trace.metadata, devices),
    )  # fmt: skip


def _parts(trace: Trace, mean: Mapping[str, Any]) -> dict[str, float]:
    """The mean step by groups; waits inside collectives count as waiting."""
    parts = {name.removesuffix("_ps"): value / PS_PER_S for name, value in mean["parts"].items()}
    rows = trace.counted(trace.collectives)
    pairs = max(int(trace.steps["counted"].sum()), 1)
    waits = np.asarray(rows["wait_ps"].to_numpy(np.float64, na_value=0.0))
    exposed = np.asarray(rows["exposed_ps"].to_numpy(np.float64, na_value=0.0))
    waited = min(float(np.minimum(waits, exposed).sum()) / PS_PER_S / pairs, parts["collective_exposed"])
    return {
        "compute": sum(parts[kind] for kind in COMPUTE_KINDS),
        "communication": parts["collective_exposed"] - waited,
        "waiting": parts["barrier_wait"] + waited,
        "copies": parts["dma_wait"] + parts["host_transfer"],
        "idle": parts["idle"],
    }


def _flops(found: Roofline) -> tuple[float | None, float | None]:
    """(FLOPs of the model per device and step, share that is repeated); null where the trace does not tell."""
    used = found.utilisation
    works = [work for work in found.works if work.cost.matmul_flops]
    total = sum((work.cost.matmul_flops or 0.0) * work.executions for work in works)
    told = sum((work.cost.matmul_flops or 0.0) * work.executions for work in works if work.cost.source in _HLO)
    share = used.remat_flops_fraction if total and told > 0.5 * total else None
    return (used.model_flops if used.model_flops and not used.is_lower_bound else None), share


def _layout(trace: Trace, devices: int, given: Mapping[str, str]) -> ShownLayout:
    meshes = [*_meshes_of_programs(trace), *_meshes_of_sidecar(trace.metadata)]
    if not meshes:
        return ShownLayout(None, reason="neither the programs nor the sidecar name a device mesh")
    whole = [(axes, source) for axes, source in meshes if prod(axes.values()) == devices]
    if not whole:
        sizes = ", ".join(str(prod(axes.values())) for axes, _ in meshes[:3])
        return ShownLayout(None, reason=f"meshes of {sizes} devices are named, and the slice has {devices}")
    axes, source = whole[0]
    degrees: dict[str, int] = {}
    for axis, size in axes.items():
        role = role_of(axis, given)
        if size == 1:
            continue
        if role is None:
            shown = clean(axis)[:60]
            return ShownLayout(
                None, source, f"what the mesh axis {shown!r} of {size} is for is not known (--axis {shown}=…)", axes
            )
        if role == "data" and axis not in given and _gathers_along(trace, axis):
            role = "fsdp"  # plain replicas only sum gradients
        degrees[role] = degrees.get(role, 1) * size
    degrees["fsdp"] = degrees.get("fsdp", 1) * degrees.get("expert", 1)
    degrees["accumulation"] = degrees.get("pipeline", 1)
    return ShownLayout(Layout(**degrees), source, axes=axes)


def _meshes_of_programs(trace: Trace) -> list[tuple[dict[str, int], str]]:
    programs = {id(info.program): info.program for info in trace.built.infos if info.program is not None}
    found = [dict(mesh.axes) for program in programs.values() for mesh in program.meshes]
    return [(axes, "the mesh that the program names") for axes in sorted(found, key=lambda axes: -prod(axes.values()))]


def _meshes_of_sidecar(metadata: Mapping[str, Any]) -> list[tuple[dict[str, int], str]]:
    listed: Any = metadata.get("meshes")
    found: list[tuple[float, dict[str, int]]] = []
    for mesh in cast("list[Any]", listed) if isinstance(listed, list) else []:
        axes: Any = cast("dict[str, Any]", mesh).get("axes") if isinstance(mesh, dict) else None
        if not isinstance(axes, dict) or not axes:
            continue
        sizes = {str(name): size for name, size in cast("dict[str, Any]", axes).items()}
        if all(isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 20 for size in sizes.values()):
            held: Any = cast("dict[str, Any]", mesh).get("bytes")
            found.append((float(held) if isinstance(held, int) and abs(held) < 1 << 62 else 0.0, sizes))
    found.sort(key=lambda pair: -pair[0])
    return [(axes, "the mesh of the live arrays, by the sidecar") for _, axes in found]


def _gathers_along(trace: Trace, axis: str) -> bool:
    rows = trace.collectives
    pairs: Any = rows[["kind", "mesh_axes"]].drop_duplicates()
    return any(
        kind in _GATHERS and isinstance(named, str) and axis in (part.partition(":")[0] for part in named.split(","))
        for kind, named in zip(pairs["kind"].tolist(), pairs["mesh_axes"].tolist(), strict=True)
    )
