"""What an op, a matmul, a transfer or a collective should cost, each with the derivation of the number.

Every calculator is a pure function of numbers. None of them knows a trace, and none holds a constant of a chip: those
are data in :mod:`tpuprof.hardware`. The names here are the ones that most programs need; each module has more.
"""

from __future__ import annotations

from tpuprof.perfmodel.arrays import Array, parse_array, parse_mesh
from tpuprof.perfmodel.collective_time import CollectiveTime, collective_time
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.layer import mlp_communication
from tpuprof.perfmodel.matmul import Matmul, matmul_of, matmul_of_line
from tpuprof.perfmodel.matmul_time import MatmulTime, critical_rows, matmul_time
from tpuprof.perfmodel.mesh_collective import AxisLinks, over_mesh
from tpuprof.perfmodel.ops import OpBound, op_time
from tpuprof.perfmodel.product_cost import WayCost, costs, needed
from tpuprof.perfmodel.products import Way, ways
from tpuprof.perfmodel.rates import Rate, Rates, rates_of, rates_of_whole
from tpuprof.perfmodel.roofline import attainable, overlap, ridge
from tpuprof.perfmodel.sharding import Sharding, shard

__all__ = [
    "Array",
    "AxisLinks",
    "CollectiveTime",
    "Derivation",
    "Matmul",
    "MatmulTime",
    "OpBound",
    "Quantity",
    "Rate",
    "Rates",
    "Sharding",
    "Step",
    "Way",
    "WayCost",
    "attainable",
    "collective_time",
    "costs",
    "critical_rows",
    "matmul_of",
    "matmul_of_line",
    "matmul_time",
    "mlp_communication",
    "needed",
    "op_time",
    "over_mesh",
    "overlap",
    "parse_array",
    "parse_mesh",
    "rates_of",
    "rates_of_whole",
    "ridge",
    "shard",
    "ways",
]
