"""What a step waits for besides collectives and the host: copies between memories, host transfers, barriers."""

from __future__ import annotations

import pandas as pd

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.units import format_ps
from tpuprof_analyzers.common import PAGES, of_step, per_step_of, place, program_of, top_rows

HOST_MEMORY = "host_memory"
_COLUMNS = ("name", "module", "detail", "scope", "source", "occurrences", "per_step_ps")


class Breakdown:
    """Parts of the mean step that are neither compute, nor collectives, nor idle."""

    name = "breakdown"
    rules = ("TPU304", "TPU411", "TPU501", "TPU502")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding per kind of wait that reaches the floor."""
        parts = (context.breakdown or {"parts": {}})["parts"]
        found = [*_copies(context, parts["dma_wait_ps"])]
        if context.matters(parts["host_transfer_ps"]):
            found.append(_host_transfer(context, parts["host_transfer_ps"]))
        if context.matters(parts["barrier_wait_ps"]):
            found.append(_barriers(context, parts["barrier_wait_ps"]))
        return AnalysisResult(tuple(found))


def _copies(context: Context, part_ps: float) -> list[Finding]:
    if not context.matters(part_ps):
        return []
    waits = _waits(context, "dma_wait", part_ps)
    host = (waits["detail"] == HOST_MEMORY).to_numpy()
    found: list[Finding] = []
    for rule, group in (("TPU501", waits[host]), ("TPU502", waits[~host])):
        ps = float(group["per_step_ps"].sum())
        if len(group) and context.matters(ps):
            found.append(_host_offload(context, group, ps) if rule == "TPU501" else _memory(context, group, ps))
    return found


def _host_offload(context: Context, waits: pd.DataFrame, ps: float) -> Finding:
    rows = top_rows(waits, _COLUMNS)
    for row in rows:
        row["used_by"] = _user(context, row["name"], row["module"])
    users = [row["used_by"] for row in rows if row["used_by"]]
    needed = f" It is needed by {users[0]}." if users else ""
    return context.finding(
        "TPU501",
        "The step waits for host-offload copies",
        f"The device waits for copies from and to host memory (S(5)): {of_step(context, ps)}. The longest wait is "
        f"{rows[0]['name']} with {format_ps(rows[0]['per_step_ps'])}.{needed}",
        "Offload less: keep on the device what the next step needs soon, offload only residuals whose recomputation "
        "costs more than the transfer, or prefetch earlier so that more compute lies between copy-start and copy-done.",
        ps,
        confidence=context.confidence("steps"),
        evidence={"memory_space": HOST_MEMORY, "waits": rows},
        scope={"op": rows[0]["name"], "module": rows[0]["module"], "source": rows[0]["source"]},
    )


def _memory(context: Context, waits: pd.DataFrame, ps: float) -> Finding:
    rows = top_rows(waits, _COLUMNS)
    spaces = sorted({str(row["detail"]) for row in rows if row["detail"]})
    named = f" (with {', '.join(spaces)})" if spaces else ""
    return context.finding(
        "TPU502",
        "The step waits for copies between memories",
        f"The device waits for asynchronous copies{named}: {of_step(context, ps)}. The longest wait is "
        f"{rows[0]['name']} with {format_ps(rows[0]['per_step_ps'])}.",
        "Look at what lies between the copy's start and its done half: too little compute to hide it. Larger blocks, "
        "another sharding, or fusing the consumer help; in Pallas kernels prefetch one block further ahead.",
        ps,
        confidence=context.confidence("steps", "hlo", at_most="high" if spaces else "medium"),
        evidence={"memory_spaces": spaces, "waits": rows},
        scope={"op": rows[0]["name"], "module": rows[0]["module"], "scope": rows[0]["scope"]},
    )


def _host_transfer(context: Context, ps: float) -> Finding:
    rows = top_rows(_waits(context, "host_transfer", ps), _COLUMNS)
    longest = f" The longest is {rows[0]['name']}." if rows else ""
    return context.finding(
        "TPU411",
        "The step waits for transfers to or from the host",
        f"Infeed, outfeed, host callbacks or copies between host and device take {of_step(context, ps)}, and no "
        f"compute hides them.{longest}",
        "Take host callbacks and debug prints out of the step, move batches to the device one step ahead "
        "(jax.device_put before the step that needs them), and fetch results rarely and in one piece.",
        ps,
        confidence=context.confidence("steps"),
        evidence={"transfers": rows},
        scope={"op": rows[0]["name"] if rows else None},
    )


def _barriers(context: Context, ps: float) -> Finding:
    waits = context.partition.groupby("device", observed=True, sort=False)["barrier_wait_ps"].mean()
    least = str(waits.idxmin())
    longest = waits.sort_values(ascending=False, kind="stable").head(16)
    rows = [{"device": str(device), "barrier_wait_ps": float(mean)} for device, mean in longest.items()]
    return context.finding(
        "TPU304",
        "Cores wait for each other at barriers",
        f"Cores wait at barriers before collectives: {of_step(context, ps)}, mean over cores. {least} waits least: it "
        "arrives last.",
        "Find out why that core is late: uneven shards or experts, work on one core only, or a host that launches "
        "late. See the findings on stragglers.",
        ps,
        confidence=context.confidence("steps", "cores"),
        evidence={"waits": rows},
        scope={"device": least},
    )


def _waits(context: Context, kind: str, part_ps: float) -> pd.DataFrame:
    groups = context.op_groups
    waits = groups[(groups["kind"] == kind).to_numpy()]
    return waits.assign(per_step_ps=per_step_of(context, waits, part_ps))


def _user(context: Context, op: str, module: str | None) -> str | None:
    """The op that uses the result of a copy, with its source line; null if the HLO does not tell."""
    program = program_of(context.trace, module)
    if program is None:
        return None
    users = {i.name for c in program.computations for i in c.instructions if op in i.operands}
    groups = context.op_groups
    rows = groups[(groups["module"] == module).to_numpy() & groups["name"].isin(list(users)).to_numpy()]
    if not len(rows):
        return None
    row = top_rows(rows, ("name", "scope", "source"), 1)[0]
    return f"{row['name']}{place(row)}"
