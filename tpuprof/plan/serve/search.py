"""Which slice, split and batch serve a model best: everything that fits, ranked, with why the others lose.

A candidate is one split on one slice at its best batch. Candidates that meet the limits on latency come first, then
the cheaper ones per token. All points of all splits and batches make the trade-off of latency against throughput.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip
from tpuprof.hardware.topology import Slice
from tpuprof.perfmodel.checks import counted, positive
from tpuprof.perfmodel.rates import rates_of
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.serve.fit import ServeMemory, cache_of, capacity_of, memory_of, most_sequences
from tpuprof.plan.serve.forward import ForwardModel
from tpuprof.plan.serve.layout import ServeLayout, layouts, problem
from tpuprof.plan.serve.reasons import does_not_fit, why_first, why_loses
from tpuprof.plan.serve.setup import BF16, EXPECTED, NO_LIMITS, Assumptions, Sla, Types, Workload
from tpuprof.plan.serve.simulation import poisson, simulate, step_times
from tpuprof.plan.serve.steady import Apart, Steady, apart, cost_per_million, steady_state
from tpuprof.units import format_bytes

LOADED_SHARE = 0.9
"""Share of the requests whose time to the first token must meet the limit under load."""
_FEWEST_REQUESTS = 200
_LEAST_REQUESTS = 10
_STEPS = 500_000
_MOST_REQUESTS = 1000
_LOWER_LOADS = (0.8, 0.6, 0.4, 0.2)
_SIMULATED_SLICES = 3
_MOST_RERANKED = 6


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
    """A split that was not considered, or a batch of it, and why."""

    layout: ServeLayout
    why: str
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class ServePlan:
    """The answer.

    Args:
        candidates: one per split that fits, the best first.
        front: points of all splits and batches that no other point beats in latency and in throughput per chip, the
            lowest latency first.
        smallest: the candidate on the smallest slice that meets the limits, under load too; null if none does.
    """

    question: ServeQuestion
    candidates: tuple[ServeCandidate, ...]
    front: tuple[ServeCandidate, ...]
    rejected: tuple[Rejected, ...]
    smallest: ServeCandidate | None


def plan_serving(question: ServeQuestion) -> ServePlan:
    """The plan for a question.

    Raises:
        UsageError: the model fits none of the slices, a rate of the hardware is not known, or a number is out of
            range.
    """
    points: dict[ServeLayout, list[ServeCandidate]] = {}
    rejected: list[Rejected] = []
    for where in question.slices:
        for layout in layouts(question.model, where):
            found, refused = _points(question, layout)
            rejected += refused
            if found:
                points[layout] = found
    if not points:
        raise does_not_fit(question.model, question.types, question.slices, [one.why for one in rejected])
    best = {layout: _best(found) for layout, found in points.items()}
    best, smallest = _under_load(question, best)
    ranked = sorted(best.values(), key=_rank)
    named = [replace(ranked[0], why=why_first(ranked[0].meets, question.sla, ranked[0].missed))]
    named += [replace(one, why=why_loses(one, ranked[0])) for one in ranked[1:]]
    if smallest is not None:
        smallest = next((one for one in named if one.layout == smallest.layout), smallest)
    every = [one for found in points.values() for one in found]
    return ServePlan(question, tuple(named), pareto(every), tuple(rejected), smallest)


def pareto(points: Sequence[ServeCandidate]) -> tuple[ServeCandidate, ...]:
    """The points that no other beats in latency and in throughput per chip; of equal ones the first."""
    found: list[ServeCandidate] = []
    for one in sorted(points, key=lambda point: (point.latency_s, -point.tokens_per_s_per_chip)):
        if not found or one.tokens_per_s_per_chip > found[-1].tokens_per_s_per_chip:
            found.append(one)
    return tuple(found)


def simulate_load(question: ServeQuestion, candidate: ServeCandidate, load: float | None = None) -> Loaded:
    """A candidate's server under the question's arrivals, or under a load of so much of what it can do."""
    steady = candidate.steady
    rate = (load or question.load) * steady.requests_per_s
    if load is None and question.rate is not None:
        rate = question.rate
    count = min(max(_FEWEST_REQUESTS, 4 * steady.batch), _MOST_REQUESTS)
    # Long answers take many steps, so that fewer of them have to do.
    count = min(count, max(_LEAST_REQUESTS, _STEPS * steady.batch // question.workload.generate))
    arrivals = poisson(rate, count, question.workload, question.seed)
    done = simulate(arrivals, step_times(candidate.forward), budget=question.budget, most=steady.batch)
    ttft, tpot = done.ttft_s(LOADED_SHARE), done.tpot_s(0.5)
    per_chip = rate * question.workload.generate / candidate.layout.chips
    cost = None if question.price is None else cost_per_million(question.price, per_chip)
    return Loaded(
        rate, rate / steady.requests_per_s, count, done.ttft_s(0.5), ttft, done.ttft_s(0.99), tpot,
        not question.sla.missed(ttft, tpot), cost,
    )  # fmt: skip


def _points(question: ServeQuestion, layout: ServeLayout) -> tuple[list[ServeCandidate], list[Rejected]]:
    """All batches of a split, and what is wrong with it or some of them."""
    model, types, workload = question.model, question.types, question.workload
    refused = problem(model, layout)
    if refused:
        return [], [Rejected(layout, refused)]
    capacity = capacity_of(question.chip).value * question.assumed.memory_fraction
    room = most_sequences(model, layout, types, workload, question.budget, capacity)
    if room == 0:
        kept = memory_of(model, layout, types, workload, 1, question.budget, capacity)
        return [], [Rejected(layout, _too_much(kept, 1))]
    most = min(room, question.budget)
    forward = ForwardModel(model, layout, types, rates_of(question.chip), question.assumed)
    ttft = forward.prompt(workload.prompt, question.budget).total
    found: list[ServeCandidate] = []
    wrong: list[Rejected] = []
    for batch in question.batches or _powers(most):
        kept = memory_of(model, layout, types, workload, batch, question.budget, capacity)
        if batch > most:
            budget = f"The token budget of {question.budget} leaves no token for each of {batch} sequences."
            wrong.append(Rejected(layout, budget if kept.fits else _too_much(kept, batch), batch))
            continue
        steady = steady_state(forward, workload, batch, question.budget, ttft)
        sent = cache_of(model, layout, types, workload.prompt, 1) * layout.heads * layout.token_ways
        two = apart(forward, workload, batch, ttft, sent)
        price = question.price
        per_chip = steady.tokens_per_s / layout.chips
        cost = None if price is None else cost_per_million(price, per_chip)
        missed = question.sla.missed(steady.ttft_s, steady.tpot_s)
        found.append(ServeCandidate(layout, forward, steady, two, kept, most, cost, missed))
    return found, wrong


def _under_load(
    question: ServeQuestion, best: dict[ServeLayout, ServeCandidate]
) -> tuple[dict[ServeLayout, ServeCandidate], ServeCandidate | None]:
    """Simulates the best split of slices: of those ranked first, and until the smallest that meets the limits is known.

    The first of the ranking is always a simulated one.
    """
    chosen = dict(best)
    first: dict[Slice, ServeCandidate] = {}
    for one in sorted(best.values(), key=_rank):
        first.setdefault(one.layout.where, one)
    smallest: ServeCandidate | None = None
    wanted = {one.layout for one in list(first.values())[:_SIMULATED_SLICES]}
    for one in sorted(first.values(), key=lambda one: one.layout.chips):
        if one.layout in wanted or (smallest is None and not one.missed):
            chosen[one.layout] = _loaded(question, one)
            if smallest is None and chosen[one.layout].meets:
                smallest = chosen[one.layout]
    for _ in range(_MOST_RERANKED):
        top = min(chosen.values(), key=_rank)
        if top.loaded is not None:
            break
        chosen[top.layout] = _loaded(question, top)
    return chosen, smallest


def _loaded(question: ServeQuestion, one: ServeCandidate) -> ServeCandidate:
    """The candidate under load; where that misses the limits, under the highest of some lower loads that does not."""
    found = simulate_load(question, one)
    if not found.meets and question.rate is None and not one.missed:
        lower = (load for load in _LOWER_LOADS if load < question.load)
        tried = (simulate_load(question, one, load) for load in lower)
        found = next((loaded for loaded in tried if loaded.meets), found)
    return replace(one, loaded=found)


def _best(points: Sequence[ServeCandidate]) -> ServeCandidate:
    """The most throughput of those that meet the limits; the lowest latency if none does."""
    able = [one for one in points if not one.missed]
    if not able:
        return min(points, key=lambda one: (one.latency_s, one.steady.ttft_s))
    return max(able, key=lambda one: (one.steady.tokens_per_s, -one.steady.batch))


def _rank(one: ServeCandidate) -> tuple[bool, float, float, int]:
    return (not one.meets, -one.tokens_per_s_per_chip, one.latency_s, one.layout.chips)


def _powers(most: int) -> list[int]:
    found = [1 << bit for bit in range(most.bit_length())]
    return found if found[-1] == most else [*found, most]


def _too_much(kept: ServeMemory, batch: int) -> str:
    sequences = "one sequence" if batch == 1 else f"{batch} sequences"
    return (
        f"Weights ({format_bytes(kept.weights)}), the cache of {sequences} ({format_bytes(kept.cache)}) and work "
        f"({format_bytes(kept.work)}) do not fit the {format_bytes(kept.capacity)} of a device."
    )
