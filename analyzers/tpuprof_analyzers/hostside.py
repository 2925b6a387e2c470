"""What the host's analyzers share: idle time by cause and step, and single gaps with the call that fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tpuprof.analysis import Context
from tpuprof.tables.hostview import HostLog, HostView, host_log
from tpuprof.tables.hostwork import HOST_CAUSES
from tpuprof.tables.sweep import Spans
from tpuprof_analyzers.common import ROWS, period_of

A_LOT = 0.25
"""A step has a lot of some idle cause from this share of the largest on."""


@dataclass(frozen=True, slots=True, eq=False)
class GapView:
    """The gaps of the core that is idle most, with what its host did in each; times in ps.

    ``causes`` has one column per host cause. ``view`` is null where the clocks cannot be compared: then they are 0.
    ``main`` is the host's cause with the most time in each gap (a row of HOST_CAUSES), -1 for none.
    """

    device: str
    gaps: pd.DataFrame
    causes: np.ndarray[Any, np.dtype[np.int64]]
    main: np.ndarray[Any, np.dtype[np.int64]]
    view: HostView | None
    log: HostLog | None

    def caused_by(self, *causes: str) -> list[int]:
        """The gaps whose main cause is one of these."""
        wanted = [HOST_CAUSES.index(cause) for cause in causes]
        return np.flatnonzero(np.isin(self.main, wanted)).tolist()

    def host_steps(self, steps: Sequence[int], cause: str) -> list[int]:
        """For each step window the step that the host was in when the cause kept the core waiting.

        A window ends where the next step's device work begins, so that the host is often one step further. Without
        annotations the windows' own numbers.
        """
        column = self.causes[:, HOST_CAUSES.index(cause)]
        number = self.gaps["step"].to_numpy(np.int64)
        result: list[int] = []
        for step in steps:
            mine = np.flatnonzero((number == step) & (column > 0))
            found = None
            if len(mine) and self.view is not None:
                row = int(mine[column[mine].argmax()])
                middle = int(self.gaps["start_ps"][row]) + int(self.gaps["duration_ps"][row]) // 2
                found = self.view.step_at(middle)
            result.append(step if found is None else found)
        return result

    def rows(self, wanted: Sequence[int], count: int = ROWS) -> list[dict[str, Any]]:
        """The longest of these gaps as plain rows: step, length, cause, the call, the op before and after."""
        length = self.gaps["duration_ps"].to_numpy(np.int64)
        longest = sorted(wanted, key=lambda row: (-int(length[row]), row))[:count]
        return [self._row(row) for row in longest]

    def _row(self, row: int) -> dict[str, Any]:
        gap = self.gaps.iloc[row]
        start, length = int(gap["start_ps"]), int(gap["duration_ps"])
        cause = HOST_CAUSES[int(self.main[row])] if self.main[row] >= 0 else None
        call = None if self.view is None or cause is None else self.view.name_in(start, start + length, cause)
        before, after = gap["before_op"], gap["after_op"]
        return {
            "device": self.device,
            "step": int(gap["step"]),
            "host_step": None if self.view is None else self.view.step_at(start + length // 2),
            "start_ps": start,
            "duration_ps": length,
            "host_cause": cause,
            "host_call": call,
            "before_op": None if pd.isna(before) else str(before),
            "after_op": None if pd.isna(after) else str(after),
        }


def idle_means(context: Context) -> dict[str, float | None]:
    """Idle time by cause, means over counted steps and cores in ps; null where it is not known."""
    causes = (context.breakdown or {"idle_causes": {}})["idle_causes"]
    return {name.removesuffix("_ps"): value for name, value in causes.items()}


def per_step(context: Context, column: str) -> pd.Series:
    """A column of the partition per counted step, the mean over cores, in order of time."""
    rows = context.partition
    starts = rows.groupby("step")["start_ps"].min().sort_values(kind="stable")
    means = rows.assign(value=rows[column].astype("float64").fillna(0.0)).groupby("step")["value"].mean()
    return means.loc[starts.index]


def recurrence(context: Context, series: pd.Series) -> tuple[list[int], int | None]:
    """The steps in which a series (by step) is large, and their period if they return regularly."""
    least = max(A_LOT * float(series.max()), context.floor * context.step_ps)
    at = np.flatnonzero(series.to_numpy() >= least)
    return [int(step) for step in series.index[at]], period_of([int(i) for i in at])


def gap_view(context: Context, device: str | None = None, log: HostLog | None = None) -> GapView | None:
    """The gaps between and inside programs of a core; null without any.

    Args:
        context: the context.
        device: the core; null for the one that is idle most.
        log: its host's log, if it was read before.
    """
    trace, gaps = context.trace, context.gaps
    if not len(gaps):
        return None
    if device is None:
        device = str(gaps.groupby("device", observed=True, sort=False)["duration_ps"].sum().idxmax())
    mine = gaps[(gaps["device"] == device).to_numpy()].reset_index(drop=True)
    core = next(core for core in trace.built.cores if core.record.device.id == device)
    host = core.record.device.host
    if log is None or log.host != host:
        ahead = trace.built.host_clocks.offset_ps.get(host, 0)
        log = host_log(trace.recordings, host, trace.origin_ns, ahead)
    view = None if log is None else log.on(core)
    start = mine["start_ps"].to_numpy(np.int64)
    spans = Spans(start, start + mine["duration_ps"].to_numpy(np.int64))
    causes = np.zeros((len(mine), len(HOST_CAUSES)), np.int64) if view is None else view.by_cause(spans)
    main = np.where(causes.any(axis=1), causes.argmax(axis=1), -1)
    return GapView(device, mine, causes, main, view, log)
