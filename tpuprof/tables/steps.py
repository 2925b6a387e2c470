"""Steps: where they come from, their windows, and how those of different cores belong together.

A step is a half-open window from its start to the start of the next one, so that gaps between programs belong to
the step. The definitions are in the metrics documentation under "Steps".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tpuprof.errors import UsageError
from tpuprof.formats.xspace import I64
from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.matching import match_by_order
from tpuprof.tables.rows import NO_TIME, CoreRecord, ModuleRows, StepMarks
from tpuprof.tables.runs import Runs
from tpuprof.tables.sweep import BOOL
from tpuprof.text import number_ranges

StepSource = Literal["steps_line", "host_annotation", "module", "none"]

SECOND_PROGRAM_SHARE = 0.2
LOOP_BREAK_MEDIANS = 20
LOOP_BREAK_PS = 1_000_000_000_000
OPEN_PAUSE_FRACTION = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class CoreSteps:
    """The steps of one core, in order of start; windows are disjoint."""

    number: I64
    start: I64
    end: I64
    complete: BOOL
    closed: BOOL
    pause: I64  # time between the last op of the step's main work and the step's end
    matched: BOOL
    counted: BOOL

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of all cores."""

    source: StepSource
    cores: tuple[CoreSteps, ...]
    n_steps: int
    program: str | None  # the main program's function name, where steps come from it
    quality: tuple[Quality, ...]
    transient: tuple[int, ...] = ()  # numbers of steps that the start of the capture held up


def find_steps(
    cores: Sequence[CoreRecord],
    runs: Sequence[Runs],
    annotations: Mapping[str, StepMarks],
    step_program: str | None = None,
) -> Steps:
    """Steps from the first source that applies: Steps line, host annotations, executions of the main program, none.

    Args:
        cores: the cores.
        runs: the runs of each core.
        annotations: StepTraceAnnotations by host.
        step_program: take the executions of this function as steps.

    Raises:
        UsageError: no execution has the name ``step_program``.
    """
    if not cores:
        return Steps("none", (), 0, None, ())
    quality: list[Quality] = []
    program: str | None = None
    windows: list[CoreSteps | None] = []
    source: StepSource = "none"
    if step_program is None:
        quality.extend(_unreadable(core) for core in cores if core.steps is not None and core.steps.unreadable)
        windows = [_from_steps_line(core) for core in cores]
        source = "steps_line"
        if all(w is None for w in windows):
            windows = [
                _from_annotations(core, run, annotations.get(core.device.host), quality)
                for core, run in zip(cores, runs, strict=True)
            ]
            source = "host_annotation"
    if not windows or all(w is None for w in windows):
        program = _main_program(runs, step_program, quality)
        windows = [
            _from_program(core, run, program, quality) if program else None
            for core, run in zip(cores, runs, strict=True)
        ]
        source = "module"
    if all(w is None for w in windows):
        return Steps("none", tuple(_whole(core) for core in cores), 0, None, tuple(quality))
    found = [_checked(core, _renumbered(core, w, quality), quality) for core, w in zip(cores, windows, strict=True)]
    if source == "module":
        found = match_by_order(found, cores, runs, quality)
    found, n_steps = _matched(found)
    return Steps(source, tuple(_count(found)), n_steps, program, tuple(quality))


def _make(number: I64, start: I64, end: I64, closed: BOOL, pause: I64, complete: BOOL | None = None) -> CoreSteps:
    yes = np.ones(len(number), np.bool_)
    return CoreSteps(number, start, end, yes if complete is None else complete, closed, pause, yes, yes)


def _none() -> CoreSteps:
    i64, b = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    return CoreSteps(i64, i64, i64, b, b, i64, b, b)


def _whole(core: CoreRecord) -> CoreSteps:
    """One pseudo-step from the first to the last op."""
    start, end = int(core.ops.start.min()), int(core.ops.end.max())
    one = np.array([0], np.int64)
    return _make(one, np.array([start]), np.array([end]), np.array([True]), np.array([0], np.int64))


