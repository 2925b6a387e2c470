"""Work that is done twice to save memory."""

from __future__ import annotations

from typing import Any

from tpuprof.analysis import AnalysisResult, Context
from tpuprof.roofline.table import OpWork
from tpuprof.units import format_percent, format_ps
from tpuprof_analyzers.common import PAGES, ROWS, of_step, place
from tpuprof_analyzers.costed import step_scale

NO_SCOPE = "(no scope)"


class Remat:
    """Time in ops that repeat an earlier computation."""

    name = "remat"
    rules = ("TPU231",)
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding for all of them, if together they reach the floor."""
        scale = step_scale(context) / max(context.pairs, 1)
        works = [work for work in context.roofline.works if work.cost.remat and work.self_ps]
        ps = sum(work.self_ps for work in works) * scale
        if not context.matters(ps):
            return AnalysisResult()
        scopes: dict[str, float] = {}
        for work in works:
            scope = work.info.scope or NO_SCOPE
            scopes[scope] = scopes.get(scope, 0.0) + work.self_ps * scale
        largest = sorted(scopes.items(), key=lambda item: (-item[1], item[0]))[:ROWS]
        rows = [_row(work, scale) for work in works[:ROWS]]
        first, share = rows[0], context.roofline.utilisation.remat_flops_fraction
        flops = f" and {format_percent(share)} of the FLOPs in products" if share else ""
        return AnalysisResult(
            (
                context.finding(
                    "TPU231",
                    "Recomputation takes time",
                    f"{len(works)} op(s) repeat what the forward pass has computed: {of_step(context, ps)}{flops}. "
                    f"First {first['op']}{place(first)} with {format_ps(first['per_step_ps'])}.",
                    "If memory is left (see the findings on memory), save more: a jax.checkpoint policy such as "
                    "dots_with_no_batch_dims_saveable or save_only_these_names keeps what is dear to compute, and "
                    "save_and_offload_only_these_names puts it into host memory. A smaller batch per device or more "
                    "sharding may make recomputation unnecessary.",
                    ps,
                    severity="info",
                    confidence=context.confidence("steps", "hlo"),
                    evidence={
                        "remat_flops_fraction": share,
                        "ops": rows,
                        "scopes": [{"scope": scope, "per_step_ps": each} for scope, each in largest],
                    },
                    scope={name: first[name] for name in ("op", "module", "scope", "source")},
                ),
            )
        )


def _row(work: OpWork, scale: float) -> dict[str, Any]:
    info = work.info
    named = {"op": info.name, "module": info.module, "kind": info.cls.kind, "scope": info.scope, "source": info.source}
    return {**named, "per_step_ps": work.self_ps * scale, "flops": work.cost.flops}
