"""Matrix products that could be faster with other sizes or types: padding, small batches, float32."""

from __future__ import annotations

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.dtypes import packed_bytes
from tpuprof.hlo.cost import MatmulShape
from tpuprof.perfmodel.rates import Rates
from tpuprof.roofline.matmuls import operand_type, padding_waste
from tpuprof.units import PS_PER_S, format_percent, format_ps
from tpuprof_analyzers.common import PAGES, ROWS, of_step, place
from tpuprof_analyzers.costed import (
    ASPECTS,
    LOW,
    CostedOp,
    costed_ops,
    free_size,
    largest,
    ranked,
    shape_text,
    small_batch,
    where,
)

_PRODUCTS = ("matmul", "convolution", "attention")
_WIDE = ("f32", "f64")


class MatmulShapes:
    """Padded products, small batches, products far below their bound, and float32 ones."""

    name = "matmul_shapes"
    rules = ("TPU211", "TPU212", "TPU213", "TPU214")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """At most one finding per rule."""
        ops, unmet = costed_ops(context)
        rates = context.roofline.rates
        if rates is None:
            return AnalysisResult(unmet=unmet)
        found = [
            *_padded(context, ops, rates),
            *_small(context, ops, rates),
            *_slow(context, ops),
            *_wide(context, ops, rates),
        ]
        return AnalysisResult(tuple(found), unmet)


def _padded(context: Context, ops: list[CostedOp], rates: Rates) -> list[Finding]:
    edge = rates.mxu_size
    saved = ranked((op, op.saved_ps(op.row["bound_ps"])) for op in ops if op.work.cost.matmuls)
    ps = sum(gain for _, gain in saved)
    if edge is None or not context.matters(ps):
        return []
    rows = [
        op.evidence(
            shape=shape_text(shape),
            padding_waste=padding_waste(shape, rates),
            free_size=" x ".join(map(str, free_size(shape, edge))),
            could_save_ps=gain,
        )
        for op, gain in saved[:ROWS]
        for shape in [max(op.work.cost.matmuls, key=lambda s: s.flops * (padding_waste(s, rates) or 0.0))]
    ]
    first = rows[0]
    return [
        context.finding(
            "TPU211",
            "Matmuls multiply padding",
            f"Products whose sizes do not fill the {edge} x {edge} matrix unit spend at most {of_step(context, ps)} on "
            f"padding. First {first['op']}{place(first)}: {first['shape']}, {format_percent(first['padding_waste'], 0)}"
            f" padding; {first['free_size']} would take as long.",
            f"Make contracted sizes and the wider of the other two multiples of {edge} (head size, hidden sizes after "
            "sharding, vocabulary), shard another dimension, or join several small products into one (one QKV "
            "projection, experts of one device as a batch, heads side by side).",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"mxu_size": edge, "matmuls": rows},
            scope=where(saved[0][0]),
        )
    ]


def _small(context: Context, ops: list[CostedOp], rates: Rates) -> list[Finding]:
    found = [
        (op, op.saved_ps(op.row["compute_ps"] or 0.0), *small)
        for op in ops
        if (small := small_batch(op, rates)) is not None
    ]
    found.sort(key=lambda item: (-item[1], item[0].row["op"]))
    ps = sum(item[1] for item in found)
    if not context.matters(ps):
        return []
    rows = [
        op.evidence(
            shape=shape_text(largest(op.work.cost.matmuls)),
            rows=product.m,
            critical_rows=needed,
            hbm_bytes=op.row["hbm_bytes"],
            could_save_ps=gain,
        )
        for op, gain, product, needed in found[:ROWS]
    ]
    first = rows[0]
    return [
        context.finding(
            "TPU212",
            "Matmuls wait for memory because their batch is small",
            f"{len(found)} product(s) take longer to read from HBM than to multiply, since each copy of the weights "
            f"serves few rows. First {first['op']}{place(first)}: {first['rows']} rows, {rates.name} needs "
            f"{first['critical_rows']:,.0f}. With as many, the same work would take at most {of_step(context, ps)} "
            "less.",
            "Give each copy of the weights more tokens per step: a larger batch per device, fewer replicas of the "
            "weights, chunked prefill beside decoding, or speculative decoding. Or read fewer bytes: int8 or fp8 "
            "weights. Where the product has a batch dimension (attention over a cache), more queries per key do it "
            "(grouped or multi-query attention).",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"matmuls": rows},
            scope=where(found[0][0]),
        )
    ]


