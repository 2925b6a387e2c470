"""Training plans and runs together: constants fitted from runs or published rows, and plans that start from a run.

``calibrate`` and ``calibrate_published`` give a ``Calibration`` with a profile that plans take; ``shown_by`` says what
a run shows of its job, and ``compared`` sets it against a plan.
"""

from tpuprof.calibration.compared import Change, Comparison, InUse, compared
from tpuprof.calibration.fit import calibrate
from tpuprof.calibration.published import calibrate_published
from tpuprof.calibration.result import Calibration, Fitted, Kept, LeftOut, PathReach, RowOrigin, RunOrigin
from tpuprof.calibration.shown import ShownLayout, ShownRun, shown_by

__all__ = [
    "Calibration",
    "Change",
    "Comparison",
    "Fitted",
    "InUse",
    "Kept",
    "LeftOut",
    "PathReach",
    "RowOrigin",
    "RunOrigin",
    "ShownLayout",
    "ShownRun",
    "calibrate",
    "calibrate_published",
    "compared",
    "shown_by",
]
