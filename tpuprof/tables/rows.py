"""One core's rows as arrays, and what is known of each op.

The tables are built from these arrays, core by core; DataFrames come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.errors import HloError
from tpuprof.formats.xspace import I32, I64, U8
from tpuprof.hlo import HloModule, Instruction, ReplicaGroups
from tpuprof.quality import Quality
from tpuprof.tables.classify import OpClass
from tpuprof.tables.stated import StatedCost

CLOCK_DEVICE, CLOCK_MAPPED, CLOCK_HOST = 0, 1, 2  # rows of schemas.CLOCKS
NO_TIME = -(1 << 63)  # a time that is not known
SHIFT_BLOCK = 256  # op samples per estimate of the shift between two clocks
MAX_PS = 1 << 61  # no believable time of a trace is larger: about 26 days


@dataclass(frozen=True, slots=True)
class Device:
    """A core: a device plane with work on it, or on the CPU backend a device ordinal.

    Args:
        id: unique name, ``<host>/<TPU|GPU|CPU>:<n>``.
        host: the host that recorded it.
        plane: the plane's name.
        platform: ``tpu``, ``gpu`` or ``cpu``.
        ordinal: the number in the plane's name, or the device ordinal.
        kind: what the trace calls the device, e.g. ``TPU v6 Lite``; null if it says nothing.
        stats: the plane's stats, e.g. peaks.
    """

    id: str
    host: str
    plane: str
    platform: str
    ordinal: int
    kind: str | None = None
    stats: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What the trace alone says of an op; ``tpuprof.tables.opinfo.op_info`` joins the HLO to it.

    Args:
        name: the instruction's name, or the kernel's.
        text: the instruction's or kernel's text, where the trace holds it.
        program_id: the program, where the trace says it.
        module_name: the program's function name.
        category: the category stat.
        scope: the scope path stat (``tf_op``).
        source: the source line stat.
        is_kernel: the row is the work itself, also where the HLO calls its op the start of a pair (GPU).
        stated: what the trace says of its cost; null if nothing.
    """

    name: str
    text: str | None = None
    program_id: int | None = None
    module_name: str | None = None
    category: str | None = None
    scope: str | None = None
    source: str | None = None
    is_kernel: bool = False
    stated: StatedCost | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OpInfo:
    """What all occurrences of one op have in common."""

    name: str
    cls: OpClass
    program_id: int | None = None
    module: str | None = None
    category: str | None = None
    scope: str | None = None
    source: str | None = None
    instruction: Instruction | None = None
    program: HloModule | None = None
    text: str | None = None
    stated: StatedCost | None = None

    @property
    def is_container(self) -> bool:
        """True for ``while``, ``conditional`` and ``call``: their time is their children's."""
        return self.cls.kind == "container"

    @property
    def long_name(self) -> str | None:
        """The instruction as HLO writes it: as the trace has it, else put together from its parts; null without it."""
        if self.text is not None or self.instruction is None:
            return self.text
        return str(self.instruction).removeprefix("<Instruction ").removesuffix(">")

    @property
    def body(self) -> tuple[Instruction, ...]:
        """The instructions of the fused computation; none for what is no fusion, or where its HLO is not known."""
        if self.program is None or self.instruction is None or self.instruction.opcode != "fusion":
            return ()
        try:
            names = self.instruction.called_by_role("calls")
            return tuple(self.program.computation(names[0]).instructions) if names else ()
        except HloError:
            return ()

    @property
    def replica_groups(self) -> ReplicaGroups | None:
        """The groups of a collective; null where the instruction has none, or in a form that cannot be read."""
        try:
            return self.instruction.replica_groups if self.instruction is not None else None
        except HloError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one core as arrays of equal length, in order of (start, longer first)."""

    lane: I32  # row of CoreRecord.lanes
    info: I32  # row of the registry's infos
    start: I64
    duration: I64  # 0 where not valid
    valid: np.ndarray[Any, np.dtype[np.bool_]]
    run_id: I64  # -1 where not recorded
    clock: U8

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> I64:
        """Ends of the rows."""
        return self.start + self.duration

    def take(self, index: Any) -> Rows:
        """The rows at these positions or under this mask."""
        return Rows(
            self.lane[index],
            self.info[index],
            self.start[index],
            self.duration[index],
            self.valid[index],
            self.run_id[index],
            self.clock[index],
        )

    def sorted(self) -> Rows:
        """The rows in order of (start, longer first)."""
        order = np.argsort(self.start, kind="stable")  # merges runs that are in order, as the lines of a file are
        start = self.start[order]
        tied = np.zeros(len(order) + 1, np.bool_)
        tied[1:-1] = start[1:] == start[:-1]
        rows = np.flatnonzero(tied[1:] | tied[:-1])
        same = order[rows]
        order[rows] = same[np.lexsort((-self.duration[same], self.start[same]))]
        if np.array_equal(order, np.arange(len(order))):
            return self
        return self.take(order)

    @staticmethod
    def make(
        lane: int | I32,
        info: I32,
        start: I64,
        duration: I64,
        *,
        run_id: I64 | None = None,
        clock: int | U8 = CLOCK_HOST,
    ) -> Rows:
        """Rows from raw columns; durations that cannot be true are marked invalid."""
        n = len(start)
        valid = (duration >= 0) & (duration < MAX_PS)
        return Rows(
            np.full(n, lane, np.int32) if isinstance(lane, int) else lane,
            info.astype(np.int32, copy=False),
            start,
            np.where(valid, duration, 0),
            valid,
            np.full(n, -1, np.int64) if run_id is None else run_id,
            np.full(n, clock, np.uint8) if isinstance(clock, int) else clock,
        )

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """All rows, in order of (start, longer first)."""
        if not parts:
            return Rows.empty()
        if len(parts) == 1:
            return parts[0].sorted()
        return Rows(
            np.concatenate([p.lane for p in parts]),
            np.concatenate([p.info for p in parts]),
            np.concatenate([p.start for p in parts]),
            np.concatenate([p.duration for p in parts]),
            np.concatenate([p.valid for p in parts]),
            np.concatenate([p.run_id for p in parts]),
            np.concatenate([p.clock for p in parts]),
        ).sorted()

    @staticmethod
    def empty() -> Rows:
        """No rows."""
        i64, i32 = np.zeros(0, np.int64), np.zeros(0, np.int32)
        return Rows(i32, i32, i64, i64, np.zeros(0, np.bool_), i64, np.zeros(0, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class ModuleRows:
    """Executions of programs on one core, in order of start."""

    name: tuple[str, ...]  # function name, without the program id
    program_id: tuple[int | None, ...]
    start: I64
    end: I64
    run_id: I64  # -1 where not recorded
    launch: I64  # when the host launched this run, on the host's clock; NO_TIME where unknown
    host_start: I64  # the start as recorded, on the host's mapping of the device clock
    clock: U8

    def __len__(self) -> int:
        return len(self.start)

    def label(self, row: int) -> str:
        """``name(program id)``."""
        return module_label(self.name[row], self.program_id[row])

    @staticmethod
    def empty() -> ModuleRows:
        """No executions."""
        i64 = np.zeros(0, np.int64)
        return ModuleRows((), (), i64, i64, i64, i64, i64, np.zeros(0, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class StepMarks:
    """Step marks: rows of a device's Steps line, or a host's StepTraceAnnotations; in order of start."""

    number: I64
    start: I64
    end: I64
    unreadable: int = 0  # rows left out: no number, or a length that cannot be true

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Shift:
    """The shift from the host's mapping to the device's own clock, sampled at ops; empty if there is no such clock."""

    host_start: I64  # ascending
    shift: I64  # host - device at these times

    def next_after(self, host_start: I64) -> I64:
        """The shift of the first op at or after each time (the last op's shift past the end)."""
        at = np.searchsorted(self.host_start, host_start, side="left")
        return self.shift[np.minimum(at, len(self.shift) - 1)]

    def nearest(self, host_start: I64) -> I64:
        """The shift of the op that starts nearest to each time."""
        right = np.minimum(np.searchsorted(self.host_start, host_start, side="left"), len(self.shift) - 1)
        left = np.maximum(right - 1, 0)
        closer_left = host_start - self.host_start[left] < np.abs(self.host_start[right] - host_start)
        return self.shift[np.where(closer_left, left, right)]

    def to_device(self, host: I64) -> I64:
        """Host times on the device's clock, by the running median of the shift.

        Single samples can be off by hundreds of milliseconds, so each block of samples speaks with its median, and
        times between blocks are interpolated.
        """
        if not len(self.shift):
            return host
        at, value = self._medians
        return host - np.interp(host, at, value).astype(np.int64)

    def spread_ps(self) -> int:
        """How far nine tenths of the samples lie from the running median: how well the two clocks can be compared."""
        if not len(self.shift):
            return 0
        return int(np.percentile(np.abs(self.to_device(self.host_start) - (self.host_start - self.shift)), 90))

    @cached_property
    def _medians(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The medians of time and shift of each block."""
        blocks = max(len(self.shift) // SHIFT_BLOCK, 1)
        return _block_medians(self.host_start, blocks), _block_medians(self.shift, blocks)

    def __bool__(self) -> bool:
        return len(self.shift) > 0


def _block_medians(values: I64, blocks: int) -> npt.NDArray[np.float64]:
    """The median of each part of ``np.array_split(values, blocks)``, all blocks of one length at once."""
    size, longer = divmod(len(values), blocks)
    split = longer * (size + 1)
    return np.concatenate(
        [np.median(part, axis=1) for part in (values[:split].reshape(-1, size + 1), values[split:].reshape(-1, size))]
    )


NO_SHIFT = Shift(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class CoreRecord:
    """Everything recorded on one core, times in ps from the trace's origin."""

    device: Device
    lanes: tuple[str, ...]
    sequential: bool  # lanes run one op at a time, so that overlap means a wrong duration
    ops: Rows  # leaf ops and containers
    asyncs: Rows  # windows of asynchronous work, from the line that shows them
    async_done: tuple[str | None, ...]  # for each async row the name of its done op
    barriers: Rows  # waits for peers
    waits: Rows  # waits at the start of a program, barriers included
    modules: ModuleRows
    steps: StepMarks | None
    shift: Shift  # host - device clock, sampled at ops; empty where the core has one clock
    dropped_from: int | None  # when trace buffers were dropped
    op_launch: I64 | None = None  # per op when the host launched it, NO_TIME where unlinked; None: no links (TPU, CPU)
    collective_rows: I64 | None = None  # op rows that are, or end, collectives
    rendezvous: Rows | None = None  # where threads wait for their peers inside a collective (CPU), lanes as the ops'
    marks: I64 | None = None  # when the tracer's marks lie that are no ops and no waits (TPU)
    quality: tuple[Quality, ...] = ()


class Registry:
    """Interns ops: one row per op, however often it runs. Keys hold what tells ops apart, whatever the file."""

    def __init__(self) -> None:
        self.facts: list[OpFacts] = []
        self._rows: dict[Any, int] = {}

    @property
    def keys(self) -> tuple[Any, ...]:
        """The keys in order of their rows."""
        return tuple(self._rows)

    def row(self, key: Any) -> int | None:
        """The row of a key that was added before."""
        return self._rows.get(key)

    def add(self, key: Any, facts: OpFacts) -> int:
        """A new row."""
        row = len(self.facts)
        self._rows[key] = row
        self.facts.append(facts)
        return row


def module_label(name: str, program_id: int | None) -> str:
    """How a program is called in tables: ``name(program id)``, or its bare name if the id is unknown."""
    return name if program_id is None else f"{name}({program_id})"
