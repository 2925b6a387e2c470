"""Memory of the programs that ran, from the buffer assignments in their HLO: tables `memory`, `memory_summary`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction
from tpuprof.hlo.buffers import BufferAssignment, Totals, parse_buffers, space_name
from tpuprof.hlo.liveness import LiveBuffer, SpaceUse, memory_use
from tpuprof.schema import Schema
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Built
from tpuprof.tables.opinfo import hlo_place
from tpuprof.tables.schemas import MEMORY, MEMORY_SUMMARY

MAX_LIVE_ROWS = 5000
"""Rows of table `memory` per program and memory space; `memory_summary.live_buffers` says how many there are."""

_COPIES = frozenset({"copy", "copy-start", "copy-done", "bitcast"})  # compilers make them without metadata
_MAX_HOPS = 12
_TOTALS = ("arguments", "output", "aliased", "temp", "constants", "total")


@dataclass(frozen=True, slots=True)
class Peak:
    """The program that needs most of a memory space.

    Args:
        module: the program.
        total_bytes: what must be there while it runs.
        peak_bytes: the most that is in use at one of its instructions; null if its schedule is unknown.
        summary: its row of table `memory_summary`.
        live: its rows of table `memory`, largest first.
    """

    module: str
    memory_space: str
    total_bytes: int
    peak_bytes: int | None
    summary: dict[str, Any]
    live: pd.DataFrame


class MemoryTables(Protocol):
    """What `peak` needs of a trace."""

    @property
    def memory(self) -> pd.DataFrame:
        """Table ``memory``."""
        ...

    @property
    def memory_summary(self) -> pd.DataFrame:
        """Table ``memory_summary``."""
        ...


def peak(trace: MemoryTables, memory_space: str | None = None) -> Peak | None:
    """The program of a run that needs most memory, by total, with what is live at its peak; null if unknown.

    Args:
        trace: the run.
        memory_space: in which memory; by default the devices' main one (``hbm``, ``main`` on CPU).
    """
    wanted = (memory_space,) if memory_space is not None else ("hbm", "main")
    table: Any = trace.memory_summary
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    known = [row for row in rows if row["memory_space"] in wanted and row["total_bytes"] is not None]
    if not known:
        return None
    most = max(known, key=lambda row: row["total_bytes"])
    live: Any = trace.memory
    live = live[(live["module"] == most["module"]) & (live["memory_space"] == most["memory_space"])]
    return Peak(
        module=most["module"],
        memory_space=most["memory_space"],
        total_bytes=most["total_bytes"],
        peak_bytes=most["peak_bytes"],
        summary=most,
        live=live.reset_index(drop=True),
    )


def memory_frames(built: Built) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables ``memory`` and ``memory_summary`` of the programs that ran, in the order of their labels."""
    platform = built.cores[0].record.device.platform if built.cores else ""
    live: list[dict[str, Any]] = []
    summary: list[dict[str, Any]] = []
    for label, module in ran_programs(built):
        for row, rows in _program_rows(label, module, platform):
            summary.append(row)
            live.extend(rows)
    return _frame(MEMORY, live), _frame(MEMORY_SUMMARY, summary)


def ran_programs(built: Built) -> list[tuple[str, HloModule | None]]:
    """The programs that ran on a core, with their HLO where there is one."""
    found: dict[str, HloModule | None] = {}
    for core in built.cores:
        modules = core.runs.modules
        for row in range(len(modules)):
            found.setdefault(modules.label(row), None)
        for row in ints(np.unique(core.record.ops.info)):
            info = built.infos[row]
            if info.module is not None:
                found[info.module] = info.program or found.get(info.module)
    return sorted(found.items())


