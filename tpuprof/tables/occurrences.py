"""Collectives as all cores saw them: which rows of different cores are one and the same occurrence, and of which group.

Occurrences match by (program, instruction, step, order within the step); outside steps by (program, instruction,
execution of the program, order within it). Where cores saw different numbers of them within a step, nothing tells
which belong together, and they stay apart. Groups come from the HLO and the global ids of the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tpuprof.formats.xspace import I64
from tpuprof.tables.arrays import ints, row_codes
from tpuprof.tables.collective_facts import CollectiveFacts, collective_facts
from tpuprof.tables.core_ids import global_ids
from tpuprof.tables.rows import NO_TIME, CoreRecord, OpInfo
from tpuprof.tables.runs import Runs
from tpuprof.tables.steps import CoreSteps
from tpuprof.tables.sweep import BOOL
from tpuprof.tables.windows import FORMS, Windows

BARRIER_SLACK_PS = 5_000  # times of barriers are rounded to ticks of the host's mapping: up to 2 ns each way
_HALVES = (FORMS.index("start_only"), FORMS.index("done_only"))


class CoreLike(Protocol):
    """What is looked at of a core."""

    @property
    def record(self) -> CoreRecord:
        """Its rows."""
        ...

    @property
    def runs(self) -> Runs:
        """Executions of programs."""
        ...

    @property
    def windows(self) -> Windows:
        """Its transfers."""
        ...

    @property
    def steps(self) -> CoreSteps:
        """Its steps."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """The collectives of all cores, core after core, each in the order of its windows.

    Args:
        core: which core.
        info: the registry row.
        form: a row of ``FORMS``.
        start, end: the window, in ps.
        row, done_row: op rows of the core, -1 where there are none.
        arrival: when the core was ready for it: start of the barrier directly before it, or of the op itself.
        release: end of that barrier, NO_TIME without one.
        step: number of the step in whose window it starts; ``in_step`` says where there is one.
        key: equal for what is one occurrence of the program on several cores; -1 for a half alone.
        op: equal for the same instruction of the same program.
        group: equal for rows of one ``op`` whose cores take part together; -1 where groups or ids are unknown.
        members: devices of the group; -1 where unknown.
    """

    core: npt.NDArray[np.intp]
    info: npt.NDArray[np.int32]
    form: npt.NDArray[np.uint8]
    start: I64
    end: I64
    row: I64
    done_row: I64
    arrival: I64
    release: I64
    step: I64
    in_step: BOOL
    key: I64
    op: I64
    group: I64
    members: I64
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.core)

    def moved(self, ps: Sequence[int]) -> Occurrences:
        """The same with the times of each core so many ps later."""
        by = np.asarray(ps, np.int64)[self.core] if len(self) else np.zeros(0, np.int64)
        return replace(
            self,
            start=self.start + by,
            end=self.end + by,
            arrival=self.arrival + by,
            release=np.where(self.release == NO_TIME, NO_TIME, self.release + by),
        )


def find_occurrences(cores: Sequence[CoreLike], infos: Sequence[OpInfo]) -> Occurrences:
    """All collectives of all cores, matched."""
    masks = [core.windows.is_collective for core in cores]

    def column(of: str) -> list[npt.NDArray[Any]]:
        return [getattr(core.windows, of)[mask] for core, mask in zip(cores, masks, strict=True)]

    info, form, start = column("info"), column("form"), column("start")
    row, done_row = column("row"), column("done_row")
    sizes = [len(part) for part in info]
    arrivals = [_arrivals(core.record, s, r, infos) for core, s, r in zip(cores, start, row, strict=True)]
    steps = [_steps(core.steps, s) for core, s in zip(cores, start, strict=True)]
    op = _op_numbers(_cat(info, np.int32), infos)
    codes: dict[object, int] = {}
    place = _cat([_places(c, r, number, inside, codes) for c, r, (number, inside)
                  in zip(cores, row, steps, strict=True)])  # fmt: skip
    core_of = np.repeat(np.arange(len(cores)), sizes)
    half = np.isin(_cat(form, np.uint8), _HALVES)
    group, members = _groups(cores, core_of, _cat(info, np.int32), op, infos)
    return Occurrences(
        core=core_of,
        info=_cat(info, np.int32),
        form=_cat(form, np.uint8),
        start=_cat(start),
        end=_cat(column("end")),
        row=_cat(row),
        done_row=_cat(done_row),
        arrival=_cat([a for a, _ in arrivals]),
        release=_cat([r for _, r in arrivals]),
        step=_cat([number for number, _ in steps]),
        in_step=_cat([inside for _, inside in steps], np.bool_),
        key=_keys(core_of, op, place, _cat(start), half),
        op=op,
        group=group,
        members=members,
        sizes=tuple(sizes),
    )


def facts_of(rows: npt.NDArray[Any], infos: Sequence[OpInfo]) -> dict[int, CollectiveFacts]:
    """The facts of the registry rows in use."""
    return {row: collective_facts(infos[row]) for row in ints(np.unique(rows))}


def _steps(steps: CoreSteps, start: I64) -> tuple[I64, BOOL]:
    """The number of the step in whose window each time lies, and where there is one."""
    if not len(steps):
        return np.zeros(len(start), np.int64), np.zeros(len(start), np.bool_)
    at = np.searchsorted(steps.start, start, side="right") - 1
    inside = (at >= 0) & (start < steps.end[np.maximum(at, 0)])
    return np.where(inside, steps.number[np.maximum(at, 0)], 0), inside


def _arrivals(core: CoreRecord, start: I64, row: I64, infos: Sequence[OpInfo]) -> tuple[I64, I64]:
    """When the core was ready for each collective, and the end of the barrier before it (NO_TIME without one)."""
    arrival, release = start.copy(), np.full(len(start), NO_TIME)
    barriers = core.barriers
    if not len(barriers) or not len(start):
        return arrival, release
    containers = np.array([info.is_container for info in infos], np.bool_)
    order = np.argsort(barriers.end, kind="stable")
    ends = barriers.end[order]
    at = np.searchsorted(ends, start + BARRIER_SLACK_PS, side="right") - 1
    begin = barriers.start[order][np.maximum(at, 0)]
    # Directly before it: no op begins between the begin of the barrier and the collective.
    leaf = np.flatnonzero(~containers[core.ops.info])
    position = np.searchsorted(leaf, row)  # the collective itself among the leaf ops
    before = np.where(position > 0, core.ops.start[leaf[np.maximum(position - 1, 0)]], NO_TIME) if len(leaf) else start
    direct = (at >= 0) & (row >= 0) & (begin <= start) & (before <= begin + BARRIER_SLACK_PS)
    return np.where(direct, begin, arrival), np.where(direct, ends[np.maximum(at, 0)], release)


def _op_numbers(info: npt.NDArray[np.int32], infos: Sequence[OpInfo]) -> I64:
    """A number for (program, instruction); hosts may give one program different ids."""
    numbers: dict[tuple[str | None, str], int] = {}
    table = np.zeros(len(infos) + 1, np.int64)
    for row in ints(np.unique(info)):
        module = infos[row].module
        name = module.rsplit("(", 1)[0] if module is not None else None
        table[row] = numbers.setdefault((name, infos[row].name), len(numbers))
    return table[info]


def _places(core: CoreLike, row: I64, step: I64, in_step: BOOL, codes: dict[object, int]) -> I64:
    """A number for the step, or outside steps for the execution of the program, in which each row lies."""
    modules = core.runs.modules
    runs = np.where(row >= 0, core.runs.of_op[np.maximum(row, 0)], -1) if len(core.record.ops) else row
    ordinal: dict[str, int] = {}
    labels: list[tuple[str, int]] = []
    for name in modules.name:
        ordinal[name] = ordinal.get(name, -1) + 1
        labels.append((name, ordinal[name]))

    def of_run(run: int) -> object:
        # Cores that saw different numbers of executions cannot be matched by counting.
        return ("run", *labels[run], ordinal[labels[run][0]]) if run >= 0 else ("nowhere",)

    place = np.empty(len(row), np.int64)
    place[in_step] = _coded(step[in_step], lambda number: ("step", number), codes)
    place[~in_step] = _coded(runs[~in_step], of_run, codes)
    return place


def _coded(values: I64, label: Callable[[int], object], codes: dict[object, int]) -> I64:
    """The number of each value's label."""
    distinct, which = np.unique(values, return_inverse=True)
    table = np.array([codes.setdefault(label(value), len(codes)) for value in ints(distinct)], np.int64)
    return table[which.reshape(-1)]


