"""From recordings to everything that the tables are made of, in one pass per core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tpuprof.quality import Quality
from tpuprof.tables.cpu import with_module_names
from tpuprof.tables.host_clocks import HostClocks, compare_hosts
from tpuprof.tables.hostwork import Comparison, compare_clocks, launch_delays, work_on_core
from tpuprof.tables.kept_steps import kept_clocks, kept_steps
from tpuprof.tables.merge import RunFacts
from tpuprof.tables.moving import move_partition, move_record, move_runs, move_steps, move_windows
from tpuprof.tables.nesting import Nesting, nest
from tpuprof.tables.occurrences import find_occurrences
from tpuprof.tables.opinfo import op_info
from tpuprof.tables.partition import CorePartition, op_levels, partition, sweep_core
from tpuprof.tables.per_core import per_core
from tpuprof.tables.programs import Programs
from tpuprof.tables.recorded_quality import recorded_quality
from tpuprof.tables.rows import CoreRecord, OpFacts, OpInfo
from tpuprof.tables.runs import Runs, find_runs
from tpuprof.tables.steps import CoreSteps, Steps, find_steps
from tpuprof.tables.transients import without_start
from tpuprof.tables.waits import NO_WAITS, CoreWaits, find_waits
from tpuprof.tables.windows import Windows, find_windows


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """One core with everything derived from its rows."""

    record: CoreRecord
    nesting: Nesting
    levels: npt.NDArray[np.int8]
    runs: Runs
    windows: Windows
    steps: CoreSteps
    partition: CorePartition
    clocks: Comparison
    waits: CoreWaits = NO_WAITS


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """All cores of a run, the ops' facts, the steps, and what was noticed on the way."""

    origin_ns: int
    cores: tuple[Core, ...]
    infos: tuple[OpInfo, ...]
    steps: Steps
    empty_planes: tuple[str, ...]  # device planes without any op, as host/plane
    quality: tuple[Quality, ...]
    host_clocks: HostClocks = field(default_factory=HostClocks)


def build(facts: RunFacts, programs: Programs, step_program: str | None = None) -> Built:
    """Everything that the tables are made of.

    Args:
        facts: the facts of the hosts' files.
        programs: the HLO of the run.
        step_program: take the executions of this function as steps.

    Raises:
        UsageError: no execution has the name ``step_program``.
    """
    hosts = facts.hosts
    infos = join_ops(facts.ops, programs)
    records = [with_module_names(core, infos) for host in hosts for core in host.cores]
    empty = [f"{host.host}{plane}" for host in hosts for plane in host.empty_planes]
    containers = np.array([info.is_container for info in infos] or [False], np.bool_)
    collective = np.array(
        [info.cls.kind == "collective" and info.cls.phase != "start" for info in infos] or [False], np.bool_
    )
    records = [replace(r, collective_rows=np.flatnonzero(collective[r.ops.info])) for r in records]
    total = sum(len(record.ops) for record in records)

    def nest_core(record: CoreRecord) -> Nesting:
        return nest(record.ops, containers[record.ops.info], record.sequential)

    def runs_of(record: CoreRecord, nesting: Nesting) -> Runs:
        return find_runs(record, nesting, infos)

    nestings = per_core(nest_core, total, records)
    records = [
        replace(
            r, ops=replace(r.ops, duration=n.duration if r.ops.valid.all() else np.where(r.ops.valid, n.duration, 0))
        )
        for r, n in zip(records, nestings, strict=True)
    ]
    runs = per_core(runs_of, total, records, nestings)
    annotations = {host.host: host.annotations for host in hosts if host.annotations}
    trimmed = {host.host: host.kept for host in hosts if host.kept is not None}
    kept = kept_steps(trimmed, records) if records and step_program is None else None
    steps = kept or find_steps(records, runs, annotations, step_program)
    work = {host.host: host.work for host in hosts}

    def core_of(record: CoreRecord, nesting: Nesting, run: Runs, step: CoreSteps) -> Core:
        levels = op_levels(record, infos)
        windows = find_windows(record, record.ops.duration, infos, run.of_op)
        clocks = kept_clocks(trimmed, record) if kept else None
        clocks = clocks or compare_clocks(record, launch_delays(record), annotations.get(record.device.host))
        host = work_on_core(work[record.device.host], record, clocks)
        parts = partition(sweep_core(record, levels, windows, run, step, host), step)
        return Core(record, nesting, levels, run, windows, step, parts, clocks)

    cores = per_core(core_of, total, records, nestings, runs, steps.cores)
    cores, host_clocks = _compared(cores, infos)
    steps = replace(steps, cores=tuple(core.steps for core in cores))
    if not kept:  # the start of a part of a run is not that of the capture
        devices = [core.record.device for core in cores]
        clocks = [host_clocks.component[device.host] for device in devices]
        steps = without_start(steps, [device.id for device in devices], clocks)
        cores = [replace(core, steps=step) for core, step in zip(cores, steps.cores, strict=True)]
    quality = [
        *recorded_quality(hosts, cores, infos, programs, empty, facts.origin_ns),
        *programs.quality,
        *programs.not_joined(),
        # At the edges of a part of a run, recorded and found executions must differ.
        *(q for core in cores for q in (*(() if kept else core.runs.quality), *core.clocks.quality)),
        *steps.quality,
        *host_clocks.quality,
    ]
    return Built(facts.origin_ns, tuple(cores), infos, steps, tuple(empty), tuple(quality), host_clocks)


def join_ops(ops: Sequence[OpFacts], programs: Programs) -> tuple[OpInfo, ...]:
    """What is known of each op: what the trace says, and its HLO. Modules that are of another program are dropped."""
    programs.refuse_unlike((op.program_id, op.module_name, op.name) for op in ops)
    return tuple(op_info(op, programs) for op in ops)


def _compared(cores: Sequence[Core], infos: Sequence[OpInfo]) -> tuple[list[Core], HostClocks]:
    """The cores on the clock of the first host where hosts can be compared, with their waits for each other."""
    seen = find_occurrences(cores, infos)
    clocks = compare_hosts(cores, seen)
    behind = [-clocks.offset_ps.get(core.record.device.host, 0) for core in cores]
    if any(behind):
        cores = [_moved(core, ps) if ps else core for core, ps in zip(cores, behind, strict=True)]
        seen = seen.moved(behind)
    waits = find_waits(cores, seen, clocks)
    return [replace(core, waits=wait) for core, wait in zip(cores, waits, strict=True)], clocks


def _moved(core: Core, ps: int) -> Core:
    return replace(
        core,
        record=move_record(core.record, ps),
        runs=move_runs(core.runs, ps),
        windows=move_windows(core.windows, ps),
        steps=move_steps(core.steps, ps),
        partition=move_partition(core.partition, ps),
    )
