"""Idle time by what the host did meanwhile, gaps that come back, and idle time that nothing explains."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.tables.hostwork import HOST_CAUSES
from tpuprof.tables.schemas import IDLE_CAUSES
from tpuprof.tables.sweep import Spans
from tpuprof.units import format_percent, format_ps
from tpuprof_analyzers.common import MOSTLY, PAGES, of_step, when
from tpuprof_analyzers.hostside import GapView, gap_view, idle_means, per_step, recurrence

ELSEWHERE = ("input", "compile")
"""Causes that have analyzers of their own."""
LAUNCH = ("dispatch", "host_python")
PAUSES = ("garbage_collection", "checkpoint")
INSIDE = ("intra_program", "dma_in_flight")
SYNC = HOST_CAUSES.index("host_sync")
LOOKED_AT = 8
"""How many cores are looked at for fetches."""


class Idle:
    """Who keeps the devices waiting."""

    name = "idle"
    rules = ("TPU401", "TPU402", "TPU403", "TPU404", "TPU405", "TPU406")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding per cause, and one for a stall that comes back."""
        idle = (context.breakdown or {"parts": {}})["parts"]["idle_ps"]
        view = gap_view(context) if context.matters(idle) else None
        if view is None:
            return AnalysisResult()
        means = {cause: ps or 0.0 for cause, ps in idle_means(context).items()}
        reason = context.breakdown["idle_causes_reason"] if context.breakdown else None
        fetches = _fetches(context, view, means)
        found = [
            *fetches,
            *_launches(context, view, means),
            *_pauses(context, view, means),
            *_inside(context, view, means),
            # Behind a fetch the rest of the gap is what the program did with the value: one finding is enough.
            *([] if fetches else _unexplained(context, view, idle, means, reason)),
            *_stall(context, view),
        ]
        return AnalysisResult(tuple(found), () if reason is None else (f"Causes on the host are unknown: {reason}.",))


def _fetches(context: Context, most_idle: GapView, means: dict[str, float]) -> list[Finding]:
    """Gaps in which a blocking fetch comes back: the device had run dry, because the host waited for a value.

    The value is read from one core, which may not be the one that is idle most: several of that host are looked at.
    """
    if most_idle.view is None:
        return []
    if not bool((most_idle.view.work.cause == SYNC).any()):
        return []
    devices, log = context.trace.devices, most_idle.log
    host = next(device.host for device in devices if device.id == most_idle.device)
    others = [device.id for device in devices if device.host == host and device.id != most_idle.device]
    seen = [gap_view(context, name, log) for name in others[: LOOKED_AT - 1]]
    views = [most_idle, *(view for view in seen if view is not None)]
    gains = [_behind_fetches(view) for view in views]
    best = max(range(len(views)), key=lambda at: float(gains[at].sum()))
    view, hit = views[best], gains[best] > 0
    steps = sorted({int(step) for step in view.gaps["step"][hit]})
    total = int((context.partition["device"] == view.device).sum())
    often = len(steps) >= MOSTLY * total
    ps = max(float(gains[best].sum()) / max(total, 1) if often else 0.0, means["host_sync"])
    if not context.matters(ps):
        return []
    rows = view.rows([int(row) for row in np.flatnonzero(hit)])
    calls = _calls(view, np.flatnonzero(hit))
    named = f" ({calls[0]!r})" if calls else ""
    return [
        context.finding(
            "TPU401",
            "The loop waits for a result on the host",
            f"The host fetches a value from the device and waits for it{named} in {when(steps, None, total)}; until it "
            f"has launched the next program the device has nothing to do: {of_step(context, ps)} at most.",
            "Do not read the loss in every step: keep it on the device and fetch it every N steps, or fetch the value "
            "of the step before (jax.copy_to_host_async), so that the host stays ahead of the device. float(x), "
            "print(x), np.asarray(x), x.item() and jax.device_get(x) all wait.",
            ps,
            confidence=context.confidence("steps", "host"),
            evidence={"steps": len(steps), "of_steps": total, "calls": calls, "gaps": rows},
            scope={"host_call": calls[0] if calls else None, "device": view.device},
        )
    ]


def _behind_fetches(view: GapView) -> npt.NDArray[np.int64]:
    """For each gap its length if a fetch comes back in it, without time for input or compilation; else 0."""
    start = view.gaps["start_ps"].to_numpy(np.int64)
    length = view.gaps["duration_ps"].to_numpy(np.int64)
    if view.view is None:
        return np.zeros(len(length), np.int64)
    between = ~view.gaps["inside_run"].to_numpy(np.bool_)
    hit = view.view.touches(Spans(start, start + length), "host_sync") & between
    other = view.causes[:, [HOST_CAUSES.index(cause) for cause in ELSEWHERE]].sum(axis=1)
    return np.where(hit, length - other, 0)


def _calls(view: GapView, rows: npt.NDArray[np.intp]) -> list[str]:
    """The fetches that come back in the longest of these gaps."""
    if view.view is None:
        return []
    work = view.view.work
    mine = work.cause == SYNC
    names: dict[str, None] = {}
    length = view.gaps["duration_ps"].to_numpy(np.int64)
    for row in sorted((int(r) for r in rows), key=lambda r: -int(length[r]))[:5]:
        start = int(view.gaps["start_ps"].iloc[row])
        back = np.flatnonzero(mine & (work.end >= start) & (work.end <= start + int(length[row])))
        for at in back[np.argsort(work.start[back] - work.end[back], kind="stable")][:1]:
            names.setdefault(work.names[int(work.name[at])])
    return list(names)


