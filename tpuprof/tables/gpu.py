"""Rows of GPU cores: one lane per stream, one row per kernel or copy."""

from __future__ import annotations

import re

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I32, I64, Line, Plane
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.programs import MASK64
from tpuprof.tables.rows import NO_SHIFT, NO_TIME, CoreRecord, Device, ModuleRows, OpFacts, Registry, Rows

GPU_PLANE = re.compile(r"/device:GPU:(\d+)\Z")
STREAM = re.compile(r"Stream #\d+")
# A copy kernel of the AMD runtime says nothing of its direction; the host call that launched it does.
_COPY_KERNEL = re.compile(r"__amd_rocclr_copy\w*")
_HOST_COPY = re.compile(r"(?:hip|cu)Memcpy(?P<kind>HtoD|DtoH|DtoD|PeerAsync|Peer)?")
_COPY_NAMES = {
    "HtoD": "MemcpyH2D",
    "DtoH": "MemcpyD2H",
    "DtoD": "MemcpyD2D",
    "Peer": "MemcpyP2P",
    "PeerAsync": "MemcpyP2P",
}


def gpu_cores(recording: Recording, registry: Registry, origin: int) -> list[CoreRecord]:
    """The cores of one host: planes ``/device:GPU:N`` whose streams hold at least one row."""
    start_ns = session_start_ns(recording.space)
    launches = _launches(recording, start_ns, origin)
    cores: list[CoreRecord] = []
    planes = [(int(m[1]), p) for p in recording.space.planes if (m := GPU_PLANE.match(p.name))]
    for ordinal, plane in sorted(planes, key=lambda pair: pair[0]):
        streams = [line for line in plane.lines if STREAM.match(line.label) and len(line.events)]
        parts: list[Rows] = []
        launched: list[I64] = []
        for lane, line in enumerate(streams):
            rows, launch = _stream_rows(plane, line, lane, registry, launches, line_base_ps(line, start_ns, origin))
            parts.append(rows)
            launched.append(launch)
        if not parts:
            continue
        launch_all = np.concatenate(launched)
        order = np.lexsort((-np.concatenate([p.duration for p in parts]), np.concatenate([p.start for p in parts])))
        cores.append(
            CoreRecord(
                device=Device(
                    id=f"{recording.host}/GPU:{ordinal}",
                    host=recording.host,
                    plane=plane.name,
                    platform="gpu",
                    ordinal=ordinal,
                    kind=_kind(plane),
                    stats=dict(plane.stats),
                ),
                lanes=tuple(line.label for line in streams),
                sequential=True,
                ops=Rows.concat(parts),
                asyncs=Rows.empty(),
                async_done=(),
                barriers=Rows.empty(),
                waits=Rows.empty(),
                modules=ModuleRows.empty(),
                steps=None,
                shift=NO_SHIFT,
                dropped_from=None,
                op_launch=launch_all[order],
            )
        )
    return cores


def _stream_rows(
    plane: Plane,
    line: Line,
    lane: int,
    registry: Registry,
    launches: tuple[I64, I64, list[str]],
    base: int,
) -> tuple[Rows, I64]:
    """One stream's rows and the host time at which each was launched (NO_TIME where no link exists)."""
    events = line.events
    op_code = plane.text_codes(events, "hlo_op")
    program, _ = events.int_stat(plane.stat_row("program_id"), missing=-1)
    module_code = plane.text_codes(events, "hlo_module")
    scope_code = plane.text_codes(events, "name")
    correlation, linked = events.int_stat(plane.stat_row("correlation_id"), missing=-1)
    launch_ids, launch_times, launch_names = launches
    at = np.minimum(np.searchsorted(launch_ids, correlation), max(len(launch_ids) - 1, 0))
    found = linked & (launch_ids[at] == correlation) if len(launch_ids) else np.zeros(len(events), np.bool_)
    launch = np.full(len(events), NO_TIME, np.int64)
    launch[found] = launch_times[at[found]]
    copies = {row for row, meta in enumerate(plane.event_meta) if _COPY_KERNEL.match(meta.label)}
    copy_at = np.where(found & np.isin(events.meta, list(copies)), at, -1) if copies else np.full(len(events), -1)
    keys = np.stack(
        [events.meta, op_code, program, module_code, scope_code, _copy_kind(copy_at, launch_names)], axis=1
    ).astype(np.int64)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    rows = np.empty(len(unique), np.int32)
    for index, (meta_row, op, program_id, module, scope, copy) in enumerate([ints(key) for key in unique]):
        kernel = plane.event_meta[meta_row].label
        hlo_op = plane.text(op).rsplit("::", 1)[-1] if op >= 0 else None
        kernel_name = _COPY_LIST[copy] if copy >= 0 else kernel
        facts = OpFacts(
            hlo_op or kernel_name,
            text=kernel_name,
            program_id=program_id & MASK64 if program_id != -1 else None,
            module_name=plane.text(module) if module >= 0 else None,
            scope=plane.text(scope) if scope >= 0 else None,
            is_kernel=True,
        )
        row = registry.row(facts)  # texts, as rows of names mean something else on every plane and host
        rows[index] = registry.add(facts, facts) if row is None else row
    made = Rows.make(lane, rows[inverse.reshape(-1)].astype(np.int32), events.offset_ps + base, events.duration_ps)
    return made, launch


_COPY_LIST = tuple(dict.fromkeys(_COPY_NAMES.values()))


def _copy_kind(launch_at: np.ndarray[tuple[int], np.dtype[np.int64]], names: list[str]) -> I32:
    """For copy kernels the row of ``_COPY_LIST`` that the launching host call tells, -1 elsewhere."""
    kinds = np.full(len(launch_at), -1, np.int32)
    for event in ints(np.flatnonzero(launch_at >= 0)):
        match = _HOST_COPY.match(names[int(launch_at[event])])
        if match and match["kind"]:
            kinds[event] = _COPY_LIST.index(_COPY_NAMES[match["kind"]])
    return kinds


def _launches(recording: Recording, start_ns: int | None, origin: int) -> tuple[I64, I64, list[str]]:
    """Host calls that launched device work: (correlation ids ascending, start times, names)."""
    ids: list[I64] = []
    times: list[I64] = []
    names: list[str] = []
    for plane in recording.space.planes:
        key = plane.stat_row("correlation_id")
        if not plane.name.startswith("/host:") or key < 0:
            continue
        for line in plane.lines:
            values, present = line.events.int_stat(key)
            rows = np.flatnonzero(present)
            if not len(rows):
                continue
            ids.append(values[rows])
            times.append(line.events.offset_ps[rows] + line_base_ps(line, start_ns, origin))
            names.extend(plane.event_meta[m].label for m in ints(line.events.meta[rows]))
    if not ids:
        empty = np.zeros(0, np.int64)
        return empty, empty, []
    all_ids, all_times = np.concatenate(ids), np.concatenate(times)
    order = np.lexsort((all_times, all_ids))
    return all_ids[order], all_times[order], [names[i] for i in ints(order)]


def _kind(plane: Plane) -> str | None:
    name = plane.stats.get("device_type_string") or plane.stats.get("device_name")
    if isinstance(name, bytes):
        name = name.decode("utf-8", "replace")
    return str(name) if name else None
