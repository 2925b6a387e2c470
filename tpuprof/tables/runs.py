"""Executions of programs on a core, on the core's own clock.

Module rows that carry device times are taken as they are. Where only the ops carry them, module rows are on the
host's mapping of the device clock and can be wrong by hundreds of milliseconds: runs are then rebuilt from the ops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpuprof.formats.xspace import I32, I64
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.nesting import Nesting
from tpuprof.tables.rows import CLOCK_DEVICE, CLOCK_MAPPED, NO_TIME, CoreRecord, ModuleRows, OpInfo

_MAPPED_SLACK_PS = 2_000  # mapped times are rounded to the tick of the host's mapping


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The runs of a core and, for each op row, the run it belongs to (-1 for none)."""

    modules: ModuleRows
    of_op: I32
    quality: tuple[Quality, ...] = ()


def find_runs(core: CoreRecord, nesting: Nesting, infos: Sequence[OpInfo]) -> Runs:
    """Runs of a core: as recorded, or rebuilt on the device clock where only ops carry it."""
    modules = core.modules
    mapped = bool((modules.clock == CLOCK_MAPPED).any())
    programs = _program_ids(core, infos)
    if (mapped or not len(modules)) and core.device.platform == "tpu" and bool((programs >= 0).any()):
        return _rebuild(core, nesting, infos, programs)
    if len(modules) and core.device.platform == "cpu":
        return Runs(modules, _by_run_id(core, modules))
    return Runs(modules, _by_time(core, modules))


def _program_ids(core: CoreRecord, infos: Sequence[OpInfo]) -> I64:
    """For each op a small number for its program, -1 where unknown."""
    numbers: dict[int, int] = {}
    of_info = np.full(len(infos), -1, np.int64)
    for row in ints(np.unique(core.ops.info)):
        program_id = infos[row].program_id
        if program_id is not None:
            of_info[row] = numbers.setdefault(program_id, len(numbers))
    return of_info[core.ops.info]


def _by_time(core: CoreRecord, modules: ModuleRows) -> I32:
    if not len(modules):
        return np.full(len(core.ops), -1, np.int32)
    at = np.searchsorted(modules.start, core.ops.start, side="right") - 1
    inside = (at >= 0) & (core.ops.start < modules.end[at])
    return np.where(inside, at, -1).astype(np.int32)


def _by_run_id(core: CoreRecord, modules: ModuleRows) -> I32:
    order = np.argsort(modules.run_id, kind="stable")
    ids = modules.run_id[order]
    at = np.minimum(np.searchsorted(ids, core.ops.run_id), len(ids) - 1)
    return np.where(ids[at] == core.ops.run_id, order[at], -1).astype(np.int32)


def _rebuild(core: CoreRecord, nesting: Nesting, infos: Sequence[OpInfo], programs: I64) -> Runs:
    ops = core.ops
    top = np.flatnonzero((nesting.parent < 0) & (programs >= 0) & ops.valid)
    if not len(top):
        return Runs(core.modules, _by_time(core, core.modules))
    first = _first_instructions(core, top, infos, programs)
    program, info = programs[top], ops.info[top]
    begins = np.ones(len(top), np.bool_)
    begins[1:] = (program[1:] != program[:-1]) | (info[1:] == first[program[1:]])
    number = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    count = len(starts)
    run_of_op = np.full(len(ops), -1, np.int32)
    run_of_op[top] = number
    _inherit(run_of_op, nesting.parent)
    start = ops.start[top[starts]].copy()
    end = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(end, number, (ops.start + nesting.duration)[top])
    _include_waits(core, start, end)
    heads = [infos[row] for row in ints(info[starts])]
    modules = ModuleRows(
        name=tuple(_name(head) for head in heads),
        program_id=tuple(head.program_id for head in heads),
        start=start,
        end=end,
        run_id=np.full(count, -1, np.int64),
        launch=np.full(count, NO_TIME, np.int64),
        host_start=start,
        clock=np.full(count, CLOCK_DEVICE, np.uint8),
    )
    return Runs(modules, run_of_op, _cross_check(core, modules))


def _first_instructions(
    core: CoreRecord, top: np.ndarray[tuple[int], np.dtype[np.intp]], infos: Sequence[OpInfo], programs: I64
) -> I64:
    """For each program the info row of the op that starts it.

    Every recorded module row votes for the first op after it; most rows are right even where some are far off. A
    program without module rows starts with the op that follows another program.
    """
    program, info, start = programs[top], core.ops.info[top].astype(np.int64), core.ops.start[top]
    first = np.full(int(program.max()) + 1, -1, np.int64)
    changes = np.flatnonzero(np.concatenate([[True], program[1:] != program[:-1]]))
    votes: dict[int, Counter[int]] = {}
    at = np.searchsorted(start, core.modules.start - _MAPPED_SLACK_PS, side="left")
    for row, op in enumerate(ints(at)):
        if op < len(top) and core.modules.program_id[row] == infos[int(info[op])].program_id:
            votes.setdefault(int(program[op]), Counter())[int(info[op])] += 1
    for op in ints(changes):
        # A capture can begin in the middle of a run, so that its first op is only a weak vote.
        votes.setdefault(int(program[op]), Counter())[int(info[op])] += 1 if op else 0
    for number, counter in votes.items():
        first[number] = max(counter, key=lambda row: counter[row])
    return first


def _inherit(run_of_op: I32, parent: I32) -> None:
    """Children belong to the run of their container; parents precede their children."""
    for row in ints(np.flatnonzero((run_of_op < 0) & (parent >= 0))):
        run_of_op[row] = run_of_op[parent[row]]


def _include_waits(core: CoreRecord, start: I64, end: I64) -> None:
    """Moves each run's start to that of the first wait before its first op.

    A wait belongs to the run if it begins after the previous run's end and after the last recorded module row
    before the run's first op: that row may be of a program that has waits but no ops.
    """
    waits = core.waits
    if not len(waits):
        return
    row = np.searchsorted(core.modules.start, start + _MAPPED_SLACK_PS, side="right") - 1
    bound = core.modules.start[row] - _MAPPED_SLACK_PS if len(core.modules) else np.full(len(start), NO_TIME)
    bound = np.where(row >= 0, bound, NO_TIME)
    bound[1:] = np.maximum(bound[1:], end[:-1])
    owner = np.searchsorted(start, waits.start, side="left")  # the run that starts at or after the wait
    for wait, run in enumerate(ints(owner)):
        if run < len(start) and waits.start[wait] >= bound[run]:
            start[run] = min(int(start[run]), int(waits.start[wait]))


def _cross_check(core: CoreRecord, modules: ModuleRows) -> tuple[Quality, ...]:
    if not len(core.modules):
        return ()
    recorded, rebuilt = Counter(core.modules.program_id), Counter(modules.program_id)
    wrong = {str(p): (recorded[p], rebuilt[p]) for p in rebuilt if p in recorded and recorded[p] != rebuilt[p]}
    if not wrong:
        return ()
    return (
        Quality(
            "runs_unverified",
            "warning",
            f"On {core.device.id} the executions found in the ops and the recorded ones differ for "
            f"{len(wrong)} program(s) (program: recorded, found): {wrong}. Step windows may be wrong.",
            len(wrong),
            {"device": core.device.id},
        ),
    )


def _name(info: OpInfo) -> str:
    return (info.module or "program").rsplit("(", 1)[0]