def _launches(context: Context, view: GapView, means: dict[str, float]) -> list[Finding]:
    ps = sum(means[cause] for cause in LAUNCH)
    if not context.matters(ps):
        return []
    split = ", ".join(f"{cause} {format_ps(means[cause])}" for cause in LAUNCH if means[cause])
    return [
        context.finding(
            "TPU402",
            "Devices wait for the host to launch work",
            f"While the device is idle, the host runs Python or launches programs: {of_step(context, ps)} ({split}).",
            "Put more work into one jitted call (the whole step, or several steps with lax.scan), let the host run "
            "ahead instead of waiting for each step, and keep Python out of the loop.",
            ps,
            confidence=context.confidence("steps", "host"),
            evidence={"causes": {c: means[c] for c in LAUNCH}, "gaps": view.rows(view.caused_by(*LAUNCH))},
            scope={"device": view.device},
        )
    ]


def _pauses(context: Context, view: GapView, means: dict[str, float]) -> list[Finding]:
    ps = sum(means[cause] for cause in PAUSES)
    if not context.matters(ps):
        return []
    cause = max(PAUSES, key=lambda c: means[c])
    steps, period = recurrence(context, per_step(context, f"idle_{cause}_ps"))
    return [
        context.finding(
            "TPU403",
            "Garbage collection or checkpoints stop the loop",
            f"Devices are idle during {cause.replace('_', ' ')}: {of_step(context, ps)}, in "
            f"{when(steps, period, context.trace.n_steps)}.",
            "Write checkpoints asynchronously (orbax AsyncCheckpointer); call gc.disable() in the loop and "
            "gc.collect() at moments of your choice, or gc.freeze() after the set-up.",
            ps,
            confidence=context.confidence("steps", "host"),
            evidence={
                "causes": {c: means[c] for c in PAUSES},
                "period_steps": period,
                "gaps": view.rows(view.caused_by(*PAUSES)),
            },
            scope={"device": view.device},
        )
    ]


def _inside(context: Context, view: GapView, means: dict[str, float]) -> list[Finding]:
    ps = sum(means[cause] for cause in INSIDE)
    if not context.matters(ps):
        return []
    inside = [int(row) for row in np.flatnonzero(view.gaps["inside_run"].to_numpy(np.bool_))]
    return [
        context.finding(
            "TPU404",
            "Gaps inside programs",
            f"The op line is empty although a program runs: {of_step(context, ps)}, of which "
            f"{format_ps(means['dma_in_flight'])} with a copy in flight.",
            "Many small ops leave gaps between them: let XLA fuse them, batch them, or unroll loops with small bodies. "
            "On the CPU backend such gaps are threads waiting for a processor: use fewer devices than processors.",
            ps,
            confidence=context.confidence("steps"),
            evidence={"causes": {c: means[c] for c in INSIDE}, "gaps": view.rows(inside)},
            scope={"device": view.device},
        )
    ]


def _unexplained(
    context: Context, view: GapView, idle: float, means: dict[str, float], reason: str | None
) -> list[Finding]:
    known = sum(ps for cause, ps in means.items() if cause != "unexplained")
    ps = means["unexplained"] if reason is None else idle - known
    if not context.matters(ps):
        return []
    why = "nothing that the host recorded explains it" if reason is None else f"its cause is not known: {reason}"
    quiet = (view.main < 0) & ~view.gaps["inside_run"].to_numpy(np.bool_)
    rows = view.rows(np.flatnonzero(quiet).tolist())
    where = f" The longest gap is {format_ps(rows[0]['duration_ps'])} in step {rows[0]['step']}." if rows else ""
    return [
        context.finding(
            "TPU405",
            "Idle time without a known cause",
            f"Devices are idle for {of_step(context, ps)}, and {why}.{where}",
            "Capture again with the host's Python calls (python_tracer_level=1) for a few steps, or annotate the loop "
            "with jax.profiler.TraceAnnotation and steps with tpuprof.step().",
            ps,
            confidence=context.confidence("steps", "host", at_most="medium"),
            evidence={"gaps": rows},
            scope={"device": view.device},
        )
    ]


def _stall(context: Context, view: GapView) -> list[Finding]:
    """A stall that comes back every k steps, unless its cause has an analyzer that says so."""
    series = per_step(context, "idle_ps")
    typical = float(series.median())
    excess = series - typical
    steps, period = recurrence(context, excess)
    ps = float(excess[excess.index.isin(steps)].sum()) / max(len(series), 1)
    if period is None or not context.matters(ps) or len(steps) > len(series) / 2:
        return []
    gains: dict[str, float] = {}
    for cause in IDLE_CAUSES:
        by_step = per_step(context, f"idle_{cause}_ps")
        gains[cause] = float(by_step[by_step.index.isin(steps)].mean() - by_step[~by_step.index.isin(steps)].mean())
    cause = max(gains, key=lambda c: gains[c])
    if cause in (*ELSEWHERE, *PAUSES):
        return []
    share = format_percent(gains[cause] / max(sum(max(g, 0.0) for g in gains.values()), 1.0), 0)
    rows = view.rows([int(r) for r in np.flatnonzero(view.gaps["step"].isin(steps).to_numpy())])
    return [
        context.finding(
            "TPU406",
            "A stall comes back regularly",
            f"In {when(steps, period, len(series))} devices are idle {format_ps(float(excess[steps].mean()))} longer "
            f"than in the others; {share} of that is {cause.replace('_', ' ')}: {of_step(context, ps)}.",
            f"Look for what the program does every {period} steps: logging, evaluation, a metric that is fetched, a "
            "loader that refills its buffer.",
            ps,
            confidence=context.confidence("steps", "host"),
            evidence={"steps": steps[:50], "period_steps": period, "likely_cause": cause, "gaps": rows},
            scope={"device": view.device},
        )
    ]