def _from_steps_line(core: CoreRecord) -> CoreSteps | None:
    marks = core.steps
    if marks is None or not len(marks):
        return None
    end = np.append(marks.start[1:], max(int(marks.end[-1]), int(marks.start[-1])))
    pause = np.maximum(end - np.minimum(marks.end, end), 0)
    return _make(marks.number, marks.start, end, np.ones(len(marks), np.bool_), pause)


def _unreadable(core: CoreRecord) -> Quality:
    count = core.steps.unreadable if core.steps is not None else 0
    return Quality(
        "step_rows_unreadable",
        "warning",
        f"{count} row(s) of the line Steps of {core.device.id} are left out: their name is no step number, or their "
        "length cannot be true. The step before such a row reaches to the next row that can be read.",
        count,
        {"device": core.device.id},
    )


def _from_annotations(
    core: CoreRecord, runs: Runs, marks: StepMarks | None, quality: list[Quality]
) -> CoreSteps | None:
    """Steps start with the first device work that was launched inside the host's annotation."""
    if marks is None or not len(marks):
        return None
    work = _device_work(core, runs.modules, marks)
    if work is None:
        return None
    start, end, owner, by_time = work
    if by_time:
        quality.append(
            Quality(
                "steps_by_time",
                "info",
                f"Device work of {core.device.id} is assigned to the host's steps by time alone: the trace does not "
                "link launches to device work.",
                None,
                {"device": core.device.id},
            )
        )
    used = np.unique(owner[owner >= 0])
    missing = sorted(set(range(len(marks))) - set(ints(used)))
    quality.extend(_no_device_work(core, [int(marks.number[k]) for k in missing]))
    if not len(used):
        return None
    first = np.array([start[owner == k].min() for k in ints(used)], np.int64)
    last = np.array([end[owner == k].max() for k in ints(used)], np.int64)
    order = np.argsort(first, kind="stable")
    first, last, number = first[order], last[order], marks.number[used][order]
    stop = np.append(first[1:], last[-1])
    closed = np.ones(len(first), np.bool_)
    closed[-1] = False
    return _make(number, first, stop, closed, np.maximum(stop - last, 0))


def _device_work(core: CoreRecord, modules: ModuleRows, marks: StepMarks) -> tuple[I64, I64, I64, bool] | None:
    """Pieces of device work as (start, end, row of the annotation that launched it or -1, decided by time alone)."""
    if len(modules):
        start, end, launch = modules.start, modules.end, modules.launch
    else:
        valid = core.ops.valid
        start, end = core.ops.start[valid], core.ops.end[valid]
        launch = core.op_launch[valid] if core.op_launch is not None else np.full(len(start), NO_TIME, np.int64)
    if not len(start):
        return None
    linked = launch != NO_TIME
    # On TPU a thread of its own enqueues programs, at times after the next annotation has begun: order is surer.
    order_first = core.device.platform == "tpu" or not linked.any()
    by_order = _equal_shares(modules, len(marks)) if len(modules) and order_first else None
    if by_order is not None:
        return start, end, by_order, False
    if linked.any():
        owner = np.searchsorted(marks.start, launch, side="right") - 1
        return start, end, np.where(linked, owner, -1), False
    recurring = _by_recurrence(core, start, len(marks)) if not len(modules) else None
    if recurring is not None:
        return start, end, recurring, False
    return start, end, np.searchsorted(core.shift.to_device(marks.start), start, side="right") - 1, True


def _equal_shares(modules: ModuleRows, n_marks: int) -> I64 | None:
    """Launch order: if the main program ran k times per annotation, its runs belong to the annotations in order."""
    total: Counter[str] = Counter()
    for row, name in enumerate(modules.name):
        total[name] += int(modules.end[row] - modules.start[row])
    main = max(total, key=lambda name: total[name])
    rows = np.array([row for row, name in enumerate(modules.name) if name == main], np.intp)
    if len(rows) < n_marks or len(rows) % n_marks:
        return None
    owner = np.full(len(modules), -1, np.int64)
    owner[rows] = np.arange(len(rows)) // (len(rows) // n_marks)
    return owner


