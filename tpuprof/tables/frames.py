"""The public tables as DataFrames, each checked against its schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64
from tpuprof.tables import schemas
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Built, Core
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.host import host_lines
from tpuprof.tables.rows import MAX_PS, OpInfo
from tpuprof.tables.sweep import overlap, union
from tpuprof.tables.windows import FORMS


def ops_frame(built: Built) -> pd.DataFrame:
    """Table ``ops``: one row per occurrence of a leaf op on a core."""
    keep = [np.flatnonzero(core.levels >= 0) for core in built.cores]
    info = _cat([core.record.ops.info[rows] for core, rows in zip(built.cores, keep, strict=True)])
    infos = built.infos
    lanes, lane = _lanes(built.cores, keep)
    valid = _cat([c.record.ops.valid[rows] for c, rows in zip(built.cores, keep, strict=True)], np.bool_)
    run = _cat([c.runs.of_op[rows] for c, rows in zip(built.cores, keep, strict=True)])
    module = _module_codes(built, keep)
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(rows) for rows in keep]),
            "line": _categorical(lane, lanes),
            "op": _by_info(info, infos, lambda i: i.name),
            "kind": _by_info(info, infos, lambda i: i.cls.kind),
            "kind_source": _by_info(info, infos, lambda i: i.cls.source),
            "detail": _by_info(info, infos, lambda i: i.cls.detail or None),
            "category": _by_info(info, infos, lambda i: i.category),
            "module": module,
            "scope": _by_info(info, infos, lambda i: i.scope),
            "source": _by_info(info, infos, lambda i: i.source),
            "run": _masked(run.astype(np.int32), run < 0),
            "step": _masked(*_steps_of(built, keep)),
            "start_ps": _cat([c.record.ops.start[rows] for c, rows in zip(built.cores, keep, strict=True)]),
            "duration_ps": _masked(
                _cat([c.record.ops.duration[r] for c, r in zip(built.cores, keep, strict=True)]), ~valid
            ),
            "self_ps": _masked(_cat([c.nesting.self_ps[r] for c, r in zip(built.cores, keep, strict=True)]), ~valid),
            "clock": _categorical(
                _cat([c.record.ops.clock[rows] for c, rows in zip(built.cores, keep, strict=True)]).astype(np.int8),
                list(schemas.CLOCKS),
            ),
        },
        copy=False,
    )
    return schemas.OPS.check(frame)


def modules_frame(built: Built) -> pd.DataFrame:
    """Table ``modules``: one row per execution of a program on a core."""
    modules = [core.runs.modules for core in built.cores]
    labels = [m.label(row) for m in modules for row in range(len(m))]
    run_id = _cat([m.run_id for m in modules])
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(m) for m in modules]),
            "run": _cat([np.arange(len(m), dtype=np.int32) for m in modules]).astype(np.int32),
            "module": _texts(labels),
            "start_ps": _cat([m.start for m in modules]),
            "duration_ps": _cat([m.end - m.start for m in modules]),
            "run_id": _masked(run_id, run_id == -1),
            "clock": _categorical(_cat([m.clock for m in modules]).astype(np.int8), list(schemas.CLOCKS)),
        }
    )
    return schemas.MODULES.check(frame)


def steps_frame(built: Built) -> pd.DataFrame:
    """Table ``steps``: one row per step and core; without a step source one pseudo-step per core."""
    steps = [core.steps for core in built.cores]
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(s) for s in steps]),
            "step": _cat([s.number for s in steps]),
            "start_ps": _cat([s.start for s in steps]),
            "duration_ps": _cat([s.end - s.start for s in steps]),
            "complete": _cat([s.complete for s in steps], np.bool_),
            "closed": _cat([s.closed for s in steps], np.bool_),
            "matched": _cat([s.matched for s in steps], np.bool_),
            "counted": _cat([s.counted for s in steps], np.bool_),
        }
    )
    return schemas.STEPS.check(frame)


def partition_frame(built: Built) -> pd.DataFrame:
    """Table ``partition``: one row per step and core, parts in ps."""
    cores = built.cores
    width = len(schemas.PARTS)
    parts = np.concatenate([c.partition.parts for c in cores]) if cores else np.zeros((0, width), np.int64)
    causes = np.concatenate([c.partition.idle_causes for c in cores]) if cores else np.zeros((0, 10), np.int64)
    compared = np.repeat([c.clocks.reason is None for c in cores], [len(c.steps) for c in cores]).astype(np.bool_)
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(c.steps) for c in cores]),
            "step": _cat([c.steps.number for c in cores]),
            "start_ps": _cat([c.steps.start for c in cores]),
            "duration_ps": _cat([c.steps.end - c.steps.start for c in cores]),
            **{f"{part}_ps": np.ascontiguousarray(parts[:, at]) for at, part in enumerate(schemas.PARTS)},
            "hidden_collective_ps": _cat([c.partition.hidden_collective for c in cores]),
            "hidden_dma_ps": _cat([c.partition.hidden_dma for c in cores]),
            **{
                f"idle_{cause}_ps": _masked(
                    np.ascontiguousarray(causes[:, at]), ~compared & (cause not in schemas.DEVICE_IDLE_CAUSES)
                )
                for at, cause in enumerate(schemas.IDLE_CAUSES)
            },
        }
    )
    return schemas.PARTITION.check(frame)


def gaps_frame(built: Built) -> pd.DataFrame:
    """Table ``gaps``: one row per idle stretch of a core inside a step."""
    before: list[npt.NDArray[np.int32]] = []
    after: list[npt.NDArray[np.int32]] = []
    for core in built.cores:
        gaps, ops = core.partition.gaps, core.record.ops
        leaf = np.flatnonzero((core.levels >= 0) & (ops.duration > 0))
        by_end = leaf[np.argsort(ops.end[leaf], kind="stable")]
        last = np.searchsorted(ops.end[by_end], gaps.start, side="right") - 1
        following = np.searchsorted(ops.start[leaf], gaps.end, side="left")
        before.append(_pick(ops.info, by_end, last))
        after.append(_pick(ops.info, leaf, following))
    gaps_of = [core.partition.gaps for core in built.cores]
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(g) for g in gaps_of]),
            "step": _cat([c.steps.number[c.partition.gaps.step] for c in built.cores]),
            "start_ps": _cat([g.start for g in gaps_of]),
            "duration_ps": _cat([g.end - g.start for g in gaps_of]),
            "before_op": _by_info(_cat(before), built.infos, lambda i: i.name),
            "after_op": _by_info(_cat(after), built.infos, lambda i: i.name),
            "inside_run": _cat([g.inside_run for g in gaps_of], np.bool_),
        }
    )
    return schemas.GAPS.check(frame)


def collectives_frame(built: Built) -> pd.DataFrame:
    """Table ``collectives``: one row per occurrence of a collective on a core."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("info", "form", "start", "window", "hidden", "step", "no_step")
    }
    for core in built.cores:
        w = core.windows
        mask = w.is_collective
        spans = w.spans(mask)
        hidden = overlap(spans, union(core.partition.compute))
        at = np.searchsorted(core.steps.start, spans.start, side="right") - 1
        inside = (
            (at >= 0) & (spans.start < core.steps.end[np.maximum(at, 0)])
            if len(core.steps)
            else np.zeros(len(at), np.bool_)
        )
        columns["info"].append(w.info[mask])
        columns["form"].append(w.form[mask])
        columns["start"].append(spans.start)
        columns["window"].append(spans.end - spans.start)
        columns["hidden"].append(hidden)
        columns["step"].append(core.steps.number[np.maximum(at, 0)] if len(core.steps) else np.zeros(len(at), np.int64))
        columns["no_step"].append(~inside)
    info = _cat(columns["info"])
    form, window, hidden = _cat(columns["form"]), _cat(columns["window"]), _cat(columns["hidden"])
    half = (form == FORMS.index("start_only")) | (form == FORMS.index("done_only"))
    infos = built.infos
    members = (
        np.array([_participants(i) for i in infos] or [-1], np.int32)[info] if len(info) else np.zeros(0, np.int32)
    )
    volume = np.array([_full_bytes(i) for i in infos] or [-1], np.int64)[info] if len(info) else np.zeros(0, np.int64)
    frame = pd.DataFrame(
        {
            "device": _devices(built, [len(x) for x in columns["info"]]),
            "op": _by_info(info, infos, lambda i: i.name),
            "kind": _by_info(info, infos, lambda i: i.cls.collective or "unknown"),
            "form": _categorical(form.astype(np.int8), list(FORMS)),
            "module": _by_info(info, infos, lambda i: i.module),
            "scope": _by_info(info, infos, lambda i: i.scope),
            "source": _by_info(info, infos, lambda i: i.source),
            "step": _masked(_cat(columns["step"]), _cat(columns["no_step"], np.bool_)),
            "start_ps": _cat(columns["start"]),
            "window_ps": _masked(window, half),
            "exposed_ps": _masked(window - hidden, half),
            "hidden_ps": _masked(hidden, half),
            "participants": _masked(members, members < 0),
            "bytes": _masked(volume, volume < 0),
        }
    )
    return schemas.COLLECTIVES.check(frame)


