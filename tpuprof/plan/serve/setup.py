"""What a serving plan is asked: requests, types, limits on latency, and what the hardware is assumed to reach."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tpuprof.dtypes import hlo_dtype
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.serve.engine import VLLM, Engine

LONGEST = 10_000_000
"""Tokens of the longest sequence that is planned."""
MOST_GENERATED = 100_000
"""Tokens of the longest answer, which the simulation makes one by one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of equal length.

    Args:
        prompt: tokens that come in.
        generate: tokens that go out; the first one comes from the prompt's own pass.

    Raises:
        UsageError: a number is below 1 or very large.
    """

    prompt: int
    generate: int

    def __post_init__(self) -> None:
        counted("The length of the prompt", self.prompt)
        counted("The number of generated tokens", self.generate)
        if self.generate > MOST_GENERATED:
            raise UsageError(
                f"An answer of {self.generate:,} tokens is too long.", hint=f"The limit is {MOST_GENERATED:,}."
            )
        if self.context > LONGEST:
            raise UsageError(f"A sequence of {self.context:,} tokens is too long.", hint=f"The limit is {LONGEST:,}.")

    @property
    def context(self) -> int:
        """Tokens of a sequence when it ends, which is what its cache needs room for."""
        return self.prompt + self.generate

    @property
    def mean_context(self) -> int:
        """Tokens that a decode step sees on average, rounded up."""
        return self.prompt + math.ceil(self.generate / 2)

    def check(self, model: ModelConfig) -> None:
        """Raises a UsageError if the model has learned positions and fewer of them than a sequence has tokens."""
        if model.positions and self.context > model.positions:
            raise UsageError(
                f"{model.name} has {model.positions:,} positions, and a sequence has {self.context:,} tokens.",
                hint="Give a shorter --prompt or --generate.",
            )


@dataclass(frozen=True, slots=True)
class Types:
    """Element types of weights, cache and activations; the wider of weights and activations is multiplied.

    Raises:
        UsageError: there is no such type.
    """

    weights: str = "bf16"
    cache: str = "bf16"
    activations: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("weights", "cache", "activations"):
            object.__setattr__(self, name, hlo_dtype(getattr(self, name)))


BF16 = Types()
"""Everything in bf16."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What real programs reach of the figures of the hardware.

    The defaults come from one public trace of an engine (vLLM on TPU7x, a prompt of 1,024 tokens): matmuls that stream
    weights reach 0.73 of the bandwidth, those of the prompt 0.66 of the peak. Nothing is fitted to measured servers,
    but these replaced rounder and higher numbers after planned servers had turned out too fast. The scaling book
    measures a layer's decode at two thirds of the bandwidth, large plain matmuls reach 0.86 to 0.99 of their peak.

    Args:
        memory: share of the memory bandwidth.
        compute: share of the peak rate, after padding.
        overhead_s: of every step, for the host and what is no matmul.
        memory_fraction: share of the memory that weights, cache and work may fill.
        bound_links: collectives take their physical bound, not what measurements lead to expect.
        overlap: share of a layer's collectives that may hide behind its matmuls, at most as long as those take.
        engine: what the engine spends besides; null if it spends nothing.
    """

    memory: float = 0.73
    compute: float = 0.66
    overhead_s: float = 1e-3
    memory_fraction: float = 0.9
    bound_links: bool = False
    overlap: float = 0.0
    engine: Engine | None = VLLM

    def __post_init__(self) -> None:
        named = {"memory bandwidth": self.memory, "peak rate": self.compute, "memory": self.memory_fraction}
        for name, value in named.items():
            if not 0 < value <= 1:
                raise UsageError(f"The share of the {name} is {value}; it is above 0 and at most 1.")
        not_negative("The overhead of a step", self.overhead_s)
        if not 0 <= self.overlap <= 1:
            raise UsageError(f"The overlap is {self.overlap}; it is a share from 0 to 1.")


EXPECTED = Assumptions()
"""The defaults."""

BOUND = Assumptions(1.0, 1.0, 0.0, 1.0, True, 1.0, None)
"""The hardware's figures themselves and communication that hides, as the scaling book calculates."""


@dataclass(frozen=True, slots=True)
class Sla:
    """Limits on latency; null is no limit.

    Args:
        ttft_s: seconds to the first token.
        tpot_s: seconds per further token.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("first token", self.ttft_s), ("token", self.tpot_s)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UsageError(f"The limit on the time to a {name} is {value}; it must be above zero.")

    def missed(self, ttft_s: float, tpot_s: float | None) -> str:
        """Which limit these times miss and by how much, as a sentence; empty if none."""
        found: list[str] = []
        if self.ttft_s is not None and ttft_s > self.ttft_s:
            found.append(f"the first token takes {_times(ttft_s / self.ttft_s)} the limit")
        if self.tpot_s is not None and tpot_s is not None and tpot_s > self.tpot_s:
            found.append(f"a token takes {_times(tpot_s / self.tpot_s)} the limit")
        return " and ".join(found)


NO_LIMITS = Sla()
"""Any latency will do."""


def _times(ratio: float) -> str:
    return f"{ratio:.4g} times" if ratio < 1000 else f"{ratio:,.0f} times"
