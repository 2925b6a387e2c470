"""The simulated server: by hand, against a slower one, against queueing theory, and what it never breaks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.serve.tiny import forward
from tpuprof.errors import UsageError
from tpuprof.plan.serve import Request, Simulated, StepWork, Workload, poisson, simulate, steady_state, step_times
from tpuprof.plan.serve.simulation import quantile


def unit(work: StepWork) -> float:
    return 1.0


def by_tokens(work: StepWork) -> float:
    return 1.0 + 0.25 * work.decoding + 0.125 * sum(piece.tokens for piece in work.pieces) + work.context / 64


def test_three_requests_by_hand() -> None:
    """Budget 4, two places, steps of 1 s; prompts of 6, 3 and 1, answers of 3, 2 and 1."""
    asked = [Request(0.0, 6, 3), Request(0.0, 3, 2), Request(1.5, 1, 1)]
    done = simulate(asked, unit, budget=4, most=2)
    # Step 1: 4 of the first prompt. Step 2: its last 2 and 2 of the second. Step 3: a token of the first, the last of
    # the second. Step 4: tokens of both, which ends both. Step 5: the third.
    assert [one.first_token_s for one in done.served] == [2, 3, 5]
    assert [one.finish_s for one in done.served] == [4, 4, 5]
    assert [one.ttft_s for one in done.served] == [2, 3, 3.5]
    assert [one.tpot_s for one in done.served] == [1, 1, None]
    assert (done.steps, done.busy_s, done.prompt_tokens, done.generated_tokens) == (5, 5, 10, 6)


def test_an_idle_server_waits() -> None:
    done = simulate([Request(2.0, 1, 1), Request(10.0, 1, 1)], unit, budget=4, most=4)
    assert [one.finish_s for one in done.served] == [3, 11]
    assert (done.busy_s, done.end_s) == (2, 11)


@settings(deadline=None)
@given(gaps=st.lists(st.floats(0, 3), min_size=1, max_size=30))
def test_one_place_is_a_queue_with_a_single_server(gaps: list[float]) -> None:
    """Lindley: a request waits for what is left of its predecessor's wait and service when it comes."""
    now, asked = 0.0, []
    for gap in gaps:
        now += gap
        asked.append(Request(now, 1, 1))
    wait, expected = 0.0, [1.0]
    for earlier, later in pairwise(asked):
        wait = max(0.0, wait + 1.0 - (later.arrival_s - earlier.arrival_s))
        expected.append(wait + 1.0)
    done = simulate(asked, unit, budget=1, most=1)
    assert [one.ttft_s for one in done.served] == pytest.approx(expected)


def test_random_arrivals_wait_as_queueing_theory_says() -> None:
    """One place, constant service of 1 s, 60 % load: 0.6 / (2 * 0.4) = 0.75 s of waiting on average (M/D/1)."""
    done = simulate(poisson(0.6, 20_000, Workload(1, 1), seed=3), unit, budget=1, most=1)
    mean = sum(one.ttft_s for one in done.served) / len(done.served)
    assert mean == pytest.approx(1.75, rel=0.05)


def slow(asked: list[Request], budget: int, most: int) -> list[tuple[float, float]]:
    """The same server written token by token: first token and end of every request."""
    now = 0.0
    prompts = {i: r.prompt for i, r in enumerate(asked)}
    answers = {i: r.generate for i, r in enumerate(asked)}
    seen: dict[int, int] = {}
    first: dict[int, float] = {}
    end: dict[int, float] = {}
    places: list[int] = []
    queue = list(range(len(asked)))
    while len(end) < len(asked):
        while queue and len(places) < most and asked[queue[0]].arrival_s <= now:
            places.append(queue.pop(0))
        if not places:
            now = asked[queue[0]].arrival_s
            continue
        left = budget
        token_of = []
        for i in places:
            if prompts[i] == 0:
                token_of.append(i)
                left -= 1
        context = sum(asked[i].prompt + asked[i].generate - answers[i] for i in token_of)
        taken: dict[int, int] = {}
        for i in places:
            while i not in token_of and prompts[i] > 0 and left > 0:
                prompts[i] -= 1
                left -= 1
                taken[i] = taken.get(i, 0) + 1
                seen[i] = seen.get(i, 0) + 1
        now += 1.0 + 0.25 * len(token_of) + 0.125 * sum(taken.values()) + context / 64
        for i in token_of:
            answers[i] -= 1
        for i in taken:
            if prompts[i] == 0:
                first[i] = now
                answers[i] -= 1
        for i in list(places):
            if prompts[i] == 0 and answers[i] == 0:
                end[i] = now
                places.remove(i)
    return [(first[i], end[i]) for i in range(len(asked))]


