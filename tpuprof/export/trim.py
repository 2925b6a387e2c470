"""The recordings of a part of a run: chosen steps and devices, and what is needed to understand them.

What stays: the events of each core's chosen steps; asynchronous work that reaches into them, from where it was
issued; of programs that run across an edge the next op beyond it; host events of that time, those that launched what
stays, and the steps' annotations; metadata and HLO. The steps themselves are kept in a plane of their own, so that
the part has the same steps and the same partition as the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.export.events import keep_events
from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64, Events, Line, Plane, Space
from tpuprof.tables.build import Core
from tpuprof.tables.clock import Times, line_base_ps, line_times, session_start_ns
from tpuprof.tables.gpu import GPU_PLANE
from tpuprof.tables.kept_steps import PLANE, steps_plane
from tpuprof.tables.moving import move_steps
from tpuprof.tables.steps import CoreSteps
from tpuprof.tables.sweep import BOOL
from tpuprof.tables.tpu import MODULES_LINE, TPU_PLANE, TRACEME_LINE

if TYPE_CHECKING:
    from tpuprof.trace import Trace

Base = Callable[[Line], int]  # what to add to a line's offsets
# Stats of device events, and those by which host events point to them.
_LINKS = (("_c", "_p"), ("correlation_id", "correlation_id"), ("run_id", "run_id"))


@dataclass(frozen=True, slots=True)
class _Part:
    """What stays of one core: the time ``[low, high)`` on its own clock, and its chosen steps."""

    core: Core
    low: int
    high: int
    steps: CoreSteps

    def holds(self, start: I64, duration: I64) -> BOOL:
        """Which events touch the time."""
        end = start + np.maximum(duration, 0)
        return (start < self.high) & ((end > self.low) | (start >= self.low))


def trim(trace: Trace) -> tuple[Recording, ...]:
    """The recordings reduced to the trace's selection of steps and devices; as they are where nothing is selected."""
    kept: list[Recording] = []
    by_host: dict[str, list[Core]] = {}
    for core in trace.built.cores:
        by_host.setdefault(core.record.device.host, []).append(core)
    for recording in trace.recordings:
        cores = by_host.get(recording.host, [])
        known = {core.record.device.plane for core in cores}
        empty = {name.removeprefix(recording.host) for name in trace.built.empty_planes}
        planes = tuple(
            plane
            for plane in recording.space.planes
            if (name := _core_plane(plane.name)) is None or name in known or name in empty
        )
        if not cores and len(planes) < len(recording.space.planes):
            continue  # none of this host's devices was chosen
        space = replace(recording.space, planes=planes)
        if trace.selected_steps is not None:
            parts = [part for core in cores if (part := _part(core, trace.selected_steps)) is not None]
            if not parts:
                continue
            space = _trimmed(space, parts, trace.selected_steps, trace)
        elif len(planes) < len(recording.space.planes) or _fewer_cpus(recording.space, cores):
            parts = [_Part(core, -(1 << 62), 1 << 62, core.steps) for core in cores]
            space = _trimmed(space, parts, None, trace)
        kept.append(replace(recording, space=space))
    return tuple(kept)


def _core_plane(name: str) -> str | None:
    """The plane of the core that a device plane belongs to (a SparseCore's to its TensorCore); null for others."""
    if not name.startswith(("/device:TPU:", "/device:GPU:")):
        return None
    head = name.split(" ")[0]
    return head if TPU_PLANE.match(head) or GPU_PLANE.match(head) else None


def _fewer_cpus(space: Space, cores: Sequence[Core]) -> bool:
    if not cores or cores[0].record.device.platform != "cpu":
        return False
    chosen = {core.record.device.ordinal for core in cores}
    return any(bool(_ordinal_mask(plane, line.events, chosen).any()) for plane, line in space.lines())


def _ordinal_mask(plane: Plane, events: Events, chosen: Iterable[int]) -> BOOL:
    """CPU op events of devices that were not chosen."""
    ordinal, present = events.int_stat(plane.stat_row("device_ordinal"))
    return present & ~np.isin(ordinal, list(chosen))


def _part(core: Core, numbers: frozenset[int]) -> _Part | None:
    steps = core.steps
    rows = np.flatnonzero(np.isin(steps.number, list(numbers)))
    if not len(rows):
        return None
    low = int(steps.start[rows].min())
    high = max(int(steps.end[rows].max()), low + 1)
    windows, ops = core.windows, core.record.ops
    touching = (windows.start < high) & (windows.end > low)
    if touching.any():
        # One more, as a half that takes no time begins where the window ends.
        low, high = min(low, int(windows.start[touching].min())), max(high, int(windows.end[touching].max()) + 1)
    # A program that runs across an edge must be seen to do so.
    modules, of_op = core.runs.modules, core.runs.of_op
    across_low = np.flatnonzero((modules.start < low) & (modules.end > low))
    across_high = np.flatnonzero((modules.start < high) & (modules.end > high))
    before = ops.end[np.isin(of_op, across_low) & (ops.start < low)]
    after = ops.start[np.isin(of_op, across_high) & (ops.start >= high)]
    low = min(low, int(before.max()) - 1) if len(before) else low
    high = max(high, int(after.min()) + 1) if len(after) else high
    if not bool(((ops.start < high) & ((ops.end > low) | (ops.start >= low))).any()):
        # A core without any op is none: steps that hold no work keep the op next to them.
        near = int(ops.start[np.argmin(np.abs(ops.start - low))])
        low, high = min(low, near), max(high, near + 1)
    chosen = CoreSteps(
        steps.number[rows], steps.start[rows], steps.end[rows], steps.complete[rows], steps.closed[rows],
        steps.pause[rows], steps.matched[rows], steps.counted[rows],
    )  # fmt: skip
    return _Part(core, low, high, chosen)


