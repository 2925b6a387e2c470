"""The facts of many hosts as one run: one origin, one table of ops, one copy of each program.

The result depends on the order of the hosts alone, never on which file was read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tpuprof.formats.xspace import I32, I64
from tpuprof.hlo import HloModule
from tpuprof.tables.hostfacts import HostFacts
from tpuprof.tables.hostwork import HostWork
from tpuprof.tables.programs import Programs
from tpuprof.tables.rows import (
    NO_TIME,
    CoreRecord,
    Device,
    ModuleRows,
    OpFacts,
    Registry,
    Rows,
    Shift,
    StepMarks,
)
from tpuprof.tables.sweep import Spans


def merge_programs(hosts: Iterable[HostFacts], outside: Iterable[HloModule] = ()) -> Programs:
    """The HLO of all hosts, of the first host where several have the same program, and modules given from outside."""
    raw: dict[int, bytes] = {}
    for host in hosts:
        for program_id, proto in host.programs.items():
            raw.setdefault(program_id, proto)
    return Programs(raw, outside)


def merge_hosts(hosts: Sequence[HostFacts]) -> tuple[int, list[HostFacts], tuple[OpFacts, ...]]:
    """(origin in ns, the hosts on it, the ops of all): rows of cores point into the one table of ops.

    The origin is the earliest session start, 0 where none is known. A host that does not say when it began keeps its
    times.
    """
    starts = [host.start_ns for host in hosts if host.start_ns is not None]
    origin = min(starts) if starts else 0
    registry = Registry()
    moved: list[HostFacts] = []
    for host in hosts:
        later = 0 if host.start_ns is None else (host.start_ns - origin) * 1000
        rows = [_row(registry, key, facts) for key, facts in zip(host.op_keys, host.ops, strict=True)]
        moved.append(_placed(host, later, rows))
    return origin, moved, tuple(registry.facts)


def named(host: HostFacts, name: str) -> HostFacts:
    """The same facts under another host name."""
    if host.host == name:
        return host
    cores = tuple(replace(core, device=_device(core.device, name)) for core in host.cores)
    return replace(host, host=name, cores=cores)


def _device(device: Device, host: str) -> Device:
    return replace(device, id=f"{host}/{device.id.removeprefix(device.host + '/')}", host=host)


def _row(registry: Registry, key: object, facts: OpFacts) -> int:
    row = registry.row(key)
    return registry.add(key, facts) if row is None else row


def _placed(host: HostFacts, by: int, rows: list[int]) -> HostFacts:
    identity = rows == list(range(len(rows)))
    if by == 0 and identity:
        return host
    table = np.array([*rows, -1], np.int32)  # the last one for rows that are no ops, whose info is -1
    return replace(
        host,
        cores=tuple(_core(core, by, table) for core in host.cores),
        annotations=None if host.annotations is None else _marks(host.annotations, by),
        work=HostWork(tuple(Spans(spans.start + by, spans.end + by) for spans in host.work.spans)),
    )


def _core(core: CoreRecord, by: int, table: I32) -> CoreRecord:
    return replace(
        core,
        ops=_rows(core.ops, by, table),
        asyncs=_rows(core.asyncs, by, table),
        barriers=_rows(core.barriers, by, table),
        waits=_rows(core.waits, by, table),
        modules=_modules(core.modules, by),
        steps=None if core.steps is None else _marks(core.steps, by),
        shift=Shift(core.shift.host_start + by, core.shift.shift),
        dropped_from=None if core.dropped_from is None else core.dropped_from + by,
        op_launch=None if core.op_launch is None else _known(core.op_launch, by),
    )


def _rows(rows: Rows, by: int, table: I32) -> Rows:
    return replace(rows, start=rows.start + by, info=table[rows.info])


def _modules(modules: ModuleRows, by: int) -> ModuleRows:
    return replace(
        modules,
        start=modules.start + by,
        end=modules.end + by,
        launch=_known(modules.launch, by),
        host_start=modules.host_start + by,
    )


def _marks(marks: StepMarks, by: int) -> StepMarks:
    return replace(marks, start=marks.start + by, end=marks.end + by)


def _known(times: I64, by: int) -> I64:
    return np.where(times == NO_TIME, NO_TIME, times + by)
