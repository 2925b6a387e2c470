"""The search: steady states and costs by hand, ranking, limits, what does not fit, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.serve.tiny import CHIP, MIXTURE, MODEL, forward, where
from tpuprof.errors import UsageError
from tpuprof.hardware import chip as find
from tpuprof.hardware import make_slice
from tpuprof.hardware.slices import default_shape
from tpuprof.plan import load_model
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.serve import (
    BOUND,
    Assumptions,
    ServeCandidate,
    ServeLayout,
    ServeQuestion,
    Sla,
    Types,
    Workload,
    apart,
    cost_per_million,
    load_curve,
    memory_of,
    most_sequences,
    pareto,
    plan_serving,
    steady_state,
)
from tpuprof.plan.serve.explain import explain
from tpuprof.plan.serve.search import simulate_load

SLICES = (where(1, 1), where(2, 2), where(2, 4))


def question(**changes: object) -> ServeQuestion:
    asked = ServeQuestion(MODEL, SLICES, Workload(64, 32), assumed=BOUND, budget=128)
    return replace(asked, **changes)  # pyright: ignore[reportArgumentType]


def test_one_sequence_by_hand() -> None:
    """A prompt of 128 tokens, then 31 steps: the same numbers as a request that is served alone."""
    made, work = forward(), Workload(128, 32)
    prompt = made.prompt(128, 128).total
    step = made.decode(1, 128 + 16).total
    steady = steady_state(made, work, 1, 128, prompt)
    assert steady.tpot_s == step
    assert steady.requests_per_s == pytest.approx(1 / (prompt + 31 * step), rel=1e-3)
    assert steady.tokens_per_s == pytest.approx(32 * steady.requests_per_s)
    assert steady.ttft_s == prompt


def test_prompts_decide_where_answers_are_short() -> None:
    """A budget of 64 tokens: with 128 in and 9 out, 64 * 8 / 136 sequences decode while the rest goes to prompts."""
    steady = steady_state(forward(), Workload(128, 9), 16, 64, 1.0)
    assert steady.mixed_share == 1
    assert steady.decoding == pytest.approx(64 * 8 / 136)
    assert steady.requests_per_s == pytest.approx(steady.decoding / 8 / steady.step_s)


def test_a_single_token_needs_no_decode() -> None:
    steady = steady_state(forward(), Workload(64, 1), 4, 64, 1.0)
    assert steady.tpot_s is None
    assert steady.tokens_per_s == steady.requests_per_s == pytest.approx(1 / steady.step_s)


def test_memory_by_hand() -> None:
    kept = memory_of(MODEL, ServeLayout(where(1, 1)), Types(), Workload(60, 40), 3, 8, 1e7)
    # 1,179,648 weights in matmuls, 2 tables of 262,144, 5 norms of 256.
    assert kept.weights == 2 * (1_179_648 + 2 * 262_144 + 5 * 256)
    assert kept.cache == 3 * 100 * 2 * 256 * 2
    # 8 tokens of the residual path twice and the 3 hidden widths of the MLP; logits of 3 sequences.
    assert kept.work == 8 * (2 * 256 + 3 * 512) * 2 + 3 * 1024 * 4
    assert kept.fits
    most = most_sequences(MODEL, ServeLayout(where(1, 1)), Types(), Workload(60, 40), 8, 1e7)
    assert most == (1e7 - kept.weights - 8 * (2 * 256 + 3 * 512) * 2) // (100 * 2 * 256 * 2 + 1024 * 4)
    split = memory_of(MODEL, ServeLayout(where(2, 2), heads=2, cache="tokens"), Types("int8", "int8"), Workload(60, 40),
                      4, 8, 1e7)  # fmt: skip
    assert split.weights == pytest.approx((1_179_648 + 2 * 262_144) / 4 + 5 * 256)
    assert split.cache == 4 * 50 * 2 * 256 / 2
    # Three sequences in two places: the fuller one has two.
    odd = memory_of(MODEL, ServeLayout(where(2, 2), heads=2, cache="batch"), Types(), Workload(60, 40), 3, 8, 1e7)
    assert odd.cache == 2 * 100 * 2 * 256 * 2 / 2


def test_cost_by_hand() -> None:
    """3.6 dollars an hour are a tenth of a cent a second."""
    assert cost_per_million(3.6, 100.0) == pytest.approx(10.0)
    # The book: 235.3 tokens per second and chip of v5e at 1.2 dollars.
    assert cost_per_million(1.2, 235.2941) == pytest.approx(1.416667, rel=1e-6)


def test_disaggregated_by_hand() -> None:
    made, work = forward(), Workload(64, 33)
    two = apart(made, work, 8, 0.010, 1e5)
    step = made.decode(8, 64 + 17).total
    assert two.tpot_s == step
    assert two.requests_per_s == pytest.approx(8 / (step * 32))
    assert two.ratio == pytest.approx(0.010 * two.requests_per_s)
    assert two.transfer_s == pytest.approx(1e5 / 1e8)
    assert two.ttft_s == pytest.approx(0.010 + 1e-3)
    assert two.tokens_per_s_per_chip == pytest.approx(two.requests_per_s * 33 / (1 + two.ratio))


def test_the_whole_cache_of_a_prompt_is_sent_whatever_splits_it() -> None:
    plan = plan_serving(question())
    for one in plan.candidates:  # 64 tokens of 256 numbers of 2 bytes in 2 layers, over 0.1 GB/s of each chip
        assert one.apart.transfer_s == pytest.approx(64 * 256 * 2 * 2 / (one.layout.chips * 1e8))


def test_the_first_has_the_most_tokens_per_chip_and_the_others_say_why_not() -> None:
    plan = plan_serving(question())
    rates = [one.tokens_per_s_per_chip for one in plan.candidates]
    assert rates == sorted(rates, reverse=True)
    assert plan.candidates[0].layout.chips == 1  # without links there is nothing to lose
    assert plan.candidates[0].why == "The most tokens per second and chip."
    assert all("times the chip time per token" in one.why for one in plan.candidates[1:])
    assert plan.smallest is plan.candidates[0]
    assert plan.candidates[0].loaded is not None


def test_limits_rule_out_what_is_slow() -> None:
    free = plan_serving(question())
    limit = free.candidates[0].steady.decode.total / 3
    plan = plan_serving(question(sla=Sla(None, limit)))
    first = plan.candidates[0]
    assert first.meets
    assert first.steady.tpot_s is not None
    assert first.steady.tpot_s <= limit
    assert all(not one.meets for one in plan.candidates if (one.steady.tpot_s or 0) > limit)
    assert any("times the limit" in one.why for one in plan.candidates if not one.meets) or all(
        one.meets for one in plan.candidates
    )
    assert plan.smallest is not None
    assert plan.smallest.layout.chips == min(one.layout.chips for one in plan.candidates if one.meets)


def test_limits_that_nothing_meets() -> None:
    plan = plan_serving(question(sla=Sla(1e-9, None)))
    assert plan.smallest is None
    assert not any(one.meets for one in plan.candidates)
    assert "nothing meets the limits" in plan.candidates[0].why


def test_limits_under_load_lower_the_load() -> None:
    """A limit a little above the time of an empty server is met by few arrivals only."""
    empty = plan_serving(question(slices=(where(1, 1),))).candidates[0]
    plan = plan_serving(question(slices=(where(1, 1),), sla=Sla(empty.steady.ttft_s * 2.5, None)))
    loaded = plan.candidates[0].loaded
    assert loaded is not None
    assert loaded.load <= 0.8
    assert loaded.meets == (loaded.ttft_p90_s <= empty.steady.ttft_s * 2.5)
    assert loaded.cost is not None
    assert plan.candidates[0].cost is not None
    assert loaded.cost == pytest.approx(plan.candidates[0].cost / loaded.load)


def test_a_rate_above_what_a_server_can_do_shows_as_load() -> None:
    plan = plan_serving(question(slices=(where(1, 1),), rate=1e6))
    loaded = plan.candidates[0].loaded
    assert loaded is not None
    assert loaded.load > 1
    assert loaded.ttft_p90_s > 10 * plan.candidates[0].steady.ttft_s


def test_what_does_not_fit_is_rejected_with_its_bytes() -> None:
    small = replace(CHIP, hbm_bytes=replace(CHIP.hbm_bytes, value=2.4e6))  # pyright: ignore[reportCallIssue, reportArgumentType]
    slices = tuple(make_slice(small, shape) for shape in ((1, 1), (2, 2)))
    plan = plan_serving(question(slices=slices))
    assert {one.layout.chips for one in plan.candidates} == {4}
    assert any("Weights (3.41 MB), the cache of one sequence" in one.why for one in plan.rejected)
    with pytest.raises(UsageError, match="tiny cannot be served on toy:1x1") as caught:
        plan_serving(question(slices=slices[:1]))
    assert "The weights alone are 3.41 MB, 2 chips of toy." in caught.value.hint


def test_batches_that_are_asked_for_are_kept_or_rejected() -> None:
    plan = plan_serving(question(batches=(4, 100_000)))
    assert {one.steady.batch for one in plan.candidates} == {4}
    assert all(one.batch == 100_000 for one in plan.rejected)
    assert all("100000 sequences" in one.why for one in plan.rejected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": (0,)}, "The batch is 0"),
        ({"budget": 0}, "The token budget is 0"),
        ({"load": 1.0}, "The load is 1.0"),
        ({"rate": float("nan")}, "The rate of requests is nan"),
        ({"price_usd_per_hour": -1.0}, "The price is -1.0"),
        ({"slices": ()}, "no slice to plan for"),
        ({"model": replace(MODEL, positions=50)}, "tiny has 50 positions, and a sequence has 96 tokens"),
    ],
)
def test_bad_questions(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        question(**changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Workload(0, 5), "length of the prompt is 0"),
        (lambda: Workload(5, 0), "number of generated tokens is 0"),
        (lambda: Workload(10**7, 5), "is too long"),
        (lambda: Types("float99"), "no element type"),
        (lambda: Assumptions(memory=0.0), "share of the memory bandwidth is 0.0"),
        (lambda: Assumptions(overhead_s=-1.0), "overhead of a step is -1.0"),
        (lambda: Assumptions(overlap=2.0), "overlap is 2.0"),
        (lambda: Sla(0.0), "limit on the time to a first token is 0.0"),
    ],
)
def test_bad_parts(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # pyright: ignore[reportCallIssue, reportUnknownVariableType]


@settings(max_examples=8, deadline=None)
@given(
    model=st.sampled_from([MODEL, MIXTURE]), prompt=st.integers(1, 300), generate=st.integers(1, 200),
    budget=st.sampled_from([16, 64, 256]), expected=st.booleans(),
)  # fmt: skip
def test_what_holds_for_every_plan(model: ModelConfig, prompt: int, generate: int, budget: int, expected: bool) -> None:
    asked = ServeQuestion(model, SLICES, Workload(prompt, generate), assumed=Assumptions() if expected else BOUND,
                          budget=budget)  # fmt: skip
    plan = plan_serving(asked)
    for one in (*plan.candidates, *plan.front):
        assert one.memory.fits
        assert 1 <= one.steady.batch <= min(one.most, budget)
        # What an hour costs, over what it makes.
        made = one.steady.tokens_per_s * 3600 / 1e6
        assert one.cost == pytest.approx(3.6 * one.layout.chips / made)
        if one.steady.tpot_s is not None:
            assert one.steady.tpot_s >= one.forward.decode(1, 1).weights / 8
    for point in plan.front:
        better = [
            one
            for one in plan.front
            if one.latency_s <= point.latency_s and one.tokens_per_s_per_chip > point.tokens_per_s_per_chip
        ]
        assert not better
    for one in plan.candidates:  # the front beats or equals every candidate
        assert any(
            point.latency_s <= one.latency_s and point.tokens_per_s_per_chip >= one.tokens_per_s_per_chip
            for point in plan.front
        )


def test_every_number_of_a_candidate_is_derived() -> None:
    asked = question(slices=(where(2, 2),))
    one = plan_serving(asked).candidates[0]
    found = explain(asked, one)
    assert found["memory"].number() == one.memory.total
    assert found["decode-step"].number() == pytest.approx(one.steady.decode.total)
    assert found["decode-step"].number() == pytest.approx(sum(step.value for step in found["decode-step"].steps))  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert found["throughput"].number() == pytest.approx(
        found["requests-per-second"].number() * asked.workload.generate
    )
    share, without, with_one = (step.value for step in found["average-step"].steps)
    assert isinstance(share, float)
    assert isinstance(without, float)
    assert isinstance(with_one, float)
    assert found["average-step"].number() == pytest.approx((1 - share) * without + share * with_one)
    assert found["cost"].number() == pytest.approx(3.6 / 3600 * 4 / one.steady.tokens_per_s * 1e6)
    layer = found["layer-0"]
    assert layer.number() == pytest.approx(sum(step.value for step in layer.steps))  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert {step.what.partition(",")[0] for step in layer.steps} >= {"query", "gate", "mlp_out"}
    assert found["prefill-servers"].number() == pytest.approx(one.apart.ratio)


def test_the_book_s_llama_3_70b_on_v5e() -> None:
    """The chapter "Serving LLaMA": int8 weights need 8 chips, whose memory has room for some 40 contexts of 8k; prompts
    of 8k need about three servers per decoding one."""
    chip = find("v5e", edition="book-2026")
    slices = tuple(make_slice(chip, default_shape(chip, count)) for count in (4, 8, 16))
    asked = ServeQuestion(
        load_model("llama3-70b"), slices, Workload(8192, 512), Types("int8", "int8"), replace(BOUND, compute=0.4)
    )
    plan = plan_serving(asked)
    assert {one.layout.chips for one in plan.candidates} == {8, 16}  # 70.6 GB do not fit 4 x 16 GB
    assert plan.smallest is not None
    assert plan.smallest.layout.where.name == "v5e:2x4"
    eight = plan.candidates[[one.layout.where.name for one in plan.candidates].index("v5e:2x4")]
    # (8 * 16 GB - 70.6 GB) / 1.34 GB is 42 caches of 8k; each has 512 tokens more here, and work takes 0.1 GB.
    assert eight.most == 39
    sixteen = next(one for one in plan.candidates if one.layout.chips == 16)
    two = apart(sixteen.forward, asked.workload, 32, 0.91, 0.0)
    # The book: 0.91 s of prefill, steps of 19 ms when the memory is full, 32 sequences, 512 tokens: ratio 3. At 32
    # sequences on 16 chips the memory is not full, and a step takes 8.7 ms.
    assert two.tpot_s == pytest.approx(8.7e-3, rel=0.02)
    assert pytest.approx(2.993421, rel=1e-3) == 0.91 * 32 / (19e-3 * 512)


def test_sizes_that_would_take_forever() -> None:
    with pytest.raises(UsageError, match="answer of 100,001 tokens is too long"):
        Workload(1, 100_001)
    with pytest.raises(UsageError, match="would go in pieces of 1, more than 10,000"):
        plan_serving(question(workload=Workload(20_000, 1), budget=1, types=Types("int8", "int4")))


def test_the_largest_batch_within_a_limit_is_searched_between_powers_of_two() -> None:
    free = plan_serving(question(slices=(where(1, 1),), workload=Workload(8, 256)))
    forward_ = free.candidates[0].forward
    limit = forward_.decode(11, 8 + 128).total * 1.02
    first = plan_serving(question(slices=(where(1, 1),), workload=Workload(8, 256), sla=Sla(None, limit))).candidates[0]
    assert first.meets
    assert 8 < first.steady.batch < 12


def test_splits_whose_links_are_not_known_are_rejected() -> None:
    chip = find("v3")
    asked = ServeQuestion(
        load_model("llama3.2-1b"), (make_slice(chip, (1, 1)), make_slice(chip, (2, 2))), Workload(64, 8)
    )
    plan = plan_serving(asked)
    assert {one.layout.where.name for one in plan.candidates} == {"v3:2x2"}
    alone = [one.why for one in plan.rejected if one.layout.where.name == "v3:1x1"]
    assert "The bandwidth of the link between cores of v3 is not known." in alone[0]


def test_what_meets_a_limit_comes_before_what_is_cheaper() -> None:
    asked = question(slices=(where(1, 1), where(2, 2)), workload=Workload(1024, 16), budget=1024)
    cheap = plan_serving(asked).candidates
    by_chips = {chips: [one for one in cheap if one.layout.chips == chips] for chips in (1, 4)}
    assert cheap[0].layout.chips == 1
    fast = min(one.steady.ttft_s for one in by_chips[4])
    slow = min(one.steady.ttft_s for one in by_chips[1])
    assert fast < slow
    plan = plan_serving(replace(asked, sla=Sla(0.98 * slow), load=0.1))
    assert plan.candidates[0].layout.chips == 4
    last = next(one for one in plan.candidates if one.layout.chips == 1)
    assert not last.meets
    assert last.why.startswith("The first token takes")
    assert plan.candidates.index(last) > 0


@settings(max_examples=60, deadline=None)
@given(numbers=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_front_is_what_comparing_all_pairs_leaves(numbers: list[tuple[int, int]]) -> None:
    made = forward()
    one = steady_state(made, Workload(8, 8), 2, 16, 1.0)
    kept = memory_of(MODEL, made.layout, Types(), Workload(8, 8), 2, 16, 1e7)
    two = apart(made, Workload(8, 8), 2, 1.0, 0.0)
    steady = [replace(one, tpot_s=float(slow), tokens_per_s=float(rate)) for slow, rate in numbers]
    points = [ServeCandidate(made.layout, made, each, two, kept, 2, None, "") for each in steady]
    found = {(one.latency_s, one.tokens_per_s_per_chip) for one in pareto(points)}
    left = {
        (slow, rate)
        for slow, rate in numbers
        if not any((a <= slow and b >= rate) and (a, b) != (slow, rate) for a, b in numbers)
    }
    assert found == left


def test_a_curve_is_the_same_requests_at_each_load() -> None:
    asked = ServeQuestion(MODEL, (where(1, 1),), Workload(64, 32), assumed=BOUND, budget=128)
    first = plan_serving(asked).candidates[0]
    low, high = load_curve(asked, first, (0.3, 0.9))
    assert (low.load, high.load) == pytest.approx((0.3, 0.9))
    assert low == simulate_load(asked, first, 0.3)
    assert high.rate == pytest.approx(3 * low.rate)
    assert low.requests == high.requests
    assert low.ttft_p50_s <= high.ttft_p50_s
    assert low.tpot_p50_s is not None
    assert high.tpot_p50_s is not None
    assert low.tpot_p50_s < high.tpot_p50_s
    assert low.cost is not None
    assert high.cost == pytest.approx(low.cost / 3)