def host_events_frame(recordings: Sequence[Recording], origin: int) -> pd.DataFrame:
    """Table ``host_events``: events of the host's threads that take time."""
    host: list[str] = []
    sizes: list[int] = []
    names: dict[str, int] = {}
    threads: dict[str, int] = {}
    columns: dict[str, list[Any]] = {k: [] for k in ("thread", "name", "start", "duration", "bad", "step", "no_step")}
    for recording in recordings:
        start_ns = session_start_ns(recording.space)
        for plane, line in host_lines(recording):
            events = line.events
            rows = np.flatnonzero(events.duration_ps != 0)
            codes = np.array([names.setdefault(m.label, len(names)) for m in plane.event_meta] or [0], np.int32)
            number, present = events.int_stat(plane.stat_row("step_num"))
            duration = events.duration_ps[rows]
            bad = (duration < 0) | (duration >= MAX_PS)
            host.append(recording.host)
            sizes.append(len(rows))
            columns["thread"].append(np.full(len(rows), threads.setdefault(line.label, len(threads)), np.int32))
            columns["name"].append(codes[events.meta[rows]])
            columns["start"].append(events.offset_ps[rows] + line_base_ps(line, start_ns, origin))
            columns["duration"].append(np.where(bad, 0, duration))
            columns["bad"].append(bad)
            columns["step"].append(number[rows])
            columns["no_step"].append(~present[rows])
    host_names = sorted(set(host))
    codes = np.repeat(np.array([host_names.index(h) for h in host], np.int32), sizes) if host else np.zeros(0, np.int32)
    frame = pd.DataFrame(
        {
            "host": _categorical(codes, host_names),
            "thread": _categorical(_cat(columns["thread"], np.int32), list(threads)),
            "name": _categorical(_cat(columns["name"], np.int32), list(names)),
            "start_ps": _cat(columns["start"]),
            "duration_ps": _masked(_cat(columns["duration"]), _cat(columns["bad"], np.bool_)),
            "step": _masked(_cat(columns["step"]), _cat(columns["no_step"], np.bool_)),
        }
    )
    return schemas.HOST_EVENTS.check(frame)


