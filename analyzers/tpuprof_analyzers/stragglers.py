"""Cores that the others wait for: in most steps, or once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tpuprof.analysis import SERIOUS, AnalysisResult, Context, Evidence, Finding
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.units import format_ps
from tpuprof_analyzers.common import MOSTLY, PAGES, of_step, steps_text, top_rows

FLOATS = npt.NDArray[np.float64]
WAITS = ("collective_exposed_ps", "barrier_wait_ps")
WORK = (*COMPUTE_KINDS, "host_transfer", "dma_wait")
TRANSIENT = 1
"""Steps at the start of a capture that are left out: cores do not begin to be recorded at the same instant."""
MIN_STEPS = 4
ONE_OFF_SHARE = 0.25
"""A single step counts as held up by a core if it costs this share of the mean step."""


class Stragglers:
    """Cores that come late to collectives, or where that is not known, have the most work of their own."""

    name = "stragglers"
    rules = ("TPU311", "TPU312", "TPU313")
    needs = ("several_steps", "several_cores")
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding for a chronic straggler or else for single steps; and one for waits outside steps."""
        work, waits = _tables(context)
        if len(work) < MIN_STEPS:
            return AnalysisResult(unmet=(f"Only {len(work)} steps are complete on every core.",))
        delays = _by_arrival(context, work)
        held = _Delays("has the most work", *_by_work(context, work, waits)) if delays is None else delays
        counts = np.bincount(held.late[held.cost > 0], minlength=len(work.columns))
        core = int(counts.argmax())
        if int(counts[core]) >= MOSTLY * len(work):
            found = _chronic(context, work, waits, core, held)
        else:
            found = _one_off(context, work, held)
        found += _outside(context)
        return AnalysisResult(tuple(found), (NO_ARRIVALS,) if delays is None else ())


NO_ARRIVALS = "No arrivals at collectives inside steps can be compared: a core is judged by its work per step."


@dataclass(frozen=True, slots=True, eq=False)
class _Delays:
    """Which core (a column) each step was lost to, how much that cost in ps, and what the core did."""

    what: str
    late: npt.NDArray[np.intp]
    cost: FLOATS


def _by_arrival(context: Context, work: pd.DataFrame) -> _Delays | None:
    """From the table of arrivals at collectives; null where it has none in these steps."""
    table = context.trace.arrivals
    rows = context.counted(table.take(np.flatnonzero(~table["transient"].to_numpy(np.bool_))))
    if not len(rows):
        return None
    sums = rows.assign(step=rows["step"].astype("int64")).groupby(["step", "device"], observed=True)["late_ps"].sum()
    late_by = sums.unstack("device", fill_value=0).reindex(index=work.index, columns=work.columns, fill_value=0)
    values = late_by.to_numpy(np.float64)
    cost = values.max(axis=1)
    return _Delays("arrives last at collectives", values.argmax(axis=1), _above_floor(context, cost))


def _outside(context: Context) -> list[Finding]:
    """The longest wait for a core outside steps, as at the start of a program; null impact, as no step is longer."""
    table = context.trace.arrivals
    outside = table.take(np.flatnonzero(table["step"].isna().to_numpy() & table["wait_ps"].notna().to_numpy()))
    # The n-th time each core came to the op: cores of one group come equally often.
    came: dict[tuple[str, str], int] = {}
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    rows = top_rows(outside, ("device", "op", "arrival_ps", "wait_ps"), len(outside))
    for row in sorted(rows, key=lambda r: int(r["arrival_ps"])):
        time = came[row["device"], row["op"]] = came.get((row["device"], row["op"]), 0) + 1
        groups.setdefault((row["op"], time), []).append({"device": row["device"], "wait_ps": int(row["wait_ps"])})
    if not groups:
        return []
    (op, _), group = max(groups.items(), key=lambda item: max(row["wait_ps"] for row in item[1]))
    group = sorted(group, key=lambda row: row["wait_ps"])
    late, last = group[0]["device"], group[-1]
    if last["wait_ps"] < SERIOUS * context.step_ps:
        return []
    return [
        Finding(
            rule="TPU313",
            severity="info",
            title="Cores wait for a late one outside steps",
            message=f"{late} comes last to {op}, outside all steps: {last['device']} waits "
            f"{format_ps(last['wait_ps'])} for it (a step takes {format_ps(context.step_ps)}).",
            suggestion="Once at the start is usual: hosts and chips do not begin together. If it returns between steps "
            "(evaluation, checkpoints), look at what the late core or its host did before.",
            confidence=context.confidence("cores"),
            evidence=(Evidence("waits", group[:16]),),
            scope={"device": late, "op": op},
        )
    ]


