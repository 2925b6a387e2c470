"""Data movement on the device: copies, transposes and slices that compute nothing."""

from __future__ import annotations

from tpuprof.analysis import AnalysisResult, Context
from tpuprof.units import PS_PER_S, format_ps, format_si
from tpuprof_analyzers.common import PAGES, base_name, of_step, per_step_of, place, top_rows

NO_SCOPE = "(no scope)"


class LayoutCopies:
    """Time in ops that only move data, by scope."""

    name = "layout_copies"
    rules = ("TPU201",)
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding for all of them, if together they reach the floor."""
        ps = (context.breakdown or {"parts": {}})["parts"]["data_movement_ps"]
        if not context.matters(ps):
            return AnalysisResult()
        groups = context.op_groups
        moves = groups[(groups["kind"] == "data_movement").to_numpy()]
        each = per_step_of(context, moves, ps)
        moves = moves.assign(per_step_ps=each, form=[base_name(name) for name in moves["name"]])
        scopes = moves.assign(scope=moves["scope"].fillna(NO_SCOPE)).groupby("scope", sort=False)["per_step_ps"].sum()
        by_scope = [{"scope": str(scope), "per_step_ps": float(total)} for scope, total in scopes.nlargest(5).items()]
        forms = moves.groupby("form", sort=False)["per_step_ps"].sum().nlargest(3)
        rows = top_rows(moves, ("name", "form", "module", "scope", "source", "occurrences", "per_step_ps"))
        first = rows[0]
        moved = _moved(context)
        carried = (
            ""
            if moved["at_bandwidth_ps"] is None
            else (
                f" They move {format_si(moved['hbm_bytes_per_step'], 'B')} of HBM, which takes "
                f"{format_ps(moved['at_bandwidth_ps'])} at its full bandwidth."
            )
        )
        kinds = ", ".join(f"{form} {format_ps(float(total))}" for form, total in forms.items())
        return AnalysisResult(
            (
                context.finding(
                    "TPU201",
                    "Copies, transposes and slices take time",
                    f"Ops that only move data take {of_step(context, ps)}: {kinds}. The largest is {first['name']}"
                    f"{place(first)} with {format_ps(first['per_step_ps'])}.{carried}",
                    "Make producer and consumer agree on the layout: choose the order of dimensions in einsum so that "
                    "no transpose is needed, keep one sharding from op to op, donate buffers (donate_argnums), and "
                    "avoid slicing and concatenating inside the step.",
                    ps,
                    confidence=context.confidence("steps", "hlo"),
                    evidence={"ops": rows, "scopes": by_scope, **moved},
                    scope={
                        "op": first["name"],
                        "module": first["module"],
                        "scope": first["scope"],
                        "source": first["source"],
                    },
                ),
            )
        )


def _moved(context: Context) -> dict[str, float | None]:
    """Bytes of HBM that these ops move per step, as far as known, and what the bandwidth needs for them."""
    works = [work for work in context.roofline.works if work.info.cls.kind == "data_movement" and not work.is_issue]
    known = [work for work in works if work.cost.bytes is not None]
    if not known:
        return {"hbm_bytes_per_step": None, "at_bandwidth_ps": None}
    bytes_ = sum((work.cost.bytes or {}).get("hbm", 0) * work.executions for work in known) / max(context.pairs, 1)
    bandwidth = context.roofline.utilisation.hbm_bandwidth
    return {"hbm_bytes_per_step": bytes_, "at_bandwidth_ps": bytes_ / bandwidth * PS_PER_S if bandwidth else None}
