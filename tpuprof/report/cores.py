"""Cores beside each other: their mean steps, their own work, who waits and who keeps the others waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.plain import records
from tpuprof.report.step_grid import counted_partition, lateness, steady_arrivals, waits

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

CORE_COLUMNS = (
    "device", "host", "critical", "steps", "step_ps", "p50_ps", "max_ps", "work_ps", "exposed_ps", "idle_ps", "wait_ps",
    "late_ps", "late_steps",
)  # fmt: skip
LATE_COLUMNS = ("step", "device", "late_ps", "step_ps", "late_fraction", "op", "op_late_ps", "waiting", "wait_ps")


def core_rows(trace: Trace) -> list[dict[str, Any]]:
    """One row per core over counted steps, the one that costs the others most first, then the longest mean step.

    All times are means per step in ps, but for ``p50_ps`` and ``max_ps`` of its step time. ``wait_ps`` is the time
    for which it waited for other cores, ``late_ps`` by how much the others could have gone on earlier without it (the
    mean over the steps in which arrivals can be compared), ``late_steps`` the number of steps in which it cost the
    others most. These three are null where they are not known. ``critical`` marks the core with the longest mean step.
    """
    rows = counted_partition(trace)
    if not len(rows):
        return []
    groups = rows.assign(device=rows["device"].astype(str)).groupby("device", sort=False)
    means = groups[["step_ps", "work_ps", "exposed_ps", "idle_ps"]].mean()
    means["p50_ps"], means["max_ps"], means["steps"] = (
        groups["step_ps"].median(), groups["step_ps"].max(), groups.size(),
    )  # fmt: skip
    late, waited = lateness(trace), waits(trace)
    means["wait_ps"] = waited.groupby("device")["wait_ps"].sum() / means["steps"]
    means["late_ps"] = late.groupby("device")["late_ps"].sum() / max(late["step"].nunique(), 1)
    worst = _latest(late)
    means["late_steps"] = worst["device"].value_counts().reindex(means.index, fill_value=0) if len(late) else None
    critical = trace.critical_device()
    hosts = {device.id: device.host for device in trace.devices}
    found = [
        {**row, "host": hosts.get(row["device"]), "critical": row["device"] == critical}
        for row in records(means.reset_index())
    ]
    found = [{key: row[key] for key in CORE_COLUMNS} for row in found]
    return sorted(found, key=lambda row: (-(row["late_ps"] or 0.0), -row["step_ps"], row["device"]))


def late_rows(trace: Trace) -> list[dict[str, Any]]:
    """Which core kept the others waiting in each counted step, the costliest step first.

    ``late_ps`` is how much earlier the others could have gone on without ``device``, summed over the step's
    collectives, and ``late_fraction`` that over the step's time on its slowest core. ``op`` is the collective to which
    it came latest, by ``op_late_ps``. ``waiting`` is the core that waited longest in the step, for ``wait_ps`` in all.
    Steps in which no core was late have no row.
    """
    late = _latest(lateness(trace))
    if not len(late):
        return []
    ops = _worst_ops(steady_arrivals(trace))
    waited = {row["step"]: row for row in records(_most(waits(trace), "wait_ps"))}
    slowest: dict[Any, int] = counted_partition(trace).groupby("step")["step_ps"].max().to_dict()
    found: list[dict[str, Any]] = []
    for row in records(late):
        step, device = row["step"], row["device"]
        op, op_late = ops.get((step, device), (None, None))
        waiting: dict[str, Any] = waited.get(step, {})
        length = slowest[step]
        found.append(
            {
                "step": step,
                "device": device,
                "late_ps": row["late_ps"],
                "step_ps": length,
                "late_fraction": row["late_ps"] / length if length else None,
                "op": op,
                "op_late_ps": op_late,
                "waiting": waiting.get("device"),
                "wait_ps": waiting.get("wait_ps"),
            }
        )
    return sorted(found, key=lambda row: (-row["late_ps"], row["step"]))


def _latest(late: pd.DataFrame) -> pd.DataFrame:
    """For each step the core that cost the others most; steps without any cost left out."""
    return _most(late[late["late_ps"] > 0], "late_ps")


def _most(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """For each step its row with the largest value, of equal ones the first core by name."""
    ordered = rows.sort_values(["step", column, "device"], ascending=[True, False, True], kind="stable")
    return ordered.drop_duplicates("step").reset_index(drop=True)


def _worst_ops(arrivals: pd.DataFrame) -> dict[tuple[int, str], tuple[str, int]]:
    """For each step and core the collective that it cost the others most at, and how much."""
    rows = arrivals[arrivals["late_ps"] > 0].sort_values("late_ps", ascending=False, kind="stable")
    rows = rows.drop_duplicates(["step", "device"])
    columns = zip(rows["step"].tolist(), rows["device"].tolist(), rows["op"].tolist(), rows["late_ps"].tolist(),
                  strict=True)  # fmt: skip
    return {(int(step), str(device)): (str(op), int(late)) for step, device, op, late in columns}