def _program_rows(
    label: str, module: HloModule | None, platform: str
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Per memory space the program's row of `memory_summary` and its rows of `memory`."""
    if module is None:
        yield {"module": label, "reason": "hlo_missing"}, []
        return
    try:
        assignment = parse_buffers(module)
        if assignment is None:
            yield {"module": label, "reason": "buffers_missing"}, []
            return
        use = memory_use(module, assignment)
        if use is None:
            yield from _totals_only(label, assignment, platform)
            return
        rows = [(_summary_row(label, s, module, platform), _live_rows(label, s, module, platform)) for s in use.spaces]
    except HloError:
        yield {"module": label, "reason": "buffers_damaged"}, []
        return
    yield from rows


def _totals_only(
    label: str, assignment: BufferAssignment, platform: str
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for space in assignment.memory_spaces:
        totals = _total_columns(assignment.totals(space))
        name = space_name(space, platform)
        yield {"module": label, "memory_space": name, **totals, "reason": "not_scheduled"}, []


def _summary_row(label: str, space: SpaceUse, module: HloModule, platform: str) -> dict[str, Any]:
    scope, source = place_of(space.peak_instruction, module)
    padding = sum(each.size - each.unpadded_size for each in space.live if each.unpadded_size is not None)
    return {
        "module": label,
        "memory_space": space_name(space.memory_space, platform),
        **_total_columns(space.totals),
        "peak_bytes": space.peak,
        "temp_peak_bytes": space.working_peak,
        "padding_bytes": padding,
        "live_buffers": len(space.live),
        "peak_op": space.peak_instruction.name,
        "peak_scope": scope,
        "peak_source": source,
    }


def _live_rows(label: str, space: SpaceUse, module: HloModule, platform: str) -> list[dict[str, Any]]:
    name = space_name(space.memory_space, platform)
    return [{"module": label, "memory_space": name, **_live_row(each, module)} for each in space.live[:MAX_LIVE_ROWS]]


def _live_row(live: LiveBuffer, module: HloModule) -> dict[str, Any]:
    buffer = live.buffer
    instruction = buffer.instruction if buffer is not None else None
    scope, source = place_of(instruction, module, buffer.shape_index if buffer is not None else ())
    shape = buffer.shape if buffer is not None else None
    return {
        "kind": live.allocation.kind,
        "op": instruction.name if instruction is not None else None,
        "opcode": instruction.opcode if instruction is not None else None,
        "shape": None if shape is None else str(shape),
        "scope": scope,
        "source": source,
        "allocation": live.allocation.index,
        "offset_bytes": buffer.offset if buffer is not None else 0,
        "bytes": live.size,
        "unpadded_bytes": live.unpadded_size,
        "aliased": live.allocation.aliased,
    }


def place_of(
    instruction: Instruction | None, module: HloModule, index: tuple[int, ...] = ()
) -> tuple[str | None, str | None]:
    """Scope and source of a value; null where the HLO does not say.

    What a loop or branch hands round has those of the value that its body makes, and a copy without its own, as
    compilers insert them, those of what it copies.

    Args:
        instruction: the instruction that defines the value.
        index: which part of its shape.
    """
    try:
        scope, source = hlo_place(instruction, module)
        for _ in range(_MAX_HOPS):
            if instruction is None:
                break
            instruction, index, certain = _maker(instruction, index, module)
            if instruction is None:
                break
            found = hlo_place(instruction, module)
            if found != (None, None) and (certain or (scope, source) == (None, None)):
                scope, source = found
    except HloError:  # one unreadable attribute does not take the figures away
        return None, None
    return scope, source


def _maker(
    instruction: Instruction, index: tuple[int, ...], module: HloModule
) -> tuple[Instruction | None, tuple[int, ...], bool]:
    """Where a value was made, one hop back; the last part says whether that place is the better one to name.

    Null if the instruction made it itself.
    """
    opcode = instruction.opcode
    if opcode == "parameter":
        callers = module.callers.get(instruction.computation, ())
        loop = next((caller for caller in callers if caller.opcode == "while"), None)
        return (None, (), False) if loop is None else _maker(loop, index, module)
    if opcode in ("while", "conditional", "call") and instruction.called:
        role = "body" if opcode == "while" else instruction.called[0][0]
        names = instruction.called_by_role(role)
        root = module.computation(names[0]).root if names else None
        if root is not None and root.opcode == "tuple" and index and 0 <= index[0] < len(root.operands):
            return module.operands(root)[index[0]], index[1:], True
        return (root, index, True) if opcode == "call" else (None, (), False)
    if not instruction.operands:
        return None, (), False
    if opcode == "get-tuple-element":
        return module.operands(instruction)[0], (instruction.tuple_index or 0, *index), False
    if opcode in _COPIES:
        return module.operands(instruction)[0], (), False
    return None, (), False


def _total_columns(totals: Totals) -> dict[str, int]:
    return {f"{name}_bytes": getattr(totals, name) for name in _TOTALS}


def _frame(schema: Schema, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """The rows as a table of the schema; what a row leaves out is null."""
    held = list(rows)
    columns: dict[str, Any] = {}
    for column in schema:
        values: list[Any] = [row.get(column.name) for row in held]
        columns[column.name] = pd.Series(values, dtype=column.pandas_dtype)
    return schema.check(pd.DataFrame(columns))
