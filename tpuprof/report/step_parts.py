"""The parts of steps as rows for bars: one per step, or one step or core beside the mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.plain import records
from tpuprof.tables.schemas import PARTS

if TYPE_CHECKING:
    import pandas as pd

    from tpuprof.trace import Trace

_NAMES = [f"{part}_ps" for part in PARTS]
MOST_CORES = 12


def step_parts(trace: Trace) -> list[dict[str, Any]]:
    """The parts of each counted step, as means over cores: ``step``, ``parts`` (``matmul_ps`` …), in order of time."""
    rows = trace.counted(trace.partition)
    if not len(rows):
        return []
    groups = rows.groupby("step")
    order = groups["start_ps"].min().sort_values(kind="stable").index
    means = groups[_NAMES].mean().loc[order]
    return [
        {"step": int(row["step"]), "parts": {name: row[name] for name in _NAMES}}
        for row in records(means.reset_index())
    ]


def step_on_core(trace: Trace, step: int | None, device: str) -> list[dict[str, Any]]:
    """Bars to compare: what was chosen, the same step on the other cores or the mean of the same core, and the mean.

    Each has ``device`` (what the bar is), ``step_ps`` and ``parts``, means in ps where they are of several steps or
    cores. With a step and no core, the step on each of the :data:`MOST_CORES` cores on which it was longest. Empty if
    there is nothing of the kind; steps that do not count can be chosen too.

    Args:
        trace: the run.
        step: the step, null for all.
        device: the core, empty for all.
    """
    rows = trace.partition.assign(device=trace.partition["device"].astype("str"))
    counted = trace.counted(trace.partition)
    counted = counted.assign(device=counted["device"].astype("str"))
    bars: list[tuple[str, pd.DataFrame]] = []
    if step is not None:
        of_step = rows[rows["step"] == step]
        if device:
            bars.append((f"step {step} of it", of_step[of_step["device"] == device]))
            bars.append((f"step {step}, all cores", of_step))
        else:
            longest = of_step.sort_values("duration_ps", ascending=False, kind="stable").head(MOST_CORES)
            bars += [(str(name), longest[longest["device"] == name]) for name in longest["device"]]
            bars.append((f"step {step}, all cores", of_step))
    if device:
        bars.append(("its mean step", counted[counted["device"] == device]))
    bars.append(("mean step, all cores", counted))
    if not len(bars[0][1]):
        return []
    return [_bar(label, chosen) for label, chosen in bars if len(chosen)]


def _bar(label: str, rows: pd.DataFrame) -> dict[str, Any]:
    return {
        "device": label,
        "step_ps": float(rows["duration_ps"].mean()),
        "parts": {name: float(rows[name].mean()) for name in _NAMES},
    }
