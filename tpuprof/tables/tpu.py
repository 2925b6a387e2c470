"""Rows of TPU cores: the lines ``XLA Ops``, ``Async XLA Ops``, ``XLA Modules``, ``XLA TraceMe`` and ``Steps``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I32, I64, Events, Line, Plane, StatValue
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import Times, line_base_ps, line_times, sample_shift, session_start_ns
from tpuprof.tables.host import host_lines
from tpuprof.tables.opinfo import facts_of_meta
from tpuprof.tables.programs import MASK64, split_module_name
from tpuprof.tables.rows import (
    MAX_PS,
    NO_SHIFT,
    NO_TIME,
    CoreRecord,
    Device,
    ModuleRows,
    Registry,
    Rows,
    Shift,
    StepMarks,
)
from tpuprof.tables.stated import STATED_STATS

TPU_PLANE = re.compile(r"/device:TPU:(\d+)\Z")
OPS_LINE, ASYNC_LINE, MODULES_LINE, STEPS_LINE, TRACEME_LINE = (
    "XLA Ops",
    "Async XLA Ops",
    "XLA Modules",
    "Steps",
    "XLA TraceMe",
)
# Rows of op lines that are marks of the tracer and no ops (formats: pseudo-events).
_PSEUDO = re.compile(r"(?:Trace Buffers Dropped|P state|bundle\.\d+)\Z")
# Marks that instrumentation leaves on op lines; on the TraceMe line every row is one that is neither wait nor pseudo.
_MARK = re.compile(r"(?:bundle\.\d+|trace[-_ ]?mark(?:er)?(?:[.:_ -].*)?)\Z", re.IGNORECASE)
_ENQUEUE = "DoEnqueueProgram"
_NO_PROGRAM = -(1 << 63)
_ROUNDING_PS = 2_000  # host times are rounded to the tick of the clock's mapping
BUFFERS_DROPPED = "Trace Buffers Dropped"
_BARRIER = "barrier-cores"
_WAITS = (_BARRIER, "dependency-wait")
# Facts that newer runtimes write on each event instead of on the event's metadata.
_EVENT_FACTS = ("program_id", "hlo_category", "tf_op", "source", *STATED_STATS)


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    recording: Recording
    plane: Plane
    registry: Registry
    start_ns: int | None
    origin: int
    module_names: dict[int, str]
    enqueued: dict[tuple[int, int], int]

    def base(self, line: Line) -> int:
        return line_base_ps(line, self.start_ns, self.origin)


def tpu_cores(recording: Recording, registry: Registry, origin: int) -> list[CoreRecord]:
    """The cores of one host: planes ``/device:TPU:N`` that hold at least one op."""
    start_ns = session_start_ns(recording.space)
    enqueued = _enqueue_times(recording, start_ns, origin)
    cores: list[CoreRecord] = []
    planes = [(int(m[1]), p) for p in recording.space.planes if (m := TPU_PLANE.match(p.name))]
    for ordinal, plane in sorted(planes, key=lambda pair: pair[0]):
        context = _Context(recording, plane, registry, start_ns, origin, _module_names(plane), enqueued)
        core = _core(context, ordinal)
        if core is not None:
            cores.append(core)
    return cores


def _core(context: _Context, ordinal: int) -> CoreRecord | None:
    plane = context.plane
    op_lines = [line for line in plane.lines if OPS_LINE in (line.name, line.display_name)]
    shift = NO_SHIFT
    for line in op_lines:
        shift = shift or sample_shift(plane, line.events, context.base(line))
    ops = Rows.concat(
        [_op_rows(context, line, line_times(plane, line.events, context.base(line), shift, forward=False), lane)
         for lane, line in enumerate(op_lines)]
    )  # fmt: skip
    if len(ops) == 0:
        return None
    async_lines = [line for line in plane.lines if ASYNC_LINE in (line.name, line.display_name)]
    asyncs, done = _async_rows(context, async_lines, shift, len(op_lines))
    waits, barrier = _wait_rows(context, shift)
    device = Device(
        id=f"{context.recording.host}/TPU:{ordinal}",
        host=context.recording.host,
        plane=plane.name,
        platform="tpu",
        ordinal=ordinal,
        kind=_text(plane.stats.get("device_type_string")),
        stats=dict(plane.stats),
    )
    return CoreRecord(
        device=device,
        lanes=(*(line.label for line in op_lines), *(line.label for line in async_lines)),
        sequential=True,
        ops=ops,
        asyncs=asyncs,
        async_done=done,
        barriers=waits.take(barrier),
        waits=waits,
        modules=_module_rows(context, shift),
        steps=_step_rows(context, shift),
        shift=shift,
        dropped_from=_dropped_from(context, shift),
        marks=_marks(context, op_lines, shift),
    )


def _module_names(plane: Plane) -> dict[int, str]:
    """Function names by program id, from the names of module rows."""
    names: dict[int, str] = {}
    line = plane.line(MODULES_LINE)
    for row in ints(np.unique(line.events.meta)) if line is not None else []:
        name, program_id = split_module_name(plane.event_meta[row].label)
        if program_id is not None:
            names[program_id] = name
    return names


def _op_rows(context: _Context, line: Line, times: Times, lane: int) -> Rows:
    info = _infos(context, line)
    keep = info >= 0
    rows = Rows.make(
        lane,
        info,
        times.start,
        times.duration,
        run_id=_run_ids(context.plane, line.events),
        clock=times.clock,
    )
    return rows if keep.all() else rows.take(keep)


def _infos(context: _Context, line: Line) -> I32:
    """The registry row of every event of an op line, -1 for marks that are no ops."""
    plane, registry, events = context.plane, context.registry, line.events
    on_events = {name: plane.stat_row(name) for name in _EVENT_FACTS}
    has_event_facts = any(row >= 0 and bool((events.stat_key == row).any()) for row in on_events.values())
    metas, first, inverse = np.unique(events.meta, return_index=True, return_inverse=True)
    stated = any("program_id" in plane.event_meta[row].stats for row in ints(metas))
    by_time = None if stated or on_events["program_id"] >= 0 else _programs_by_time(context, line)
    if by_time is not None or (has_event_facts and on_events["program_id"] >= 0):
        # One instruction text can occur in several programs: the program is part of the op's identity.
        program = events.int_stat(on_events["program_id"])[0] if by_time is None else by_time
        pairs = np.stack([events.meta.astype(np.int64), program], axis=1)
        unique, first, inverse = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        metas = unique[:, 0]
    rows = np.empty(len(metas), np.int32)
    for at, (meta_row, event_row) in enumerate(zip(ints(metas), ints(first), strict=True)):
        meta = plane.event_meta[meta_row]
        if _PSEUDO.match(meta.label):
            rows[at] = -1
            continue
        extra: dict[str, StatValue] = {}
        if has_event_facts:
            stats = plane.event_stats(events, event_row)
            extra = {name: stats[name] for name in _EVENT_FACTS if name in stats}
        if by_time is not None and by_time[event_row] != _NO_PROGRAM:
            extra["program_id"] = int(by_time[event_row]) & MASK64
        key = (
            meta.label,
            meta.name,
            extra.get("program_id", meta.stats.get("program_id")),
            meta.stats.get("tf_op"),
        )
        found = registry.row(key)
        if found is None:
            found = registry.add(key, facts_of_meta(meta, context.module_names, extra))
        rows[at] = found
    return rows[inverse.reshape(-1)]


def _programs_by_time(context: _Context, line: Line) -> I64 | None:
    """For each event the program of the module row that it lies in, as signed ids; null without module rows.

    A trace.json does not say to which program an op belongs. Both rows are on the host's clock there.
    """
    modules = context.plane.line(MODULES_LINE)
    if modules is None or not len(modules.events):
        return None
    order = np.argsort(modules.events.offset_ps, kind="stable")
    start = modules.events.offset_ps[order] + context.base(modules)
    end = start + np.maximum(modules.events.duration_ps[order], 0)
    names = [split_module_name(context.plane.event_meta[row].label)[1] for row in ints(modules.events.meta[order])]
    ids = np.array([_NO_PROGRAM if n is None else n - (1 << 64) if n >= 1 << 63 else n for n in names], np.int64)
    time = line.events.offset_ps + context.base(line)
    at = np.maximum(np.searchsorted(start, time + _ROUNDING_PS, side="right") - 1, 0)
    inside = (time + _ROUNDING_PS >= start[at]) & (time < end[at] + _ROUNDING_PS)
    return np.where(inside, ids[at], _NO_PROGRAM)


def _run_ids(plane: Plane, events: Events) -> I64:
    values, present = events.int_stat(plane.stat_row("run_id"), missing=-1)
    return np.where(present, values, -1)


def _async_rows(
    context: _Context, lines: list[Line], shift: Shift, first_lane: int
) -> tuple[Rows, tuple[str | None, ...]]:
    parts: list[Rows] = []
    done: list[list[str | None]] = []
    for lane, line in enumerate(lines, first_lane):
        times = line_times(context.plane, line.events, context.base(line), shift, forward=False)
        rows = _op_rows(context, line, times, lane)
        if len(rows) != len(line.events):
            continue  # marks only occur on op lines; a mixed line is not understood
        order = np.lexsort((-rows.duration, rows.start))
        names = context.plane.text_stat(line.events, "hlo_op")
        parts.append(rows.take(order))
        done.append([names[i] for i in ints(order)])
    if not parts:
        return Rows.empty(), ()
    if len(parts) == 1:
        return parts[0], tuple(done[0])
    start = np.concatenate([p.start for p in parts])
    duration = np.concatenate([p.duration for p in parts])
    flat = [name for names in done for name in names]
    return Rows.concat(parts), tuple(flat[i] for i in ints(np.lexsort((-duration, start))))


def _wait_rows(context: _Context, shift: Shift) -> tuple[Rows, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Waits of the TraceMe line, and which of them wait for peers."""
    line = context.plane.line(TRACEME_LINE)
    if line is None or not len(line.events):
        return Rows.empty(), np.zeros(0, np.bool_)
    labels = np.array([meta.label for meta in context.plane.event_meta], dtype=object)[line.events.meta]
    wanted = np.isin(labels.astype(str), _WAITS)
    times = line_times(context.plane, line.events, context.base(line), shift, forward=True)
    rows = Rows.make(0, np.full(len(line.events), -1, np.int32), times.start, times.duration, clock=times.clock)
    barrier = labels == _BARRIER
    order = np.lexsort((-rows.duration, rows.start))
    order = order[wanted[order] & rows.valid[order]]
    return rows.take(order), barrier[order].astype(np.bool_)


