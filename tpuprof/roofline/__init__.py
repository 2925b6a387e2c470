"""What each op, collective and step should have cost: a run's trace joined to its HLO costs and to the hardware.

``roofline(trace)`` gives a ``Roofline`` with the tables ``roofline`` and ``matmuls``, utilisations and the ladder.
"""

from tpuprof.roofline.hardware import HardwareOptions, RunHardware, run_hardware
from tpuprof.roofline.ladder import Rung
from tpuprof.roofline.run import Roofline, roofline
from tpuprof.roofline.schemas import BOUNDS, LADDER_RUNGS, MATMULS, ROOFLINE
from tpuprof.roofline.step import CONVENTION, Utilisation

__all__ = [
    "BOUNDS",
    "CONVENTION",
    "LADDER_RUNGS",
    "MATMULS",
    "ROOFLINE",
    "HardwareOptions",
    "Roofline",
    "RunHardware",
    "Rung",
    "Utilisation",
    "roofline",
    "run_hardware",
]
