"""Table ``matmuls``: the shapes of matrix products in counted steps, with the padding that the matrix unit adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuprof.errors import UsageError
from tpuprof.hlo.cost import MatmulShape
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.perfmodel.rates import Rates
from tpuprof.roofline.schemas import MATMULS
from tpuprof.roofline.table import OpWork
from tpuprof.units import PS_PER_S

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class _Sums:
    ops: int = 0
    executions: int = 0
    self_ps: int = 0


def matmuls_frame(works: Sequence[OpWork], rates: Rates | None) -> pd.DataFrame:
    """Table ``matmuls``; rates and padding are null without ``rates``.

    An op's self time counts for each shape in it, so that the times of different shapes may overlap.
    """
    import pandas as pd

    found: dict[tuple[Any, ...], tuple[MatmulShape, _Sums]] = {}
    for work in works:
        counted: set[tuple[Any, ...]] = set()
        for shape in work.cost.matmuls:
            key = (shape.batch, shape.m, shape.k, shape.n, shape.lhs_dtype, shape.rhs_dtype, shape.out_dtype)
            _, sums = found.setdefault(key, (shape, _Sums()))
            sums.executions += shape.count * work.executions
            if key not in counted:
                counted.add(key)
                sums.ops += 1
                sums.self_ps += work.self_ps
    rows = [_row(shape, sums, rates) for shape, sums in found.values()]
    rows.sort(key=lambda row: (-row["self_ps"], row["shape"]))
    frame = pd.DataFrame(rows, columns=list(MATMULS.names))
    return MATMULS.check(frame.astype({column.name: column.pandas_dtype for column in MATMULS}))


def padding_waste(shape: MatmulShape, rates: Rates) -> float | None:
    """The share of the matrix unit's work that is padding; null without a matrix unit of known size."""
    if rates.mxu_size is None:
        return None
    try:
        return _matmul(shape).padding_waste(rates.mxu_size)
    except UsageError:  # a size of 0, or a type without a size
        return None


def _matmul(shape: MatmulShape) -> Matmul:
    return Matmul(shape.m, shape.n, shape.k, shape.batch, shape.lhs_dtype, shape.rhs_dtype, shape.out_dtype)


def _row(shape: MatmulShape, sums: _Sums, rates: Rates | None) -> dict[str, Any]:
    single = 2.0 * shape.batch * shape.m * shape.k * shape.n
    dtypes = shape.lhs_dtype if shape.lhs_dtype == shape.rhs_dtype else f"{shape.lhs_dtype} x {shape.rhs_dtype}"
    rate = None if rates is None else rates.matmul_rate(_operand_type(shape)).value
    seconds = sums.self_ps / PS_PER_S
    achieved = single * sums.executions / seconds if seconds else None
    sizes = f"{shape.m} x {shape.k} x {shape.n}"
    return {
        "shape": f"{f'{shape.batch} x ' if shape.batch > 1 else ''}{sizes} {dtypes} -> {shape.out_dtype}",
        "batch": shape.batch,
        "m": shape.m,
        "k": shape.k,
        "n": shape.n,
        "dtype": dtypes,
        "out_dtype": shape.out_dtype,
        "ops": sums.ops,
        "executions": sums.executions,
        "self_ps": sums.self_ps,
        "flops": single,
        "padding_waste": None if rates is None else padding_waste(shape, rates),
        "compute_ps": single / rate * PS_PER_S if rate else None,
        "achieved_flops": achieved,
        "efficiency": achieved / rate if achieved is not None and rate and achieved <= rate else None,
    }


def _operand_type(shape: MatmulShape) -> str:
    try:
        wide = _matmul(shape).compute_dtype
    except UsageError:
        wide = shape.lhs_dtype
    return f"{wide}@{shape.precision}" if shape.precision != "default" else wide
