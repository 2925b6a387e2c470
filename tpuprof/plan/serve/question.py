"""The question that a serving plan answers."""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip
from tpuprof.hardware.topology import Slice
from tpuprof.perfmodel.checks import counted, positive
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.serve.setup import BF16, EXPECTED, NO_LIMITS, Assumptions, Sla, Types, Workload


@dataclass(frozen=True, slots=True)
class ServeQuestion:
    """What to plan.

    Args:
        slices: that may be used, all of one chip.
        budget: tokens of a step at most, of decode and prompts together.
        batches: sequences at a time to look at; powers of two up to what fits if empty.
        price_usd_per_hour: of a chip, instead of its list price.
        load: requests that arrive, as a share of what the server can do.
        rate: requests per second and server instead of that.
        seed: of the arrivals.
    """

    model: ModelConfig
    slices: tuple[Slice, ...]
    workload: Workload
    types: Types = BF16
    assumed: Assumptions = EXPECTED
    sla: Sla = NO_LIMITS
    budget: int = 2048
    batches: tuple[int, ...] = ()
    price_usd_per_hour: float | None = None
    load: float = 0.8
    rate: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        counted("The token budget", self.budget)
        for batch in self.batches:
            counted("The batch", batch)
        if not self.slices:
            raise UsageError("There is no slice to plan for.", hint="Give --topology or --chips.")
        if not 0 < self.load < 1:
            raise UsageError(f"The load is {self.load}; it is a share above 0 and below 1.", hint="Write 0.8.")
        if self.rate is not None:
            positive("The rate of requests", self.rate)
        if self.price_usd_per_hour is not None:
            positive("The price", self.price_usd_per_hour)
        self.workload.check(self.model)

    @property
    def chip(self) -> Chip:
        """The kind of chip."""
        return self.slices[0].chip

    @property
    def price(self) -> float | None:
        """US dollars per chip and hour; null if not known."""
        listed = self.chip.price_usd_per_hour
        return self.price_usd_per_hour or (None if listed is None else listed.value)
