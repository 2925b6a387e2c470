"""Whether what came out of the cache can be what was put in: arrays of one table are as long as each other, and rows
that point into another table point at one of its rows.

A checksum finds what broke by accident. This makes sure that no file, whoever wrote it, sends compiled loops outside
their arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tpuprof.cache.container import NotKeptError
from tpuprof.tables.build import Built, Core
from tpuprof.tables.rows import Rows


def must_be_sound(built: Built, n_ops: int) -> None:
    """Checks the arrays of a run that has ``n_ops`` different ops.

    Raises:
        NotKeptError: they cannot be those of one run.
    """
    if len(built.steps.cores) != len(built.cores):
        raise NotKeptError("its cores do not fit its steps")
    for core in built.cores:
        record = core.record
        for rows in (record.ops, record.asyncs, record.barriers, record.waits, record.rendezvous):
            if rows is not None:
                _rows(rows, n_ops, len(record.lanes))
        _core(core)


def _rows(rows: Rows, n_ops: int, n_lanes: int) -> None:
    _one_length(rows.lane, rows.info, rows.start, rows.duration, rows.valid, rows.run_id, rows.clock)
    _points(rows.info, n_ops, least=-1)
    _points(rows.lane, n_lanes)


def _core(core: Core) -> None:
    ops, modules, windows, steps, part = core.record.ops, core.runs.modules, core.windows, core.steps, core.partition
    _one_length(ops.start, core.nesting.duration, core.nesting.self_ps, core.nesting.parent, core.levels)
    _one_length(ops.start, core.runs.of_op, *(() if core.record.op_launch is None else (core.record.op_launch,)))
    _points(core.nesting.parent, len(ops), least=-1)
    _points(core.runs.of_op, len(modules), least=-1)
    if core.record.collective_rows is not None:
        _points(core.record.collective_rows, len(ops))
    _one_length(modules.start, modules.end, modules.run_id, modules.launch, modules.host_start, modules.clock)
    _one_length(modules.start, modules.name, modules.program_id)
    _one_length(windows.info, windows.done_info, windows.row, windows.done_row, windows.form, windows.start,
                windows.end, windows.is_collective)  # fmt: skip
    _points(windows.row, len(ops), least=-1)
    _points(windows.done_row, len(ops), least=-1)
    _one_length(steps.number, steps.start, steps.end, steps.complete, steps.closed, steps.pause, steps.matched,
                steps.counted)  # fmt: skip
    _one_length(steps.number, part.parts, part.hidden_collective, part.hidden_dma, part.idle_causes)
    _one_length(part.gaps.step, part.gaps.start, part.gaps.end, part.gaps.inside_run)
    _points(part.gaps.step, len(steps))
    _one_length(part.compute.start, part.compute.end)
    _one_length(core.record.shift.host_start, core.record.shift.shift)


def _one_length(*columns: Any) -> None:
    if len({len(column) for column in columns}) > 1:
        raise NotKeptError("arrays of one table have different lengths")


def _points(rows: np.ndarray[Any, Any], count: int, *, least: int = 0) -> None:
    if len(rows) and not (least <= int(rows.min()) and int(rows.max()) < count):
        raise NotKeptError("a row points outside its table")
