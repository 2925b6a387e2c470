"""Idle time by cause: of the mean step, of one step or core, and of every core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.plain import records
from tpuprof.tables.schemas import IDLE_CAUSES

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

_CAUSES = [f"idle_{cause}_ps" for cause in IDLE_CAUSES]


def idle_mean(trace: Trace, step: int | None = None, device: str = "") -> dict[str, Any] | None:
    """Idle time as the mean over counted steps and cores: ``idle_ps``, ``step_ps`` and ``idle_causes`` as in the
    report's breakdown, and ``idle_not_known_ps``, what no known cause explains; null if nothing counts.

    Args:
        trace: the run.
        step: only this step; null for all.
        device: only this core; empty for all.
    """
    rows = _counted(trace)
    if device:
        rows = rows[rows["device"] == device]
    if step is not None:
        rows = rows[rows["step"] == step]
    if not len(rows):
        return None
    (row,) = records(_means(rows.assign(all=0), "all"))
    return {
        "step_ps": row["duration_ps"],
        "idle_ps": row["idle_ps"],
        "idle_causes": {name.removeprefix("idle_"): row[name] for name in _CAUSES},
        "idle_not_known_ps": _not_known(row),
    }


def idle_rows(trace: Trace) -> list[dict[str, Any]]:
    """Mean idle time per counted step by core and cause, in ps, the most idle core first.

    ``idle_ps``, one ``idle_<cause>_ps`` per cause, null where it is not known for all of the core's steps, and
    ``idle_not_known_ps``, what is left then; null where all causes are known.
    """
    rows = _counted(trace)
    if not len(rows):
        return []
    found = records(_means(rows, "device")[["device", "idle_ps", *_CAUSES]])
    rows_of_cores = [{**row, "idle_not_known_ps": _not_known(row)} for row in found]
    return sorted(rows_of_cores, key=lambda row: (-row["idle_ps"], row["device"]))


def _not_known(row: dict[str, Any]) -> float | None:
    """The idle time that no known cause explains; null where all causes are known."""
    known = [row[name] for name in _CAUSES if row[name] is not None]
    return None if len(known) == len(_CAUSES) else max(0.0, row["idle_ps"] - sum(known))


def _counted(trace: Trace) -> pd.DataFrame:
    rows = trace.counted(trace.partition)
    plain = rows[["duration_ps", "idle_ps", *_CAUSES]].astype("float64")
    return plain.assign(device=rows["device"].astype("str"), step=rows["step"])


def _means(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Means by group; a cause that is not known for every row of a group is null there."""
    groups = rows.groupby(by, sort=False)
    means = groups[["duration_ps", "idle_ps", *_CAUSES]].mean()
    complete = groups[_CAUSES].count().eq(groups.size(), axis=0)
    means[_CAUSES] = means[_CAUSES].where(complete)
    return means.reset_index()
