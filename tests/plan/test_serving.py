"""Decode, prefill, speculation, time and money."""

from __future__ import annotations

import random

import pytest

from tpuprof.errors import UsageError
from tpuprof.perfmodel.derivation import Quantity
from tpuprof.plan import (
    Experts,
    decode_flops,
    kv_bytes_per_sequence,
    load_model,
    model_flops,
    param_counts,
    serving,
    training,
)
from tpuprof.plan.serving_model import (
    decode_of_model,
    prefill_of_model,
    reached_experts,
    weight_bytes,
    weight_bytes_read,
)  # fmt: skip

LLAMA = load_model("llama3-70b")
HBM, PEAK, ROOM = Quantity(8.2e11, "B/s"), Quantity(1.97e14, "FLOP/s"), Quantity(16e9, "B")


def _decode(batch: int) -> dict[str, float]:
    found = decode_of_model(
        LLAMA, batch=batch, context=8192, chips=16, bandwidth=HBM, peak=PEAK, capacity=ROOM, weights="int8",
        cache="int8",
    )  # fmt: skip
    return {name: made.value for name, made in found.items()}  # type: ignore[misc]


def test_llama_on_sixteen_chips_is_what_the_serving_chapter_says() -> None:
    found = _decode(43)
    assert found["max-batch"] == pytest.approx(137, abs=2)  # (256 GB - 70 GB) / 1.34 GB
    expected = (43 * kv_bytes_per_sequence(LLAMA, 8192, "int8") + 69.5e9) / (16 * 8.2e11)
    assert found["step"] == pytest.approx(expected, rel=0.01)
    assert found["throughput"] == pytest.approx(43 / found["step"])
    assert found["throughput-per-chip"] == pytest.approx(found["throughput"] / 16)


def test_a_large_batch_is_bound_by_arithmetic() -> None:
    small, large = (
        decode_of_model(LLAMA, batch=n, context=16, chips=16, bandwidth=HBM, peak=PEAK, weights="int8")
        for n in (8, 512)
    )
    assert (small["step"].regime, large["step"].regime) == ("memory", "compute")
    assert large["compute-time"].number() == pytest.approx(decode_flops(LLAMA, 512, 16).forward_all / (16 * 1.97e14))


def test_a_mixture_reads_the_experts_that_are_reached() -> None:
    model = load_model("mixtral-8x7b")
    counts = param_counts(model)
    one = weight_bytes_read(model, 1)
    assert one == pytest.approx(2 * (counts.active_all - counts.total["embedding"]))
    assert weight_bytes_read(model, 10_000) == pytest.approx(2 * (counts.all - counts.total["embedding"]))
    assert weight_bytes(model, "int8") == counts.all
    experts = Experts(16, 2, 8, True)
    rng = random.Random(1)
    tries = [len({e for _ in range(5) for e in rng.sample(range(16), 2)}) for _ in range(4000)]
    assert reached_experts(experts, 5) == pytest.approx(sum(tries) / len(tries), rel=0.02)


def test_prefill_is_its_operations_over_the_rate_that_is_reached() -> None:
    found = prefill_of_model(LLAMA, tokens=8192, chips=16, peak=PEAK, utilization=0.4).number()
    assert found == pytest.approx(model_flops(LLAMA, 1, 8192).forward_all / (16 * 1.97e14 * 0.4))
    assert found == pytest.approx(0.91, rel=0.08)  # the book leaves attention out
    for wrong in (0, 1.1, -1, float("nan")):
        with pytest.raises(UsageError, match="utilisation is"):
            serving.prefill_time(1, 1, 1, PEAK, wrong)


def test_a_batch_of_nothing_has_no_throughput() -> None:
    found = serving.decode_step(batch=0, kv_bytes=1, weight_bytes=8.2e11, chips=1, bandwidth=HBM)
    assert found["step"].value == 1
    assert "throughput" not in found
    too_much = serving.batch_limit(20e9, 1e9, ROOM)
    assert (too_much["max-batch"].value, too_much["max-batch"].regime) == (0, "the weights alone do not fit")
    with pytest.raises(UsageError, match="number of chips is 0"):
        serving.decode_step(batch=1, kv_bytes=1, weight_bytes=1, chips=0, bandwidth=HBM)


def test_speculation_keeps_the_expected_number_of_tokens() -> None:
    rng = random.Random(7)

    def once() -> int:
        kept = 0
        while kept < 4 and rng.random() < 0.7:
            kept += 1
        return kept + 1

    tries = [once() for _ in range(20_000)]
    assert serving.speculative(0.7, 4)["tokens"].number() == pytest.approx(sum(tries) / len(tries), rel=0.02)
    assert serving.speculative(1, 4)["tokens"].value == 5
    assert serving.speculative(0, 4)["tokens"].value == 1
    slow = serving.speculative(0.1, 4, draft_cost=0.2)["speedup"]
    assert slow.regime == "slower"
    with pytest.raises(UsageError, match=r"acceptance is 1\.5"):
        serving.speculative(1.5, 4)


def test_matmul_times_need_something_to_go_by() -> None:
    with pytest.raises(UsageError, match="Too little is given"):
        serving.sharded_matmul_times(8, 8, 1)
    found = serving.sharded_matmul_times(8192, 28672, 32, tokens=64, ici=9e10)
    assert found["communication"].number() == pytest.approx(2 * 64 * 8192 / 9e10)


def test_a_run_takes_time_and_money() -> None:
    found = training.train_time(6.3e24, 8960, Quantity(4.59e14, "FLOP/s"), 0.4)
    assert found["days"].number() == pytest.approx(44.3, rel=0.01)
    assert found["chip-hours"].number() == pytest.approx(found["days"].number() * 24 * 8960)
    cost = training.run_cost(found["time"].number(), 8960, Quantity(4.2, "USD/chip-hour"))
    assert cost.number() == pytest.approx(found["chip-hours"].number() * 4.2)


def test_offloading_is_hidden_by_a_long_step() -> None:
    link = Quantity(1.6e10, "B/s")
    found = training.offload_cost(16e9, link, 3.0)
    assert (found["time"].value, found["exposed"].value, found["exposed"].regime) == (2.0, 0.0, "hidden")
    short = training.offload_cost(16e9, link, 0.5, passes=1)["exposed"]
    assert (short.value, short.regime) == (0.5, "exposed")
    with pytest.raises(UsageError, match="cross the link 3 times"):
        training.offload_cost(1, link, 1, passes=3)
