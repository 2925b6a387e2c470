"""What the host did, by cause of idle time, on a core's own clock.

Host events are classified by name from one table; the names are those that JAX, PJRT and the TPU, GPU and CPU
runtimes give their trace events. Idle time can only be blamed on the host where the two clocks can be compared:
launch links or equal step numbers give the offset, and device work that seems to start before its launch shows that
the clocks disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I32, I64, Plane
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.host import host_lines
from tpuprof.tables.rows import MAX_PS, NO_TIME, CoreRecord, StepMarks
from tpuprof.tables.sweep import Spans, union
from tpuprof.units import format_ps

NAME_TABLE_VERSION = 2
MAX_SPREAD_PS = 10_000_000
"""Clocks whose mapping is less certain than 10 us are not compared: most gaps are shorter than that error."""
# In order of precedence: at each instant the first cause that holds decides.
HOST_CAUSES = ("compile", "garbage_collection", "checkpoint", "host_sync", "input", "dispatch", "host_python")
_NAMES: dict[str, tuple[str, ...]] = {
    "compile": (
        r"\S*(?:Compiler|Client)::Compile",
        r"(?:Xla|Backend|Tpu|Pjrt)\w*Compile\b",
        r"CompileAndLoad|\S*::RunBackend|\S*::RunHloPasses|HloPassPipeline|xla_compile|jax_compile",
        r"backend_compile(?:_and_load)?\b|lower_sharding_computation\b",
        r"\$\S*compiler\.py:\d+ (?:backend_compile|compile_or_get_cached)",
        r"\$\S*pxla\.py:\d+ (?:lower_sharding_computation|compile)\b",
    ),
    "garbage_collection": (
        r"PythonRefManager::CollectGarbage|GarbageCollect",
        r"gc\.collect|\$?<built-in method collect",
    ),
    "checkpoint": (r"(?i:.*\b(?:checkpoint\w*[./: ]*(?:save|restore|write)|(?:save|write)_checkpoint|orbax)\b)",),
    "host_sync": (
        r"\S*TransferFromDevice(?:\b|=>)|D2H Dispatch",
        r"\S*::(?:ToLiteral\w*|CopyRawToHost|BlockHostUntilReady)|\S*Await(?:Ready|Done)\w*",
        r"(?:hip|cu)Memcpy(?:DtoH|FromDevice)\w*|Memcpy ?D(?:2|to)H",
        r"\$\S*array\.py:\d+ (?:_value|__array__|__float__|item|tolist)\b|np\.asarray\(jax\.Array\)",
        r"(?:\$\S*api\.py:\d+ )?(?:block_until_ready|device_get)\b",
    ),
    "input": (
        r"\S*TransferToDevice(?:\b|=>)|H2D Dispatch|XlaLinearize|\S*BufferFromHost\w*|InfeedEnqueue\w*",
        r"(?:hip|cu)Memcpy(?:HtoD|ToDevice)\w*|Memcpy ?H(?:2|to)D",
        r"\S*(?:Iterator|Dataset)::\S*|(?:\$\S*api\.py:\d+ )?device_put\b",
        r"(?i:(?:.*[/_. ])?(?:input_pipeline|data_?load\w*|(?:load|next|get)_batch|get_next|prefetch\w*)\b)",
    ),
    "dispatch": (
        r"PjitFunction\b|ParseArguments\b|Handle inputs|dispatch\b",
        r"(?:Scheduled )?\S*Executable::Execute\w*|\S*::Execute(?:Sharded|Prepare|Launch)\w*",
        r"\S*EnqueueProgram\b|\S*EnqueueExecution\b|(?:hip|cuda|cu)(?:Module|Graph)?Launch\w*|\S*Launch(?:Kernel|OnDevice)\w*",
    ),
    "host_python": (r"\$",),
}
# One group per cause, so that a name is looked at once; of several that match the first is taken.
_CAUSE = re.compile("|".join(f"({'|'.join(_NAMES[cause])})" for cause in HOST_CAUSES))
# Threads that execute the device's own work on the CPU backend are no host work.
_DEVICE_WORK = re.compile(
    r"ThunkExecutor::|ThreadpoolListener::|end: |Rendezvous|InvokeRendezvous|Wait: pending_threads"
)


@dataclass(frozen=True, slots=True, eq=False)
class HostWork:
    """One host's events by cause (in the order of HOST_CAUSES), as disjoint spans on the host's clock."""

    spans: tuple[Spans, ...]

    def __len__(self) -> int:
        return sum(len(s) for s in self.spans)

    def later(self, by: int) -> HostWork:
        """The same work, ``by`` ps later."""
        return HostWork(tuple(Spans(spans.start + by, spans.end + by) for spans in self.spans))


def cause_of(name: str) -> int:
    """The row of HOST_CAUSES that a host event's name stands for, -1 for none."""
    if is_device_work(name):
        return -1
    match = _CAUSE.match(name)
    return -1 if match is None or match.lastindex is None else match.lastindex - 1


def is_device_work(name: str) -> bool:
    """Whether an event of the CPU backend's threads is the device's own work, not the host's."""
    return _DEVICE_WORK.match(name) is not None


@dataclass(frozen=True, slots=True, eq=False)
class NamedWork:
    """Events of one host's threads that have a cause: rows in no order, times on the host's clock in ps."""

    names: tuple[str, ...]
    name: I64  # row of names
    cause: I64  # row of HOST_CAUSES
    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.start)


