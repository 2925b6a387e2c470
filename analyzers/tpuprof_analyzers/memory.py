"""Memory of the devices: nearly full, lost to padding, or held twice because nothing was donated."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tpuprof.analysis import AnalysisResult, Context, Evidence, Finding
from tpuprof.report.plain import records
from tpuprof.tables.memory import Peak, peak
from tpuprof.units import format_bytes, format_percent
from tpuprof_analyzers.common import PAGES, place, top_rows

FULL = 0.9
"""From this share of the device's memory on a program is close to not fitting."""
WASTED = 0.1
"""Padding, or arguments that could be donated, below this share of what the program needs is not told."""
LEAST_BYTES = 16 << 20
_COLUMNS = ("op", "kind", "shape", "scope", "source", "bytes", "unpadded_bytes")


class Memory:
    """The program that needs most of the devices' main memory.

    Memory costs no time until it is full, so that findings have no impact in ps.
    """

    name = "memory"
    rules = ("TPU511", "TPU512", "TPU513")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """At most one finding per rule."""
        most = peak(context.trace)
        if most is None:
            reasons = sorted({str(reason) for reason in context.trace.memory_summary["reason"].dropna()})
            why = f" ({', '.join(reasons)})" if reasons else ""
            return AnalysisResult(unmet=(f"The memory of no program that ran is known{why}.",))
        capacity = _capacity(context)
        unmet = () if capacity else ("How much memory a device has is not recorded.",)
        found = [*_full(context, most, capacity), *_padding(context, most), *_not_donated(context, most)]
        return AnalysisResult(tuple(found), unmet)


def _capacity(context: Context) -> int | None:
    """The memory of a device in bytes: as its plane states, else what its allocator manages; the smallest counts."""
    stated = [device.stats.get("memory_size") for device in context.trace.devices]
    sizes = [int(size) for size in stated if isinstance(size, int) and size > 0]
    # One allocator per device; others, such as that of pinned host memory, do not bear the number of a device.
    sizes += [
        row["capacity_bytes"]
        for row in records(context.trace.allocators)
        if row["capacity_bytes"] and str(row["allocator"]).startswith("device ")
    ]
    return min(sizes) if sizes else None


def _full(context: Context, most: Peak, capacity: int | None) -> list[Finding]:
    if not capacity or most.total_bytes < FULL * capacity:
        return []
    share = most.total_bytes / capacity
    return [
        _finding(
            context,
            most,
            "TPU511",
            "Device memory is nearly full",
            f"{most.module} needs {format_bytes(most.total_bytes)} of the {format_bytes(capacity)} of a device "
            f"({format_percent(share)}), {format_bytes(most.summary['temp_bytes'])} of it working memory."
            f"{_largest(most.live)}",
            "Donate arguments that are replaced (donate_argnums), rematerialise or offload activations "
            "(jax.checkpoint with a policy), shard what is replicated, or take a smaller batch per device.",
            {"capacity_bytes": capacity, "total_bytes": most.total_bytes, "live": top_rows(most.live, _COLUMNS)},
        )
    ]


def _padding(context: Context, most: Peak) -> list[Finding]:
    lost = most.summary["padding_bytes"] or 0
    if lost < LEAST_BYTES or lost < WASTED * most.total_bytes:
        return []
    known = most.live[most.live["unpadded_bytes"].notna()]
    rows = known.assign(padding=known["bytes"] - known["unpadded_bytes"]).sort_values(
        "padding", ascending=False, kind="stable"
    )
    first = top_rows(rows, _COLUMNS, 1)[0]
    share = format_percent(lost / (most.peak_bytes or 1))
    return [
        _finding(
            context,
            most,
            "TPU512",
            "Memory is lost to padding",
            f"{format_bytes(lost)} of the {format_bytes(most.peak_bytes)} at the peak of {most.module} "
            f"({share}) is padding. Most of it is in {first['op']}{place(first)}, "
            f"{first['shape']}: {format_bytes(first['bytes'])} for {format_bytes(first['unpadded_bytes'])} of "
            "elements.",
            "Make the two minor dimensions multiples of the tile (8 or 16 by 128 on TPU), fold small trailing "
            "dimensions into others, or transpose so that a large dimension comes last.",
            {"padding_bytes": lost, "live": top_rows(rows, _COLUMNS)},
        )
    ]


def _not_donated(context: Context, most: Peak) -> list[Finding]:
    """Arguments that stay while a result of the same shape takes memory of its own."""
    results: dict[tuple[str, int], int] = {}
    rows = records(most.live)
    for row in rows:
        if row["kind"] == "output" and row["shape"]:
            key = (row["shape"], row["bytes"])
            results[key] = results.get(key, 0) + 1
    twice: list[dict[str, Any]] = []
    for row in rows:
        key = (row["shape"], row["bytes"])
        if row["kind"] == "parameter" and not row["aliased"] and results.get(key):
            results[key] -= 1
            twice.append({name: row[name] for name in _COLUMNS})
    held = sum(row["bytes"] for row in twice)
    if held < LEAST_BYTES or held < WASTED * most.total_bytes:
        return []
    return [
        _finding(
            context,
            most,
            "TPU513",
            "Arguments could be donated",
            f"{len(twice)} argument(s) of {most.module} with {format_bytes(held)} stay in memory beside results of the "
            f"same shapes: {format_percent(held / most.total_bytes)} of the {format_bytes(most.total_bytes)} that it "
            f"needs. The largest is {twice[0]['scope'] or twice[0]['op']}, {twice[0]['shape']}.",
            "If the old values are not needed after the call, as parameters and optimizer state of a training step, "
            "pass donate_argnums to jax.jit.",
            {"bytes": held, "arguments": twice[:5]},
        )
    ]


def _finding(
    context: Context,
    most: Peak,
    rule: str,
    title: str,
    message: str,
    suggestion: str,
    evidence: dict[str, Any],
) -> Finding:
    return Finding(
        rule=rule,
        severity="warning" if rule == "TPU511" else "info",
        title=title,
        message=message,
        suggestion=suggestion,
        confidence=context.confidence("hlo"),
        evidence=tuple(Evidence(name, value) for name, value in evidence.items()),
        scope={"module": most.module, "memory_space": most.memory_space},
    )


def _largest(live: pd.DataFrame) -> str:
    rows = top_rows(live, _COLUMNS, 1)
    if not rows:
        return ""
    row = rows[0]
    return f" The largest buffer at the peak is {row['op']}{place(row)} with {format_bytes(row['bytes'])}."