def _module_rows(context: _Context, shift: Shift) -> ModuleRows:
    line = context.plane.line(MODULES_LINE)
    if line is None or not len(line.events):
        return ModuleRows.empty()
    events = line.events
    times = line_times(context.plane, events, context.base(line), shift, forward=True)
    names = [split_module_name(context.plane.event_meta[row].label) for row in ints(events.meta)]
    order = np.argsort(times.start, kind="stable")
    order = order[(times.duration[order] >= 0) & (times.duration[order] < MAX_PS)]
    return ModuleRows(
        name=tuple(names[i][0] for i in ints(order)),
        program_id=tuple(names[i][1] for i in ints(order)),
        start=times.start[order],
        end=(times.start + times.duration)[order],
        run_id=_run_ids(context.plane, events)[order],
        launch=_launched(context, events)[order],
        host_start=(events.offset_ps + context.base(line))[order],
        clock=times.clock[order],
    )


def _launched(context: _Context, events: Events) -> I64:
    """For each module row when the host enqueued it: its consumer link names the host event's producer link."""
    kind, _ = events.int_stat(context.plane.stat_row("_ct"))
    link, present = events.int_stat(context.plane.stat_row("_c"))
    result = np.full(len(events), NO_TIME, np.int64)
    for row in ints(np.flatnonzero(present)):
        result[row] = context.enqueued.get((int(kind[row]), int(link[row])), NO_TIME)
    return result