def host_work(recording: Recording, origin: int) -> HostWork:
    """What a host did, from its threads' events."""
    starts: tuple[list[I64], ...] = tuple([] for _ in HOST_CAUSES)
    ends: tuple[list[I64], ...] = tuple([] for _ in HOST_CAUSES)
    for _, _, cause, start, end in _caused(recording, origin):
        for row in ints(np.unique(cause)):
            mine = np.flatnonzero(cause == row)
            starts[row].append(start[mine])
            ends[row].append(end[mine])
    return HostWork(
        tuple(
            union(Spans(np.concatenate(a), np.concatenate(b))) if a else Spans.of([], [])
            for a, b in zip(starts, ends, strict=True)
        )
    )


def named_work(recording: Recording, origin: int) -> NamedWork:
    """The events behind ``host_work``, with their names."""
    names: dict[str, int] = {}
    columns: tuple[list[I64], ...] = ([], [], [], [])
    for plane, meta, cause, start, end in _caused(recording, origin):
        used, inverse = np.unique(meta, return_inverse=True)
        rows = np.array([names.setdefault(plane.event_meta[row].label, len(names)) for row in ints(used)], np.int64)
        for column, values in zip(columns, (rows[inverse], cause.astype(np.int64), start, end), strict=True):
            column.append(values)
    joined = [np.concatenate(column) if column else np.zeros(0, np.int64) for column in columns]
    return NamedWork(tuple(names), joined[0], joined[1], joined[2], joined[3])


def on_core(spans: Spans, core: CoreRecord, offset_ps: int) -> Spans:
    """Spans of the host's clock on a core's, by the core's shift and the offset of ``compare_clocks``."""
    return Spans(core.shift.to_device(spans.start) - offset_ps, core.shift.to_device(spans.end) - offset_ps)


def work_on_core(work: HostWork, core: CoreRecord, clocks: Comparison) -> list[Spans]:
    """What the host did, on the core's clock; empty if the clocks cannot be compared."""
    if clocks.reason is not None:
        return []

    return [on_core(spans, core, clocks.offset_ps) for spans in work.spans]


def _caused(recording: Recording, origin: int) -> Iterator[tuple[Plane, I32, npt.NDArray[np.int8], I64, I64]]:
    """For each thread its events that have a cause: plane, metadata rows, causes, starts and ends."""
    start_ns = session_start_ns(recording.space)
    causes: dict[int, npt.NDArray[np.int8]] = {}
    for plane, line in host_lines(recording):
        table = causes.get(id(plane))
        if table is None:
            table = np.array([cause_of(meta.label) for meta in plane.event_meta] or [-1], np.int8)
            causes[id(plane)] = table
        events = line.events
        cause = table[events.meta]
        cause = np.where((events.duration_ps > 0) & (events.duration_ps < MAX_PS), cause, -1)
        if plane.stat_row("hlo_op") >= 0 and bool((cause >= 0).any()):
            owner, _, _ = events.find(plane.stat_row("hlo_op"))
            if plane.stat_row("device_ordinal") >= 0:
                cause[owner] = -1
        mine = np.flatnonzero(cause >= 0)
        if len(mine):
            start = events.offset_ps[mine] + line_base_ps(line, start_ns, origin)
            yield plane, events.meta[mine], cause[mine], start, start + events.duration_ps[mine]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """How a core's clock and its host's compare.

    ``reason`` is null if they can be compared. ``offset_ps`` is what to add to the core's (mapped) times to get
    host times: 0 unless device work seems to start before its launch.
    """

    offset_ps: int
    reason: str | None
    quality: tuple[Quality, ...] = ()


def compare_clocks(core: CoreRecord, launch_delays: Sequence[int], marks: StepMarks | None) -> Comparison:
    """Estimates the offset between a core's clock and its host's.

    Args:
        core: the core.
        launch_delays: device start minus host launch of everything the trace links, in ps.
        marks: the host's step annotations; equal numbers on the device's Steps line link too.
    """
    if core.device.platform == "cpu":
        return Comparison(0, None)
    spread = core.shift.spread_ps()
    if spread > MAX_SPREAD_PS:
        return Comparison(
            0,
            f"the recorded mapping between the clocks of {core.device.id} and its host is uncertain by "
            f"{format_ps(spread)}",
        )
    delays = list(launch_delays)
    if not delays and marks is not None and core.steps is not None:
        host = dict(zip(ints(marks.number), ints(core.shift.to_device(marks.start)), strict=True))
        delays = [
            start - host[number]
            for number, start in zip(ints(core.steps.number), ints(core.steps.start), strict=True)
            if number in host
        ]
    if not delays:
        return Comparison(0, "nothing in the trace links device work to the host call that launched it")
    smallest = min(delays)
    if smallest >= 0:
        return Comparison(0, None)
    note = Quality(
        "host_device_offset",
        "warning",
        f"Device work of {core.device.id} seems to start {-smallest} ps before the host launched it: the two clocks "
        "disagree by at least that. Idle causes are aligned with this offset; delays between host and device are not "
        "reported.",
        None,
        {"device": core.device.id, "offset_ps": smallest},
    )
    return Comparison(-smallest, None, (note,))


def launch_delays(core: CoreRecord) -> list[int]:
    """Device start minus host launch of all linked work of a core, in ps."""
    if core.op_launch is not None:
        linked = core.op_launch != NO_TIME
        return ints(core.ops.start[linked] - core.op_launch[linked])
    linked = core.modules.launch != NO_TIME
    return ints(core.modules.host_start[linked] - core.modules.launch[linked])
