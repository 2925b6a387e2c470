"""The share of a device: all shares together are the layer, but for what every device repeats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.plan import (
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    decode_matmuls,
    head_matmul,
    hosted_experts,
    layer_matmuls,
    layer_params,
    load_model,
    local_layer,
)  # fmt: skip

REPEATED = {"router", "query_latent", "kv_latent"}


def _flops(layer: Layer, hosted: int | None = None) -> dict[str, float]:
    return {made.output: made.flops for made in layer_matmuls(layer, 2, 24, hosted=hosted)}


@pytest.mark.parametrize("name", ["llama3-70b", "deepseek-v3", "mixtral-8x7b", "gemma3-27b", "palm-540b", "gpt3-175b"])
@pytest.mark.parametrize("tensor", [1, 2, 4, 8, 16])
def test_shares_add_up_to_the_layer(name: str, tensor: int) -> None:
    for layer in load_model(name).layer_counts:
        whole, part = _flops(layer), _flops(local_layer(layer, tensor))
        copies = max(1, tensor // layer.attention.kv_heads) if isinstance(layer.attention, Attention) else 1
        for output, flops in part.items():
            times = 1 if output in REPEATED else tensor
            wanted = whole[output] * (copies if output in {"key", "value"} and copies > 1 else 1)
            assert flops * times == pytest.approx(wanted), output


@given(st.sampled_from([1, 2, 4, 8, 16, 64]), st.integers(1, 8), st.integers(1, 500))
def test_a_device_has_as_many_routed_tokens_whatever_it_hosts(expert: int, top_k: int, tokens: int) -> None:
    layer = Layer(8, Attention(1, 1, 8), Experts(64, top_k, 4, True))
    hosted = hosted_experts(layer, expert)
    assert hosted == 64 // expert
    made = [m for m in layer_matmuls(layer, 1, tokens, hosted=hosted) if m.part == "experts"]
    assert sum(m.flops for m in made) == pytest.approx(3 * 2 * tokens * top_k * 8 * 4)
    assert all(m.matmul.batch <= 64 // expert for m in made)
    once = [m for m in decode_matmuls(layer, tokens, 10, hosted=hosted) if m.part == "experts"]
    assert [m.matmul for m in once] == [m.matmul for m in made]


def test_parameters_of_shares() -> None:
    (layer,) = load_model("llama3-70b").layer_counts
    whole, part = layer_params(layer), layer_params(local_layer(layer, 8))
    assert 8 * part["mlp"] == whole["mlp"]
    assert 8 * part["attention"] == whole["attention"]
    assert part["norms"] == whole["norms"]
    assert local_layer(layer, 1) is layer
    assert hosted_experts(layer, 4) is None


def test_the_vocabulary_is_split_with_a_rest() -> None:
    gpt = load_model("gpt2")
    assert [head_matmul(gpt, 3, tensor=ways).n for ways in (1, 2, 4)] == [50257, 25129, 12565]


def test_what_does_not_divide_is_said() -> None:
    layer = Layer(8, Attention(12, 3, 8), Mlp(30, True))
    with pytest.raises(UsageError, match=r"The hidden width, 30, does not divide over 4 devices"):
        local_layer(layer, 4)
    with pytest.raises(UsageError, match=r"The number of heads, 12, does not divide over 5 devices"):
        local_layer(layer, 5)
    with pytest.raises(UsageError, match=r"3 KV heads can neither be split over 2 devices nor copied"):
        local_layer(layer, 2)
    with pytest.raises(UsageError, match=r"degree of tensor parallelism is 0"):
        local_layer(layer, 0)
    mixed = Layer(8, LatentAttention(4, None, 4, 4, 4, 4), Experts(6, 2, 8, True, shared_hidden=2))
    with pytest.raises(UsageError, match=r"The width of shared experts, 2, does not divide over 4"):
        local_layer(mixed, 4)
    with pytest.raises(UsageError, match=r"The number of experts, 6, does not divide over 4"):
        hosted_experts(mixed, 4)