def _enqueue_times(recording: Recording, start_ns: int | None, origin: int) -> dict[tuple[int, int], int]:
    """Starts of the host's enqueue calls by (link type, link), on the host's clock."""
    found: dict[tuple[int, int], int] = {}
    for plane, line in host_lines(recording):
        rows = [row for row, meta in enumerate(plane.event_meta) if meta.label == _ENQUEUE]
        at = np.flatnonzero(np.isin(line.events.meta, rows)) if rows else np.zeros(0, np.intp)
        if not len(at):
            continue
        kind, _ = line.events.int_stat(plane.stat_row("_pt"))
        link, present = line.events.int_stat(plane.stat_row("_p"))
        base = line_base_ps(line, start_ns, origin)
        for row in ints(at[present[at]]):
            found[int(kind[row]), int(link[row])] = int(line.events.offset_ps[row]) + base
    return found


def _step_rows(context: _Context, shift: Shift) -> StepMarks | None:
    line = context.plane.line(STEPS_LINE)
    if line is None or not len(line.events):
        return None
    times = line_times(context.plane, line.events, context.base(line), shift, forward=True)
    numbers: list[int] = []
    rows: list[int] = []
    for row, meta_row in enumerate(ints(line.events.meta)):
        label = context.plane.event_meta[meta_row].label.strip()
        if re.fullmatch(r"-?[0-9]{1,18}", label) and 0 <= times.duration[row] < MAX_PS:
            numbers.append(int(label))
            rows.append(row)
    order = np.argsort(times.start[rows], kind="stable")
    index = np.array(rows, np.intp)[order]
    start = times.start[index]
    return StepMarks(
        np.array(numbers, np.int64)[order], start, start + times.duration[index], len(line.events) - len(index)
    )


