"""Idle time in which the host fetches or transfers input."""

from __future__ import annotations

from tpuprof.analysis import AnalysisResult, Context
from tpuprof.units import format_ps
from tpuprof_analyzers.common import PAGES, of_step, when
from tpuprof_analyzers.hostside import gap_view, idle_means, per_step, recurrence


class InputPipeline:
    """Devices that wait for their batch."""

    name = "input_pipeline"
    rules = ("TPU421",)
    needs = ("breakdown", "host_causes")
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding, with the call, and the period if it comes back."""
        ps = idle_means(context).get("input") or 0.0
        if not context.matters(ps):
            return AnalysisResult()
        series = per_step(context, "idle_input_ps")
        steps, period = recurrence(context, series)
        view = gap_view(context)
        steps = steps if view is None else view.host_steps(steps, "input")
        rows = [] if view is None else view.rows(view.caused_by("input"))
        calls = [row["host_call"] for row in rows if row["host_call"]]
        named = f" The host is in {calls[0]!r}." if calls else ""
        longest = float(series.max())
        return AnalysisResult(
            (
                context.finding(
                    "TPU421",
                    "The input pipeline keeps devices waiting",
                    f"Devices are idle while the host loads or transfers input: {of_step(context, ps)}, up to "
                    f"{format_ps(longest)} at once, in {when(steps, period, len(series))}.{named}",
                    _suggestion(period),
                    ps,
                    confidence=context.confidence("steps", "host"),
                    evidence={"steps": steps[:50], "period_steps": period, "gaps": rows},
                    scope={"host_call": calls[0] if calls else None, "device": None if view is None else view.device},
                ),
            )
        )


def _suggestion(period: int | None) -> str:
    every = (
        f" It comes back every {period} steps: look for what the loader does at that rate, such as the size of its "
        "buffer, the number of workers, a shard boundary or a shuffle."
        if period
        else ""
    )
    return (
        "Load and transfer the next batch while the device works on this one: a background thread or process that "
        f"keeps two or more batches on the device (jax.device_put ahead of use).{every}"
    )
