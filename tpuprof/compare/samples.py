"""Step times of one capture, the raw material of a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuprof.errors import UsageError

MAX_STEP_PS = 1e24  # 30 000 years; sums of longer steps would leave the range of numbers

if TYPE_CHECKING:
    from tpuprof.trace import Trace


@dataclass(frozen=True)
class Samples:
    """The step times of one capture.

    Args:
        step_ps: times of the steps in ps, in the order in which they ran; may be empty.
        label: what to call the capture in messages.
        hardware: what it ran on, null if unknown. Captures on hardware of different names are not compared.

    Raises:
        UsageError: a time is negative, not a number, or beyond ``MAX_STEP_PS``.
    """

    step_ps: tuple[float, ...]
    label: str = ""
    hardware: str | None = None

    def __post_init__(self) -> None:
        for at, value in enumerate(self.step_ps):
            if not 0 <= value <= MAX_STEP_PS:  # nor a number that compares with nothing
                raise UsageError(
                    f"{value!r} is not the time of a step.",
                    where=f"{self.label or 'samples'}, step {at}",
                    hint="Leave out steps whose time is unknown.",
                )


def samples_of(trace: Trace) -> Samples:
    """The counted steps of a trace, per step the maximum over cores; empty without a source of steps."""
    from tpuprof.tables.stats import step_times

    times = () if trace.step_source == "none" else step_times(trace.steps).to_numpy()
    kinds = sorted({device.kind for device in trace.devices if device.kind})
    return Samples(tuple(float(time) for time in times), trace.name, ", ".join(kinds) or None)