def _keys(core: npt.NDArray[np.intp], op: I64, place: I64, start: I64, half: BOOL) -> I64:
    """A number for (instruction, place, occurrences there, order among them); -1 for halves."""
    key = np.full(len(core), -1, np.int64)
    rows = np.flatnonzero(~half)
    if not len(rows):
        return key
    order = rows[np.lexsort((start[rows], place[rows], op[rows], core[rows]))]
    new = np.ones(len(order), np.bool_)
    for column in (core, op, place):
        new[1:] &= column[order[1:]] == column[order[:-1]]
    new[1:] = ~new[1:]
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(order)))
    within = np.arange(len(order)) - np.repeat(first, count)
    key[order] = row_codes(op[order], place[order], np.repeat(count, count), within)
    return key


def _groups(
    cores: Sequence[CoreLike],
    core: npt.NDArray[np.intp],
    info: npt.NDArray[np.int32],
    op: I64,
    infos: Sequence[OpInfo],
) -> tuple[I64, I64]:
    """For each row the group that its core is in, and how many devices that has; -1 where unknown."""
    group, members = np.full(len(info), -1, np.int64), np.full(len(info), -1, np.int64)
    if not len(info):
        return group, members
    ids = global_ids([each.record.device for each in cores])
    number_of = row_codes(info, core, op)
    _, first = np.unique(number_of, return_index=True)
    pairs = zip(ints(info[first]), ints(core[first]), ints(op[first]), strict=True)
    facts = facts_of(info, infos)
    index = {row: _group_index(each) for row, each in facts.items()}
    codes: dict[tuple[int, int], int] = {}
    found = np.full((len(first), 2), -1, np.int64)
    for at, (row, which, number) in enumerate(pairs):
        groups = facts[row].groups
        if not groups:
            continue
        device = ids[which]
        # One group of all needs no id to be resolved.
        position = 0 if len(groups) == 1 else None if device is None else index[row].get(device)
        if position is not None:
            found[at] = codes.setdefault((number, position), len(codes)), len(groups[position])
    return found[number_of, 0], found[number_of, 1]


def _group_index(facts: CollectiveFacts) -> dict[int, int]:
    """The position of the group of each device id."""
    return {device: at for at, group in enumerate(facts.groups or ()) for device in group}


def _cat(parts: Sequence[npt.NDArray[Any]], dtype: Any = np.int64) -> npt.NDArray[Any]:
    return np.concatenate(parts) if len(parts) else np.zeros(0, dtype)
