"""The longest stretches of idle time, each with what its host did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.report.plain import records
from tpuprof.tables.hostview import HostView, host_log
from tpuprof.tables.hostwork import HOST_CAUSES
from tpuprof.tables.sweep import Spans

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.tables.build import Core
    from tpuprof.trace import Trace

GAP_COLUMNS = (
    "device", "step", "start_ps", "duration_ps", "where", "host_cause", "host_ps", "host_call", "host_step",
    "before_op", "after_op",
)  # fmt: skip
MOST_HOSTS = 8
"""Hosts that are looked at; of a large run the file of each is read again."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps, the longest first.

    Args:
        rows: of :data:`GAP_COLUMNS`. ``where`` is ``in a program`` or ``between programs``; ``host_cause`` what the
            host did for most of the gap (a host cause of idle time), ``host_ps`` for how long, ``host_call`` the event
            that says it best, ``host_step`` the step annotation it was in: null where it did nothing of the kind or
            where that is not known.
        total: how many gaps there are.
        total_ps: how long they are together.
        unknown: why what the host did is null for some, one sentence each.
    """

    rows: list[dict[str, Any]]
    total: int
    total_ps: int
    unknown: tuple[str, ...]


def longest_gaps(trace: Trace, top: int, device: str = "", step: int | None = None) -> Gaps:
    """The longest gaps inside counted steps.

    Args:
        trace: the run.
        top: how many to give at most.
        device: only those of this core; empty for all.
        step: only those of this step; null for all.
    """
    frame = trace.counted(trace.gaps)
    if device:
        frame = frame.take(np.flatnonzero(frame["device"] == device))
    if step is not None:
        frame = frame.take(np.flatnonzero(frame["step"] == step))
    length = frame["duration_ps"].to_numpy(np.int64)
    # Most of millions of gaps are short: only those that can be among the first are sorted.
    least = int(np.partition(length, -top)[-top]) if 0 < top < len(length) else 0
    candidates = frame.take(np.flatnonzero(length >= least))
    ordered = candidates.sort_values(["duration_ps", "start_ps"], ascending=[False, True], kind="stable")
    shown = ordered.head(top).reset_index(drop=True)
    found, unknown = _host_facts(trace, shown)
    rows = [
        {
            **{key: row[key] for key in ("device", "step", "start_ps", "duration_ps", "before_op", "after_op")},
            "where": "in a program" if row["inside_run"] else "between programs",
            **found.get(at, dict.fromkeys(("host_cause", "host_ps", "host_call", "host_step"))),
        }
        for at, row in enumerate(records(shown))
    ]
    return Gaps([{key: row[key] for key in GAP_COLUMNS} for row in rows], len(frame), int(length.sum()), unknown)


def _host_facts(trace: Trace, gaps: pd.DataFrame) -> tuple[dict[int, dict[str, Any]], tuple[str, ...]]:
    """By row of ``gaps`` what the host did in it, and why that is not known for others."""
    cores = {core.record.device.id: core for core in trace.built.cores}
    names = gaps["device"].astype("str").to_numpy()
    by_host: dict[str, list[str]] = {}
    for name in dict.fromkeys(names.tolist()):  # the hosts of the longest gaps first
        by_host.setdefault(cores[name].record.device.host, []).append(name)
    found: dict[int, dict[str, Any]] = {}
    apart: list[str] = []
    left_out: list[str] = []
    for at, (host, devices) in enumerate(by_host.items()):
        comparable = [cores[device] for device in devices if cores[device].clocks.reason is None]
        apart += [reason for device in devices if (reason := cores[device].clocks.reason) is not None]
        if at >= MOST_HOSTS:
            left_out = [f"Only the {MOST_HOSTS} hosts with the longest gaps were looked at."]
        elif comparable:
            found |= _of_host(trace, host, comparable, gaps, names)
    return found, (*_not_known(apart), *left_out)


def _not_known(reasons: Sequence[str]) -> list[str]:
    """One sentence for all cores: their reasons often differ in a number alone."""
    if not reasons:
        return []
    if len(set(reasons)) == 1:
        return [f"What the host did is not known: {reasons[0]}."]
    return [f"What the host did is not known for {len(reasons)} cores. For the first of them {reasons[0]}."]


def _of_host(
    trace: Trace, host: str, cores: Sequence[Core], gaps: pd.DataFrame, names: Any
) -> dict[int, dict[str, Any]]:
    log = host_log(trace.recordings, host, trace.origin_ns, trace.built.host_clocks.offset_ps.get(host, 0))
    found: dict[int, dict[str, Any]] = {}
    for core in cores:
        view = None if log is None else log.on(core)
        if view is not None:
            found |= _of_core(view, gaps, np.flatnonzero(names == core.record.device.id))
    return found


def _of_core(view: HostView, gaps: pd.DataFrame, rows: Any) -> dict[int, dict[str, Any]]:
    start = gaps["start_ps"].to_numpy(np.int64)[rows]
    end = start + gaps["duration_ps"].to_numpy(np.int64)[rows]
    order = np.argsort(start, kind="stable")
    rows, start, end = rows[order], start[order], end[order]
    causes = view.by_cause(Spans(start, end))
    found: dict[int, dict[str, Any]] = {}
    for at in range(len(rows)):
        main = int(causes[at].argmax())
        low, high, ps = int(start[at]), int(end[at]), int(causes[at][main])
        cause = HOST_CAUSES[main] if ps else None
        found[int(rows[at])] = {
            "host_cause": cause,
            "host_ps": ps if cause else None,
            "host_call": None if cause is None else view.name_in(low, high, cause),
            "host_step": view.step_at(low + (high - low) // 2),
        }
    return found
