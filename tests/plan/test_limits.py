"""Critical batches and limits of parallelism: each is where two times of the book are equal."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.plan import limits, parallel

ALPHA = st.floats(10, 1e5)
SIZES = st.integers(64, 100_000)


@given(ALPHA, SIZES, SIZES, st.sampled_from(["bf16", "int8", "f32", "int4"]))
def test_weights_take_as_long_to_read_as_to_multiply(alpha: float, d: int, f: int, dtype: str) -> None:
    batch = limits.weight_batch(alpha, dtype).number()
    size = {"bf16": 2, "int8": 1, "f32": 4, "int4": 0.5}[dtype]
    assert 2 * batch * d * f / alpha == pytest.approx(size * d * f)


@given(ALPHA, SIZES, SIZES, st.sampled_from([1, 2, 3]))
def test_data_parallel_gradients_take_as_long_as_the_backward_pass(alpha: float, d: int, f: int, axes: int) -> None:
    per_chip = limits.data_parallel_tokens(alpha, axes).number()
    # 8 B D F operations beside 8 D F bytes over the axes, per chip.
    assert 8 * per_chip * d * f / alpha == pytest.approx(8 * d * f / axes)


@given(ALPHA, SIZES, SIZES, st.floats(1, 1e7))
def test_tensor_parallel_activations_take_as_long_as_their_matmuls(alpha: float, d: int, f: int, batch: float) -> None:
    ways = parallel.tensor_parallel_limit(f, alpha).number()
    assert 4 * batch * d * f / (ways * alpha) == pytest.approx(4 * batch * d)
    assert parallel.tensor_parallel_width(ways, alpha).number() == pytest.approx(f)


@given(ALPHA, SIZES, st.floats(1e3, 1e8), st.integers(2, 10_000))
def test_the_best_split_makes_both_kinds_of_traffic_equal(alpha: float, f: int, batch: float, chips: int) -> None:
    found = parallel.best_split(batch, f, chips)
    x, y = found["fsdp"].number(), found["tensor"].number()
    assert x * y == pytest.approx(chips)
    if found["fsdp"].regime == "mixed":
        assert f / (y * 2) == pytest.approx(batch / (x * 1))  # 4DF/(Y W M_X) = 4BD/(X W M_Y)
        at_limit = limits.mixed_tokens(alpha, f)["overlapping"].number() * chips
        split = parallel.best_split(at_limit, f, chips)
        if split["fsdp"].regime == "mixed":
            arithmetic = at_limit * f / (chips * alpha)
            assert f / (split["tensor"].number() * 2) == pytest.approx(arithmetic)


def test_what_fits_no_mix_is_one_of_its_ends() -> None:
    assert parallel.best_split(10, 8192, 64)["fsdp"].value == 1
    assert parallel.best_split(10, 8192, 64)["fsdp"].regime == "tensor only"
    assert parallel.best_split(1e9, 8192, 64)["tensor"].value == 1


def test_experts_and_switches_scale_the_limit() -> None:
    assert limits.data_parallel_tokens(1000, experts=64, top_k=4).number() == 16_000
    assert limits.data_parallel_tokens(1000, members=1).number() == 0
    with pytest.raises(UsageError, match="Experts are given without those per token"):
        limits.data_parallel_tokens(1000, experts=64)
    with pytest.raises(UsageError, match="cannot go to 65 of 64 experts"):
        limits.weight_batch(240, experts=64, top_k=65)


def test_ring_attention_hides_its_blocks_from_some_length_on() -> None:
    alpha, heads, kv, size = 2550, 64, 8, 128
    s = limits.context_tokens(alpha, heads / kv).number()
    assert 4 * s * s * heads * size / alpha == pytest.approx(4 * s * kv * size)


def test_expert_parallelism_inside_a_node_is_free_and_grows_to_its_limit() -> None:
    assert limits.expert_width(2475, 8, 8).value == 0
    found = [limits.expert_width(2475, ways, 2).number() for ways in (9, 16, 17, 64, 1024, math.inf)]
    assert found == sorted(found)
    assert found[-1] == 8 * 2475
    # Where a token just reaches all nodes, both formulas agree.
    assert limits.expert_width(2475, 16, 2).number() == pytest.approx(
        limits.expert_width(2475, 16.0001, 2).number(), rel=1e-4
    )


@given(ALPHA, SIZES, st.sampled_from([4, 8, 16]), st.sampled_from([2, 3]), st.integers(1, 8))
def test_expert_parallelism_on_a_torus_hides_its_all_to_alls(alpha: float, d: int, axis: int, n: int, k: int) -> None:
    chips, tokens = axis * 4, 100
    f = limits.expert_width_torus(alpha, axis, n).number()
    whole = 2 * tokens * k * d * chips  # V of one all-to-all, over all chips
    assert 2 * n * tokens * k * d * f / alpha == pytest.approx(2 * whole * axis / (4 * chips))


def test_what_follows_from_a_batch() -> None:
    found = limits.batch_of(sequences=1024, sequence=4096, chips=8960)
    assert {name: round(made.number(), 1) for name, made in found.items()} == {"batch": 4194304, "per-chip": 468.1}
    assert limits.batch_of(batch=100, sequences=10)["sequence"].value == 10
    with pytest.raises(UsageError, match="Nothing follows"):
        limits.batch_of(batch=100)
    with pytest.raises(UsageError, match="number B is 0"):
        limits.batch_of(batch=0, chips=1)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 8))
def test_bubbles_shrink_with_microbatches_and_rounds(stages: int, microbatches: int, rounds: int) -> None:
    value = parallel.bubble(stages, microbatches, rounds).number()
    assert 0 <= value < 1
    assert (value == 0) == (stages == 1)
    assert parallel.bubble(stages, microbatches + 1, rounds).number() <= value
    # As counted slot by slot: a stage works m of m + Z - 1 slots.
    assert parallel.bubble(stages, microbatches).number() == pytest.approx(
        1 - microbatches / (microbatches + stages - 1)
    )


def test_choices_between_splits_say_why() -> None:
    many = parallel.mlp_choice(10**6, 8192, 32768, 4, 1e12)
    assert (many.value, many.regime) == ("fsdp", "fewer bytes are sent")
    tight = parallel.mlp_choice(128, 8192, 32768, 4, 300e6)
    assert (tight.value, tight.regime) == ("tensor_parallel", "the other does not fit")
    with pytest.raises(UsageError, match="Neither fits"):
        parallel.mlp_choice(128, 8192, 32768, 4, 1e6)


def test_slices_are_large_enough_or_refused() -> None:
    assert parallel.smallest_slice(16e9, 16e9, [1, 4]).value == 1
    with pytest.raises(UsageError, match="It takes 7 chips, more than the largest slice of 4"):
        parallel.smallest_slice(100e9, 16e9, [1, 4])
    with pytest.raises(UsageError, match="no slices to choose from"):
        parallel.smallest_slice(100e9, 16e9, [])
    with pytest.raises(UsageError, match="has no axis"):
        parallel.mesh_devices({})


def test_two_dimensional_weights_win_from_where_the_times_are_equal() -> None:
    for ratio, axes in ((4, 3), (3.5, 2)):
        chips = parallel.weight_stationary_crossover(ratio, axes).number()
        assert math.sqrt(32 * ratio) / math.sqrt(chips) == pytest.approx(4 / axes)
