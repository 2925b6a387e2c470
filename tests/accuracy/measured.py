"""What tpuprof says of a case, under the names of the truth."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tpuprof
from tests.accuracy.truth import IDLE
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.testing import TraceBuilder


def measured_by_tpuprof(trace: TraceBuilder) -> dict[str, float | None]:
    """Quantities in ps from the report's mean step, null where tpuprof says that it does not know."""
    with tempfile.TemporaryDirectory() as directory:
        return quantities(tpuprof.load(trace.write(Path(directory))))


def counted_steps(trace: TraceBuilder) -> list[tuple[str, int]]:
    """(device, length in ps) of the steps that enter tpuprof's means."""
    with tempfile.TemporaryDirectory() as directory:
        steps = tpuprof.load(trace.write(Path(directory))).steps
    rows = steps[steps["counted"]]
    return [(str(device), int(length)) for device, length in zip(rows["device"], rows["duration_ps"], strict=True)]


def quantities(loaded: tpuprof.Trace) -> dict[str, float | None]:
    """The mean step of a loaded trace."""
    mean: Any = loaded.breakdown()
    parts = mean["parts"]
    steps = loaded.steps
    counted = steps[steps["counted"]]
    own = loaded.collectives.merge(counted[["device", "step"]], on=["device", "step"])
    causes = {name: mean["idle_causes"][f"{name.removeprefix('idle: ')}_ps"] for name in IDLE}
    return {
        "step": mean["step_ps"],
        "matmul": parts["matmul_ps"],
        "compute": sum(parts[f"{kind}_ps"] for kind in COMPUTE_KINDS),
        "collective exposed": parts["collective_exposed_ps"],
        "collective hidden": mean["hidden"]["collective_ps"],
        "each exposed": int(own["exposed_ps"].sum()) / len(counted),
        "each hidden": int(own["hidden_ps"].sum()) / len(counted),
        "host transfer": parts["host_transfer_ps"],
        "dma wait": parts["dma_wait_ps"],
        "dma hidden": mean["hidden"]["dma_ps"],
        "barrier wait": parts["barrier_wait_ps"],
        "idle": parts["idle_ps"],
        **causes,
    }
