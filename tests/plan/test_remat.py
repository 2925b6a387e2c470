"""What is kept and what is computed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.plan import (
    POLICIES,
    Attention,
    Layer,
    Mlp,
    RematPolicy,
    activation_bytes,
    custom_policy,
    layer_flops,
    layer_matmuls,
    layer_tensors,
    load_model,
    model_flops,
    models,
    offloaded_bytes,
    recomputed_matmuls,
    remat_policy,
    working_bytes,
)  # fmt: skip
from tpuprof.plan.remat import OTHER_NAMES, TENSOR_NAMES, recomputed, saved_tensors

LLAMA = load_model("llama3-70b")
(BLOCK,) = LLAMA.layer_counts
EVERY_LAYER = list(dict.fromkeys(layer for model in models() for layer in model.layer_counts))


def _again(layer: Layer, name: str) -> set[str]:
    return {made.output for made in recomputed_matmuls(layer, remat_policy(name), layer_matmuls(layer, 1, 8))}


def test_block_inputs_repeat_the_forward_pass_but_its_last_matmul() -> None:
    assert _again(BLOCK, "block-inputs") == {
        "query", "key", "value", "scores", "context", "attention_out", "gate", "up"
    }  # fmt: skip
    gemma = load_model("gemma2-2b").layers[0]  # the norm of the output needs it
    assert "mlp_out" in _again(gemma, "block-inputs")


def test_kept_matmul_outputs_leave_the_attention_kernel() -> None:
    assert _again(BLOCK, "matmul-outputs") == {"scores", "context"}
    assert _again(BLOCK, "matmul-outputs-and-context") == set()
    assert _again(BLOCK, "everything") == set()
    assert _again(BLOCK, "matmul-outputs-but-mlp") == {"scores", "context", "gate", "up"}


def test_the_book_counts_bytes_alike() -> None:
    tokens, width, hidden = 4_000_000, 8192, 28672
    # One checkpoint of the width per layer.
    assert activation_bytes(BLOCK, remat_policy("block-inputs"), tokens) == 2 * tokens * width
    # D + 2F: what the first matmuls of the MLP return, and the block's input, which is what the block before returns.
    assert activation_bytes(BLOCK, remat_policy("mlp-matmuls"), tokens) == 2 * tokens * (width + 2 * hidden)
    # About 20 arrays of the width for a plain block with F = 4D: 16, with element-wise steps fused.
    plain = Layer(64, Attention(4, 4, 16), Mlp(256, False))
    assert activation_bytes(plain, remat_policy("everything"), 1, dtype="bf16") == 2 * (8 + 8) * 64 + 4 * 4
    # Without, norms keep their inputs in 32 bits and what they scale, and the function of the MLP its intermediates.
    assert activation_bytes(plain, remat_policy("none"), 1, dtype="bf16") == 2 * (16 + 4 + 4 * 4) * 64 + 4 * 4
    gated = Layer(64, Attention(4, 4, 16), Mlp(256, True))
    more = [activation_bytes(gated, remat_policy(name), 1) for name in ("no-checkpoint", "everything")]
    assert more[0] - more[1] == 2 * (4 * 64 + 2 * 256)


def test_tensor_parallelism_splits_what_it_can() -> None:
    policy = remat_policy("everything")
    whole, split = (activation_bytes(BLOCK, policy, 100, tensor=ways) for ways in (1, 8))
    assert split == pytest.approx(whole / 8)
    wide = activation_bytes(BLOCK, policy, 100, tensor=8, sequence_sharded=False)
    residual = 2 * 100 * 4 * 8192
    assert wide == pytest.approx((whole - residual) / 8 + residual)
    # More ways than KV heads leave copies of keys and values.
    keys = 2 * 100 * 2 * 8 * 128
    assert activation_bytes(BLOCK, policy, 100, tensor=16) == pytest.approx((whole - keys) / 16 + keys / 8)


def test_offloaded_tensors_move_from_one_memory_to_the_other() -> None:
    kept = custom_policy(("query_proj", "decoder_layer_input"))
    moved = custom_policy(("query_proj",), ("decoder_layer_input",))
    whole = activation_bytes(BLOCK, kept, 10)
    assert activation_bytes(BLOCK, moved, 10) + offloaded_bytes(BLOCK, moved, 10) == whole
    assert offloaded_bytes(BLOCK, moved, 10) == 2 * 10 * 8192
    assert recomputed(BLOCK, kept) == recomputed(BLOCK, moved)


@pytest.mark.parametrize("layer", EVERY_LAYER, ids=lambda layer: f"{layer.width}-{layer.kind}")
def test_the_graph_of_every_layer_is_whole(layer: Layer) -> None:
    tensors = {tensor.name: tensor for tensor in layer_tensors(layer)}
    seen: set[str] = set()
    for name, tensor in tensors.items():
        assert set(tensor.made_from) <= seen  # made from what is there before
        seen.add(name)
    outputs = {made.output for made in layer_matmuls(layer, 1, 1)} - {"scores"}
    assert outputs <= set(tensors)
    everything = activation_bytes(layer, remat_policy("everything"), 16)
    least = activation_bytes(layer, remat_policy("block-inputs"), 16)
    assert least == 2 * 16 * layer.width < everything
    assert working_bytes(layer, remat_policy("block-inputs"), 16) >= everything - least
    for policy in POLICIES.values():
        kept = {tensor.name for tensor in saved_tensors(layer, policy)}
        again = recomputed(layer, policy)
        assert not kept & again
        assert {name for name, tensor in tensors.items() if tensor.needed} <= kept | again
        used = {source for name in again for source in tensors[name].made_from} | {"block_input"}
        assert policy.plain or kept <= set(tensors)
        assert all(tensors[name].needed or name in used for name in kept & set(tensors))


def test_what_nothing_needs_is_not_kept() -> None:
    # The output of the MLP is only added to the residual; that of attention is what the MLP's input is made from.
    kept = {tensor.name for tensor in saved_tensors(BLOCK, custom_policy(("mlp_out", "attention_out"), ("mlpwo",)))}
    assert kept == {"block_input", "attention_out"}
    gemma = load_model("gemma2-2b").layers[0]
    assert "mlp_out" in {tensor.name for tensor in saved_tensors(gemma, custom_policy(("mlp_out",)))}
    # PyTorch keeps what it is told to.
    told = RematPolicy("any", frozenset({"mlp_out"}), unread=frozenset({"mlp_out"}))
    assert {tensor.name for tensor in saved_tensors(BLOCK, told)} == {"block_input", "mlp_out"}


def test_a_backward_pass_needs_what_it_computes_again_or_the_gradients_of_the_mlp() -> None:
    tokens, width, hidden, heads, kv = 100, 8192, 28672, 8192, 1024
    norms_and_sum = 3 * width
    made = 2 * tokens * (norms_and_sum + 2 * heads + 2 * kv + width + 4 * hidden) + 4 * tokens * 64
    assert working_bytes(BLOCK, remat_policy("block-inputs"), tokens) == made
    slopes = 2 * tokens * (2 * width + 3 * hidden)
    assert working_bytes(BLOCK, remat_policy("everything"), tokens) == slopes
    # Both at once, the gathered input of a block and two sums of its gradient.
    split = working_bytes(BLOCK, remat_policy("block-inputs"), tokens, tensor=4)
    assert split == pytest.approx((made + slopes) / 4 + 3 * 2 * tokens * width)
    whole = working_bytes(BLOCK, remat_policy("block-inputs"), tokens, tensor=4, sequence_sharded=False)
    assert whole < split


@given(st.sampled_from(EVERY_LAYER), st.data())
def test_keeping_more_never_computes_more(layer: Layer, data: st.DataObject) -> None:
    names = [tensor.name for tensor in layer_tensors(layer)]
    few = data.draw(st.frozensets(st.sampled_from(names)))
    more = few | data.draw(st.frozensets(st.sampled_from(names)))
    small, large = (layer_flops(layer, 1, 8, remat=RematPolicy("any", saved)) for saved in (more, few))
    assert small.hardware <= large.hardware
    assert large.hardware <= large.training + large.forward_all


def test_full_rematerialisation_costs_less_than_another_forward_pass() -> None:
    found = model_flops(LLAMA, 1, 4096, remat=remat_policy("full"))
    # The book's 8 P per token, less the down projections that nobody needs.
    assert 1.2 < found.hardware / found.training < 8 / 6


def test_names_of_other_programs_mean_ours() -> None:
    for other, ours in OTHER_NAMES.items():
        assert remat_policy(other) is POLICIES[ours]
    for other, ours in TENSOR_NAMES.items():
        assert custom_policy((other,)).saved == frozenset(ours) - {"block_input"}
    with pytest.raises(
        UsageError, match=r"'half' is no policy of rematerialisation\. Policies: no-checkpoint, everything"
    ):
        remat_policy("half")
    with pytest.raises(UsageError, match=r"'scores' is no tensor that a policy can keep"):
        custom_policy(("scores",))
    with pytest.raises(UsageError, match=r"tensor parallelism is 0"):
        activation_bytes(BLOCK, remat_policy("full"), 1, tensor=0)
    with pytest.raises(UsageError, match=r"number of tokens is -1"):
        activation_bytes(BLOCK, remat_policy("full"), -1)
