"""A small simulation of a continuous-batching server under random arrivals, the same for the same seed.

Each step first gives every decoding sequence its token, then spends what is left of the token budget on prompts, first
come first served, in pieces if need be. The pass that ends a prompt makes the first token. A request takes a place when
it starts and keeps it to its end, so that nothing is ever evicted.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, positive
from tpuprof.plan.serve.forward import ForwardModel
from tpuprof.plan.serve.setup import Workload

MOST_STEPS = 2_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one prompt in a step, and the keys that they see, their own included."""

    tokens: int
    keys: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """What one step does.

    Args:
        decoding: sequences that get a token.
        context: tokens in all their caches together, the new ones included.
        pieces: of prompts.
    """

    decoding: int
    context: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One request: when it came and how long it is."""

    arrival_s: float
    prompt: int
    generate: int


@dataclass(frozen=True, slots=True)
class Served:
    """What became of a request: seconds from the start of the simulation."""

    request: Request
    first_token_s: float
    finish_s: float

    @property
    def ttft_s(self) -> float:
        """From its arrival to its first token."""
        return self.first_token_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Per further token, on average; null if there is none."""
        more = self.request.generate - 1
        return (self.finish_s - self.first_token_s) / more if more else None


@dataclass(frozen=True, slots=True)
class Simulated:
    """A finished simulation.

    Args:
        served: in the order of arrival.
        steps: that the server took.
        busy_s: seconds in steps.
        end_s: when the last request ended.
        prompt_tokens, generated_tokens: that steps worked on.
    """

    served: tuple[Served, ...]
    steps: int
    busy_s: float
    end_s: float
    prompt_tokens: int
    generated_tokens: int

    def ttft_s(self, share: float) -> float:
        """The time to the first token that this share of requests does not pass (0.5 is the median)."""
        return quantile([one.ttft_s for one in self.served], share)

    def tpot_s(self, share: float) -> float | None:
        """The same of the time per further token; null if no request has one."""
        found = [one.tpot_s for one in self.served if one.tpot_s is not None]
        return quantile(found, share) if found else None

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens over the time from the first arrival to the end."""
        return self.generated_tokens / (self.end_s - self.served[0].request.arrival_s)


@dataclass(slots=True)
class _Running:
    index: int
    request: Request
    done: int = 0  # tokens of the prompt
    made: int = 0  # generated tokens
    first_s: float = 0.0


def poisson(rate: float, count: int, workload: Workload, seed: int = 0) -> tuple[Request, ...]:
    """Requests whose arrivals are independent of each other, at so many per second on average.

    Raises:
        UsageError: a number is not above zero.
    """
    positive("The rate of requests", rate)
    counted("The number of requests", count)
    source = random.Random(seed)
    now = 0.0
    found: list[Request] = []
    for _ in range(count):
        now += source.expovariate(rate)
        found.append(Request(now, workload.prompt, workload.generate))
    return tuple(found)


def simulate(
    requests: Sequence[Request], step_time: Callable[[StepWork], float], *, budget: int, most: int
) -> Simulated:
    """Serves requests in the order of their arrival.

    Args:
        step_time: seconds of a step.
        budget: tokens of a step at most.
        most: sequences at a time.

    Raises:
        UsageError: there are no requests, they are not in order, the budget is smaller than the most sequences, or
            there would be too many steps.
    """
    _check(requests, budget, most)
    waiting = deque(_Running(index, request) for index, request in enumerate(requests))
    running: list[_Running] = []
    served: list[Served | None] = [None] * len(requests)
    now = busy = 0.0
    steps = prompts = generated = 0
    while waiting or running:
        if not running and waiting[0].request.arrival_s > now:
            now = waiting[0].request.arrival_s
        while waiting and len(running) < most and waiting[0].request.arrival_s <= now:
            running.append(waiting.popleft())
        decoding = [one for one in running if one.made]
        pieces, parts = _pieces(running, budget - len(decoding))
        context = sum(one.request.prompt + one.made for one in decoding)
        took = step_time(StepWork(len(decoding), context, tuple(pieces)))
        steps, now, busy = steps + 1, now + took, busy + took
        if steps > MOST_STEPS:
            raise UsageError(f"The simulation passes {MOST_STEPS:,} steps.", hint="Simulate fewer requests.")
        for one in decoding:
            one.made += 1
        for one, tokens in parts:
            one.done += tokens
            prompts += tokens
            if one.done == one.request.prompt:
                one.made, one.first_s = 1, now
                generated += 1
        generated += len(decoding)
        for one in running:
            if one.made == one.request.generate:
                served[one.index] = Served(one.request, one.first_s, now)
        running = [one for one in running if one.made < one.request.generate]
    return Simulated(tuple(one for one in served if one is not None), steps, busy, now, prompts, generated)


def step_times(forward: ForwardModel) -> Callable[[StepWork], float]:
    """The time of a step on a layout; token counts are rounded up to multiples of 8, as engines pad them.

    Contexts are rounded up to 1/64 of themselves, which changes times by less than that and lets results be reused.
    """
    known: dict[tuple[int, int, tuple[Piece, ...]], float] = {}

    def seconds(work: StepWork) -> float:
        mean = ceil(work.context / work.decoding) if work.decoding else 0
        grain = max(1, 1 << max(0, mean.bit_length() - 7))
        mean = ceil(mean / grain) * grain
        key = (work.decoding, mean, work.pieces)
        found = known.get(key)
        if found is None:
            tokens = work.decoding + sum(piece.tokens for piece in work.pieces)
            whole = forward.linear(8 * ceil(tokens / 8), work.decoding + len(work.pieces)) + forward.overhead
            if work.decoding:
                whole += forward.decode_attention(work.decoding, mean)
            for piece in work.pieces:
                whole += forward.prompt_attention(piece.tokens, piece.keys)
            found = known[key] = whole.total
        return found

    return seconds


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of all does not pass.

    Raises:
        UsageError: there are no values, or the share is not above 0 and at most 1.
    """
    if not values or not 0 < share <= 1:
        raise UsageError(f"There is no quantile {share} of {len(values)} values.")
    return sorted(values)[ceil(share * len(values)) - 1]


def _pieces(running: Sequence[_Running], room: int) -> tuple[list[Piece], list[tuple[_Running, int]]]:
    pieces: list[Piece] = []
    parts: list[tuple[_Running, int]] = []
    for one in running:
        left = one.request.prompt - one.done
        if not left or room <= 0:
            continue
        tokens = min(left, room)
        room -= tokens
        pieces.append(Piece(tokens, one.done + tokens))
        parts.append((one, tokens))
    return pieces, parts


def _check(requests: Sequence[Request], budget: int, most: int) -> None:
    if not requests:
        raise UsageError("There are no requests to simulate.")
    if any(later.arrival_s < earlier.arrival_s for earlier, later in pairwise(requests)):
        raise UsageError("The requests are not in the order of their arrival.")
    if counted("The most sequences at a time", most) > counted("The token budget", budget):
        raise UsageError(
            f"{most} sequences do not fit a budget of {budget} tokens per step.",
            hint="Every sequence that decodes takes a token of the budget; give a larger --token-budget.",
        )
