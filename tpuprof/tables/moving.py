"""A core's rows and what was derived from them, moved to another clock by a constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpuprof.formats.xspace import I64
from tpuprof.tables.partition import CorePartition
from tpuprof.tables.rows import NO_TIME, CoreRecord, ModuleRows, Rows
from tpuprof.tables.runs import Runs
from tpuprof.tables.steps import CoreSteps
from tpuprof.tables.sweep import Spans
from tpuprof.tables.windows import Windows


def move_record(record: CoreRecord, ps: int) -> CoreRecord:
    """The rows of a core, ``ps`` later."""
    return replace(
        record,
        ops=_rows(record.ops, ps),
        asyncs=_rows(record.asyncs, ps),
        barriers=_rows(record.barriers, ps),
        waits=_rows(record.waits, ps),
        modules=_modules(record.modules, ps),
        steps=None if record.steps is None else replace(
            record.steps, start=record.steps.start + ps, end=record.steps.end + ps
        ),
        shift=replace(record.shift, host_start=record.shift.host_start + ps),
        dropped_from=None if record.dropped_from is None else record.dropped_from + ps,
        op_launch=None if record.op_launch is None else _times(record.op_launch, ps),
        marks=None if record.marks is None else record.marks + ps,
        rendezvous=None if record.rendezvous is None else _rows(record.rendezvous, ps),
    )  # fmt: skip


def move_runs(runs: Runs, ps: int) -> Runs:
    """Executions of programs, ``ps`` later."""
    return replace(runs, modules=_modules(runs.modules, ps))


def move_windows(windows: Windows, ps: int) -> Windows:
    """Transfers, ``ps`` later."""
    return replace(windows, start=windows.start + ps, end=windows.end + ps)


def move_steps(steps: CoreSteps, ps: int) -> CoreSteps:
    """Step windows, ``ps`` later."""
    return replace(steps, start=steps.start + ps, end=steps.end + ps)


def move_partition(partition: CorePartition, ps: int) -> CorePartition:
    """The gaps and the compute of a partition, ``ps`` later; its sums do not change."""
    gaps, compute = partition.gaps, partition.compute
    return replace(
        partition,
        gaps=replace(gaps, start=gaps.start + ps, end=gaps.end + ps),
        compute=Spans(compute.start + ps, compute.end + ps),
    )


def _rows(rows: Rows, ps: int) -> Rows:
    return replace(rows, start=rows.start + ps)


def _modules(modules: ModuleRows, ps: int) -> ModuleRows:
    return replace(
        modules,
        start=modules.start + ps,
        end=modules.end + ps,
        launch=_times(modules.launch, ps),
        host_start=modules.host_start + ps,
    )


def _times(times: I64, ps: int) -> I64:
    """Times of which some are not known."""
    return np.where(times == NO_TIME, NO_TIME, times + ps)
