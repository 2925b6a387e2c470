"""Collectives that no compute hides, and whether anything could hide them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.units import format_percent, format_ps
from tpuprof_analyzers.common import PAGES, of_step, place, program_of, top_rows
from tpuprof_analyzers.independent import independent_ps

KEYS = ["op", "kind", "form", "module", "scope", "source", "mesh_axes"]
HIDES_NOTHING = 0.1
LOOKED_AT = 20
"""How many collectives, the most exposed first, are looked up in the HLO."""
_COLUMNS = (*KEYS, "occurrences", "per_step_ps")


class Collectives:
    """Exposed collectives, asynchronous ones that hide nothing, and synchronous ones that could be hidden."""

    name = "collectives"
    rules = ("TPU301", "TPU302", "TPU303")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """At most one finding per rule."""
        exposed_ps = (context.breakdown or {"parts": {}})["parts"]["collective_exposed_ps"]
        if not context.matters(exposed_ps):
            return AnalysisResult()
        groups = _groups(context)
        found = [_exposed(context, groups, exposed_ps)]
        unmet: tuple[str, ...] = ()
        if len(groups):
            found += _idle_async(context, groups, exposed_ps)
            could, unmet = _could_overlap(context, groups, exposed_ps)
            found += could
        return AnalysisResult(tuple(found), unmet)


def _groups(context: Context) -> pd.DataFrame:
    """Collectives by instruction, the most exposed first; times are means per counted step and core."""
    frame = context.collectives
    frame = frame[frame["exposed_ps"].notna().to_numpy()]
    values = frame[KEYS].astype("object").where(frame[KEYS].notna(), None)
    values = values.assign(
        per_step_ps=frame["exposed_ps"].astype("float64"), window=frame["window_ps"].astype("float64"), occurrences=1
    )
    sums = values.groupby(KEYS, dropna=False, sort=False)[["per_step_ps", "window", "occurrences"]].sum().reset_index()
    pairs = max(context.pairs, 1)
    sums = sums.assign(
        per_step_ps=sums["per_step_ps"] / pairs,
        window_ps=sums["window"] / pairs,
        each_ps=sums["per_step_ps"] / sums["occurrences"],
    )
    return sums.sort_values(["per_step_ps", "op"], ascending=[False, True], kind="stable").reset_index(drop=True)


def _exposed(context: Context, groups: pd.DataFrame, ps: float) -> Finding:
    rows = top_rows(groups, _COLUMNS)
    largest, scope = "", {}
    if rows:
        first = rows[0]
        largest = (
            f" The largest of {len(groups)} is {first['op']}{place(first)} with {format_ps(first['per_step_ps'])}."
        )
        scope = _scope(first)
    kinds, axes = _largest(groups, "kind"), _largest(groups, "mesh_axes")
    by_kind, by_axes = (", ".join(f"{name} {format_ps(ps)}" for name, ps in of.items()) for of in (kinds, axes))
    if by_axes:
        by_kind += f"; by mesh axis {by_axes}"
    return context.finding(
        "TPU301",
        "Collectives are exposed",
        f"No compute hides collectives for {of_step(context, ps)}{f': {by_kind}' if by_kind else ''}.{largest} "
        "Waiting for late cores is part of it.",
        "Send less (reduce-scatter instead of all-reduce, bf16 gradients, larger per-device batch), move the mesh axis "
        "with the most traffic to the fastest links, and let the compiler overlap: see the findings on single "
        "collectives.",
        ps,
        confidence=context.confidence("steps", "cores"),
        evidence={"collectives": rows, "kinds": kinds, **({"mesh_axes": axes} if axes else {})},
        scope=scope,
    )


def _largest(groups: pd.DataFrame, column: str) -> dict[str, float]:
    """Exposed time per step by the values of a column that are known, the four largest."""
    sums = groups.groupby(column, sort=False)["per_step_ps"].sum().nlargest(4)
    return {str(name): float(total) for name, total in sums.items()}


def _idle_async(context: Context, groups: pd.DataFrame, bound_ps: float) -> list[Finding]:
    """Asynchronous collectives under which nothing runs."""
    exposed, window = (groups[name].to_numpy(np.float64) for name in ("per_step_ps", "window_ps"))
    pairs = groups["form"].isin(["async", "async_line"]).to_numpy()
    bare = groups.take(np.flatnonzero(pairs & (exposed > (1 - HIDES_NOTHING) * window)))
    ps = min(float(bare["per_step_ps"].sum()), bound_ps)
    if not len(bare) or not context.matters(ps):
        return []
    rows = top_rows(bare, _COLUMNS)
    return [
        context.finding(
            "TPU302",
            "Asynchronous collectives hide nothing",
            f"{len(bare)} asynchronous collective(s) run with less than {format_percent(HIDES_NOTHING, 0)} of their "
            f"window under compute: {of_step(context, ps)}. The largest is {rows[0]['op']}{place(rows[0])}.",
            "Give the scheduler work to put between start and done: issue the collective before independent compute, "
            "prefetch the next layer's weights inside a scanned loop, and check that the latency-hiding scheduler's "
            "memory limit does not stop it.",
            ps,
            confidence=context.confidence("steps"),
            evidence={"collectives": rows},
            scope=_scope(rows[0]),
        )
    ]


def _could_overlap(context: Context, groups: pd.DataFrame, bound_ps: float) -> tuple[list[Finding], tuple[str, ...]]:
    """Synchronous collectives beside which the program has independent compute."""
    sync = groups[(groups["form"] == "sync").to_numpy()].head(LOOKED_AT)
    rows: list[dict[str, Any]] = []
    without_hlo = 0
    for row in top_rows(sync, (*_COLUMNS, "each_ps"), LOOKED_AT):
        program = program_of(context.trace, row["module"])
        beside = None if program is None else independent_ps(program, row["op"], _times(context, row["module"]))
        without_hlo += beside is None
        if beside:
            each = row.pop("each_ps")
            row["independent_compute_ps"] = beside * row["occurrences"] / max(context.pairs, 1)
            row["could_hide_ps"] = min(each, beside) * row["occurrences"] / max(context.pairs, 1)
            rows.append(row)
    unmet = (f"The HLO of {without_hlo} collective(s) is not in the trace: what could hide them is unknown.",)
    rows.sort(key=lambda row: -row["could_hide_ps"])
    parts = (context.breakdown or {"parts": {}})["parts"]
    compute_ps = sum(parts[f"{kind}_ps"] for kind in COMPUTE_KINDS)
    ps = min(sum(row["could_hide_ps"] for row in rows), bound_ps, compute_ps)
    if not context.matters(ps):
        return [], unmet if without_hlo else ()
    first = rows[0]
    finding = context.finding(
        "TPU303",
        "Synchronous collectives could overlap with compute",
        f"{len(rows)} synchronous collective(s) stand still while the program has compute that neither feeds nor needs "
        f"them: at most {of_step(context, ps)} could be hidden. First {first['op']}{place(first)}: "
        f"{format_ps(first['per_step_ps'])} exposed, {format_ps(first['independent_compute_ps'])} independent compute.",
        "Let the compiler make it asynchronous: on TPU the async collective and collective-matmul options with the "
        "latency-hiding scheduler (on by default in recent versions; check XLA_FLAGS), on GPU "
        "--xla_gpu_enable_latency_hiding_scheduler=true. The CPU backend never overlaps; there it shows what the "
        "program would allow.",
        ps,
        confidence=context.confidence("steps", "hlo", at_most="medium"),
        evidence={"collectives": rows[:5]},
        scope=_scope(first),
    )
    return [finding], unmet if without_hlo else ()


def _times(context: Context, module: str | None) -> dict[str, float]:
    """Mean self time per occurrence of each compute op of a program."""
    groups = context.op_groups
    mine = groups[(groups["module"] == module).to_numpy() & groups["kind"].isin(COMPUTE_KINDS).to_numpy()]
    each = mine["self_ps"] / mine["occurrences"]
    return dict(zip(mine["name"].tolist(), each.tolist(), strict=True))


def _scope(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("op", "module", "scope", "source")}
