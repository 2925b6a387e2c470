"""The facts of many hosts as one run: one origin, one table of ops, one copy of each program.

The result depends on the order of the hosts alone, never on which file was read first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from tpuprof.formats.xspace import I32
from tpuprof.tables.hostfacts import HostFacts
from tpuprof.tables.moving import move_record
from tpuprof.tables.rows import MAX_PS, CoreRecord, Device, OpFacts, Registry, Rows, StepMarks


@dataclass(frozen=True, slots=True, eq=False)
class RunFacts:
    """The facts of all hosts on one origin.

    Args:
        origin_ns: time zero: the earliest session start, 0 where none is known.
        hosts: the hosts. Their cores' rows point into ``ops`` below; their own tables of ops are empty.
        ops: what the trace says of each op.
        programs: serialised HLO by program id, of the first host where several have the same program.
    """

    origin_ns: int
    hosts: tuple[HostFacts, ...]
    ops: tuple[OpFacts, ...]
    programs: dict[int, bytes]


def merge_hosts(hosts: Sequence[HostFacts]) -> RunFacts:
    """The run that the hosts make. A host that does not say when its session began (or says
    what cannot be) keeps its times."""
    starts = [host.start_ns for host in hosts if host.start_ns is not None]
    origin = min(starts) if starts else 0
    registry = Registry()
    programs: dict[int, bytes] = {}
    moved: list[HostFacts] = []
    for host in hosts:
        later = 0 if host.start_ns is None else (host.start_ns - origin) * 1000
        if later >= MAX_PS:
            later = 0  # weeks apart: one of the two starts is damaged, and no common time can be had from them
        rows = [_row(registry, key, facts) for key, facts in zip(host.op_keys, host.ops, strict=True)]
        moved.append(_placed(host, later, rows))
        for program_id, proto in host.programs.items():
            programs.setdefault(program_id, proto)
    return RunFacts(origin, tuple(moved), tuple(registry.facts), programs)


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
    host = replace(host, op_keys=(), ops=(), programs={})
    if by == 0 and rows == list(range(len(rows))):
        return host
    table = np.array([*rows, -1], np.int32)  # the last one for rows that are no ops, whose info is -1
    return replace(
        host,
        cores=tuple(_core(core, by, table) for core in host.cores),
        annotations=None if host.annotations is None else _marks(host.annotations, by),
        work=host.work.later(by),
        kept=None if host.kept is None else host.kept.later(by),
    )


def _core(core: CoreRecord, by: int, table: I32) -> CoreRecord:
    """The core with all its times later and its rows pointing into another table of ops."""
    core = move_record(core, by) if by else core
    rows = {field.name: value for field in fields(core) if isinstance(value := getattr(core, field.name), Rows)}
    pointed: dict[str, Any] = {name: replace(value, info=table[value.info]) for name, value in rows.items()}
    return replace(core, **pointed)


def _marks(marks: StepMarks, by: int) -> StepMarks:
    return replace(marks, start=marks.start + by, end=marks.end + by)
