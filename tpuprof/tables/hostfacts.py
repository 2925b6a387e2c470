"""What the tables need of one host's file: rows in compact arrays, on the host's own origin.

This is the part of the work that needs one file and nothing else, so that a pod's files can be read one after the
other or by several processes, and a file's events can be forgotten once its facts are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpuprof.formats.recording import Recording
from tpuprof.tables.clock import ABSOLUTE_NS, session_start_ns
from tpuprof.tables.cpu import cpu_cores
from tpuprof.tables.gpu import GPU_PLANE, gpu_cores
from tpuprof.tables.graph_launches import NO_GRAPHS, GraphLaunches, graph_launches
from tpuprof.tables.host import step_annotations
from tpuprof.tables.hostwork import HostWork, host_work
from tpuprof.tables.kept_steps import KeptHost, kept_host
from tpuprof.tables.programs import embedded_programs
from tpuprof.tables.rows import MAX_PS, CoreRecord, OpFacts, Registry, StepMarks
from tpuprof.tables.tpu import TPU_PLANE, tpu_cores


@dataclass(frozen=True, slots=True, eq=False)
class HostFacts:
    """One host's part of a run, without its events.

    Args:
        host: the host's name.
        source_format: ``xplane`` or ``trace_json``.
        start_ns: when the session began, which is the origin of all times here; null if the file does not say, and
            then times are as recorded.
        cores: the cores with work on them. Their rows' ``info`` is a row of ``ops``.
        op_keys: what tells the ops apart, on whatever host, one per row of ``ops``.
        ops: what the trace says of each op.
        annotations: the host's step annotations.
        work: what the host did.
        programs: serialised HLO by program id.
        empty_planes: names of device planes without any op.
        errors: what the collector said went wrong.
        kept: what a trimmed file says of the whole run; null for a file that is none.
        recorded_ps: how long the recording was, from ``start_ns`` on; null if the file does not say.
        graphs: what is seen of graph launches.
    """

    host: str
    source_format: str
    start_ns: int | None
    cores: tuple[CoreRecord, ...]
    op_keys: tuple[Any, ...]
    ops: tuple[OpFacts, ...]
    annotations: StepMarks | None
    work: HostWork
    programs: dict[int, bytes]
    empty_planes: tuple[str, ...]
    errors: tuple[str, ...]
    kept: KeptHost | None = None
    recorded_ps: int | None = None
    graphs: GraphLaunches = NO_GRAPHS


def host_facts(recording: Recording) -> HostFacts:
    """The facts of one host; nothing in them refers to the recording's events."""
    start_ns = session_start_ns(recording.space)
    origin = start_ns or 0
    registry = Registry()
    found = tpu_cores(recording, registry, origin) + gpu_cores(recording, registry, origin)
    used = {core.device.plane for core in found}
    return HostFacts(
        host=recording.host,
        source_format=recording.source.format,
        start_ns=start_ns,
        # A process that drives accelerators also runs small programs on its CPU; those are the host's work.
        cores=tuple(found or cpu_cores(recording, registry, origin)),
        op_keys=registry.keys,
        ops=tuple(registry.facts),
        annotations=step_annotations(recording, origin),
        work=host_work(recording, origin),
        programs=embedded_programs(recording.space),
        empty_planes=tuple(
            plane.name
            for plane in recording.space.planes
            if (TPU_PLANE.match(plane.name) or GPU_PLANE.match(plane.name)) and plane.name not in used
        ),
        errors=recording.space.errors,
        kept=kept_host(recording, origin),
        recorded_ps=_recorded_ps(recording),
        graphs=graph_launches(recording),
    )


def _recorded_ps(recording: Recording) -> int | None:
    start, stop = recording.space.task_times_ns()
    if start is None or stop is None or start < ABSOLUTE_NS or not 0 < (stop - start) * 1000 < MAX_PS:
        return None
    return (stop - start) * 1000
