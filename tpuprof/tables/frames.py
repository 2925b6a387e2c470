"""The public tables as DataFrames, each checked against its schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I32, I64
from tpuprof.tables import schemas
from tpuprof.tables.build import Built, Core
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.columns import by_info, cat, categorical, devices, masked
from tpuprof.tables.host import host_lines
from tpuprof.tables.rows import MAX_PS


def ops_frame(built: Built) -> pd.DataFrame:
    """Table ``ops``: one row per occurrence of a leaf op on a core."""
    keep = [np.flatnonzero(core.levels >= 0) for core in built.cores]
    info = cat([core.record.ops.info[rows] for core, rows in zip(built.cores, keep, strict=True)])
    infos = built.infos
    lanes, lane = _lanes(built.cores, keep)
    valid = cat([c.record.ops.valid[rows] for c, rows in zip(built.cores, keep, strict=True)], np.bool_)
    run = cat([c.runs.of_op[rows] for c, rows in zip(built.cores, keep, strict=True)])
    module = _module_codes(built, keep)
    frame = pd.DataFrame(
        {
            "device": devices(built, [len(rows) for rows in keep]),
            "line": categorical(lane, lanes),
            "op": by_info(info, infos, lambda i: i.name),
            "kind": by_info(info, infos, lambda i: i.cls.kind),
            "kind_source": by_info(info, infos, lambda i: i.cls.source),
            "detail": by_info(info, infos, lambda i: i.cls.detail or None),
            "category": by_info(info, infos, lambda i: i.category),
            "module": module,
            "scope": by_info(info, infos, lambda i: i.scope),
            "source": by_info(info, infos, lambda i: i.source),
            "run": masked(run.astype(np.int32), run < 0),
            "step": masked(*_steps_of(built, keep)),
            "start_ps": cat([c.record.ops.start[rows] for c, rows in zip(built.cores, keep, strict=True)]),
            "duration_ps": masked(
                cat([c.record.ops.duration[r] for c, r in zip(built.cores, keep, strict=True)]), ~valid
            ),
            "self_ps": masked(cat([c.nesting.self_ps[r] for c, r in zip(built.cores, keep, strict=True)]), ~valid),
            "clock": categorical(
                cat([c.record.ops.clock[rows] for c, rows in zip(built.cores, keep, strict=True)]).astype(np.int8),
                list(schemas.CLOCKS),
            ),
        },
        copy=False,
    )
    return schemas.OPS.check(frame)


def op_rows(built: Built, steps: Collection[int] | None = None) -> I32:
    """For each row of table ``ops`` the row of ``built.infos``; only those of some steps if these are given."""
    keep = [np.flatnonzero(core.levels >= 0) for core in built.cores]
    info = cat([core.record.ops.info[rows] for core, rows in zip(built.cores, keep, strict=True)], np.int32)
    if steps is None:
        return info
    number, missing = _steps_of(built, keep)
    return info[np.isin(number, list(steps)) & ~missing]


def modules_frame(built: Built) -> pd.DataFrame:
    """Table ``modules``: one row per execution of a program on a core."""
    modules = [core.runs.modules for core in built.cores]
    labels = [m.label(row) for m in modules for row in range(len(m))]
    run_id = cat([m.run_id for m in modules])
    frame = pd.DataFrame(
        {
            "device": devices(built, [len(m) for m in modules]),
            "run": cat([np.arange(len(m), dtype=np.int32) for m in modules]).astype(np.int32),
            "module": _texts(labels),
            "start_ps": cat([m.start for m in modules]),
            "duration_ps": cat([m.end - m.start for m in modules]),
            "run_id": masked(run_id, run_id == -1),
            "clock": categorical(cat([m.clock for m in modules]).astype(np.int8), list(schemas.CLOCKS)),
        }
    )
    return schemas.MODULES.check(frame)


def steps_frame(built: Built) -> pd.DataFrame:
    """Table ``steps``: one row per step and core; without a step source one pseudo-step per core."""
    steps = [core.steps for core in built.cores]
    frame = pd.DataFrame(
        {
            "device": devices(built, [len(s) for s in steps]),
            "step": cat([s.number for s in steps]),
            "start_ps": cat([s.start for s in steps]),
            "duration_ps": cat([s.end - s.start for s in steps]),
            "complete": cat([s.complete for s in steps], np.bool_),
            "closed": cat([s.closed for s in steps], np.bool_),
            "matched": cat([s.matched for s in steps], np.bool_),
            "transient": np.isin(cat([s.number for s in steps]), built.steps.transient),
            "counted": cat([s.counted for s in steps], np.bool_),
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
            "device": devices(built, [len(c.steps) for c in cores]),
            "step": cat([c.steps.number for c in cores]),
            "start_ps": cat([c.steps.start for c in cores]),
            "duration_ps": cat([c.steps.end - c.steps.start for c in cores]),
            **{f"{part}_ps": np.ascontiguousarray(parts[:, at]) for at, part in enumerate(schemas.PARTS)},
            "hidden_collective_ps": cat([c.partition.hidden_collective for c in cores]),
            "hidden_dma_ps": cat([c.partition.hidden_dma for c in cores]),
            **{
                f"idle_{cause}_ps": masked(
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
            "device": devices(built, [len(g) for g in gaps_of]),
            "step": cat([c.steps.number[c.partition.gaps.step] for c in built.cores]),
            "start_ps": cat([g.start for g in gaps_of]),
            "duration_ps": cat([g.end - g.start for g in gaps_of]),
            "before_op": by_info(cat(before), built.infos, lambda i: i.name),
            "after_op": by_info(cat(after), built.infos, lambda i: i.name),
            "inside_run": cat([g.inside_run for g in gaps_of], np.bool_),
        }
    )
    return schemas.GAPS.check(frame)


def host_events_frame(
    recordings: Iterable[Recording], origin: int, ahead_ps: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Table ``host_events``: events of the host's threads that take time.

    Args:
        recordings: one per host.
        origin: the trace's origin, in ns since the epoch.
        ahead_ps: by host how far its clock is ahead; its events are moved by that.
    """
    host: list[str] = []
    sizes: list[int] = []
    names: dict[str, int] = {}
    threads: dict[str, int] = {}
    columns: dict[str, list[Any]] = {k: [] for k in ("thread", "name", "start", "duration", "bad", "step", "no_step")}
    for recording in recordings:
        start_ns = session_start_ns(recording.space)
        ahead = (ahead_ps or {}).get(recording.host, 0)
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
            columns["start"].append(events.offset_ps[rows] + line_base_ps(line, start_ns, origin) - ahead)
            columns["duration"].append(np.where(bad, 0, duration))
            columns["bad"].append(bad)
            columns["step"].append(number[rows])
            columns["no_step"].append(~present[rows])
    host_names = sorted(set(host))
    codes = np.repeat(np.array([host_names.index(h) for h in host], np.int32), sizes) if host else np.zeros(0, np.int32)
    frame = pd.DataFrame(
        {
            "host": categorical(codes, host_names),
            "thread": categorical(cat(columns["thread"], np.int32), list(threads)),
            "name": categorical(cat(columns["name"], np.int32), list(names)),
            "start_ps": cat(columns["start"]),
            "duration_ps": masked(cat(columns["duration"]), cat(columns["bad"], np.bool_)),
            "step": masked(cat(columns["step"]), cat(columns["no_step"], np.bool_)),
        }
    )
    return schemas.HOST_EVENTS.check(frame)


