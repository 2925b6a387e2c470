"""What programs cost: FLOPs, bytes per memory, loops and collectives, from the HLO alone.

`program_cost` counts a module, `instruction_cost` the lone instruction of a trace event; `register_formula` tells both
what a custom call costs.
"""

from tpuprof.hlo.cost.contraction import mxu_passes
from tpuprof.hlo.cost.formulas import CallCost, CustomCall, Formula, RegisteredFormula, register_formula
from tpuprof.hlo.cost.lone import instruction_cost
from tpuprof.hlo.cost.model import CollectiveCost, MatmulShape, OpCost, ProgramCost, Totals, TripCount
from tpuprof.hlo.cost.program import program_cost

__all__ = [
    "CallCost",
    "CollectiveCost",
    "CustomCall",
    "Formula",
    "MatmulShape",
    "OpCost",
    "ProgramCost",
    "RegisteredFormula",
    "Totals",
    "TripCount",
    "instruction_cost",
    "mxu_passes",
    "program_cost",
    "register_formula",
]
