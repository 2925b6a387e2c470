"""How well a step uses the hardware: model and hardware FLOP utilisation, HBM utilisation, what bounds its time.

MFU = FLOPs that the model needs (matrix products, convolutions and attention, without recomputation) over what the
devices could have executed in the time of the step. Where a kernel's FLOPs are unknown the figure is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuprof.perfmodel.rates import Rates
from tpuprof.roofline.schemas import BOUNDS
from tpuprof.roofline.table import BOUND_NAMES, OpWork, bound, dominant_dtype
from tpuprof.units import PS_PER_S

CONVENTION = (
    "FLOPs of dots, convolutions and attention kernels in the compiled program, recomputation left out; attention as "
    "each kernel executes it (the causal part only, where its formula says so)"
)
_PRODUCTS = ("matmul", "attention", "convolution", "custom_kernel")


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Utilisation of the hardware by the mean step; null where a rate or a cost is not known.

    Args:
        dtype: the operand type of most products, whose peak ``peak_flops`` is.
        peak_flops: of one runtime device, FLOP/s.
        hbm_bandwidth: of one runtime device, B/s.
        model_flops: of one device and step, without recomputation.
        hardware_flops: the same with it.
        mfu: model FLOPs over peak times step time; types with different peaks each count against their own.
        hfu: the same of hardware FLOPs.
        hbm_utilisation: HBM bytes over bandwidth times step time.
        is_lower_bound: FLOPs of some products are not known, or only a lower bound of them.
        without_cost_fraction: share of the step in compute ops whose FLOPs or bytes are not known.
        remat_flops_fraction: share of the hardware FLOPs that repeat earlier work.
        remat_ps: self time per step of ops that do nothing else.
        bound_by: self time per step by what bounds the ops, ps: ``compute``, ``hbm``, ``vmem``, ``host``, and
            ``nothing`` (known to cost nothing, or only starts a copy) and ``unknown``.
        reason: why figures are null.
    """

    dtype: str | None = None
    peak_flops: float | None = None
    hbm_bandwidth: float | None = None
    model_flops: float | None = None
    hardware_flops: float | None = None
    mfu: float | None = None
    hfu: float | None = None
    hbm_utilisation: float | None = None
    is_lower_bound: bool = False
    without_cost_fraction: float | None = None
    remat_flops_fraction: float | None = None
    remat_ps: float | None = None
    bound_by: Mapping[str, float] = field(default_factory=dict[str, float])
    reason: str | None = None


def utilisation(
    works: Sequence[OpWork], rates: Rates | None, step_ps: float | None, pairs: int, reason: str | None = None
) -> Utilisation:
    """The utilisation of the mean step.

    Args:
        works: compute ops of counted steps.
        rates: of one runtime device; null if not known, for which ``reason`` is given.
        step_ps: the mean step time (per step the slowest core); null without one.
        pairs: the number of counted (core, step) pairs, over which ``works`` are summed.
        reason: why there are no rates.
    """
    model, hardware = _by_dtype(works)
    dtype = dominant_dtype(hardware)
    runs = max(pairs, 1)
    flops = sum(hardware.values())
    common: dict[str, Any] = {
        "dtype": dtype,
        "model_flops": sum(model.values()) / runs,
        "hardware_flops": flops / runs,
        "is_lower_bound": _is_lower_bound(works),
        "without_cost_fraction": _share(sum(w.self_ps for w in works if not _has_cost(w)) / runs, step_ps),
        "remat_flops_fraction": 1 - sum(model.values()) / flops if flops else None,
        "remat_ps": sum(w.self_ps for w in works if w.cost.remat) / runs,
    }
    if rates is None:
        return Utilisation(**common, reason=reason)
    hbm = rates.link("hbm").value
    bytes_ = sum(w.cost.bytes.get("hbm", 0) * w.executions for w in works if w.cost.bytes is not None)
    return Utilisation(
        **common,
        peak_flops=rates.matmul_rate(dtype or "bf16").value,
        hbm_bandwidth=hbm,
        mfu=_share(_busy_ps(model, rates, runs), step_ps),
        hfu=_share(_busy_ps(hardware, rates, runs), step_ps),
        hbm_utilisation=_share(bytes_ / runs / hbm * PS_PER_S if hbm else None, step_ps),
        bound_by=_bound_by(works, rates, runs),
    )


def _by_dtype(works: Sequence[OpWork]) -> tuple[dict[str, float], dict[str, float]]:
    """(model FLOPs, hardware FLOPs) of products by operand type, over all executions."""
    model: dict[str, float] = {}
    hardware: dict[str, float] = {}
    for work in works:
        cost = work.cost
        executed = sum(cost.by_dtype.values())
        needed = cost.model_matmul_flops
        share = needed / executed if executed and needed is not None else 0.0
        for dtype, flops in cost.by_dtype.items():
            hardware[dtype] = hardware.get(dtype, 0.0) + flops * work.executions
            model[dtype] = model.get(dtype, 0.0) + flops * share * work.executions
    return model, hardware


def _busy_ps(by_dtype: Mapping[str, float], rates: Rates, runs: int) -> float | None:
    """How long the products of one step would take at peak; null if a peak is missing."""
    total = 0.0
    for dtype, flops in by_dtype.items():
        rate = rates.matmul_rate(dtype).value
        if rate is None and flops:
            return None
        total += flops / rate if rate else 0.0
    return total / runs * PS_PER_S


def _has_cost(work: OpWork) -> bool:
    return work.is_issue or work.cost.flops is not None


def _is_lower_bound(works: Sequence[OpWork]) -> bool:
    return any(w.cost.lower_bound or (not _has_cost(w) and w.info.cls.kind in _PRODUCTS and w.self_ps) for w in works)


def _bound_by(works: Sequence[OpWork], rates: Rates, runs: int) -> dict[str, float]:
    times: dict[str, float] = dict.fromkeys((*BOUNDS, "nothing", "unknown"), 0.0)
    for work in works:
        limit = bound(work.cost, rates)
        name = BOUND_NAMES.get(limit.bound_by or "") or ("unknown" if limit.t_bound_s is None else "nothing")
        name = "nothing" if work.is_issue else name
        times[name] += work.self_ps / runs
    return times


def _share(ps: float | None, step_ps: float | None) -> float | None:
    return ps / step_ps if ps is not None and step_ps else None
