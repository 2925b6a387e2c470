"""The short formulas, and the answers of a model beside them."""

from __future__ import annotations

import pytest

from tpuprof.errors import UsageError
from tpuprof.plan import flops, load_model, remat_policy
from tpuprof.plan.params import param_answers, params_of_sizes


def test_the_short_formula_is_near_and_says_how_near() -> None:
    found = flops.flop_answers(load_model("llama3-70b"), 2, 8192, "causal", remat_policy("full"))
    assert found["training"].number() == 3 * found["forward"].number()
    assert found["backward"].number() == 2 * found["forward"].number()
    assert found["hardware"].number() == found["training"].number() + found["recompute"].number()
    error = found["short-formula"].number() / found["training"].number() - 1
    assert found["short-formula-error"].number() == pytest.approx(error)
    assert -0.07 < error < 0
    assert sum(step.value for step in found["forward"].steps) == pytest.approx(found["forward"].number())  # type: ignore[misc]
    assert found["attention-share"].number() == pytest.approx(0.07, abs=0.02)


def test_einsums_count_each_letter_once() -> None:
    assert flops.einsum_flops("ij,jk->ik", {"i": 2, "j": 3, "k": 4}).value == 2 * 2 * 3 * 4
    for wrong in ("ij,jk", "ij->i", "i1,jk->k", "ii,ij->j", "ij,jk->l", "ij,jk,kl->il"):
        with pytest.raises(UsageError, match="is no contraction of two arrays"):
            flops.einsum_flops(wrong, dict.fromkeys("ijkl", 2))
    with pytest.raises(UsageError, match="size of k is not known"):
        flops.einsum_flops("ij,jk->ik", {"i": 2, "j": 3})


def test_grouped_heads_meet_attention_earlier() -> None:
    full = flops.attention_length(8192)
    grouped = flops.attention_length(8192, 28672, kv_width=1024)
    assert full["all-matmuls"].value == 8 * 8192
    assert grouped["projections"].number() < full["projections"].number()
    assert flops.attention_length(4096, matrices=2)["all-matmuls"].value == 6 * 4096


def test_blocks_of_a_model_add_up() -> None:
    found = param_answers(load_model("deepseek-v3"))
    blocks = (
        "latent-attention",
        "mlp",
        "routed-experts",
        "shared-experts",
        "router",
        "norms",
        "embedding",
        "unembedding",
    )
    assert sum(found[name].number() for name in blocks) == found["params"].number()
    assert found["attention"].value == found["latent-attention"].value


def test_a_part_of_a_model_has_only_its_answers() -> None:
    assert set(params_of_sizes(64, 2, hidden=128)) == {"mlp"}
    assert set(params_of_sizes(64, 2, heads=4)) == {"attention"}
    assert set(params_of_sizes(64, vocab=100)) == {"vocabulary"}
    assert "F" not in params_of_sizes(64, 2, heads=4)["attention"].inputs
    assert set(params_of_sizes(64, hidden=8, experts=4, top_k=2)) == {"routed-experts", "router"}
    with pytest.raises(UsageError, match="No block of the model is described"):
        params_of_sizes(64)


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="number of parameters is"):
            flops.training_flops(wrong)
    with pytest.raises(UsageError, match="size k is 0"):
        flops.matmul_flops(1, 0, 1)
