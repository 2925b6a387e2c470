"""Steps by core as a grid of one measure: where in the run and on which core the time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tpuprof.errors import UsageError
from tpuprof.tables.schemas import COMPUTE_KINDS

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

MEASURES: dict[str, str] = {
    "step": "Time of the step on the core.",
    "work": "Compute, host transfers and waits for copies: what the core does by itself.",
    "exposed": "Time in which the core does nothing but communicate, waits for other cores included.",
    "wait": "Time at collectives from the core's arrival to that of the last core of its group.",
    "late": "How much earlier the others could have gone on without this core, summed over collectives.",
    "idle": "Time in which nothing runs on the core.",
}
"""What a grid can hold, each in ps per step and core."""

OWN_WORK = (*COMPUTE_KINDS, "host_transfer", "dma_wait")
"""The parts of a step that a core spends by itself, whatever the others do."""


@dataclass(frozen=True, slots=True, eq=False)
class StepGrid:
    """One measure of every counted step on every core.

    Args:
        measure: a name of :data:`MEASURES`.
        devices: the cores, in the order of the tables.
        steps: the steps' numbers, in order of time.
        values_ps: shape (devices, steps), NaN where the step does not count on the core or nothing is known.
        recorded: how many steps were recorded in all.
    """

    measure: str
    devices: tuple[str, ...]
    steps: tuple[int, ...]
    values_ps: npt.NDArray[np.float64]
    recorded: int


def step_grid(trace: Trace, measure: str) -> StepGrid:
    """The grid of a measure.

    Waits are those of table ``collectives``, lateness is that of table ``arrivals`` without its transient rows; where
    a core has none in a step, both are unknown there.

    Raises:
        UsageError: there is no such measure.
    """
    if measure not in MEASURES:
        raise UsageError(f"There is no measure {measure!r} of steps.", hint=f"Choose one of {', '.join(MEASURES)}.")
    rows = counted_partition(trace)
    devices = tuple(device.id for device in trace.devices)
    starts = rows.groupby("step")["start_ps"].min().sort_values(kind="stable")
    steps = tuple(int(step) for step in starts.index)
    recorded = int(trace.steps["step"].nunique())
    table = _of_measure(trace, rows, measure)
    grid = table.reindex(index=list(devices), columns=list(steps)).to_numpy(np.float64, na_value=np.nan)
    return StepGrid(measure, devices, steps, grid, recorded)


def counted_partition(trace: Trace) -> pd.DataFrame:
    """Table ``partition`` of counted steps, with columns ``work_ps`` (see :data:`OWN_WORK`), ``step_ps``,
    ``exposed_ps``."""
    rows = trace.counted(trace.partition)
    return rows.assign(
        work_ps=rows[[f"{part}_ps" for part in OWN_WORK]].sum(axis=1),
        step_ps=rows["duration_ps"],
        exposed_ps=rows["collective_exposed_ps"],
    )


def waits(trace: Trace) -> pd.DataFrame:
    """``wait_ps`` by device and step: the sum over the collectives of counted steps whose wait is known."""
    rows = trace.counted(trace.collectives)
    rows = rows[rows["wait_ps"].notna() & rows["step"].notna()]
    return _sums(rows, "wait_ps")


def lateness(trace: Trace) -> pd.DataFrame:
    """``late_ps`` by device and step: the sum over the collectives of counted steps, the capture's start left out."""
    return _sums(steady_arrivals(trace), "late_ps")


def steady_arrivals(trace: Trace) -> pd.DataFrame:
    """Table ``arrivals`` of counted steps without what belongs to the start of the capture."""
    rows = trace.arrivals
    rows = trace.counted(rows[~rows["transient"]].reset_index(drop=True))
    return rows[rows["step"].notna()]


def _of_measure(trace: Trace, rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Devices by steps."""
    if measure == "wait":
        sums = waits(trace)
    elif measure == "late":
        sums = lateness(trace)
    else:
        sums = rows.assign(device=rows["device"].astype(str))[["device", "step", f"{measure}_ps"]]
    column: Any = f"{measure}_ps"
    return sums.pivot(index="device", columns="step", values=column)


def _sums(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    plain = rows.assign(step=rows["step"].astype("int64"), value=rows[column].astype("int64"))
    sums = plain.groupby(["device", "step"], observed=True, sort=False)["value"].sum()
    table = sums.rename(column).reset_index()
    return table.assign(device=table["device"].astype(str))
