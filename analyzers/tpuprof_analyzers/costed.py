"""The compute ops of a step with their bounds: what analyzers of the roofline share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tpuprof.analysis import Context
from tpuprof.errors import UsageError
from tpuprof.hlo.cost import MatmulShape
from tpuprof.perfmodel.matmul import SUBLANES, Matmul
from tpuprof.perfmodel.matmul_time import critical_rows
from tpuprof.perfmodel.rates import Rates
from tpuprof.report.plain import records
from tpuprof.roofline.matmuls import operand_type, padding_waste
from tpuprof.roofline.table import OpWork
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.units import PS_PER_S

LOW = 0.5
"""Below this share of its bound an op is far from it."""
ASPECTS = ("steps", "hlo", "hardware")
"""What findings about bounds are drawn from."""


@dataclass(frozen=True, slots=True)
class CostedOp:
    """One op with a known bound.

    Args:
        row: its row of table ``roofline``, as plain data.
        work: what it costs.
        per_step_ps: its self time in the mean step.
        padded_ps: one execution on the matrix unit with the padding of its products; at least ``row["compute_ps"]``.
    """

    row: dict[str, Any]
    work: OpWork
    per_step_ps: float
    padded_ps: float

    @property
    def memory_ps(self) -> float:
        """One execution at the bandwidth of the slowest memory, as far as known."""
        return max(self.row["hbm_ps"] or 0.0, self.row["vmem_ps"] or 0.0)

    @property
    def padded_bound_ps(self) -> float:
        """The bound of one execution with padding."""
        return max(self.row["bound_ps"], self.padded_ps)

    @property
    def efficiency(self) -> float:
        """That bound over the measured mean, at most 1."""
        return min(self.padded_bound_ps / self.row["mean_ps"], 1.0) if self.row["mean_ps"] else 1.0

    @property
    def above_bound_ps(self) -> float:
        """Self time per step above the bound."""
        return self.per_step_ps * (1.0 - self.efficiency)

    def saved_ps(self, better_ps: float) -> float:
        """Self time per step that a lower bound saves, if the op stays as close to its bound as it is."""
        bound = self.padded_bound_ps
        return self.per_step_ps * max(1.0 - better_ps / bound, 0.0) if bound else 0.0

    def evidence(self, **more: Any) -> dict[str, Any]:
        """Where the op is and what it takes, with more facts."""
        named = {name: self.row[name] for name in ("op", "module", "kind", "scope", "source")}
        return {**named, "per_step_ps": self.per_step_ps, "mean_ps": self.row["mean_ps"], **more}


def costed_ops(context: Context) -> tuple[list[CostedOp], tuple[str, ...]]:
    """Ops with a bound, the one with the most time first, and why there are none.

    Ops that were measured faster than their bound are left out: something about them is wrong.
    """
    found = context.roofline
    if found.rates is None:
        return [], (found.hardware.reason,)
    works = [work for work in found.works if not work.is_issue]
    scale = step_scale(context) / max(context.pairs, 1)
    ops = [
        CostedOp(row, work, work.self_ps * scale, _padded_ps(work, row["compute_ps"] or 0.0, found.rates))
        for row, work in zip(records(found.table), works, strict=True)
        if row["bound_ps"] is not None and not row["above_peak"]
    ]
    return ops, ()


def step_scale(context: Context) -> float:
    """What self times of compute ops must be multiplied by to add up to no more than the compute of a step.

    On GPUs and CPUs several run at once.
    """
    parts = (context.breakdown or {"parts": {}})["parts"]
    compute = sum(parts.get(f"{kind}_ps", 0.0) for kind in COMPUTE_KINDS) * context.pairs
    total = sum(work.self_ps for work in context.roofline.works)
    return compute / total if total > compute * (1 + 1e-9) else 1.0


def matmul_of_shape(shape: MatmulShape) -> Matmul | None:
    """The product with its fewer rows as ``m``; null if a size is 0 or a type unknown."""
    try:
        if shape.m <= shape.n:
            return Matmul(shape.m, shape.n, shape.k, shape.batch, shape.lhs_dtype, shape.rhs_dtype, shape.out_dtype)
        return Matmul(shape.n, shape.m, shape.k, shape.batch, shape.rhs_dtype, shape.lhs_dtype, shape.out_dtype)
    except UsageError:
        return None


def small_batch(op: CostedOp, rates: Rates) -> tuple[Matmul, float] | None:
    """The largest product of an op that HBM bounds and the rows from which on arithmetic would; null if it is none.

    Also null where no number of rows would do, because the other sizes are small.
    """
    bandwidth = rates.link("hbm").value
    if op.row["bound_by"] != "hbm" or not op.work.cost.matmuls or bandwidth is None:
        return None
    shape = largest(op.work.cost.matmuls)
    product, peak = matmul_of_shape(shape), rates.matmul_rate(operand_type(shape)).value
    if product is None or peak is None or shape.kind == "convolution":
        return None
    needed = critical_rows(product, peak, bandwidth).number()
    return (product, needed) if product.m < needed < float("inf") else None


def shape_text(shape: MatmulShape) -> str:
    """``[batch x] m x k x n type`` of a product."""
    batch = f"{shape.batch} x " if shape.batch > 1 else ""
    return f"{batch}{shape.m} x {shape.k} x {shape.n} {operand_type(shape)}"


def largest(shapes: Sequence[MatmulShape]) -> MatmulShape:
    """The product with the most operations."""
    return max(shapes, key=lambda shape: shape.flops)


def free_size(shape: MatmulShape, edge: int) -> tuple[int, int, int]:
    """The sizes (m, k, n) that cost as much as this product does with its padding."""
    k = _up(shape.k, edge)
    ways = ((_up(shape.m, SUBLANES), _up(shape.n, edge)), (_up(shape.m, edge), _up(shape.n, SUBLANES)))
    m, n = min(ways, key=lambda way: way[0] * way[1])
    return m, k, n


def ranked(pairs: Iterable[tuple[CostedOp, float]]) -> list[tuple[CostedOp, float]]:
    """Ops with what they could gain, the largest first; those that gain nothing left out."""
    return sorted((pair for pair in pairs if pair[1] > 0), key=lambda pair: (-pair[1], pair[0].row["op"]))


def where(op: CostedOp) -> dict[str, Any]:
    """The scope of a finding about this op first of all."""
    return {name: op.row[name] for name in ("op", "module", "scope", "source")}


def _padded_ps(work: OpWork, compute_ps: float, rates: Rates) -> float:
    extra = 0.0
    for shape in work.cost.matmuls:
        # The sizes of a real convolution hold its window; how that is padded is not known.
        waste = None if shape.kind == "convolution" else padding_waste(shape, rates)
        rate = rates.matmul_rate(operand_type(shape)).value
        if waste and rate:
            extra += shape.flops * waste / (1.0 - waste) / rate * PS_PER_S
    return compute_ps + extra


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
