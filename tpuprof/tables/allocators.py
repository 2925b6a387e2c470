"""Device memory over time, as the hosts recorded it: tables `memory_events` and `allocators`.

Allocators of GPUs and TPUs leave an instant on a host thread whenever memory is taken or given back, with what is in
use and free after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64, Events, Plane, StatKind
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.host import host_lines, step_annotations
from tpuprof.tables.schemas import ALLOCATORS, MEMORY_EVENTS

MAX_BYTES = 1 << 56  # sizes beyond are damage, and null
_EVENTS = {"MemoryAllocation": "allocate", "MemoryDeallocation": "release"}
_SIZES = {
    "bytes": "allocation_bytes",
    "requested_bytes": "requested_bytes",
    "allocated_bytes": "bytes_allocated",
    "available_bytes": "bytes_available",
    "reserved_bytes": "bytes_reserved",
    "peak_bytes": "peak_bytes_in_use",
}


def memory_events_frame(
    recordings: Sequence[Recording], origin: int, ahead_ps: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Table ``memory_events``, by host and in order of time; empty where the trace holds no such events.

    Args:
        recordings: one per host.
        origin: the trace's origin in ns.
        ahead_ps: by host how far its clock is ahead; its events are moved by that.
    """
    parts = [
        part.assign(start_ps=part["start_ps"] - (ahead_ps or {}).get(recording.host, 0))
        for recording in recordings
        for part in _host_parts(recording, origin)
    ]
    if not parts:
        return MEMORY_EVENTS.empty()
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.sort_values(["host", "start_ps"], kind="stable").reset_index(drop=True)
    return MEMORY_EVENTS.check(frame.astype({column.name: column.pandas_dtype for column in MEMORY_EVENTS}))


def allocators_frame(events: pd.DataFrame) -> pd.DataFrame:
    """Table ``allocators``, the fullest first.

    Args:
        events: table ``memory_events``.
    """
    rows = [_allocator_row(group) for _, group in events.groupby(["host", "allocator"], observed=True, sort=True)]
    if not rows:
        return ALLOCATORS.empty()
    columns: dict[str, Any] = {
        c.name: pd.Series([row[c.name] for row in rows], dtype=c.pandas_dtype) for c in ALLOCATORS
    }
    frame = pd.DataFrame(columns).sort_values("max_bytes", ascending=False, kind="stable", na_position="last")
    return ALLOCATORS.check(frame.reset_index(drop=True))


def taken_over_time(events: pd.DataFrame) -> pd.DataFrame:
    """What allocators had given away after each event: ``allocator``, ``start_ps``, ``taken_bytes``, in order of time.

    Allocators of several hosts have the host in their names, ``HOST/NAME``. Events that do not say it are left out.

    Args:
        events: table ``memory_events``.
    """
    rows: Any = events
    taken = _taken(rows)
    known = rows[taken.notna()]
    names = known["allocator"].astype(str)
    if rows["host"].nunique() > 1:
        names = known["host"].astype(str) + "/" + names
    found = pd.DataFrame({"allocator": names, "start_ps": known["start_ps"], "taken_bytes": taken.dropna()})
    return found.astype({"taken_bytes": "int64"}).sort_values("start_ps", kind="stable").reset_index(drop=True)


def _taken(events: Any) -> Any:
    """Allocated and reserved bytes: TPU runtimes reserve a program's working memory while it runs, beside the rest."""
    return events["allocated_bytes"] + events["reserved_bytes"].fillna(0)


def _allocator_row(events: Any) -> dict[str, Any]:
    """The row of one allocator from its events, in order of time."""
    taken = _taken(events)
    known = taken.dropna().astype("int64")
    fullest = events.loc[known.idxmax()] if len(known) else None
    return {
        "host": events["host"].iloc[0],
        "allocator": events["allocator"].iloc[0],
        "allocations": int((events["event"] == "allocate").sum()),
        "releases": int((events["event"] == "release").sum()),
        "first_bytes": known.iloc[0] if len(known) else None,
        "last_bytes": known.iloc[-1] if len(known) else None,
        "max_bytes": known.max() if len(known) else None,
        "max_reserved_bytes": events["reserved_bytes"].max(),
        "max_at_ps": None if fullest is None else fullest["start_ps"],
        "max_step": None if fullest is None else fullest["step"],
        "capacity_bytes": (taken + events["available_bytes"]).max(),
        "process_peak_bytes": events["peak_bytes"].max(),
        "max_fragmentation": events["fragmentation"].max(),
    }


def _host_parts(recording: Recording, origin: int) -> list[pd.DataFrame]:
    start_ns = session_start_ns(recording.space)
    marks = step_annotations(recording, origin)
    parts: list[pd.DataFrame] = []
    for plane, line in host_lines(recording):
        names = np.array([_EVENTS.get(meta.name, "") for meta in plane.event_meta] or [""], dtype=object)
        meta = line.events.meta
        rows = np.flatnonzero((meta >= 0) & (names[np.maximum(meta, 0)] != "") & (len(plane.event_meta) > 0))
        if not len(rows):
            continue
        start = line.events.offset_ps[rows] + line_base_ps(line, start_ns, origin)
        columns: dict[str, Any] = {
            "host": [recording.host] * len(rows),
            "allocator": _allocators(plane, line.events, rows),
            "event": names[meta[rows]],
            "start_ps": start,
            "step": pd.array([None] * len(rows), dtype="Int64"),
        }
        if marks is not None:
            at = np.searchsorted(marks.start, start, side="right") - 1
            columns["step"] = pd.arrays.IntegerArray(marks.number[np.maximum(at, 0)], at < 0)
        for name, stat in _SIZES.items():
            values, present = line.events.int_stat(plane.stat_row(stat))
            taken = values[rows]
            columns[name] = pd.arrays.IntegerArray(taken, ~present[rows] | (taken < 0) | (taken > MAX_BYTES))
        columns["fragmentation"] = _fragmentation(plane, line.events)[rows]
        for name, stat in (("op", "tf_op"), ("shape", "shape")):
            texts = plane.text_stat(line.events, stat)
            columns[name] = [texts[row] or None for row in ints(rows)]
        parts.append(pd.DataFrame(columns))
    return parts


def _allocators(plane: Plane, events: Events, rows: npt.NDArray[np.intp]) -> list[str]:
    """The names of the allocators; TPU runtimes give the number of the device instead."""
    names = plane.text_stat(events, "allocator_name")
    numbers, present = events.int_stat(plane.stat_row("index_on_host"))
    return [names[row] or (f"device {numbers[row]}" if present[row] else "unknown") for row in ints(rows)]


def _fragmentation(plane: Plane, events: Events) -> npt.NDArray[np.float64]:
    values = np.full(len(events), np.nan)
    owner, kinds, bits = events.find(plane.stat_row("fragmentation"))
    as_float: I64 = bits
    real = kinds == StatKind.DOUBLE
    values[owner[real]] = as_float[real].view(np.float64)
    values[owner[~real]] = as_float[~real]
    return np.where((values >= 0) & (values <= 1), values, np.nan)