def _by_work(context: Context, work: pd.DataFrame, waits: pd.DataFrame) -> tuple[npt.NDArray[np.intp], FLOATS]:
    """From the work per step: nobody gains more than they waited, nor more than the late core does beyond others."""
    values, waited = work.to_numpy(np.float64), waits.to_numpy(np.float64)
    late = values.argmax(axis=1)
    excess = values.max(axis=1) - np.median(values, axis=1)
    others = (waited.sum(axis=1) - waited[np.arange(len(values)), late]) / (values.shape[1] - 1)
    return late, _above_floor(context, np.minimum(excess, others))


def _above_floor(context: Context, cost: FLOATS) -> FLOATS:
    return np.where(cost < context.floor * context.step_ps, 0.0, cost)


def _tables(context: Context) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Own work and waits by step and core, in ps: steps that count on every core, without the start's transient."""
    rows = context.partition
    rows = rows.assign(work=rows[[f"{part}_ps" for part in WORK]].sum(axis=1), wait=rows[list(WAITS)].sum(axis=1))
    work = rows.pivot(index="step", columns="device", values="work").dropna()
    starts = rows.groupby("step")["start_ps"].min().loc[work.index].sort_values(kind="stable")
    order = starts.index[TRANSIENT:] if len(starts) > MIN_STEPS else starts.index
    return work.loc[order], rows.pivot(index="step", columns="device", values="wait").loc[order]


def _chronic(context: Context, work: pd.DataFrame, waits: pd.DataFrame, core: int, delays: _Delays) -> list[Finding]:
    late, cost = delays.late, delays.cost
    ps = float(cost[late == core].sum()) / len(cost)
    if not context.matters(ps):
        return []
    device = str(work.columns[core])
    held = int((cost[late == core] > 0).sum())
    means = [(str(name), float(work[name].mean()), float(waits[name].mean())) for name in work.columns]
    rows = [{"device": name, "work_ps": own, "wait_ps": wait} for name, own, wait in sorted(means, key=_most_work)]
    more = _more_work(context, device)
    what = f", mostly {more[0]['part'].replace('_', ' ')}" if more else ""
    own, median = float(work[work.columns[core]].mean()), float(np.median(work.to_numpy(np.float64)))
    return [
        context.finding(
            "TPU311",
            "One core holds the others up",
            f"In {held} of {len(work)} steps {device} {delays.what} and the others wait for it: "
            f"{format_ps(own)} of its own per step, the median is {format_ps(median)}{what}. Without it the step "
            f"would be shorter by at most {of_step(context, ps)}.",
            "Give all cores the same work: pad or balance shards, sequence lengths and experts, and take work out of "
            "'if axis_index == …' branches. If the work is equal, the chip or its host is slow: swap it and compare.",
            ps,
            confidence=context.confidence("steps", "cores"),
            evidence={
                "cores": rows[:16],
                "more_work": more,
                "judged_by": delays.what,
                "steps": held,
                "of_steps": len(work),
            },
            scope={"device": device},
        )
    ]


def _one_off(context: Context, work: pd.DataFrame, delays: _Delays) -> list[Finding]:
    late, cost = delays.late, delays.cost
    at = np.flatnonzero(cost >= ONE_OFF_SHARE * context.step_ps)
    ps = float(cost[at].sum()) / len(cost)
    if not len(at) or len(at) > len(cost) / 4 or not context.matters(ps):
        return []
    worst = int(at[cost[at].argmax()])
    numbers: list[int] = work.index.tolist()
    devices = [str(device) for device in work.columns]
    order = [int(i) for i in at[np.argsort(-cost[at], kind="stable")]]
    rows: list[dict[str, Any]] = [
        {"step": numbers[i], "device": devices[int(late[i])], "cost_ps": float(cost[i])} for i in order
    ]
    return [
        context.finding(
            "TPU312",
            "A core held a step up",
            f"{len(rows)} step(s) waited for one late core ({steps_text([numbers[i] for i in at])}); the worst is "
            f"step {numbers[worst]}, where {devices[late[worst]]} cost {format_ps(float(cost[worst]))}. On average "
            f"that is {of_step(context, ps)}.",
            "Once is often the machine: an interrupted host, a retry on a link, a neighbour. Capture again; if the "
            "same core returns, exclude it.",
            ps,
            confidence=context.confidence("steps", "cores", at_most="medium"),
            evidence={"steps": rows[:10]},
            scope={"device": devices[late[worst]], "step": numbers[worst]},
        )
    ]


def _more_work(context: Context, device: str) -> list[dict[str, Any]]:
    """The kinds of work of which a core has more than the mean of the others."""
    mine = (context.partition["device"] == device).to_numpy()
    rows: list[dict[str, Any]] = []
    for part in WORK:
        column = context.partition[f"{part}_ps"]
        rows.append({"part": part, "more_ps": float(column[mine].mean() - column[~mine].mean())})
    return sorted((row for row in rows if row["more_ps"] > 0), key=lambda row: -row["more_ps"])[:3]


def _most_work(row: tuple[str, float, float]) -> float:
    return -row[1]
