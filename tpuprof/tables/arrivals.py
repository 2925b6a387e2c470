"""Table ``arrivals``: when each core came to each collective, and which one kept the others waiting."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tpuprof.tables import schemas
from tpuprof.tables.build import Built, Core
from tpuprof.tables.columns import by_info, cat, devices, masked
from tpuprof.tables.rows import NO_TIME
from tpuprof.tables.sweep import BOOL

MIN_STEPS = 3  # with fewer steps there is no steady state that a first one could differ from


def arrivals(built: Built) -> pd.DataFrame:
    """One row per collective and core whose arrival can be compared with that of another core.

    Of the cores of a group the last one is late, by how much earlier the group could have begun without it; all
    others have ``late_ps`` 0, so that sums over steps tell how much a core costs the others. ``transient`` marks
    what belongs to the start of the capture and not to the steady state.
    """
    keep = [core.waits.compared > 1 for core in built.cores]
    pairs = list(zip(built.cores, keep, strict=True))
    info = cat([core.windows.info[core.windows.is_collective][rows] for core, rows in pairs], np.int32)
    start = [core.windows.start[core.windows.is_collective][rows] for core, rows in pairs]
    at = [np.searchsorted(core.steps.start, s, side="right") - 1 for (core, _), s in zip(pairs, start, strict=True)]
    inside = [
        (a >= 0) & (s < core.steps.end[np.maximum(a, 0)]) if len(core.steps) else np.zeros(len(a), np.bool_)
        for (core, _), a, s in zip(pairs, at, start, strict=True)
    ]
    steps = [
        core.steps.number[np.maximum(a, 0)] if len(core.steps) else np.zeros(len(a), np.int64)
        for (core, _), a in zip(pairs, at, strict=True)
    ]
    wait = cat([core.waits.wait[rows] for core, rows in pairs])
    frame = pd.DataFrame(
        {
            "device": devices(built, [int(rows.sum()) for rows in keep]),
            "step": masked(cat(steps), ~cat(inside, np.bool_)),
            "op": by_info(info, built.infos, lambda i: i.name),
            "arrival_ps": cat([core.waits.arrival[rows] for core, rows in pairs]),
            "late_ps": cat([core.waits.late[rows] for core, rows in pairs]),
            "wait_ps": masked(wait, wait == NO_TIME),
            "group_size": cat([core.waits.compared[rows] for core, rows in pairs], np.int32),
            "transient": cat([_transient(core, a) for (core, _), a in zip(pairs, at, strict=True)], np.bool_),
        }
    )
    return schemas.ARRIVALS.check(frame)


def _transient(core: Core, at: np.ndarray[tuple[int], np.dtype[np.intp]]) -> BOOL:
    """What lies in the first step of the capture or before it: hosts start their profilers one after the other."""
    if len(core.steps) < MIN_STEPS:
        return np.zeros(len(at), np.bool_)
    return at < 1
