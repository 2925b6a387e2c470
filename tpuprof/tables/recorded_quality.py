"""What the tables notice of a recording: what was captured, what is lost or damaged, and what is decided by little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.graph_launches import graph_quality
from tpuprof.tables.hostfacts import HostFacts
from tpuprof.tables.instrumented import instrumented_kernels
from tpuprof.tables.nesting import Nesting
from tpuprof.tables.programs import Programs
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.windows import FORMS, Windows
from tpuprof.units import format_ps

COVERED = 0.95
"""Below this share of a recording under device work a lead-in is told."""


class CoreLike(Protocol):
    """What is looked at of a core."""

    @property
    def record(self) -> CoreRecord:
        """Its rows."""
        ...

    @property
    def nesting(self) -> Nesting:
        """Self times and overruns of its rows."""
        ...

    @property
    def windows(self) -> Windows:
        """Its transfers."""
        ...


def recorded_quality(
    hosts: Sequence[HostFacts],
    cores: Sequence[CoreLike],
    infos: Sequence[OpInfo],
    programs: Programs,
    empty_planes: Sequence[str],
    origin_ns: int,
) -> list[Quality]:
    """All entries about what was recorded.

    Args:
        hosts: the hosts.
        cores: their cores.
        infos: the registry of ops.
        programs: the HLO of the run.
        empty_planes: device planes without any op.
        origin_ns: the origin of the hosts' times.
    """
    return [
        *_device_quality(hosts, cores, empty_planes),
        *_row_quality(cores),
        *_hlo_quality(hosts, cores, infos, programs),
        *_missing_cores(cores, infos),
        *_unmatched_halves(cores),
        *graph_quality({host.host: host.graphs for host in hosts}),
        *instrumented_kernels([core.record for core in cores], infos),
        *_lead_in(hosts, origin_ns),
    ]


def _unmatched_halves(cores: Sequence[CoreLike]) -> list[Quality]:
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


def _device_quality(hosts: Sequence[HostFacts], cores: Sequence[CoreLike], empty: Sequence[str]) -> list[Quality]:
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


def _row_quality(cores: Sequence[CoreLike]) -> list[Quality]:
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
    hosts: Sequence[HostFacts], cores: Sequence[CoreLike], infos: Sequence[OpInfo], programs: Programs
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


def expected_cores(cores: Sequence[CoreLike], infos: Sequence[OpInfo]) -> int:
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


def _missing_cores(cores: Sequence[CoreLike], infos: Sequence[OpInfo]) -> list[Quality]:
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


def _lead_in(hosts: Sequence[HostFacts], origin_ns: int) -> list[Quality]:
    """Recordings that device work covers only in part; one entry, with the host of which it covers least."""
    found: list[tuple[float, str, int, int, int]] = []
    for host in hosts:
        recorded = host.recorded_ps
        # A part of a longer run has the window of the whole.
        if recorded is None or host.start_ns is None or not host.cores or host.kept is not None:
            continue
        begin = (host.start_ns - origin_ns) * 1000
        first = min(int(core.ops.start.min()) for core in host.cores) - begin
        last = max(int(core.ops.end.max()) for core in host.cores) - begin
        before, after = min(max(first, 0), recorded), min(max(recorded - last, 0), recorded)
        covered = max(recorded - before - after, 0) / recorded
        # Work that seems to lie outside the recording is on a clock that cannot be compared.
        if covered < COVERED and last > 0 and first < recorded:
            found.append((covered, host.host, recorded, before, after))
    if not found:
        return []
    covered, name, recorded, before, after = min(found)
    return [
        Quality(
            "lead_in",
            "info",
            f"Device work covers {covered:.1%} of the {format_ps(recorded)} for which {name} was recorded: it begins "
            f"{format_ps(before)} after the start and ends {format_ps(after)} before the end"
            f"{f'; {len(found)} hosts have such a lead-in or lead-out' if len(found) > 1 else ''}.",
            len(found),
            {"host": name, "recorded_ps": recorded, "before_ps": before, "after_ps": after, "covered": covered},
        )
    ]