def _slow(context: Context, ops: list[CostedOp]) -> list[Finding]:
    far = ranked(
        (op, op.above_bound_ps)
        for op in ops
        if op.row["kind"] in _PRODUCTS
        and op.row["matmul_flops"]
        and op.efficiency < LOW
        and op.padded_ps >= op.memory_ps
    )
    ps = sum(gain for _, gain in far)
    if not context.matters(ps):
        return []
    rows = [
        op.evidence(
            shape=shape_text(largest(op.work.cost.matmuls)) if op.work.cost.matmuls else None,
            achieved_flops=op.row["achieved_flops"],
            bound_ps=op.padded_bound_ps,
            efficiency=op.efficiency,
            above_bound_ps=gain,
        )
        for op, gain in far[:ROWS]
    ]
    first = rows[0]
    return [
        context.finding(
            "TPU213",
            "Matmuls run far below their compute bound",
            f"{len(far)} op(s) that arithmetic bounds run at less than {format_percent(LOW, 0)} of the matrix unit's "
            f"rate, padding allowed for: at most {of_step(context, ps)} more than they need. First {first['op']}"
            f"{place(first)}: {format_ps(first['mean_ps'])} where {format_ps(first['bound_ps'])} would do "
            f"({format_percent(first['efficiency'])}).",
            "Look at what is fused into the product (transposes, gathers and casts of its inputs keep the matrix unit "
            "waiting), at products too small to fill its pipeline, and at the precision that was asked for. In Pallas "
            "and attention kernels try larger blocks and more pipelining.",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"matmuls": rows},
            scope=where(far[0][0]),
        )
    ]


def _wide(context: Context, ops: list[CostedOp], rates: Rates) -> list[Finding]:
    bandwidth = rates.link("hbm").value
    found = ranked(
        (op, op.saved_ps(_bf16_bound(op, rates, bandwidth)))
        for op in ops
        # Where sizes were inferred, the types in the fusion are not known.
        if op.work.cost.source != "trace" and any(_is_wide(shape) for shape in op.work.cost.matmuls)
    )
    ps = sum(gain for _, gain in found)
    if not context.matters(ps):
        return []
    rows = [
        op.evidence(shape=shape_text(largest([s for s in op.work.cost.matmuls if _is_wide(s)])), could_save_ps=gain)
        for op, gain in found[:ROWS]
    ]
    first = rows[0]
    return [
        context.finding(
            "TPU214",
            "Matmuls run in float32",
            f"{len(found)} op(s) multiply float32 operands, or ask for a high precision: in bf16 they would take at "
            f"most {of_step(context, ps)} less. First {first['op']}{place(first)}: {first['shape']}.",
            "Cast activations and weights to bf16 before the product and keep the sum in float32 "
            "(preferred_element_type=jnp.float32). Look for jax_default_matmul_precision, precision=HIGH or HIGHEST "
            "and float32 parameters; keep those that the numerics need.",
            ps,
            confidence=context.confidence(*ASPECTS, at_most="medium"),
            evidence={"matmuls": rows},
            scope=where(found[0][0]),
        )
    ]


def _is_wide(shape: MatmulShape) -> bool:
    return operand_type(shape).partition("@")[0] in _WIDE


def _bf16_bound(op: CostedOp, rates: Rates, bandwidth: float | None) -> float:
    """The bound of one execution with bf16 operands in its float32 products; outputs keep their type."""
    bf16 = rates.matmul_rate("bf16").value
    compute, spared = op.padded_ps, 0.0
    for shape in op.work.cost.matmuls:
        rate = rates.matmul_rate(operand_type(shape)).value
        if not _is_wide(shape):
            continue
        if rate and bf16:
            waste = 0.0 if shape.kind == "convolution" else padding_waste(shape, rates) or 0.0
            compute -= max(shape.flops / (1.0 - waste) * (1.0 / rate - 1.0 / bf16), 0.0) * PS_PER_S
        spared += sum(_narrowed(dtype, size) for dtype, size in _operands(shape)) * shape.count
    hbm, vmem = op.row["hbm_ps"] or 0.0, op.row["vmem_ps"] or 0.0
    if bandwidth:
        # Operands in other memories are among those that are spared: no more than half of what HBM carries is.
        hbm = max(hbm - spared / bandwidth * PS_PER_S, hbm / 2)
    return max(compute, hbm, vmem)


def _operands(shape: MatmulShape) -> tuple[tuple[str, int], tuple[str, int]]:
    return (
        (shape.lhs_dtype, shape.batch * shape.m * shape.k),
        (shape.rhs_dtype, shape.batch * shape.k * shape.n),
    )


def _narrowed(dtype: str, elements: int) -> float:
    """Bytes that an operand loses as bf16."""
    return max(packed_bytes(dtype, elements) - 2.0 * elements, 0.0) if dtype in _WIDE else 0.0
