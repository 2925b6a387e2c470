"""The partition as a timeline: table ``segments``, made when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tpuprof.formats.recording import Recording
from tpuprof.tables import schemas
from tpuprof.tables.build import Built
from tpuprof.tables.columns import cat, categorical, devices
from tpuprof.tables.hostwork import host_work, work_on_core
from tpuprof.tables.partition import segments, sweep_core


def segments_frame(built: Built, recordings: Sequence[Recording]) -> pd.DataFrame:
    """Table ``segments``: per core and step its longest stretches of one part and cause, in order of time.

    Durations by part, and idle ones by cause, sum to those of table ``partition`` exactly. Causes that the host's
    clock decides are null where it cannot be compared with the core's.
    """
    hosts = {core.record.device.host for core in built.cores}
    ahead = built.host_clocks.offset_ps
    work = {r.host: host_work(r, built.origin_ns).later(-ahead.get(r.host, 0)) for r in recordings if r.host in hosts}
    device_only = np.array([cause in schemas.DEVICE_IDLE_CAUSES for cause in schemas.IDLE_CAUSES])
    columns: dict[str, list[Any]] = {name: [] for name in ("step", "start", "length", "part", "cause")}
    sizes: list[int] = []
    for core in built.cores:
        record = core.record
        host = work_on_core(work[record.device.host], record, core.clocks)
        found = segments(sweep_core(record, core.levels, core.windows, core.runs, core.steps, host), core.steps)
        unknown = (core.clocks.reason is not None) & (found.cause >= 0) & ~device_only[found.cause]
        sizes.append(len(found.start))
        columns["step"].append(core.steps.number[found.step])
        columns["start"].append(found.start)
        columns["length"].append(found.end - found.start)
        columns["part"].append(found.part)
        columns["cause"].append(np.where(unknown, -1, found.cause))
    joined = {name: cat(parts) for name, parts in columns.items()}
    frame = pd.DataFrame(
        {
            "device": devices(built, sizes),
            "step": joined["step"],
            "start_ps": joined["start"],
            "duration_ps": joined["length"],
            "part": categorical(joined["part"], schemas.PARTS),
            "cause": categorical(joined["cause"], schemas.IDLE_CAUSES),
        }
    )
    return schemas.SEGMENTS.check(frame)
