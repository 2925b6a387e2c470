"""One op, or any other choice of ops, by occurrence, by step and by core: how even its time is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.tables.chosen import Chosen, chosen_mask


@dataclass(frozen=True, eq=False)
class OpRuns:
    """The occurrences of an op.

    Args:
        durations_ps: of each occurrence whose duration is good.
        steps: per step that has one, in order: ``step``, ``occurrences``, ``self_ps`` (sum over cores), ``mean_ps``
            (of ``self_ps`` over the cores that ran it), ``most_ps`` (of the core that spent most) and ``device``
            (that core).
        devices: per core that has one, most self time first: ``device``, ``occurrences``, ``self_ps``, ``mean_ps``,
            ``min_ps`` and ``max_ps`` of the durations.
        outside: how many occurrences lie in no step.
    """

    durations_ps: npt.NDArray[np.float64]
    steps: pd.DataFrame
    devices: pd.DataFrame
    outside: int


def op_runs(ops: pd.DataFrame, chosen: Chosen) -> OpRuns:
    """What the occurrences of the chosen ops took.

    Args:
        ops: table ``ops``.
        chosen: which; ``op`` and ``module`` name one op.
    """
    rows = ops[["device", "step", "duration_ps", "self_ps"]][chosen_mask(ops, chosen)]
    rows = rows.assign(self_ps=rows["self_ps"].fillna(0).astype(np.int64))
    durations = rows["duration_ps"].dropna().to_numpy(np.float64)
    return OpRuns(durations, _by_step(rows), _by_device(rows), int(rows["step"].isna().sum()))


def _by_step(rows: pd.DataFrame) -> pd.DataFrame:
    inside = rows[rows["step"].notna()]
    pairs = inside.groupby(["step", "device"], observed=True, sort=True)["self_ps"]
    cells: Any = pd.DataFrame({"self_ps": pairs.sum(), "occurrences": pairs.size()}).reset_index()
    if not len(cells):
        return pd.DataFrame(columns=["step", "occurrences", "self_ps", "mean_ps", "most_ps", "device"])
    steps: Any = cells.groupby("step", sort=True)
    most = cells.loc[steps["self_ps"].idxmax()]
    sums = steps["self_ps"].sum()
    return pd.DataFrame(
        {
            "step": sums.index.to_numpy(np.int64),
            "occurrences": steps["occurrences"].sum().to_numpy(),
            "self_ps": sums.to_numpy(),
            "mean_ps": sums.to_numpy() / steps.size().to_numpy(),
            "most_ps": most["self_ps"].to_numpy(),
            "device": most["device"].astype(str).to_numpy(),
        }
    )


def _by_device(rows: pd.DataFrame) -> pd.DataFrame:
    groups: Any = rows.groupby("device", observed=True, sort=True)
    durations = groups["duration_ps"]
    found = pd.DataFrame(
        {
            "device": [str(device) for device in groups["self_ps"].size().index],
            "occurrences": groups["self_ps"].size().to_numpy(),
            "self_ps": groups["self_ps"].sum().to_numpy(),
            "mean_ps": durations.mean().to_numpy(np.float64, na_value=np.nan),
            "min_ps": durations.min().to_numpy(np.float64, na_value=np.nan),
            "max_ps": durations.max().to_numpy(np.float64, na_value=np.nan),
        }
    )
    return found.sort_values(["self_ps", "device"], ascending=[False, True], kind="stable").reset_index(drop=True)