def _trimmed(space: Space, parts: Sequence[_Part], numbers: frozenset[int] | None, trace: Trace) -> Space:
    start_ns = session_start_ns(space)
    # Tables may have this host's times on another host's clock; the recording has its own.
    ahead = trace.built.host_clocks.offset_ps.get(parts[0].core.record.device.host, 0)

    def base(line: Line) -> int:
        return line_base_ps(line, start_ns, trace.origin_ns) - ahead

    devices = {part.core.record.device.plane: part for part in parts}
    cpus = {part.core.record.device.ordinal: part for part in parts if part.core.record.device.platform == "cpu"}
    links: dict[str, list[I64]] = {host: [] for _, host in _LINKS}
    planes: list[Plane] = []
    masks: dict[str, dict[int, BOOL]] = {}
    for plane in space.planes:
        if not plane.name.startswith("/device:"):
            continue
        owner = devices.get(_core_plane(plane.name) or "")
        masks[plane.name] = {
            row: _device_mask(plane, line, parts if owner is None else [owner], base)
            for row, line in enumerate(plane.lines)
        }
        _collect_links(plane, masks[plane.name], links)
    for plane in space.planes if cpus else ():
        if plane.name.startswith("/host:"):
            mine = {row: _cpu_mask(plane, line, cpus, base) for row, line in enumerate(plane.lines)}
            _collect_links(plane, {row: mask & known for row, (mask, known) in mine.items()}, links)
    wanted = {name: np.unique(np.concatenate(values)) for name, values in links.items() if values}
    for plane in space.planes:
        if plane.name == PLANE:
            continue
        if plane.name.startswith("/host:") and plane.name != "/host:metadata":
            masks[plane.name] = {
                row: _host_mask(plane, line, parts, cpus, wanted, numbers, base) for row, line in enumerate(plane.lines)
            }
        planes.append(keep_events(plane, masks[plane.name]) if plane.name in masks else plane)
    if start_ns is not None and space.task_times_ns()[0] != start_ns:
        # Without it the session would seem to begin with the first line that is left.
        planes.append(Plane(0, "Task Environment", (), (), (), {"profile_start_time": start_ns}))
    cores = [
        (part.core.record.device.id.rpartition("/")[2], move_steps(part.steps, ahead), part.core.clocks)
        for part in parts
    ]
    planes.append(steps_plane(trace.step_source, cores, start_ns, trace.origin_ns))
    return replace(space, planes=tuple(planes))


def _device_mask(plane: Plane, line: Line, parts: Sequence[_Part], base: Base) -> BOOL:
    events = line.events
    mask = np.zeros(len(events), np.bool_) if events.occurrences is None else events.occurrences >= 0
    begin = base(line)
    for part in parts:
        forward = bool({MODULES_LINE, TRACEME_LINE, "Steps"} & {line.name, line.display_name})
        times: Times = line_times(plane, events, begin, part.core.record.shift, forward)
        mask |= part.holds(times.start, times.duration)
    return mask


def _cpu_mask(plane: Plane, line: Line, cpus: Mapping[int, _Part], base: Base) -> tuple[BOOL, BOOL]:
    """Which events of a thread are ops of chosen steps, and which are ops of CPU devices at all."""
    events = line.events
    ordinal, present = events.int_stat(plane.stat_row("device_ordinal"))
    known = present & (plane.text_codes(events, "hlo_op") >= 0)
    mask = np.zeros(len(events), np.bool_)
    start = events.offset_ps + base(line)
    for number, part in cpus.items():
        mask |= known & (ordinal == number) & part.holds(start, events.duration_ps)
    return mask, known


def _collect_links(plane: Plane, masks: Mapping[int, BOOL], links: dict[str, list[I64]]) -> None:
    for row, mask in masks.items():
        for device_key, host_key in _LINKS:
            values, present = plane.lines[row].events.int_stat(plane.stat_row(device_key))
            links[host_key].append(values[present & mask])


def _host_mask(
    plane: Plane,
    line: Line,
    parts: Sequence[_Part],
    cpus: Mapping[int, _Part],
    wanted: Mapping[str, I64],
    numbers: frozenset[int] | None,
    base: Base,
) -> BOOL:
    events = line.events
    mask = np.zeros(len(events), np.bool_) if events.occurrences is None else events.occurrences >= 0
    start = events.offset_ps + base(line)
    for part in parts:
        record, clocks = part.core.record, part.core.clocks
        mask |= part.holds(record.shift.to_device(start) - clocks.offset_ps, events.duration_ps)
    for key, ids in wanted.items():
        values, present = events.int_stat(plane.stat_row(key))
        mask |= present & np.isin(values, ids)
    step, present = events.int_stat(plane.stat_row("step_num"))
    if numbers is not None:
        mask |= present & np.isin(step, list(numbers))
    if cpus:
        ops, known = _cpu_mask(plane, line, cpus, base)
        mask = np.where(known, ops, mask)
    return mask
