"""Ops that memory bounds: far from the bandwidth, or many of them; values widened in memory; kernels without a cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpuprof.analysis import AnalysisResult, Context, Evidence, Finding
from tpuprof.units import format_percent, format_ps, format_si
from tpuprof_analyzers.common import PAGES, ROWS, of_step, place
from tpuprof_analyzers.costed import ASPECTS, LOW, CostedOp, costed_ops, ranked, small_batch, step_scale, where
from tpuprof_analyzers.upcasts import Widened, widened

_KINDS = ("elementwise", "reduction", "gather_scatter")
_PRODUCTS = ("matmul", "convolution")
_COUNTED = 1000
"""Kernels that take less than this part of the time of all are not counted."""
_KERNELS = ("custom_kernel", "attention")


class RooflineBounds:
    """Memory-bound ops that are slow, memory-bound ops as a whole, upcasts, and kernels without a cost model."""

    name = "roofline"
    rules = ("TPU221", "TPU222", "TPU223", "TPU224")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """At most one finding per rule."""
        ops, unmet = costed_ops(context)
        rates = context.roofline.rates
        if rates is None:
            return AnalysisResult(unmet=unmet)
        # Products of few rows have a rule of their own.
        bound = [
            op
            for op in ops
            if op.row["bound_by"] == "hbm"
            and (op.row["kind"] in _KINDS or (op.row["kind"] in _PRODUCTS and small_batch(op, rates) is None))
        ]
        found = [*_slow(context, bound), *_busy(context, bound), *_upcasts(context, ops), *_unknown(context)]
        return AnalysisResult(tuple(found), unmet)


def _slow(context: Context, bound: list[CostedOp]) -> list[Finding]:
    far = ranked((op, op.above_bound_ps) for op in bound if op.efficiency < LOW)
    ps = sum(gain for _, gain in far)
    if not context.matters(ps):
        return []
    rows = [_bandwidth(op, above_bound_ps=gain) for op, gain in far[:ROWS]]
    first = rows[0]
    return [
        context.finding(
            "TPU221",
            "Memory-bound ops run far below the memory's bandwidth",
            f"{len(far)} op(s) with little arithmetic per byte reach less than {format_percent(LOW, 0)} "
            f"of HBM's bandwidth: at most {of_step(context, ps)} more than their bytes need. First {first['op']}"
            f"{place(first)}: {format_ps(first['mean_ps'])} where {format_ps(first['bound_ps'])} would do "
            f"({format_si(first['achieved_hbm'], 'B/s')}).",
            "Look at the op's shapes: a last dimension that is no multiple of 128 (or a second to last of 8) leaves "
            "lanes empty, reductions over the last dimension and gathers of short rows are slow, and integer or 8-bit "
            "arithmetic can take longer than the bytes. Transpose once outside the loop, gather whole rows, or split "
            "a fusion that does too much.",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"hbm_bandwidth": context.roofline.utilisation.hbm_bandwidth, "ops": rows},
            scope=where(far[0][0]),
        )
    ]


def _busy(context: Context, bound: list[CostedOp]) -> list[Finding]:
    """What the bytes take. Time of slow ops above their bound is left to the rule for it."""
    taken = ranked((op, op.per_step_ps - (op.above_bound_ps if op.efficiency < LOW else 0.0)) for op in bound)
    ps = sum(each for _, each in taken)
    if not context.matters(ps):
        return []
    rows = [_bandwidth(op, bytes_ps=each) for op, each in taken[:ROWS]]
    first = rows[0]
    bytes_ = sum((op.row["hbm_bytes"] or 0.0) * op.row["executions"] for op in bound) / max(context.pairs, 1)
    return [
        context.finding(
            "TPU222",
            "Memory-bound ops take time",
            f"{len(bound)} op(s) with little arithmetic per byte are bound by HBM: {format_si(bytes_, 'B')} per step "
            f"and core take {of_step(context, ps)}. First {first['op']}{place(first)} with "
            f"{format_ps(first['bytes_ps'])}.",
            "Move fewer bytes: keep activations and residuals in bf16, let elementwise work fuse into the matmuls "
            "beside it (no reshape, transpose or sharding constraint in between), fuse norms and softmax by a kernel, "
            "and save less for the backward pass (jax.checkpoint with a policy) where recomputation is cheaper.",
            ps,
            confidence=context.confidence(*ASPECTS),
            evidence={"hbm_bytes_per_step": bytes_, "ops": rows},
            scope=where(taken[0][0]),
        )
    ]


def _upcasts(context: Context, ops: list[CostedOp]) -> list[Finding]:
    found: list[tuple[CostedOp, float, Widened]] = []
    for op in ops:
        wide = widened(op.work.info) if op.row["bound_by"] == "hbm" and op.row["kind"] in _KINDS else None
        if wide is not None and op.row["hbm_bytes"]:
            # What only casts need not run at all; the rest would write narrower values.
            share = 1.0 if wide.alone else min(wide.extra_bytes / op.row["hbm_bytes"], 1.0)
            found.append((op, op.per_step_ps * share, wide))
    found.sort(key=lambda item: (-item[1], item[0].row["op"]))
    ps = sum(gain for _, gain, _ in found)
    if not context.matters(ps):
        return []
    rows = [
        _bandwidth(op, **{"from": wide.narrow, "to": wide.wide}, extra_bytes=wide.extra_bytes, could_save_ps=gain)
        for op, gain, wide in found[:ROWS]
    ]
    first = rows[0]
    return [
        context.finding(
            "TPU223",
            "Values are widened in memory",
            f"{len(found)} op(s) read a narrow type and write a wider one to HBM, which costs at most "
            f"{of_step(context, ps)}. First {first['op']}{place(first)}: {first['from']} to {first['to']}, "
            f"{format_si(first['extra_bytes'], 'B')} more than before.",
            "Cast where the value is used, so that the cast fuses into its consumer, and keep what is stored in the "
            "narrow type. Look for astype(jnp.float32), float32 constants or parameters that promote bf16, and "
            "normalisations or losses that keep a float32 copy of activations or logits.",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"ops": rows},
            scope=where(found[0][0]),
        )
    ]


def _unknown(context: Context) -> list[Finding]:
    """Kernels whose FLOPs nobody states; without an impact, since what they lack is a number, not speed."""
    scale = step_scale(context) / max(context.pairs, 1)
    works = [
        work
        for work in context.roofline.works
        if not work.is_issue and work.cost.flops is None and work.info.cls.kind in _KERNELS and work.self_ps
    ]
    total = sum(work.self_ps for work in works)
    ps = total * scale
    if not context.matters(ps):
        return []
    # Dozens of kernels that last a nanosecond are free ones, and not worth counting.
    works = [work for work in works if work.self_ps * _COUNTED >= total]
    rows: list[dict[str, Any]] = [
        {
            "op": work.info.name,
            "module": work.info.module,
            "kind": work.info.cls.kind,
            "scope": work.info.scope,
            "source": work.info.source,
            "per_step_ps": work.self_ps * scale,
            "reason": work.cost.reason,
        }
        for work in works[:ROWS]
    ]
    first = rows[0]
    finding = context.finding(
        "TPU224",
        "Kernels without a cost model take time",
        f"What {len(works)} kernel(s) compute is not known, and they take {of_step(context, ps)}: MFU is a lower "
        f"bound, and they have no roofline. First {first['op']}{place(first)} with {format_ps(first['per_step_ps'])}.",
        "Give pallas_call a cost_estimate (pl.CostEstimate(flops=…, bytes_accessed=…, transcendentals=…)); it also "
        "helps the compiler's scheduler. For kernels of others register a formula: "
        "tpuprof.hlo.cost.register_formula, or the entry-point group tpuprof.costs.",
        0.0,
        severity="info",
        confidence=context.confidence("steps", "hlo"),
        scope={name: first[name] for name in ("op", "module", "scope", "source")},
    )
    evidence = (Evidence("per_step_ps", ps), Evidence("fraction", context.fraction(ps)), Evidence("kernels", rows))
    return [replace(finding, impact_ps=None, impact_fraction=None, evidence=evidence)]


def _bandwidth(op: CostedOp, **more: Any) -> dict[str, Any]:
    facts = {name: op.row[name] for name in ("hbm_bytes", "achieved_hbm", "bound_ps", "efficiency")}
    return op.evidence(**facts, **more)
