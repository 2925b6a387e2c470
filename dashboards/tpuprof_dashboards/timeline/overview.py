"""How busy the devices are over the whole run, as a strip of a few hundred numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof_dashboards.timeline.lod import cut, level_for
from tpuprof_dashboards.timeline.model import TimelineModel
from tpuprof_dashboards.timeline.rows import Row

BUCKETS = 480
MAX_DEVICES = 16  # those of a pod beyond say the same


def overview(model: TimelineModel) -> npt.NDArray[np.float64]:
    """The share of time in which ops run, the mean over devices, for ``BUCKETS`` equal stretches of the run."""
    edges = np.linspace(model.start, model.end, BUCKETS + 1)
    rows = [track.rows[0] for group in model.groups if group.device for track in group.tracks if track.is_work]
    rows = rows[:MAX_DEVICES]
    if not rows:
        return np.zeros(BUCKETS)
    width = (model.end - model.start) / BUCKETS
    total = sum(np.diff(np.interp(edges, *_busy_until(row, model))) for row in rows)
    return np.clip(total / (len(rows) * width), 0.0, 1.0)


def _busy_until(row: Row, model: TimelineModel) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Times, and how long the row was busy before each."""
    found = cut(row, model.start, model.end, level_for(model.end - model.start, 2 * BUCKETS))
    events = row.events
    start = np.concatenate([events.start[found.event], events.start[found.first]])
    end = np.concatenate([events.end[found.event], events.end[found.last - 1]])
    own = events.end[found.event] - events.start[found.event]
    busy = np.concatenate([own, found.busy])
    order = np.argsort(start, kind="stable")
    until = np.cumsum(busy[order])
    times = np.stack([start[order], end[order]], axis=1).reshape(-1)
    values = np.stack([until - busy[order], until], axis=1).reshape(-1)
    return times.astype(np.float64), values.astype(np.float64)
