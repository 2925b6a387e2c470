"""From recordings to everything that the tables are made of, in one pass per core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.cpu import with_module_names
from tpuprof.tables.host_clocks import HostClocks, compare_hosts
from tpuprof.tables.hostfacts import HostFacts
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
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.runs import Runs, find_runs
from tpuprof.tables.steps import CoreSteps, Steps, find_steps
from tpuprof.tables.waits import NO_WAITS, CoreWaits, find_waits
from tpuprof.tables.windows import FORMS, Windows, find_windows


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
    programs.refuse_unlike((op.program_id, op.module_name, op.name) for op in facts.ops)
    infos = tuple(op_info(op, programs) for op in facts.ops)
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
    quality = [
        *_device_quality(hosts, cores, empty),
        *_row_quality(cores),
        *_hlo_quality(hosts, cores, infos, programs),
        *_missing_cores(cores, infos),
        *programs.quality,
        *programs.not_joined(),
        # At the edges of a part of a run, recorded and found executions must differ.
        *(q for core in cores for q in (*(() if kept else core.runs.quality), *core.clocks.quality)),
        *steps.quality,
        *host_clocks.quality,
        *_unmatched_halves(cores),
    ]
    return Built(facts.origin_ns, tuple(cores), infos, steps, tuple(empty), tuple(quality), host_clocks)


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


def _unmatched_halves(cores: Sequence[Core]) -> list[Quality]:
    halves = (FORMS.index("start_only"), FORMS.index("done_only"))
    count = {
        core.record.device.id: int((np.isin(core.windows.form, halves) & core.windows.is_collective).sum())
        for core in cores
    }
    total = sum(count.values())
    if not total:
        return []
    return [
        Quality(
            "unmatched_halves",
            "warning",
            f"Of {total} asynchronous collective(s) only the start or the done half was recorded: they have no window. "
            "The edge of the capture or dropped events are the usual cause.",
            total,
            {"devices": [device for device, n in count.items() if n]},
        )
    ]


def _device_quality(hosts: Sequence[HostFacts], cores: Sequence[Core], empty: Sequence[str]) -> list[Quality]:
    result: list[Quality] = []
    with_cores = {core.record.device.host for core in cores}
    bare = [host for host in hosts if host.host not in with_cores]
    if bare:
        texts = [text for host in bare for text in host.errors]
        said = f" The collector said: {'; '.join(texts)[:500]}." if texts else ""
        names = ", ".join(host.host for host in bare)
        result.append(
            Quality(
                "device_plane_missing",
                "error",
                f"No device work was recorded on {len(bare)} host(s): {names}.{said} There is no device time to "
                "divide. Capture a shorter window, in the process that owns the devices.",
                len(bare),
                {"hosts": [host.host for host in bare], "collector": texts},
            )
        )
    if empty and cores:
        result.append(
            Quality(
                "planes_without_ops",
                "info",
                f"{len(empty)} device plane(s) hold no op and are left out: {', '.join(empty[:8])}"
                f"{' …' if len(empty) > 8 else ''}.",
                len(empty),
                {"planes": list(empty)},
            )
        )
    return result


def _row_quality(cores: Sequence[Core]) -> list[Quality]:
    result: list[Quality] = []
    bad = sum(int((~core.record.ops.valid).sum()) for core in cores)
    if bad:
        result.append(
            Quality(
                "bad_duration",
                "warning",
                f"{bad} event(s) have a negative or impossible duration. They are kept with a null duration and left "
                "out of all sums.",
                bad,
                {"devices": sorted({c.record.device.id for c in cores if not bool(c.record.ops.valid.all())})},
            )
        )
    over = sum(core.nesting.overruns for core in cores)
    if over:
        excess = sum(core.nesting.excess_ps for core in cores)
        result.append(
            Quality(
                "duration_overrun",
                "warning",
                f"{over} op(s) ran past the start of the next op on their line, by {excess} ps in all. Each is cut at "
                "the next op's start.",
                over,
                {"excess_ps": excess, "devices": [c.record.device.id for c in cores if c.nesting.overruns]},
            )
        )
    dropped = [core.record.device.id for core in cores if core.record.dropped_from is not None]
    if dropped:
        result.append(
            Quality(
                "buffers_dropped",
                "error",
                f"The tracer dropped buffers on {', '.join(dropped)}: the timeline stops early there. Only steps "
                "before the drop count. Capture fewer steps.",
                len(dropped),
                {"devices": dropped},
            )
        )
    return result


def _hlo_quality(
    hosts: Sequence[HostFacts], cores: Sequence[Core], infos: Sequence[OpInfo], programs: Programs
) -> list[Quality]:
    result: list[Quality] = []
    missing: dict[int, str] = {}
    unclassified = Counter[str]()
    total = 0
    for core in cores:
        self_of = np.bincount(core.record.ops.info, weights=core.nesting.self_ps, minlength=len(infos))
        for row in ints(np.flatnonzero(self_of > 0)):
            info = infos[row]
            if info.is_container:
                continue
            total += int(self_of[row])
            unclassified[info.cls.source] += int(self_of[row])
        for row in ints(np.unique(core.record.ops.info)):
            info = infos[row]
            if info.program_id is not None and programs.find(info.program_id, _bare(info.module)) is None:
                missing[info.program_id] = info.module or str(info.program_id)
    json_only = all(host.source_format == "trace_json" for host in hosts)
    if missing and not json_only:
        result.append(
            Quality(
                "hlo_missing",
                "warning",
                f"The trace lacks the HLO of {len(missing)} program(s) that ran: "
                f"{', '.join(list(missing.values())[:6])}{' …' if len(missing) > 6 else ''}. "
                "Shapes, FLOPs and scopes of their ops come from the trace where it states them. Join an HLO dump with "
                "--hlo.",
                len(missing),
                {"program_ids": sorted(missing)},
            )
        )
    unknown_pairs = sorted({info.name for info in infos if info.cls.detail == "async_unknown"})
    if unknown_pairs:
        result.append(
            Quality(
                "async_unknown",
                "info",
                f"Of {len(unknown_pairs)} asynchronous pair(s) nothing tells what they do; waits for them count as "
                f"dma_wait: {', '.join(unknown_pairs[:6])}{' …' if len(unknown_pairs) > 6 else ''}.",
                len(unknown_pairs),
                {"ops": unknown_pairs[:100]},
            )
        )
    if total and unclassified["none"] > 0.05 * total:
        result.append(
            Quality(
                "unclassified_time",
                "warning",
                f"{unclassified['none'] / total:.1%} of the device time is in ops that no rule recognises; it is "
                "counted as other_compute.",
                None,
                {"fraction": unclassified["none"] / total},
            )
        )
    return result


def expected_cores(cores: Sequence[Core], infos: Sequence[OpInfo]) -> int:
    """How many devices the programs that ran were compiled for, as far as HLO and groups tell; 0 if not at all."""
    expected = 0
    seen: set[int] = set()
    for core in cores:
        for row in ints(np.unique(core.record.ops.info)):
            program = infos[row].program
            if program is not None and id(program) not in seen:
                seen.add(id(program))
                expected = max(expected, program.num_partitions * program.replica_count)
            groups = infos[row].replica_groups
            if groups is not None:
                expected = max(expected, (groups.num_groups or 0) * (groups.group_size or 0))
    return expected


def _missing_cores(cores: Sequence[Core], infos: Sequence[OpInfo]) -> list[Quality]:
    """Whether as many cores were traced as the programs that ran on them were compiled for."""
    expected = expected_cores(cores, infos)
    if expected <= len(cores):
        return []
    return [
        Quality(
            "cores_missing",
            "warning",
            f"{len(cores)} of {expected} cores were traced. Averages are over {len(cores)} cores; nothing is scaled "
            "up.",
            expected - len(cores),
            {"seen": len(cores), "expected": expected},
        )
    ]


def _bare(module: str | None) -> str | None:
    return module.rsplit("(", 1)[0] if module else None
