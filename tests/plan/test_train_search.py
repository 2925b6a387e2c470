"""The search for layouts: order, reasons, the book's example, and the curve over sizes."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from tpuprof.errors import UsageError
from tpuprof.hardware import parse_slice
from tpuprof.plan import StateTypes, load_model, remat_policy
from tpuprof.plan.train_explain import critical_batch, explain, outcome, why
from tpuprof.plan.train_layout import Job, Layout, problems
from tpuprof.plan.train_ranking import ALIKE, crowding
from tpuprof.plan.train_scaling import strong_scaling
from tpuprof.plan.train_search import Plan, Rejected, layouts, search
from tpuprof.plan.train_step import memory_of

LLAMA = load_model("llama3-8b")
JOB = Job(LLAMA, 256, 8192, remat_policy("block-inputs"))
SMALL = parse_slice("v5p:4x4x4")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(JOB, SMALL)


def test_candidates_are_sorted_and_fit(plan: Plan) -> None:
    times = [one.seconds for one in plan.candidates]
    assert all(one <= (1 + ALIKE) * later for place, one in enumerate(times) for later in times[place:])
    assert len(times) > 20
    for one in plan.candidates:
        assert one.step.fits is True
        assert problems(one.job, one.step.layout, SMALL) == []
        assert one.step.layout.devices == 64


def test_every_layout_is_a_candidate_or_has_a_reason(plan: Plan) -> None:
    tried = list(layouts(JOB, SMALL))
    assert len(set(tried)) == len(tried)
    counted = len(plan.candidates) + len(plan.rejected) + sum(one.more for one in plan.rejected)
    assert counted == len(tried)
    assert all(one.why for one in plan.rejected)


def test_losers_say_why(plan: Plan) -> None:
    first = plan.candidates[0]
    assert "; bound by " in why(first, plan)
    for one in plan.candidates[1:]:
        told = ("slower: ", "as fast as the first, with ", "faster, less than estimates tell, ")
        assert sum(word in why(one, plan) for word in told) == 1
    slow = plan.candidates[-1]
    assert why(slow, plan).startswith(f"{100 * (slow.seconds / first.seconds - 1):.1f} % slower")


def test_only_one_layout_is_judged_as_it_is() -> None:
    good = search(JOB, SMALL, only=Layout(fsdp=16, tensor=4, accumulation=2))
    assert good.candidates[0].step.layout.accumulation == 2
    bad = search(JOB, SMALL, only=Layout(tensor=64))
    assert bad.candidates == ()
    assert isinstance(bad.rejected[0], Rejected)
    assert bad.rejected[0].why == "32 heads cannot be split evenly over tensor=64"


def test_a_model_that_fits_nowhere_is_rejected_with_its_size() -> None:
    huge = search(Job(load_model("llama3-405b"), 64, 4096, remat_policy("block-inputs")), parse_slice("v5e:4x4"))
    assert huge.candidates == ()
    assert any(one.why.startswith("does not fit: at least ") for one in huge.rejected)


def test_offloading_the_optimizer_makes_room() -> None:
    job = Job(load_model("llama3-70b"), 32, 4096, remat_policy("block-inputs"))
    where = parse_slice("v6e:4x8")
    layout = Layout(fsdp=32)
    on_device = search(job, where, policies=[job.policy], only=layout)
    away = search(replace(job, offload_optimizer=True), where, policies=[job.policy], only=layout)
    assert on_device.candidates == ()
    assert away.candidates[0].step.parts["offload"] > 0
    assert away.candidates[0].step.memory["optimizer"] == 0


def test_the_layout_that_the_book_recommends_is_within_two_percent_of_the_first() -> None:
    # LLaMA-3 70B, 4M tokens in sequences of 4,096, v5p: 1,024-way data, 2-way sequence, 4-way tensor parallelism.
    job = Job(load_model("llama3-70b"), 1024, 4096, remat_policy("block-inputs"))
    found = search(job, parse_slice("v5p:16x16x32"), policies=[remat_policy("matmul-outputs")])
    book = [
        one for one in found.candidates
        if (one.step.layout.fsdp, one.step.layout.context, one.step.layout.tensor) == (1024, 2, 4)
    ]  # fmt: skip
    assert book[0].seconds <= 1.02 * min(one.seconds for one in found.candidates)
    # The book's mesh is the first, and in the form that leaves room.
    assert found.candidates[0] is book[0]
    assert crowding(book[0].step) == 0
    # And FSDP alone is impossible, as the book says: there are more chips than sequences.
    assert any(one.layout.fsdp == 8192 and "only 1024 sequences" in one.why for one in found.rejected)


def test_the_books_memory_of_that_layout() -> None:
    types = StateTypes("bf16", None, ("f32", "f32"))
    job = Job(load_model("llama3-70b"), 1024, 4096, remat_policy("attention-out"), types=types)
    held = memory_of(job, Layout(fsdp=1024, context=2, tensor=4))
    assert held["weights"] + held["optimizer"] == pytest.approx(10 * 70.55e9 / 8192, rel=1e-3)
    # Two checkpoints of width 8,192 in 80 layers, two bytes each: 10.5 TB for the book's 4e6 tokens.
    assert held["activations"] == 2 * 2 * 8192 * 80 * 1024 * 4096 / 8192
    assert held["total"] < 2.8e9


def test_4096_chips_are_searched_in_seconds() -> None:
    job = Job(load_model("llama3-70b"), 1024, 4096, remat_policy("block-inputs"))
    started = time.process_time()
    found = search(job, parse_slice("v5p:16x16x16"))
    assert time.process_time() - started < 10
    assert found.tried > 1000


def test_explanations_end_in_the_numbers_of_the_candidate(plan: Plan) -> None:
    one = plan.candidates[0]
    found = explain(plan, one, 15e12, 2.0)
    assert found["step"].value == one.seconds
    assert sum(step.value for step in found["step"].steps) == pytest.approx(one.seconds)  # type: ignore[misc, arg-type]
    assert found["memory"].value == one.step.memory["total"]
    assert found["mfu"].value == one.step.mfu
    for moved in one.step.collectives:
        assert found[moved.name].value == moved.seconds
    days = 15e12 / JOB.tokens * one.seconds / 86400
    paid = outcome(JOB, one.step, SMALL, 15e12, 2.0)
    assert paid.days == pytest.approx(days)
    assert found["cost"].value == pytest.approx(days * 24 * 64 * 2.0)
    listed = outcome(JOB, one.step, SMALL, None, None)
    assert listed.cost_of == "step"
    assert listed.days is None


def test_the_critical_batch_is_where_gathers_take_as_long_as_computation() -> None:
    only = search(JOB, SMALL, only=Layout(fsdp=64)).candidates[0]
    critical = critical_batch(only.job, only.step)
    assert critical is not None
    gathers = sum(moved.seconds for moved in only.step.collectives)
    assert critical == pytest.approx(JOB.tokens * gathers / only.step.compute)


def test_throughput_grows_with_chips_and_efficiency_falls() -> None:
    job = Job(LLAMA, 256, 8192, remat_policy("block-inputs"))
    points = strong_scaling(job, SMALL, sizes=[8, 64, 512], policies=[remat_policy("block-inputs")])
    assert [point.chips for point in points] == [8, 64, 512]
    fitting = [point for point in points if point.best is not None]
    rates = [point.best.step.tokens_per_s_per_chip * point.chips for point in fitting if point.best is not None]
    assert rates == sorted(rates)
    shares = [point.efficiency for point in fitting]
    assert shares[0] == 1.0
    # As far as the ranking tells layouts apart: of those that are about as fast it may take a slower one.
    assert all(later <= one * (1 + ALIKE) for one, later in pairwise(shares) if one is not None and later is not None)
    odd = strong_scaling(job, SMALL, sizes=[7])
    assert odd[0].best is None
    assert "no slice of 7 chips" in odd[0].reason


def test_a_chip_without_figures_is_an_error() -> None:
    with pytest.raises(UsageError, match="no known peak for fp4"):
        search(replace(JOB, dtype="fp4"), SMALL, only=Layout(fsdp=64)).candidates[0]