def _dropped_from(context: _Context, shift: Shift) -> int | None:
    """When the tracer says that it began to drop buffers, null if it did not."""
    rows = {row for row, meta in enumerate(context.plane.event_meta) if meta.label == BUFFERS_DROPPED}
    starts: list[int] = []
    for line in context.plane.lines if rows else ():
        hit = np.isin(line.events.meta, list(rows))
        if hit.any():
            times = line_times(context.plane, line.events, context.base(line), shift, forward=False)
            starts.append(int(times.start[hit].min()))
    return min(starts) if starts else None


def _marks(context: _Context, op_lines: list[Line], shift: Shift) -> I64 | None:
    """When the tracer's marks lie, which scopes inside kernels and traced bundles leave; null without any."""
    labels = [meta.label for meta in context.plane.event_meta]
    on_ops = [row for row, label in enumerate(labels) if _MARK.match(label)]
    no_marks = (*_WAITS, BUFFERS_DROPPED, "P state", "")
    on_traceme = [row for row, label in enumerate(labels) if label not in no_marks]
    found: list[I64] = []
    for line in context.plane.lines:
        wanted = on_traceme if TRACEME_LINE in (line.name, line.display_name) else on_ops if line in op_lines else []
        hit = np.isin(line.events.meta, wanted) if wanted else np.zeros(0, np.bool_)
        if hit.any():
            times = line_times(context.plane, line.events, context.base(line), shift, forward=line not in op_lines)
            found.append(times.start[hit])
    return np.sort(np.concatenate(found)) if found else None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace") or None
    return str(value) if value not in (None, "") else None
