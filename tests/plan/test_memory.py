"""Memory of training and of caches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.perfmodel.derivation import Quantity
from tpuprof.plan import (
    POLICIES,
    StateTypes,
    TrainingSplit,
    cache,
    custom_policy,
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_sharding,
    layer_params,
    load_model,
    memory,
    param_counts,
    remat_policy,
    state_bytes,
    training_memory,
    working_bytes,
)  # fmt: skip
from tpuprof.plan.peak import TORCH, TORCH_LOSS_PARALLEL, XLA, Buffers, buffers_on, memory_answers

LLAMA = load_model("llama3-70b")
FULL = remat_policy("block-inputs")


def test_zero_stages_split_one_thing_more_each() -> None:
    types = StateTypes("bf16", "f32", ("f32", "f32"), "f32")
    found = [state_bytes(100.0, types, zero=stage, data=4, model_split=2) for stage in (0, 1, 2, 3)]
    assert found[0] == {"weights": 100, "gradients": 200, "optimizer": 600}
    assert found[1] == {"weights": 100, "gradients": 200, "optimizer": 150}
    assert found[2] == {"weights": 100, "gradients": 50, "optimizer": 150}
    assert found[3] == {"weights": 25, "gradients": 50, "optimizer": 150}
    with pytest.raises(UsageError, match="no ZeRO stage 4"):
        state_bytes(1, types, zero=4)
    with pytest.raises(UsageError, match="number of parameters is -1"):
        state_bytes(-1, types)


def test_types_have_many_names_and_words() -> None:
    assert StateTypes("bfloat16", None, ("float32",), "fp32") == StateTypes("bf16", None, ("f32",), "f32")
    assert StateTypes().text() == "bf16 weights, bf16 gradients, moments f32+f32"
    assert StateTypes("f8e4m3fn", None, ()).bytes_per_param == {"weights": 1, "gradients": 0, "optimizer": 0}
    with pytest.raises(UsageError, match="is no element type"):
        StateTypes("bf17")


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(0, 3))
def test_devices_together_hold_no_less_than_the_model(data: int, tensor: int, pipeline: int, zero: int) -> None:
    split = TrainingSplit(data, tensor, pipeline, zero=zero)
    found = training_memory(LLAMA, 65536, FULL, split=split)
    devices = data * tensor * pipeline
    params = param_counts(LLAMA).all
    assert found["weights"] * devices == pytest.approx(2 * params * (1 if zero == 3 else data))
    assert found["optimizer"] * devices == pytest.approx(8 * params * (1 if zero >= 1 else data))
    assert found["activations"] * devices == pytest.approx(80 * 2 * 65536 * 8192)
    assert found["host"] == 0


def test_the_book_s_llama_fits_in_eleven_terabytes() -> None:
    types = StateTypes("bf16", None, ("f32", "f32"))
    found = training_memory(LLAMA, 4_000_000, FULL, types=types, split=TrainingSplit(zero=0))
    assert found["weights"] + found["optimizer"] == pytest.approx(700e9, rel=0.01)
    assert 2 * found["activations"] == pytest.approx(10.5e12, rel=0.01)  # the book keeps two checkpoints per layer


def test_experts_are_split_over_their_own_axis() -> None:
    mixtral = load_model("mixtral-8x7b")
    counts = param_counts(mixtral)
    routed = counts.total["routed-experts"]
    found = training_memory(mixtral, 8, FULL, split=TrainingSplit(data=8, expert=4, zero=0))
    assert found["weights"] == pytest.approx(2 * (routed / 4 + counts.all - routed))
    sharded = training_memory(mixtral, 8, FULL, split=TrainingSplit(data=8, expert=4, zero=3))
    assert sharded["weights"] == pytest.approx(2 * counts.all / 8)


def test_activations_of_microbatches_in_flight_add_up() -> None:
    least = training_memory(LLAMA, 1024, FULL)
    several = training_memory(LLAMA, 1024, remat_policy("full"), split=TrainingSplit(in_flight=3))
    assert several["activations"] == 3 * least["activations"]


LAYER = 2 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192)
"""Bytes of a layer of Llama 3 70B in 16 bits."""
HEAD = 2 * 8192 * 128256


def test_at_the_loss_logits_take_the_room_of_gradients() -> None:
    tokens = 2**20
    split = TrainingSplit(data=16)
    found = training_memory(LLAMA, tokens, remat_policy("everything"), split=split)
    local = tokens / 16
    slopes = 2 * local * (2 * 8192 + 3 * 28672)
    assert slopes + LAYER < 2 * local * (128256 + 8192) + HEAD  # so the logits would win but for the gradients
    assert (found["workspace"], found["gathered"]) == (pytest.approx(slopes), pytest.approx(LAYER))
    # With microbatches gradients are there at the loss, too; those of the new one have a buffer of their own.
    several = training_memory(LLAMA, tokens, remat_policy("everything"), split=TrainingSplit(16, microbatches=2))
    assert several["workspace"] == pytest.approx(2 * local * (128256 + 8192))
    assert several["gathered"] == pytest.approx(HEAD)
    assert several["gradients"] == 2 * found["gradients"]


def test_weights_that_are_wider_than_the_matmuls_are_converted_once() -> None:
    wide = StateTypes("f32", "f32")
    split = TrainingSplit(data=16, tensor=2)
    kept = [training_memory(LLAMA, 64, FULL, split=split, types=types)["gathered"] for types in (StateTypes(), wide)]
    assert kept[0] in (pytest.approx(LAYER / 2), pytest.approx(HEAD / 2))
    assert kept[1] - kept[0] == pytest.approx(80 * LAYER / 2 / 16)
    whole = training_memory(LLAMA, 64, FULL, split=TrainingSplit(16, zero=1), types=wide)
    assert whole["gathered"] == pytest.approx(80 * LAYER)  # nothing is gathered, everything is converted


@given(
    st.sampled_from(["llama3-8b", "mixtral-8x7b", "deepseek-v3", "gemma2-2b", "gpt3-175b"]),
    st.sampled_from(list(POLICIES)),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([1, 8, 64]),
    st.sampled_from([1, 4]),
    st.integers(1, 4),
    st.sampled_from([XLA, TORCH, TORCH_LOSS_PARALLEL]),
)
def test_memory_grows_with_tokens_and_shrinks_with_devices(
    name: str, policy: str, zero: int, data: int, tensor: int, microbatches: int, buffers: Buffers
) -> None:
    model = load_model(name)

    def total(tokens: float, ways: int) -> float:
        split = TrainingSplit(ways, tensor, zero=zero, microbatches=microbatches)
        found = training_memory(model, tokens, remat_policy(policy), split=split, buffers=buffers)
        assert min(found.values()) >= 0
        assert found.pop("host") == 0
        return sum(found.values())

    assert 0 < total(0, data) <= total(8192, data) <= total(16384, data)
    if data > 1:
        # Of the same work; what is gathered needs devices to be gathered from, so one device has none.
        assert total(8192 * data, 2 * data) <= total(8192 * data, data)


def test_the_compiler_for_tpu7x_overlaps_more() -> None:
    split = TrainingSplit(data=16)
    usual, ahead = (training_memory(LLAMA, 2**18, FULL, split=split, buffers=buffers_on(c)) for c in ("v6e", "tpu7x"))
    slopes = 2 * 2**18 / 16 * (2 * 8192 + 3 * 28672)
    assert ahead["gathered"] == 2 * usual["gathered"] == pytest.approx(2 * LAYER)
    assert ahead["workspace"] - usual["workspace"] == pytest.approx(slopes)
    # Of a layer of experts no second one is fetched.
    experts = load_model("mixtral-8x7b")
    each = [
        training_memory(experts, 64, FULL, split=split, buffers=buffers_on(c))["gathered"] for c in ("v6e", "tpu7x")
    ]
    dense = sum(layer_params(experts.layers[0]).values()) - layer_params(experts.layers[0])["routed-experts"]
    assert each[1] - each[0] == pytest.approx(2 * dense)


def test_what_comes_from_the_host_needs_room() -> None:
    away = custom_policy((), ("decoder_layer_input", "query_proj"))
    split = TrainingSplit(data=16)
    tokens = 2**18 / 16
    layer = 2 * tokens * 2 * 8192
    found, tight = (training_memory(LLAMA, 2**18, away, split=split, buffers=each) for each in (XLA, XLA.tight))
    assert found["host"] == tight["host"] == pytest.approx(80 * layer)
    assert found["activations"] == 0
    (block,) = LLAMA.layer_counts
    assert tight["workspace"] == pytest.approx(working_bytes(block, away, tokens) + 2 * layer)
    assert found["workspace"] == pytest.approx(working_bytes(block, away, tokens, overlapped=True) + 3 * layer)


def test_frameworks_hold_other_buffers() -> None:
    tokens, split = 2**18, TrainingSplit(data=16)
    policy = remat_policy("everything")
    xla, torch = (training_memory(LLAMA, tokens, policy, split=split, buffers=each) for each in (XLA, TORCH))
    logits = tokens / 16 * 128256
    assert torch["workspace"] == pytest.approx(14 * logits + 2 * tokens / 16 * 8192 - torch["gradients"])
    assert torch["gathered"] == pytest.approx(2 * HEAD)  # embedding and output matrix
    assert xla["workspace"] < torch["workspace"]


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(UsageError, match="81 pipeline stages are more than 80 layers"):
        training_memory(LLAMA, 1, FULL, split=TrainingSplit(pipeline=81))
    with pytest.raises(UsageError, match="3 expert-parallel devices are not part of 4"):
        TrainingSplit(data=4, expert=3)
    with pytest.raises(UsageError, match="degree tensor is 0"):
        TrainingSplit(tensor=0)


def test_answers_say_whether_it_fits() -> None:
    split = TrainingSplit(data=8, tensor=1)
    found = memory_answers(LLAMA, 65536, FULL, split, StateTypes(), Quantity(96e9, "B"))
    assert found["fits"].value is False
    assert found["headroom"].number() == pytest.approx(96e9 - found["memory"].number())
    assert sum(step.value for step in found["memory"].steps) == pytest.approx(found["memory"].number())  # type: ignore[misc]


def test_caches_of_all_kinds() -> None:
    (layer,) = LLAMA.layer_counts
    assert kv_bytes_per_token(layer, "int8") * 80 == 163_840
    deepseek = load_model("deepseek-v3")
    assert {kv_bytes_per_token(layer) for layer in deepseek.layer_counts} == {2 * (512 + 64)}
    gemma = load_model("gemma3-27b")
    each = 2 * 2 * 16 * 128
    assert kv_bytes_per_sequence(gemma, 512) == 62 * each * 512
    assert kv_bytes_per_sequence(gemma, 32768) == each * (52 * 1024 + 10 * 32768)
    assert cache.cache_answers(LLAMA, "int4", None, 1)["per-token"].number() == 81_920
    with pytest.raises(UsageError, match="context is 0"):
        kv_bytes_per_sequence(LLAMA, 0)


def test_answers_of_a_cache_add_up() -> None:
    found = cache.cache_answers(load_model("gemma2-9b"), "bf16", 8192, 3)
    assert next(iter(found)) == "batch"
    assert found["batch"].number() == 3 * found["per-sequence"].number()
    assert found["per-sequence"].number() == 21 * 2 * 2 * 8 * 256 * (4096 + 8192)
    assert any("window" in sentence for sentence in found["batch"].assumptions)


@given(st.integers(1, 64), st.integers(1, 256), st.one_of(st.none(), st.integers(1, 100)))
def test_the_cache_is_split_over_all_chips(heads: int, chips: int, batch: int | None) -> None:
    found = kv_sharding(heads, chips, batch).value
    assert isinstance(found, dict)
    total = found["heads"] * found["batch"] * found.get("tokens", 1)
    assert total == chips
    assert heads % found["heads"] == 0
    assert batch is None or batch % found["batch"] == 0


def test_parts_that_contradict_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to add up"):
        memory.memory_of_parts({})
    with pytest.raises(UsageError, match="bytes of x is nan"):
        memory.memory_of_parts({"x": float("nan")})
    with pytest.raises(UsageError, match="Either the hidden width or the number of checkpoints"):
        memory.checkpoint_elements(8)
    assert memory.memory_of_parts({"x": 0.0}, capacity=1.0)["chips"].value == 1
    found = memory.memory_of_parts({"x": 100.0}, chips=4, capacity=30.0)
    assert (found["fits"].value, found["free"].value, found["chips"].value) == (True, 5.0, 4)
