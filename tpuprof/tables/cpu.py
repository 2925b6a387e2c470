"""Rows of the CPU backend's devices: op events on the threads of ``/host:CPU``, by their ``device_ordinal``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I32, I64, Plane
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.hostwork import is_device_work
from tpuprof.tables.programs import MASK64
from tpuprof.tables.rows import (
    CLOCK_HOST,
    NO_SHIFT,
    NO_TIME,
    CoreRecord,
    Device,
    ModuleRows,
    OpFacts,
    OpInfo,
    Registry,
    Rows,
    module_label,
)

HOST_PLANE = "/host:CPU"
_END_TWIN = "end: "
_RENDEZVOUS = "Rendezvous"


@dataclass(frozen=True, slots=True, eq=False)
class _Ops:
    """Op events of all threads of a plane."""

    lane: I32
    op: I32  # a code of plane.text
    module: I32
    program: I64
    run_id: I64
    ordinal: I64
    start: I64
    duration: I64


def cpu_cores(recording: Recording, registry: Registry, origin: int) -> list[CoreRecord]:
    """The devices of one host's CPU backend that ran at least one op."""
    plane = recording.space.plane(HOST_PLANE)
    if plane is None or plane.stat_row("device_ordinal") < 0:
        return []
    start_ns = session_start_ns(recording.space)
    ops = _collect(plane, start_ns, origin)
    if ops is None:
        return []
    info = _infos(plane, ops, registry)
    launch = _launches(plane, start_ns, origin)
    rendezvous = _rendezvous(plane, start_ns, origin)
    lanes = tuple(line.label for line in plane.lines)
    cores: list[CoreRecord] = []
    for ordinal in ints(np.unique(ops.ordinal)):
        mine = np.flatnonzero(ops.ordinal == ordinal)
        rows = Rows.make(
            ops.lane[mine], info[mine], ops.start[mine], ops.duration[mine], run_id=ops.run_id[mine]
        ).sorted()
        cores.append(
            CoreRecord(
                device=Device(
                    id=f"{recording.host}/CPU:{ordinal}",
                    host=recording.host,
                    plane=plane.name,
                    platform="cpu",
                    ordinal=int(ordinal),
                    kind="cpu",
                ),
                lanes=lanes,
                sequential=False,
                ops=rows,
                asyncs=Rows.empty(),
                async_done=(),
                barriers=Rows.empty(),
                waits=Rows.empty(),
                modules=_modules(rows, registry, launch),
                steps=None,
                shift=NO_SHIFT,
                dropped_from=None,
                rendezvous=rendezvous,
            )
        )
    return cores


def _rendezvous(plane: Plane, start_ns: int | None, origin: int) -> Rows:
    """Where threads wait for their peers inside a collective's op, on all threads of the plane."""
    wanted = [row for row, meta in enumerate(plane.event_meta) if meta.label == _RENDEZVOUS]
    parts: list[Rows] = []
    for lane, line in enumerate(plane.lines if wanted else ()):
        at = np.flatnonzero(np.isin(line.events.meta, wanted))
        if len(at):
            start = line.events.offset_ps[at] + line_base_ps(line, start_ns, origin)
            parts.append(Rows.make(lane, np.full(len(at), -1, np.int32), start, line.events.duration_ps[at]))
    return Rows.concat(parts)


def with_module_names(core: CoreRecord, infos: Sequence[OpInfo]) -> CoreRecord:
    """The core with the names of its executions that only the HLO tells, from the first op of each."""
    modules = core.modules
    if "" not in modules.name:
        return core
    first: dict[int, int] = {}
    for run, row, valid in zip(ints(core.ops.run_id), ints(core.ops.info), core.ops.valid.tolist(), strict=True):
        if valid:
            first.setdefault(run, row)
    heads = [infos[first[run]] for run in ints(modules.run_id)]
    names = tuple(
        name or (head.module or head.name).rsplit("(", 1)[0] for name, head in zip(modules.name, heads, strict=True)
    )
    return replace(core, modules=replace(modules, name=names))


def _module_name(facts: OpFacts) -> str:
    """The function's name; empty where the trace does not state it."""
    if facts.module_name is None:
        return ""
    return module_label(facts.module_name, facts.program_id).rsplit("(", 1)[0]


