"""Data movement on the device: copies, transposes and slices that compute nothing."""

from __future__ import annotations

from tpuprof.analysis import AnalysisResult, Context
from tpuprof.units import format_ps
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
        kinds = ", ".join(f"{form} {format_ps(float(total))}" for form, total in forms.items())
        return AnalysisResult(
            (
                context.finding(
                    "TPU201",
                    "Copies, transposes and slices take time",
                    f"Ops that only move data take {of_step(context, ps)}: {kinds}. The largest is {first['name']}"
                    f"{place(first)} with {format_ps(first['per_step_ps'])}.",
                    "Make producer and consumer agree on the layout: choose the order of dimensions in einsum so that "
                    "no transpose is needed, keep one sharding from op to op, donate buffers (donate_argnums), and "
                    "avoid slicing and concatenating inside the step.",
                    ps,
                    confidence=context.confidence("steps", "hlo"),
                    evidence={"ops": rows, "scopes": by_scope},
                    scope={
                        "op": first["name"],
                        "module": first["module"],
                        "scope": first["scope"],
                        "source": first["source"],
                    },
                ),
            )
        )
