"""What a capture may cost: events, bytes, memory, time and disk.

A profiler keeps every event in the memory of the training process until it is stopped, one to eight kB for each, and
cannot deliver a trace above 2 GB at all. So a window is bounded beforehand by what a step of the warm-up cost,
and while it is recorded by what the process grows. Handing the trace over takes up to as much again, so limits are to
be set well below what the machine has.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tpuprof.capture.checking import positive, whole
from tpuprof.capture.eventcount import count_events
from tpuprof.errors import CaptureError
from tpuprof.units import format_bytes

_GIB = 1 << 30


@dataclass(frozen=True)
class Budget:
    """Limits of the captures of one process.

    Attributes:
        max_events: events of one trace, by the estimate of the warm-up.
        max_bytes: size of one trace, by the same estimate.
        max_memory_bytes: by how much the process may grow while it is recorded; then the window ends early.
        max_seconds: length of a recording; then it ends early.
        max_total_bytes: size of all traces of the process; then there are no more.
        min_free_disk_bytes: what must be free where the run is written, beside the run itself.
        stop_timeout_s: how long the program waits for its trace; then it goes on and the trace comes when it comes.
    """

    max_events: int = 1_000_000
    max_bytes: int = 1 * _GIB
    max_memory_bytes: int = 8 * _GIB
    max_seconds: float = 600.0
    max_total_bytes: int = 16 * _GIB
    min_free_disk_bytes: int = 256 << 20
    stop_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in ("max_seconds", "stop_timeout_s"):
                positive(field.name, getattr(self, field.name))
            else:
                whole(field.name, getattr(self, field.name), 0 if field.name == "min_free_disk_bytes" else 1)

    def as_dict(self) -> dict[str, Any]:
        """The limits as JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Estimate:
    """What a step costs, from the warm-up.

    Attributes:
        step_events: events of one step.
        step_bytes: their size in the trace.
        fixed_bytes: what a trace has beside its events: names and HLO.
    """

    step_events: int
    step_bytes: int
    fixed_bytes: int

    def fitting(self, budget: Budget, steps: int) -> int:
        """How many of `steps` steps the budget has room for; 0 when not even one."""
        by_events = budget.max_events // max(self.step_events, 1)
        by_bytes = (budget.max_bytes - self.fixed_bytes) // max(self.step_bytes, 1)
        return max(min(steps, by_events, by_bytes), 0)

    def size(self, steps: int) -> int:
        """Bytes of a trace of so many steps."""
        return self.fixed_bytes + steps * self.step_bytes

    def as_dict(self) -> dict[str, int]:
        """The estimate as JSON values."""
        return {"step_events": self.step_events, "step_bytes": self.step_bytes, "fixed_bytes": self.fixed_bytes}


def estimate(data: bytes, steps: int) -> Estimate:
    """What a step costs, from the trace of `steps` steps (at least 1)."""
    events, size = count_events(data)
    return Estimate(-(-events // steps), -(-size // steps), len(data) - size)


def check_disk(directory: Path, budget: Budget, expected_bytes: int = 0) -> None:
    """Nothing, if the directory's file system has room for the trace and the reserve.

    Raises:
        CaptureError: it has not.
    """
    try:
        free = shutil.disk_usage(directory).free
    except OSError:
        return  # the write itself will tell
    needed = expected_bytes + budget.min_free_disk_bytes
    if free < needed:
        raise CaptureError(
            "There is too little disk space for a trace.",
            where=str(directory),
            why=f"{format_bytes(free)} are free, {format_bytes(needed)} are needed.",
            hint="Make room, choose another log directory, or lower min_free_disk_bytes.",
        )


def resident_bytes() -> int | None:
    """Memory that this process holds; None where the system does not say it cheaply."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def overrun(budget: Budget, *, seconds: float, grown_bytes: int | None) -> str | None:
    """Why a recording must end now; None while it may go on."""
    if seconds > budget.max_seconds:
        return f"It was ended after {seconds:.0f} s, the limit max_seconds."
    if grown_bytes is not None and grown_bytes > budget.max_memory_bytes:
        return (
            f"It was ended because the process had grown by {format_bytes(grown_bytes)}, above max_memory_bytes "
            f"({format_bytes(budget.max_memory_bytes)})."
        )
    return None