requests = st.lists(st.tuples(st.floats(0, 20), st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=150)
@given(asked=requests, most=st.integers(1, 4), extra=st.integers(0, 6))
def test_the_same_as_a_server_written_token_by_token(
    asked: list[tuple[float, int, int]], most: int, extra: int
) -> None:
    made = [Request(*one) for one in sorted(asked)]
    done = simulate(made, by_tokens, budget=most + extra, most=most)
    assert [(one.first_token_s, one.finish_s) for one in done.served] == [
        pytest.approx(pair) for pair in slow(made, most + extra, most)
    ]


@settings(deadline=None)
@given(asked=requests, most=st.integers(1, 4), extra=st.integers(0, 6))
def test_nothing_is_lost_and_nothing_is_early(asked: list[tuple[float, int, int]], most: int, extra: int) -> None:
    made = [Request(*one) for one in sorted(asked)]
    seen: list[StepWork] = []

    def watched(work: StepWork) -> float:
        seen.append(work)
        return by_tokens(work)

    done = simulate(made, watched, budget=most + extra, most=most)
    assert [one.request for one in done.served] == made
    assert done.prompt_tokens == sum(one.prompt for one in made)
    assert done.generated_tokens == sum(one.generate for one in made)
    assert done.steps == len(seen)
    assert all(1 <= work.decoding + sum(p.tokens for p in work.pieces) <= most + extra for work in seen)
    assert all(work.decoding + len(work.pieces) <= most for work in seen)
    assert all(one.ttft_s >= 1 and one.finish_s >= one.first_token_s for one in done.served)
    assert done.busy_s <= done.end_s + 1e-9


def _again(seed: int) -> Simulated:
    return simulate(poisson(2.0, 50, Workload(8, 4), seed), by_tokens, budget=16, most=8)


def test_the_seed_decides() -> None:
    assert _again(1) == _again(1)
    assert _again(1) != _again(2)


@pytest.mark.parametrize(("batch", "prompt", "generate"), [(1, 64, 64), (8, 64, 64), (8, 256, 32), (16, 32, 128)])
def test_the_steady_state_is_what_a_full_server_settles_to(batch: int, prompt: int, generate: int) -> None:
    made, work = forward(), Workload(prompt, generate)
    steady = steady_state(made, work, batch, 64, made.prompt(prompt, 64).total)
    asked = [Request(0.0, prompt, generate)] * (40 * batch)
    done = simulate(asked, step_times(made), budget=64, most=batch)
    # Within 8 %: the formula takes averages, and the simulation starts empty and ends empty.
    assert done.tokens_per_s == pytest.approx(steady.tokens_per_s, rel=0.08)
    assert done.tpot_s(0.5) == pytest.approx(steady.tpot_s, rel=0.12)


def test_what_cannot_be_simulated() -> None:
    with pytest.raises(UsageError, match="no requests to simulate"):
        simulate([], unit, budget=1, most=1)
    with pytest.raises(UsageError, match="not in the order"):
        simulate([Request(1.0, 1, 1), Request(0.0, 1, 1)], unit, budget=1, most=1)
    with pytest.raises(UsageError, match="5 sequences do not fit a budget of 4 tokens"):
        simulate([Request(0.0, 1, 1)], unit, budget=4, most=5)
    with pytest.raises(UsageError, match="rate of requests"):
        poisson(0.0, 5, Workload(1, 1))
    with pytest.raises(UsageError, match="no quantile"):
        quantile([], 0.5)


def test_quantiles() -> None:
    assert [quantile([3.0, 1.0, 2.0, 4.0], share) for share in (0.25, 0.5, 0.9, 1.0)] == [1, 2, 4, 4]
