"""The words that tables use: parts of a step, kinds of ops, causes of idle time; and the columns that many share."""

from __future__ import annotations

from tpuprof.schema import Column

COMPUTE_KINDS = (
    "matmul",
    "attention",
    "custom_kernel",
    "convolution",
    "reduction",
    "elementwise",
    "gather_scatter",
    "data_movement",
    "other_compute",
)
PARTS = (*COMPUTE_KINDS, "collective_exposed", "host_transfer", "dma_wait", "barrier_wait", "idle")
"""The parts of a step, in order of precedence. They are disjoint and sum to the step exactly."""

IDLE_CAUSES = (
    "compile",
    "garbage_collection",
    "checkpoint",
    "host_sync",
    "input",
    "dispatch",
    "host_python",
    "dma_in_flight",
    "intra_program",
    "unexplained",
)

DEVICE_IDLE_CAUSES = ("dma_in_flight", "intra_program")
"""The causes that need no comparison of the host's clock with the device's."""

OP_KINDS = (*COMPUTE_KINDS, "collective", "host_transfer", "dma_wait", "container")
"""What an op can be, compute in order of precedence first. A container is no leaf."""

KIND_SOURCES = ("hlo", "category", "name", "none")
CLOCKS = ("device", "mapped", "host")

DEVICE = Column("device", "category", "The core, as `<host>/<TPU|GPU|CPU>:<n>`.")
STEP = Column("step", "int64", "The step's number.")