def _by_recurrence(core: CoreRecord, start: I64, n_marks: int) -> I64 | None:
    """Without links, work is cut where the first op recurs, if it does so equally often for every annotation."""
    info = core.ops.info[core.ops.valid]
    first = np.flatnonzero(info == info[0])
    if len(first) < n_marks or len(first) % n_marks:
        return None
    heads = start[first[:: len(first) // n_marks]]
    return np.searchsorted(heads, start, side="right") - 1


def _main_program(runs: Sequence[Runs], step_program: str | None, quality: list[Quality]) -> str | None:
    total: Counter[str] = Counter()
    for run in runs:
        for row, name in enumerate(run.modules.name):
            total[name] += int(run.modules.end[row] - run.modules.start[row])
    if step_program is not None:
        if step_program not in total:
            names = ", ".join(sorted(total)) or "none"
            raise UsageError(
                f"No program named {step_program!r} ran.",
                where="--step-program",
                hint=f"Programs that ran: {names}.",
            )
        return step_program
    if not total:
        return None
    ranked = total.most_common(2)
    if len(ranked) == 2 and ranked[0][1] > 0 and ranked[1][1] >= SECOND_PROGRAM_SHARE * ranked[0][1]:
        share = ranked[1][1] / ranked[0][1]
        quality.append(
            Quality(
                "several_main_programs",
                "warning",
                f"Steps are executions of {ranked[0][0]}; {ranked[1][0]} has {share:.0%} of its device time. "
                "Choose with --step-program NAME.",
                2,
                {"chosen": ranked[0][0], "other": ranked[1][0]},
            )
        )
    return ranked[0][0]


def _from_program(core: CoreRecord, runs: Runs, program: str, quality: list[Quality]) -> CoreSteps | None:
    modules = runs.modules
    rows = np.array([row for row, name in enumerate(modules.name) if name == program], np.intp)
    if not len(rows):
        return None
    start, last = modules.start[rows], modules.end[rows]
    if core.device.platform == "tpu":
        last = _last_ops(core, runs, rows, last)
    stop = np.append(start[1:], last[-1])
    closed = np.ones(len(rows), np.bool_)
    closed[-1] = False
    pause = np.maximum(stop - last, 0)
    if len(rows) > 1:
        median = float(np.median((stop - start)[:-1]))
        breaks = (pause > LOOP_BREAK_MEDIANS * median) & (pause > LOOP_BREAK_PS)
        if breaks.any():
            quality.append(
                Quality(
                    "loop_break",
                    "info",
                    f"{int(breaks.sum())} pause(s) on {core.device.id} are longer than {LOOP_BREAK_MEDIANS} median "
                    "steps and a second: the loop stopped there, and the pauses are counted outside steps.",
                    int(breaks.sum()),
                    {"device": core.device.id},
                )
            )
            stop, closed, pause = np.where(breaks, last, stop), closed & ~breaks, np.where(breaks, 0, pause)
    complete = _uncut(core, runs, rows)
    return _make(np.arange(len(rows), dtype=np.int64), start, stop, closed, pause, complete)


def _last_ops(core: CoreRecord, runs: Runs, rows: np.ndarray[tuple[int], np.dtype[np.intp]], fallback: I64) -> I64:
    """End of the last op of each run; module rows can run on a little after it."""
    last = np.full(len(runs.modules), np.iinfo(np.int64).min)
    have = (runs.of_op >= 0) & core.ops.valid
    np.maximum.at(last, runs.of_op[have], core.ops.end[have])
    return np.where(last[rows] > np.iinfo(np.int64).min, last[rows], fallback)


def _uncut(core: CoreRecord, runs: Runs, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> BOOL:
    """False for a first or last run that the edge of the capture cut: it has fewer ops than every other one."""
    counts = np.bincount(runs.of_op[runs.of_op >= 0], minlength=len(runs.modules))[rows]
    whole = np.ones(len(rows), np.bool_)
    if len(rows) >= 4:
        inner = counts[1:-1].min()
        whole[0] = counts[0] >= inner
        whole[-1] = counts[-1] >= inner
    return whole


def _renumbered(core: CoreRecord, steps: CoreSteps | None, quality: list[Quality]) -> CoreSteps:
    """Steps whose numbers rise; where they repeat (several loops in one capture) they are numbered in order."""
    if steps is None:
        return _none()
    if len(steps) > 1 and not bool((np.diff(steps.number) > 0).all()):
        quality.append(
            Quality(
                "step_numbers_repeat",
                "info",
                f"The step numbers of {core.device.id} do not rise; its steps are numbered in order of time.",
                None,
                {"device": core.device.id},
            )
        )
        return replace(steps, number=np.arange(len(steps), dtype=np.int64))
    return steps


def _checked(core: CoreRecord, steps: CoreSteps, quality: list[Quality]) -> CoreSteps:
    """Marks steps without any device op, and those after buffers were dropped, as incomplete."""
    if not len(steps):
        return steps
    starts = np.sort(core.ops.start[core.ops.valid])
    first = np.searchsorted(starts, steps.start, side="left")
    after = np.searchsorted(starts, steps.end, side="left")
    ends = np.sort(core.ops.end[core.ops.valid & (core.ops.duration > 0)])
    # An op that began earlier and is still running counts as work.
    began = np.searchsorted(np.sort(core.ops.start[core.ops.valid & (core.ops.duration > 0)]), steps.start, side="left")
    running = began - np.searchsorted(ends, steps.start, side="right") > 0
    worked = (after > first) | running
    quality.extend(_no_device_work(core, ints(steps.number[~worked])))
    complete = steps.complete & worked
    if core.dropped_from is not None:
        complete = complete & (steps.end <= core.dropped_from)
    return replace(steps, complete=complete)


def _no_device_work(core: CoreRecord, numbers: Sequence[int]) -> list[Quality]:
    """One entry for all steps of a core: a host that runs ahead leaves hundreds of them."""
    if not numbers:
        return []
    which = number_ranges(numbers)
    what = (
        f"Step {numbers[0]} of {core.device.id} holds no device op: the host may have run ahead of the device, or the "
        "step lies at the edge of the capture. It is left out of statistics."
        if len(numbers) == 1
        else f"{len(numbers)} steps of {core.device.id} hold no device op: {which}. The host may have run "
        "ahead of the device, or they lie at the edge of the capture. They are left out of statistics."
    )
    return [
        Quality("no_device_work", "warning", what, len(numbers), {"steps": list(numbers), "device": core.device.id})
    ]


def _matched(cores: Sequence[CoreSteps]) -> tuple[list[CoreSteps], int]:
    """Marks the steps whose number occurs on every core that has steps."""
    with_steps = [set(ints(steps.number)) for steps in cores if len(steps)]
    common = with_steps[0].intersection(*with_steps) if with_steps else set[int]()
    rows = np.array(sorted(common), np.int64)
    return [replace(steps, matched=np.isin(steps.number, rows)) for steps in cores], len(common)


def _count(cores: Sequence[CoreSteps]) -> list[CoreSteps]:
    """Which steps enter statistics: complete, closed and matched ones.

    Open steps end with their last op, so that they lack the pause before the next one. They count if that pause is
    negligible, or if there is no closed step.
    """
    good = [steps.complete & steps.closed & steps.matched for steps in cores]
    pauses = np.concatenate([steps.pause[g] for steps, g in zip(cores, good, strict=True)])
    lengths = np.concatenate([(steps.end - steps.start)[g] for steps, g in zip(cores, good, strict=True)])
    none_closed = not len(lengths)
    if none_closed or float(np.median(pauses)) < OPEN_PAUSE_FRACTION * float(np.median(lengths)):
        good = [steps.complete & steps.matched for steps in cores]
    return [replace(steps, counted=g) for steps, g in zip(cores, good, strict=True)]
