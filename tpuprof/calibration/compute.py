"""What ops of a run reach of the rates of their chip, as samples of a calibration: matmuls, attention, main memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.calibration.estimates import Sample
from tpuprof.calibration.result import Ledger
from tpuprof.hlo.cost.attention import head_sizes
from tpuprof.perfmodel.rates import Rates
from tpuprof.roofline import Roofline
from tpuprof.roofline.matmuls import padding_waste
from tpuprof.roofline.table import ROUNDING, OpWork, bound, dominant_dtype
from tpuprof.tables.hlo_kinds import operand_shapes
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    from tpuprof.trace import Trace

LEAST_LAUNCHES = 10
"""Ops whose bound is shorter than so many launches tell more of fixed times than of a rate."""
LOOPS = ("elementwise", "reduction", "data_movement")
"""Kinds of ops whose time is that of main memory, if anything is."""


@dataclass(frozen=True, slots=True)
class ComputeSamples:
    """Samples by constant of the chip: ``matmul`` by operand type, ``attention`` and ``memory``."""

    matmul: dict[str, list[Sample]]
    attention: list[Sample]
    memory: list[Sample]


def compute_samples(trace: Trace, found: Roofline, launch_s: float, ledger: Ledger) -> ComputeSamples:
    """The samples of a run whose chip is known; what is not used goes to the ledger.

    The fixed part of an op is taken off its time first, as the plan adds it for itself.

    Args:
        launch_s: that fixed part, seconds.
    """
    drawn = ComputeSamples({}, [], [])
    rates = found.rates
    if rates is None:
        return drawn
    times = _medians(trace)
    for work in found.works:
        kind = work.info.cls.kind
        constant = "memory" if kind in LOOPS else kind
        if work.is_issue or constant not in ("matmul", "attention", "memory"):
            continue
        seconds = _seconds(work, times)
        sample = _sample(work, constant, seconds, rates, launch_s)
        if isinstance(sample, str):
            ledger.add(constant, sample, work.info.name, work.self_ps / PS_PER_S)
        elif constant == "matmul":
            drawn.matmul.setdefault(dominant_dtype(work.cost.by_dtype) or "", []).append(sample)
        else:
            (drawn.attention if constant == "attention" else drawn.memory).append(sample)
    return drawn


def _sample(work: OpWork, constant: str, seconds: float, rates: Rates, launch_s: float) -> Sample | str:
    """The sample of an op, or why it is none."""
    if not seconds:
        return "its time is zero or not known"
    cost = work.cost
    limit = bound(cost, rates)
    if limit.t_bound_s is None:
        return "its cost or the rate is not known"
    if cost.upper_bound or cost.lower_bound or cost.whole_operands:
        return "only a bound of its cost is known"
    if limit.t_bound_s * (1 - ROUNDING) > seconds:
        return "faster than the hardware allows: peak, cost or time is wrong"
    if constant == "memory":
        if limit.bound_by != "hbm":
            return "not bound by main memory"
        ideal = limit.t_bound_s
    else:
        if limit.bound_by != "compute":
            return "not bound by the matrix unit"
        padded = _padding(work, constant, rates)
        if padded is None:
            return "the size of its heads is not known, on which the padding depends"
        ideal = limit.t_bound_s * padded
    if ideal < LEAST_LAUNCHES * launch_s:
        return "too short: fixed times decide"
    spent = seconds - launch_s
    if ideal > spent * (1 + ROUNDING) + launch_s:
        return "faster than the matrix unit with the padding that is assumed"
    return Sample(work.info.name, min(ideal, spent), spent, work.executions)


def _padding(work: OpWork, constant: str, rates: Rates) -> float | None:
    """Operations after padding to the matrix unit over those before; null if that cannot be told."""
    edge = rates.mxu_size
    if edge is None:
        return 1.0
    if constant == "attention":
        info = work.info
        if info.instruction is None:
            return None
        sizes = head_sizes(info.instruction, operand_shapes(info.instruction, info.program))
        if sizes is None or min(sizes) < 1:
            return None
        return sum(-(-size // edge) * edge for size in sizes) / sum(sizes)
    before = after = 0.0
    for shape in work.cost.matmuls:
        waste = padding_waste(shape, rates)
        flops = 2.0 * shape.batch * shape.m * shape.n * shape.k * shape.count
        before += flops
        after += flops if waste is None else flops / (1 - waste)
    return after / before if before else 1.0


def _seconds(work: OpWork, times: dict[int, float]) -> float:
    if len(work.infos) == 1:
        return times.get(id(work.info), 0.0)
    return work.self_ps / PS_PER_S / max(work.executions, 1)


def _medians(trace: Trace) -> dict[int, float]:
    """The median self time of each op in counted steps, seconds, by the identity of its facts; bad times left out."""
    counted = trace.counted_ops
    own = trace.ops["self_ps"].to_numpy(np.int64, na_value=-1)[counted]
    rows = trace.op_rows[counted]
    rows, own = rows[own >= 0], own[own >= 0]
    order = np.lexsort((own, rows))
    rows, own = rows[order], own[order]
    which, first, count = np.unique(rows, return_index=True, return_counts=True)
    middle = (own[first + (count - 1) // 2] + own[first + count // 2]) / 2 / PS_PER_S
    infos = trace.built.infos
    return {id(infos[int(row)]): float(value) for row, value in zip(which, middle, strict=True)}
