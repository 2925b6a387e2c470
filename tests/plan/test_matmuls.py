"""Matmuls of a layer: their operations add up to the book's formulas, and masks are counted pair by pair."""

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
    attention_pairs,
    decode_flops,
    decode_matmuls,
    layer_flops,
    layer_matmuls,
    load_model,
    matmul_params,
    model_flops,
    models,
)  # fmt: skip
from tpuprof.plan.matmuls import LayerMatmul, Masking

LLAMA = load_model("llama3-70b")


def _pairs(queries: int, keys: int, window: int | None, masking: Masking) -> int:
    """One by one, diagonal included."""
    seen = 0
    for query in range(keys - queries, keys):
        least = 0 if window is None else query - window + 1
        seen += sum(1 for key in range(keys) if masking == "full" or max(least, 0) <= key <= query)
    return seen


@given(st.integers(1, 40), st.integers(0, 40), st.one_of(st.none(), st.integers(1, 60)))
def test_causal_pairs_are_those_of_the_mask_up_to_half_a_diagonal(queries: int, past: int, window: int | None) -> None:
    found = attention_pairs(queries, queries + past, window)
    exact = _pairs(queries, queries + past, window, "causal")
    growing = max(0, min(queries, (queries + past if window is None else min(window, queries + past)) - past))
    assert found == exact - growing / 2


@given(st.integers(1, 40), st.integers(0, 40))
def test_all_pairs_count_if_masking_is_full(queries: int, past: int) -> None:
    assert attention_pairs(queries, queries + past, None, "full") == _pairs(queries, queries + past, None, "full")


def test_a_whole_sequence_has_half_of_all_pairs() -> None:
    assert attention_pairs(4096, 4096) == 4096**2 / 2
    assert attention_pairs(4096, 4096, 1024) == 1024**2 / 2 + 3072 * 1024
    assert attention_pairs(1, 4096, 1024, "full") == 1024


@given(
    st.integers(1, 4), st.integers(1, 50), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.booleans()
)  # fmt: skip
def test_a_layer_has_the_operations_of_the_book(
    sequences: int, length: int, kv: int, group: int, head: int, gated: bool
) -> None:
    width, hidden, heads = 7, 11, kv * group
    layer = Layer(width, Attention(heads, kv, head), Mlp(hidden, gated))
    full = layer_flops(layer, sequences, length, masking="full").forward
    tokens = sequences * length
    assert full["mlp"] == 2 * (3 if gated else 2) * tokens * width * hidden
    assert full["projections"] == 4 * tokens * width * (heads + kv) * head
    assert full["scores"] == pytest.approx(4 * tokens * length * heads * head)
    half = layer_flops(layer, sequences, length).forward
    assert half["scores"] == pytest.approx(full["scores"] / 2)


def test_llama_3_70b_needs_what_the_book_says() -> None:
    found = model_flops(LLAMA, 1, 8192, masking="full")
    # 6 x parameters that multiply, and 12 T N H per layer and token.
    assert found.training / 8192 == pytest.approx(6 * matmul_params(LLAMA) + 80 * 12 * 8192 * 8192)
    assert found.hardware == found.training  # everything is kept


@given(st.integers(1, 3000), st.integers(1, 64), st.data())
def test_routed_tokens_are_counted_whatever_their_number(tokens: int, experts: int, data: st.DataObject) -> None:
    top = data.draw(st.integers(1, experts))
    layer = Layer(8, Attention(1, 1, 8), Experts(experts, top, 4, True, shared_hidden=4))
    found = layer_flops(layer, 1, tokens).forward
    assert found["experts"] == pytest.approx(2 * 3 * tokens * top * 8 * 4)
    assert found["shared-experts"] == 2 * 3 * tokens * 8 * 4
    assert found["router"] == 2 * tokens * 8 * experts
    routed = [made for made in layer_matmuls(layer, 1, tokens) if made.part == "experts"]
    assert all(made.matmul.batch <= experts and 0 < made.counted <= 1 for made in routed)


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_a_token_is_multiplied_by_the_same_weights_in_decode_and_in_training(model) -> None:  # type: ignore[no-untyped-def]
    # Latent attention is computed in another order, whose weights are the same.
    def weights(matmuls: tuple[LayerMatmul, ...]) -> float:
        return sum(made.flops for made in matmuls if made.weights)

    for layer in model.layer_counts:
        assert weights(decode_matmuls(layer, 1, 100)) == pytest.approx(weights(layer_matmuls(layer, 1, 1)))


def test_latent_attention_reads_small_keys_and_computes_more_in_decode() -> None:
    latent = LatentAttention(16, None, 512, 128, 64, 128)
    layer = Layer(2048, latent, Mlp(8, True))
    by_name = {made.output: made.matmul for made in decode_matmuls(layer, 4, 1000)}
    assert (by_name["scores"].m, by_name["scores"].k, by_name["scores"].n) == (16, 576, 1000)
    assert by_name["context_latent"].flops == 2 * 4 * 16 * 1000 * 512


def test_a_window_caps_what_decode_looks_at() -> None:
    gemma = load_model("gemma3-27b")
    parts = [decode_flops(gemma, 1, keys).forward["scores"] for keys in (1024, 2048)]
    heads = 4 * 32 * 128
    assert parts == [62 * heads * 1024, (52 * 1024 + 10 * 2048) * heads]


def test_a_chunk_of_a_prompt_sees_what_came_before() -> None:
    (layer,) = LLAMA.layer_counts
    whole = sum(made.flops for made in layer_matmuls(layer, 1, 4096) if made.part == "scores")
    parts = sum(
        made.flops
        for start in range(0, 4096, 512)
        for made in layer_matmuls(layer, 1, 512, start + 512)
        if made.part == "scores"
    )
    assert parts == pytest.approx(whole)


def test_impossible_counts_are_refused() -> None:
    (layer,) = LLAMA.layer_counts
    with pytest.raises(UsageError, match="8 queries cannot be among 4 keys"):
        layer_matmuls(layer, 1, 8, 4)
    with pytest.raises(UsageError, match="number of sequences is 0"):
        layer_matmuls(layer, 0, 8)
    with pytest.raises(UsageError, match=r"'sparse' is no way to count attention\. Ways: causal, full"):
        attention_pairs(1, 1, None, "sparse")  # type: ignore[arg-type]