def events_frame(recordings: Sequence[Recording], origin: int) -> pd.DataFrame:
    """Table ``events``: every event of every line, as recorded (no clock is corrected)."""
    parts: list[pd.DataFrame] = []
    for recording in recordings:
        start_ns = session_start_ns(recording.space)
        for plane, line in recording.space.lines():
            duration = line.events.duration_ps
            bad = (duration < 0) | (duration >= MAX_PS)
            labels = pd.Index([meta.label for meta in plane.event_meta] or [""], dtype="str")
            parts.append(
                pd.DataFrame(
                    {
                        "host": recording.host,
                        "plane": plane.name,
                        "line": line.label,
                        "name": labels.take(line.events.meta),
                        "start_ps": line.events.offset_ps + line_base_ps(line, start_ns, origin),
                        "duration_ps": _masked(np.where(bad, 0, duration), bad),
                    }
                )
            )
    if not parts:
        return schemas.EVENTS.empty()
    frame = pd.concat(parts, ignore_index=True)
    for name in ("host", "plane", "line", "name"):
        frame[name] = frame[name].astype("category")
    return schemas.EVENTS.check(frame)


def _cat(parts: Sequence[Any], dtype: Any = np.int64) -> npt.NDArray[Any]:
    return np.concatenate(parts) if len(parts) else np.zeros(0, dtype)


def _devices(built: Built, sizes: Sequence[int]) -> Any:
    codes = np.repeat(np.arange(len(built.cores), dtype=np.int32), list(sizes))
    return _categorical(codes, [c.record.device.id for c in built.cores])


def _by_info(info: npt.NDArray[Any], infos: Sequence[OpInfo], of: Callable[[OpInfo], str | None]) -> Any:
    """A text column that depends on the op alone; the categories are the distinct texts in use."""
    used = np.unique(info[info >= 0]) if len(info) else np.zeros(0, np.int64)
    codes: dict[str, int] = {}
    table = np.full(len(infos) + 1, -1, np.int32)
    for row in ints(used):
        text = of(infos[row])
        if text is not None:
            table[row] = codes.setdefault(str(text), len(codes))
    return _categorical(table[info], list(codes))


