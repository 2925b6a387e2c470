"""The candidates of a serving plan: one split on one slice at one batch, with its times, rates, memory and cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuprof.perfmodel.rates import rates_of
from tpuprof.plan.serve.fit import ServeMemory, cache_of, capacity_of, memory_of, most_sequences
from tpuprof.plan.serve.forward import ForwardModel
from tpuprof.plan.serve.layout import ServeLayout, problem
from tpuprof.plan.serve.links import UnknownLinkError
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serve.steady import Apart, Steady, apart, cost_per_million, steady_state
from tpuprof.units import format_bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A simulated server under random arrivals.

    Args:
        rate: requests per second that came.
        load: that, as a share of what the server can do; above 1 the queue grows without end.
        requests: how many were simulated.
        ttft_p50_s, ttft_p90_s, ttft_p99_s: times to the first token, waiting included.
        tpot_p50_s: time per further token; null if requests have a single one.
        meets: the limits, at the 0.9 quantile of the first token and the median of the others.
        cost: US dollars per million generated tokens at this load; null if the price of a chip is not known.
    """

    rate: float
    load: float
    requests: int
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    tpot_p50_s: float | None
    meets: bool
    cost: float | None


@dataclass(frozen=True, slots=True)
class ServeCandidate:
    """One split on one slice at one batch.

    Args:
        forward: the times of its passes.
        most: sequences that fit, or that the token budget allows.
        cost: US dollars per million generated tokens; null if the price of a chip is not known.
        missed: which limit it misses and by how much; empty if none.
        loaded: simulated for the best of some slices; null elsewhere.
        why: why it is first, or why it is not.
    """

    layout: ServeLayout
    forward: ForwardModel = field(repr=False)
    steady: Steady
    apart: Apart
    memory: ServeMemory
    most: int
    cost: float | None
    missed: str
    loaded: Loaded | None = None
    why: str = ""

    @property
    def tokens_per_s_per_chip(self) -> float:
        """Generated tokens per second and chip."""
        return self.steady.tokens_per_s / self.layout.chips

    @property
    def meets(self) -> bool:
        """Whether it meets the limits, under load too where that was simulated."""
        return not self.missed and (self.loaded is None or self.loaded.meets)

    @property
    def latency_s(self) -> float:
        """What the trade-off is about: time per token, or to the first one where that is the only one."""
        return self.steady.ttft_s if self.steady.tpot_s is None else self.steady.tpot_s


@dataclass(frozen=True, slots=True)
class Rejected:
    """A split that was not considered, or a batch of it, and why.

    Args:
        kind: what does not work out: the ``split`` itself, ``memory``, ``links`` that are not known, or the ``budget``
            of tokens.
    """

    layout: ServeLayout
    why: str
    kind: str
    batch: int | None = None


def points(question: ServeQuestion, layout: ServeLayout) -> tuple[list[ServeCandidate], list[Rejected]]:
    """All batches of a split, the smallest first, and what is wrong with it or some of them.

    Between powers of two, the largest batch that meets the limits is searched to a sixteenth.

    Raises:
        UsageError: a rate of the hardware is not known, or the budget is far too small for the prompt.
    """
    model, types, workload = question.model, question.types, question.workload
    refused = problem(model, layout)
    if refused:
        return [], [Rejected(layout, refused, "split")]
    capacity = capacity_of(question.chip).value * question.assumed.memory_fraction
    room = most_sequences(model, layout, types, workload, question.budget, capacity)
    if room == 0:
        kept = memory_of(model, layout, types, workload, 1, question.budget, capacity)
        return [], [Rejected(layout, _too_much(kept, 1), "memory")]
    most = min(room, question.budget)
    forward = ForwardModel(model, layout, types, rates_of(question.chip), question.assumed)
    try:
        ttft = forward.prompt(workload.prompt, question.budget).total
        forward.decode_attention(1, 1)
    except UnknownLinkError as error:
        return [], [Rejected(layout, f"{error.what} {error.why}", "links")]
    sent = cache_of(model, layout, types, workload.prompt, 1) * layout.heads * layout.token_ways

    def point(batch: int) -> ServeCandidate:
        kept = memory_of(model, layout, types, workload, batch, question.budget, capacity)
        steady = steady_state(forward, workload, batch, question.budget, ttft)
        two = apart(forward, workload, batch, ttft, sent)
        price = question.price
        cost = None if price is None else cost_per_million(price, steady.tokens_per_s / layout.chips)
        return ServeCandidate(
            layout, forward, steady, two, kept, most, cost, question.sla.missed(steady.ttft_s, steady.tpot_s)
        )

    if question.batches:
        wrong: list[Rejected] = []
        for batch in question.batches:
            if batch > most:
                kept = memory_of(model, layout, types, workload, batch, question.budget, capacity)
                budget = f"The token budget of {question.budget} leaves no token for each of {batch} sequences."
                kind, why = ("budget", budget) if kept.fits else ("memory", _too_much(kept, batch))
                wrong.append(Rejected(layout, why, kind, batch))
        return [point(batch) for batch in sorted(question.batches) if batch <= most], wrong
    found = [point(batch) for batch in _powers(most)]
    able = max((one.steady.batch for one in found if not one.missed), default=0)
    unable = min((one.steady.batch for one in found if one.missed and one.steady.batch > able), default=0)
    while able and unable - able > max(1, able // 16):
        middle = point((able + unable) // 2)
        found.append(middle)
        able, unable = (able, middle.steady.batch) if middle.missed else (middle.steady.batch, unable)
    return sorted(found, key=lambda one: one.steady.batch), []


def _powers(most: int) -> list[int]:
    found = [1 << bit for bit in range(most.bit_length())]
    return found if found[-1] == most else [*found, most]


def _too_much(kept: ServeMemory, batch: int) -> str:
    sequences = "one sequence" if batch == 1 else f"{batch} sequences"
    return (
        f"Weights ({format_bytes(kept.weights)}), the cache of {sequences} ({format_bytes(kept.cache)}) and work "
        f"({format_bytes(kept.work)}) do not fit the {format_bytes(kept.capacity)} of a device."
    )
