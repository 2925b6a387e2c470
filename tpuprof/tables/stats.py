"""Aggregates of the tables: step statistics, the breakdown of the mean step, and op statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tpuprof.errors import UsageError
from tpuprof.tables.schemas import IDLE_CAUSES, OP_STATS, PARTS

GROUPINGS = ("op", "kind", "scope", "source", "module")


def step_times(steps: pd.DataFrame) -> pd.Series:
    """The time of each counted step: the maximum over cores of its window, in ps, indexed by step number.

    Only steps that count on every core that has steps are included.
    """
    counted = steps[steps["counted"]]
    cores = counted["device"].nunique()
    groups = counted.groupby("step", sort=True)["duration_ps"]
    return groups.max()[groups.size() == cores]


def step_statistics(steps: pd.DataFrame) -> dict[str, float | int | None]:
    """Statistics over counted steps: count, mean, percentiles (linear), min, max, sample stdev, cv; null if none.

    ``stdev_ps`` and ``cv`` need at least two steps.
    """
    names = ("mean_ps", "p50_ps", "p90_ps", "p99_ps", "min_ps", "max_ps", "stdev_ps", "cv")
    times = step_times(steps).to_numpy()
    if not len(times):
        return {"count": 0, **dict.fromkeys(names)}
    mean = float(times.mean())
    stdev = float(times.std(ddof=1)) if len(times) > 1 else None
    p50, p90, p99 = (float(v) for v in np.percentile(times, [50, 90, 99]))
    return {
        "count": len(times),
        "mean_ps": mean,
        "p50_ps": p50,
        "p90_ps": p90,
        "p99_ps": p99,
        "min_ps": int(times.min()),
        "max_ps": int(times.max()),
        "stdev_ps": stdev,
        "cv": stdev / mean if stdev is not None and mean > 0 else None,
    }


def in_counted_steps(rows: pd.DataFrame, steps: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row (with columns ``device`` and ``step``) whether it lies in a counted step."""
    wanted = steps[steps["counted"]]
    if len(wanted) == len(steps) and not bool(rows["step"].isna().any()):
        return np.ones(len(rows), np.bool_)
    # One integer per (core, step): joining text keys would cost more than everything else.
    numbers = np.unique(steps["step"].to_numpy())
    width = len(numbers) + 1

    def key(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        at = np.searchsorted(numbers, frame["step"].astype("Int64").to_numpy(np.int64, na_value=0))
        at = np.where(np.asarray(frame["step"].isna()), len(numbers), at)
        codes = frame["device"].cat.set_categories(steps["device"].cat.categories).cat.codes.to_numpy(np.int64)
        return codes * width + at

    return np.isin(key(rows), key(wanted))


def breakdown(
    partition: pd.DataFrame, counted: np.ndarray[Any, np.dtype[np.bool_]], reason: str | None
) -> dict[str, Any] | None:
    """The mean step: means over counted (core, step) pairs, and the same for each core; null without any pair.

    Args:
        partition: table ``partition``.
        counted: for each of its rows whether it enters statistics.
        reason: why the host's and the devices' clocks cannot be compared, null if they can.
    """
    rows = partition[counted]
    if not len(rows):
        return None
    causes = {cause: rows[f"idle_{cause}_ps"] for cause in IDLE_CAUSES}
    known = {f"{cause}_ps": None if bool(column.isna().any()) else _mean(column) for cause, column in causes.items()}
    per_device = [
        {"device": str(device), "step_ps": _mean(group["duration_ps"]), "parts": _parts(group)}
        for device, group in rows.groupby("device", observed=True, sort=False)
    ]
    return {
        "step_ps": _mean(rows["duration_ps"]),
        "parts": _parts(rows),
        "hidden": {
            "collective_ps": _mean(rows["hidden_collective_ps"]),
            "dma_ps": _mean(rows["hidden_dma_ps"]),
        },
        "idle_causes": known,
        "idle_causes_reason": reason if any(v is None for v in known.values()) else None,
        "per_device": per_device,
    }


def critical_device(steps: pd.DataFrame) -> str | None:
    """The core with the largest mean counted step, null without one."""
    counted = steps[steps["counted"]]
    if not len(counted):
        return None
    return str(counted.groupby("device", observed=True)["duration_ps"].mean().idxmax())


def op_stats(ops: pd.DataFrame, by: str = "op") -> pd.DataFrame:
    """Table ``op_stats``: ops aggregated over cores and occurrences, largest self time first.

    Args:
        ops: table ``ops``.
        by: ``op`` (an instruction of a program), ``kind``, ``scope``, ``source`` or ``module``.

    Raises:
        UsageError: ``by`` is none of these.
    """
    if by not in GROUPINGS:
        raise UsageError(f"Cannot group ops by {by!r}.", hint=f"Choose one of {', '.join(GROUPINGS)}.")
    first, group = _groups(ops, by)
    n = len(first)
    # A bad duration is null, and so is its self time.
    total = _sum(group, ops["duration_ps"].to_numpy(np.int64, na_value=0), n)
    own = _sum(group, ops["self_ps"].to_numpy(np.int64, na_value=0), n)
    good = np.bincount(group[ops["duration_ps"].notna().to_numpy()], minlength=n)
    everything = int(own.sum())
    attributes = {
        name: _common(ops[name], group, first, n)
        for name in ("kind", "kind_source", "detail", "module", "scope", "source")
    }
    unknown = {"scope": "(no scope)", "source": "(no source)", "module": "(no module)"}
    labels = ops[by].iloc[first].astype("str").where(ops[by].iloc[first].notna(), unknown.get(by, "(unknown)"))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(good > 0, total / np.maximum(good, 1), np.nan)
    frame = pd.DataFrame(
        {
            "name": labels.to_numpy(),
            **attributes,
            "occurrences": np.bincount(group, minlength=n).astype(np.int64),
            "total_ps": total,
            "self_ps": own,
            "mean_ps": mean,
            "self_fraction": own / everything if everything else np.full(n, math.nan),
        }
    ).astype({c.name: c.pandas_dtype for c in OP_STATS})
    frame = frame.sort_values(["self_ps", "total_ps", "name"], ascending=[False, False, True], kind="stable")
    return OP_STATS.check(frame.reset_index(drop=True)[list(OP_STATS.names)])


def _groups(ops: pd.DataFrame, by: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(the first row of each group, the group of each row), groups in order of their categories, null first."""
    key, width = _codes(ops[by])
    if by == "op":
        module, modules = _codes(ops["module"])
        key, width = key.astype(np.int64) * modules + module, width * modules
    if width > 8 * len(key) + (1 << 20):  # many ops in many programs: too many pairs to count them all
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        return first, group.reshape(-1)
    used = np.flatnonzero(np.bincount(key, minlength=width))
    row = np.zeros(width, np.int32)
    row[used] = np.arange(len(used))
    group = row[key]
    first = np.full(len(used), len(key), np.int64)
    np.minimum.at(first, group, np.arange(len(key)))
    return first, group


def _codes(column: pd.Series) -> tuple[np.ndarray[Any, Any], int]:
    """A category as small numbers, 0 for null, and how many there are."""
    return column.cat.codes.to_numpy().astype(np.int32) + 1, len(column.cat.categories) + 1


def _sum(group: np.ndarray[Any, Any], values: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    """Exact integer sums by group."""
    result = np.zeros(n, np.int64)
    np.add.at(result, group, values)
    return result


def _common(column: pd.Series, group: np.ndarray[Any, Any], first: np.ndarray[Any, Any], n: int) -> pd.Series:
    """The value that all rows of a group share, null where they differ."""
    codes = column.cat.codes.to_numpy()
    mixed = np.zeros(n, np.bool_)
    mixed[group[codes != codes[first][group]]] = True
    values = column.iloc[first].astype("str").where(column.iloc[first].notna().to_numpy() & ~mixed, None)
    return pd.Series(values.to_numpy(), dtype="str")


def _mean(column: pd.Series) -> float:
    # Integer sums are exact; one division at the end.
    return int(column.sum()) / len(column)


def _parts(rows: pd.DataFrame) -> Mapping[str, float]:
    return {f"{part}_ps": _mean(rows[f"{part}_ps"]) for part in PARTS}