def _lanes(cores: Sequence[Core], keep: Sequence[npt.NDArray[np.intp]]) -> tuple[list[str], npt.NDArray[np.int32]]:
    names: dict[str, int] = {}
    parts: list[npt.NDArray[np.int32]] = []
    for core, rows in zip(cores, keep, strict=True):
        table = np.array([names.setdefault(lane, len(names)) for lane in core.record.lanes] or [0], np.int32)
        parts.append(table[core.record.ops.lane[rows]])
    return list(names), _cat(parts, np.int32)


def _module_codes(built: Built, keep: Sequence[npt.NDArray[np.intp]]) -> Any:
    """The op's own program; where the trace does not state it, the program of the run that it lies in."""
    names: dict[str, int] = {}
    own = np.full(len(built.infos) + 1, -1, np.int32)
    for row, info in enumerate(built.infos):
        if info.module is not None:
            own[row] = names.setdefault(info.module, len(names))
    parts: list[npt.NDArray[np.int32]] = []
    for core, rows in zip(built.cores, keep, strict=True):
        codes = own[core.record.ops.info[rows]]
        modules = core.runs.modules
        if len(modules) and bool((codes < 0).any()):
            labels = np.array([names.setdefault(modules.label(r), len(names)) for r in range(len(modules))], np.int32)
            run = core.runs.of_op[rows]
            codes = np.where((codes < 0) & (run >= 0), labels[np.maximum(run, 0)], codes)
        parts.append(codes)
    return _categorical(_cat(parts, np.int32), list(names))


def _steps_of(built: Built, keep: Sequence[npt.NDArray[np.intp]]) -> tuple[I64, npt.NDArray[np.bool_]]:
    """The number of the step in whose window each op starts, and where there is none."""
    numbers: list[I64] = []
    missing: list[npt.NDArray[np.bool_]] = []
    for core, rows in zip(built.cores, keep, strict=True):
        start, steps = core.record.ops.start[rows], core.steps
        if not len(steps) or built.steps.source == "none":
            numbers.append(np.zeros(len(rows), np.int64))
            missing.append(np.ones(len(rows), np.bool_))
            continue
        at = np.searchsorted(steps.start, start, side="right") - 1
        inside = (at >= 0) & (start < steps.end[np.maximum(at, 0)])
        numbers.append(np.where(inside, steps.number[np.maximum(at, 0)], 0))
        missing.append(~inside)
    return _cat(numbers), _cat(missing, np.bool_)


def _pick(info: npt.NDArray[np.int32], rows: npt.NDArray[np.intp], at: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    inside = (at >= 0) & (at < len(rows))
    if not len(rows):
        return np.full(len(at), -1, np.int32)
    return np.where(inside, info[rows[np.clip(at, 0, len(rows) - 1)]], -1).astype(np.int32)


def _categorical(codes: npt.NDArray[Any], categories: Sequence[str]) -> Any:
    """A categorical text column; code -1 is null."""
    make: Any = pd.Categorical.from_codes
    return make(codes, pd.Index(list(categories), dtype="str"))


def _texts(values: Sequence[str]) -> Any:
    codes: dict[str, int] = {}
    return _categorical(np.array([codes.setdefault(v, len(codes)) for v in values], np.int32), list(codes))


def _masked(values: npt.NDArray[Any], null: npt.NDArray[np.bool_]) -> Any:
    """A nullable integer column."""
    if values.dtype == np.int32:
        return pd.arrays.IntegerArray(values, null.copy())
    return pd.arrays.IntegerArray(values.astype(np.int64, copy=False), null.copy())


def _participants(info: OpInfo) -> int:
    instruction = info.instruction
    if instruction is None or instruction.replica_groups is None:
        return -1
    size = instruction.replica_groups.group_size
    if size:
        return int(size)
    return info.program.num_partitions * info.program.replica_count if info.program is not None else -1


def _full_bytes(info: OpInfo) -> int:
    """The full, gathered size: the larger of a collective's operands and result."""
    instruction = info.instruction
    if instruction is None or info.cls.collective is None or instruction.opcode == "fusion":
        return -1
    shape = instruction.shape
    if info.cls.phase != "sync":
        return -1
    result = shape.byte_size
    if result is None:
        return -1
    size = _participants(info)
    if info.cls.collective == "reduce_scatter":
        return int(result) * size if size > 0 else -1
    return int(result)