def _collect(plane: Plane, start_ns: int | None, origin: int) -> _Ops | None:
    ordinal_key, program_key, run_key = (plane.stat_row(n) for n in ("device_ordinal", "program_id", "run_id"))
    twin = np.array([meta.name.startswith(_END_TWIN) for meta in plane.event_meta], np.bool_)
    parts: list[tuple[I64 | I32, ...]] = []
    for lane, line in enumerate(plane.lines):
        events = line.events
        if not len(events) or not bool((events.stat_key == ordinal_key).any()):
            continue
        op = plane.text_codes(events, "hlo_op")
        ordinal, has_ordinal = events.int_stat(ordinal_key)
        keep = np.flatnonzero((op >= 0) & has_ordinal & ~twin[events.meta])
        if not len(keep):
            continue
        parts.append(
            (
                np.full(len(keep), lane, np.int32),
                op[keep],
                plane.text_codes(events, "hlo_module")[keep],
                events.int_stat(program_key, missing=-1)[0][keep],
                events.int_stat(run_key, missing=-1)[0][keep],
                ordinal[keep],
                events.offset_ps[keep] + line_base_ps(line, start_ns, origin),
                events.duration_ps[keep],
            )
        )
    if not parts:
        return None
    lane, op, module, program, run_id, ordinal, start, duration = (
        np.concatenate([part[column].astype(np.int64, copy=False) for part in parts]) for column in range(8)
    )
    return _Ops(
        lane.astype(np.int32),
        op.astype(np.int32),
        module.astype(np.int32),
        program,
        run_id,
        ordinal,
        start,
        duration,
    )


def _infos(plane: Plane, ops: _Ops, registry: Registry) -> I32:
    """The registry row of every op event; an op is (program, instruction)."""
    known, program = np.unique(ops.program, return_inverse=True)
    width = len(plane.stat_names) + len(plane.blobs) + 1
    key = (program.reshape(-1).astype(np.int64) * width + ops.op) * width + (ops.module + 1)
    unique, inverse = np.unique(key, return_inverse=True)
    rows = np.empty(len(unique), np.int32)
    for index, packed in enumerate(ints(unique)):
        rest, module = divmod(packed, width)
        program_at, op = divmod(rest, width)
        raw = int(known[program_at])
        program_id = raw & MASK64 if raw != -1 else None
        name = plane.text(op)
        module_name = plane.text(module - 1) if module > 0 else None
        registry_key = ("cpu", name, program_id, module_name)
        row = registry.row(registry_key)
        if row is None:
            row = registry.add(registry_key, OpFacts(name, program_id=program_id, module_name=module_name))
        rows[index] = row
    return rows[inverse.reshape(-1)]


def _launches(plane: Plane, start_ns: int | None, origin: int) -> tuple[I64, I64]:
    """Host calls that launched a program: (run ids ascending, earliest start of each).

    The threads that execute the program state its run id too (``ThunkExecutor::Execute (wait for completion)``), but
    when they do so is device time and says nothing about the launch.
    """
    run_key = plane.stat_row("run_id")
    works = np.array([is_device_work(meta.label) for meta in plane.event_meta], np.bool_)
    ids: list[I64] = []
    times: list[I64] = []
    for line in plane.lines:
        run_id, present = line.events.int_stat(run_key)
        rows = np.flatnonzero(present & (plane.text_codes(line.events, "hlo_op") < 0))
        rows = rows[~works[line.events.meta[rows]]]
        if len(rows):
            ids.append(run_id[rows])
            times.append(line.events.offset_ps[rows] + line_base_ps(line, start_ns, origin))
    if not ids:
        empty = np.zeros(0, np.int64)
        return empty, empty
    all_ids, all_times = np.concatenate(ids), np.concatenate(times)
    order = np.lexsort((all_times, all_ids))
    all_ids, all_times = all_ids[order], all_times[order]
    first = np.concatenate([[True], all_ids[1:] != all_ids[:-1]])
    return all_ids[first], all_times[first]


def _modules(rows: Rows, registry: Registry, launch: tuple[I64, I64]) -> ModuleRows:
    """Executions on one device: all op rows that share a run id."""
    have = np.flatnonzero((rows.run_id != -1) & rows.valid)
    if not len(have):
        return ModuleRows.empty()
    ids, first, inverse = np.unique(rows.run_id[have], return_index=True, return_inverse=True)
    start = np.full(len(ids), np.iinfo(np.int64).max)
    end = np.full(len(ids), np.iinfo(np.int64).min)
    np.minimum.at(start, inverse.reshape(-1), rows.start[have])
    np.maximum.at(end, inverse.reshape(-1), rows.end[have])
    facts = [registry.facts[row] for row in ints(rows.info[have][first])]
    launch_ids, launch_times = launch
    at = np.minimum(np.searchsorted(launch_ids, ids), max(len(launch_ids) - 1, 0))
    launched = (
        np.where(launch_ids[at] == ids, launch_times[at], NO_TIME)
        if len(launch_ids)
        else np.full(len(ids), NO_TIME, np.int64)
    )
    order = np.argsort(start, kind="stable")
    return ModuleRows(
        name=tuple(_module_name(facts[i]) for i in ints(order)),
        program_id=tuple(facts[i].program_id for i in ints(order)),
        start=start[order],
        end=end[order],
        run_id=ids[order],
        launch=launched[order],
        host_start=start[order],
        clock=np.full(len(ids), CLOCK_HOST, np.uint8),
    )
