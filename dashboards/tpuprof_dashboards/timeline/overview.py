"""How busy the devices are over the whole run, as a strip of a few hundred numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tpuprof_dashboards.timeline.lod import cut, level_for
from tpuprof_dashboards.timeline.rows import Row

BUCKETS = 480


def busy_shares(devices: Sequence[Sequence[Row]], start: int, end: int) -> npt.NDArray[np.float64]:
    """Shares of time in which something runs, the mean over devices, in ``BUCKETS`` equal parts of a stretch.

    Several lines of a device are added up, to a whole at most: this is a sketch to find one's way, not a measurement.
    """
    edges = np.linspace(start, end, BUCKETS + 1)
    part = (end - start) / BUCKETS
    shares = [
        np.minimum(np.sum([np.diff(np.interp(edges, *_busy_until(row, start, end))) for row in rows], axis=0) / part, 1)
        for rows in devices
        if rows
    ]
    return np.mean(shares, axis=0) if shares else np.zeros(BUCKETS)


def _busy_until(row: Row, t0: int, t1: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Times, and how long the row was busy before each."""
    found = cut(row, t0, t1, level_for(t1 - t0, 2 * BUCKETS))
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
