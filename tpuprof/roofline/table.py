"""Table ``roofline``: each op's cost against the hardware's rates and against its measured time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.perfmodel.ops import OpBound, op_time
from tpuprof.perfmodel.rates import Rates
from tpuprof.roofline.costs import Cost, ProgramCosts, op_cost
from tpuprof.roofline.schemas import ROOFLINE
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    import pandas as pd

BOUND_NAMES = {"compute": "compute", "vector": "compute", "hbm": "hbm", "vmem": "vmem", "host": "host"}
_MEMORIES = ("hbm", "vmem", "host")
_SLICES = "It does not read its operands as a whole: no memory is that fast. How much it reads is not in the trace."
ROUNDING = 0.02
ROUNDING_PS = 10_000.0
"""An op that is faster than its bound by less than this share, or by less than this time, may have been rounded."""


@dataclass(frozen=True, slots=True)
class OpWork:
    """One op of counted steps: what it is, what it costs, and what was measured of it on all cores together."""

    infos: tuple[OpInfo, ...]
    cost: Cost
    executions: int
    self_ps: int

    @property
    def info(self) -> OpInfo:
        """The op, or the first of its kernels."""
        return self.infos[0]

    @property
    def is_issue(self) -> bool:
        """True for the start half of asynchronous work: its bytes move later, beside other ops."""
        return self.info.cls.phase == "start"


def op_work(infos: Sequence[OpInfo], rows: np.ndarray[Any, Any], self_ps: np.ndarray[Any, Any]) -> list[OpWork]:
    """The compute ops among these occurrences, the one with the most self time first.

    Args:
        infos: what each op is.
        rows: for each occurrence its row of ``infos``.
        self_ps: for each occurrence its self time.
    """
    count = np.bincount(rows, minlength=len(infos))
    total = np.zeros(len(infos), np.int64)
    np.add.at(total, rows, self_ps)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero(count).tolist():
        info = infos[row]
        if info.cls.kind in COMPUTE_KINDS:
            groups.setdefault((info.name, info.module, info.program_id), []).append(row)
    programs = ProgramCosts()
    found: list[OpWork] = []
    for members in groups.values():
        members.sort(key=lambda row: (-int(total[row]), row))
        each = tuple(infos[row] for row in members)
        # Several kernels of one instruction run once each per execution of it.
        executions = max(int(count[row]) for row in members)
        found.append(OpWork(each, op_cost(each, programs), executions, int(total[members].sum())))
    return sorted(found, key=lambda work: (-work.self_ps, work.info.name))


def bound(cost: Cost, rates: Rates) -> OpBound:
    """How long one execution takes at least on one runtime device.

    Products whose peak is not known have no bound: that of their bytes alone would pass for their roofline.
    """
    limit = op_time(
        cost.by_dtype if cost.flops is not None else {"unknown": None},
        {"hbm": None, "vmem": None} if cost.bytes is None else cost.bytes,
        rates,
        vector_flops=cost.vector_flops,
    )
    if limit.t_compute_s is None and any(cost.by_dtype.values()):
        return replace(limit, t_bound_s=None, bound_by=None)
    return limit


def plausible(works: Sequence[OpWork], rates: Rates) -> list[OpWork]:
    """The same, without bytes that are an upper bound and cannot be true: the memories are not that fast.

    A fusion without its body may take one slice of an array that is many times as large.
    """
    found: list[OpWork] = []
    for work in works:
        if work.cost.whole_operands and work.executions:
            limit = bound(work.cost, rates)
            if limit.bound_by in _MEMORIES and _is_fast(work.self_ps / work.executions, _ps(limit.t_bound_s)):
                work = replace(work, cost=replace(work.cost, bytes=None, whole_operands=False, reason=_SLICES))
        found.append(work)
    return found


def roofline_frame(works: Sequence[OpWork], rates: Rates) -> pd.DataFrame:
    """Table ``roofline``; issuing halves are left out."""
    import pandas as pd

    clock = rates.chip.clock_hz.value if rates.chip is not None and rates.chip.clock_hz is not None else None
    rows = [_row(work, bound(work.cost, rates), clock) for work in works if not work.is_issue]
    frame = pd.DataFrame(rows, columns=list(ROOFLINE.names))
    return ROOFLINE.check(frame.astype({column.name: column.pandas_dtype for column in ROOFLINE}))


def dominant_dtype(by_dtype: Mapping[str, float]) -> str | None:
    """The operand type (with its precision) of most of the products; null without any."""
    return max(by_dtype, key=lambda name: by_dtype[name]) if any(by_dtype.values()) else None


def _row(work: OpWork, limit: OpBound, clock: float | None) -> dict[str, Any]:
    info, cost = work.info, work.cost
    mean = work.self_ps / work.executions
    bound_ps = _ps(limit.t_bound_s)
    fast = _is_fast(mean, bound_ps)
    hbm = None if cost.bytes is None else float(cost.bytes.get("hbm", 0))
    seconds = work.self_ps / PS_PER_S
    return {
        "op": info.name,
        "module": info.module,
        "kind": info.cls.kind,
        "scope": info.scope,
        "source": info.source,
        "executions": work.executions,
        "self_ps": work.self_ps,
        "cost_source": cost.source,
        "reason": cost.reason or (limit.reasons.get("t_compute_s") if bound_ps is None else None),
        "note": cost.note,
        "remat": cost.remat,
        "flops": cost.flops,
        "matmul_flops": cost.matmul_flops,
        "dtype": dominant_dtype(cost.by_dtype),
        "hbm_bytes": hbm,
        "vmem_bytes": None if cost.bytes is None else float(cost.bytes.get("vmem", 0)),
        "intensity": cost.flops / hbm if cost.flops is not None and hbm else None,
        "compute_ps": _ps(_longer(limit.t_compute_s, limit.t_vector_s)),
        "hbm_ps": _ps(limit.t_hbm_s),
        "vmem_ps": _ps(limit.t_vmem_s),
        "bound_ps": bound_ps,
        "bound_by": BOUND_NAMES.get(limit.bound_by or ""),
        "mean_ps": mean,
        "achieved_flops": cost.flops * work.executions / seconds if cost.flops is not None and seconds else None,
        "achieved_hbm": hbm * work.executions / seconds if hbm is not None and seconds else None,
        "efficiency": None if bound_ps is None or fast or not mean else min(bound_ps / mean, 1.0),
        # FLOPs that are an upper bound (an attention kernel that may skip blocks) prove nothing.
        "above_peak": fast and not cost.upper_bound,
        "recoverable_ps": None if bound_ps is None else max(work.self_ps - bound_ps * work.executions, 0.0),
        "estimate_ps": cost.estimated_cycles / clock * PS_PER_S if cost.estimated_cycles and clock else None,
    }


def _is_fast(mean_ps: float, bound_ps: float | None) -> bool:
    return bound_ps is not None and mean_ps < bound_ps * (1 - ROUNDING) and mean_ps < bound_ps - ROUNDING_PS


def _ps(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * PS_PER_S


def _longer(matrix: float | None, vector: float | None) -> float | None:
    """The two units work side by side; null if the matrix unit's time is not known."""
    return None if matrix is None else max(matrix, vector or 0.0)