def events_frame(recordings: Iterable[Recording], origin: int) -> pd.DataFrame:
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
                        "duration_ps": masked(np.where(bad, 0, duration), bad),
                    }
                )
            )
    if not parts:
        return schemas.EVENTS.empty()
    frame = pd.concat(parts, ignore_index=True)
    for name in ("host", "plane", "line", "name"):
        frame[name] = frame[name].astype("category")
    return schemas.EVENTS.check(frame)


def _lanes(cores: Sequence[Core], keep: Sequence[npt.NDArray[np.intp]]) -> tuple[list[str], npt.NDArray[np.int32]]:
    names: dict[str, int] = {}
    parts: list[npt.NDArray[np.int32]] = []
    for core, rows in zip(cores, keep, strict=True):
        table = np.array([names.setdefault(lane, len(names)) for lane in core.record.lanes] or [0], np.int32)
        parts.append(table[core.record.ops.lane[rows]])
    return list(names), cat(parts, np.int32)


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
    return categorical(cat(parts, np.int32), list(names))


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
    return cat(numbers), cat(missing, np.bool_)


def _pick(info: npt.NDArray[np.int32], rows: npt.NDArray[np.intp], at: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    inside = (at >= 0) & (at < len(rows))
    if not len(rows):
        return np.full(len(at), -1, np.int32)
    return np.where(inside, info[rows[np.clip(at, 0, len(rows) - 1)]], -1).astype(np.int32)


def _texts(values: Sequence[str]) -> Any:
    codes: dict[str, int] = {}
    return categorical(np.array([codes.setdefault(v, len(codes)) for v in values], np.int32), list(codes))
