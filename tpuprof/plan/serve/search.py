"""Which slice, split and batch serve a model best: everything that fits, ranked, with why the others lose.

A candidate is one split on one slice at its best batch. Candidates that meet the limits on latency come first, then
the cheaper ones per token. All points of all splits and batches make the trade-off of latency against throughput.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tpuprof.hardware.topology import Slice
from tpuprof.plan.serve.candidates import Loaded, Rejected, ServeCandidate
from tpuprof.plan.serve.candidates import points as points_of
from tpuprof.plan.serve.layout import ServeLayout, layouts
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serve.reasons import does_not_fit, why_first, why_loses
from tpuprof.plan.serve.simulation import poisson, simulate, step_times
from tpuprof.plan.serve.steady import cost_per_million

LOADED_SHARE = 0.9
"""Share of the requests whose time to the first token must meet the limit under load."""
CURVE_LOADS = (0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Loads of a curve: close to each other where queues grow."""
_FEWEST_REQUESTS = 200
_LEAST_REQUESTS = 10
_STEPS = 500_000
_MOST_REQUESTS = 1000
_LOWER_LOADS = (0.8, 0.6, 0.4, 0.2)
_SIMULATED_SLICES = 3
_MOST_RERANKED = 6


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
            found, refused = points_of(question, layout)
            rejected += refused
            if found:
                points[layout] = found
    if not points:
        raise does_not_fit(question.model, question.types, question.slices, rejected)
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


def load_curve(
    question: ServeQuestion, candidate: ServeCandidate, loads: Sequence[float] = CURVE_LOADS
) -> tuple[Loaded, ...]:
    """A candidate's server under more and more load, as shares of what it can do; the same requests each time."""
    return tuple(simulate_load(question, candidate, load) for load in loads)


def _under_load(
    question: ServeQuestion, best: dict[ServeLayout, ServeCandidate]
) -> tuple[dict[ServeLayout, ServeCandidate], ServeCandidate | None]:
    """Simulates the best split of slices: of those ranked first, and until the smallest that meets the limits is known.

    The first of the ranking is a simulated one, unless several before it miss the limits under load.
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
