"""Models from tables: every key is known, or it is an error that says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.errors import UsageError
from tpuprof.plan import Attention, Experts, Mlp, model_of_table, param_counts

PLAIN: dict[str, Any] = {
    "layers": 4, "d_model": 64, "n_heads": 4, "d_ff": 128, "gated": True, "vocab": 100, "tied_embeddings": False,
}  # fmt: skip
MIXED = PLAIN | {"experts": 8, "top_k": 2, "d_ff_expert": 32}


def test_defaults_are_those_of_a_plain_transformer() -> None:
    model = model_of_table(PLAIN)
    (layer,) = model.layer_counts
    assert layer.attention == Attention(4, 4, 16)
    assert layer.mlp == Mlp(128, True)
    assert (layer.norms, layer.norm, layer.parallel, model.positions) == (2, "rms", False, 0)


def test_experts_and_windows_follow_their_patterns() -> None:
    model = model_of_table(MIXED | {
        "dense_layers_first": 1, "moe_layer_step": 2, "sliding_window": 16, "window_layers": "LLG",
        "shared_experts": 2, "global_head_dim": 8, "global_kv_heads": 2,
    })  # fmt: skip
    assert [layer.kind for layer in model.layers] == [
        "window-16 dense", "window-16 experts", "full dense", "window-16 experts"
    ]  # fmt: skip
    assert isinstance(model.layers[1].mlp, Experts)
    assert model.layers[1].mlp.shared_hidden == 64
    assert model.layers[2].attention == Attention(4, 2, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 3}, r"'layer' is no key of a model\. Did you mean layers"),
        ({"zzz": 3}, r"'zzz' is no key of a model\. Keys: name, layers"),
        ({"gated": None}, r"does not say gated\. Give true or false"),
        ({"tied_embeddings": None}, r"does not say tied_embeddings"),
        ({"gated": "yes"}, r"gated must be true or false, not 'yes'"),
        ({"layers": None}, r"has no layers\. Give layers: number of layers"),
        ({"layers": 0}, r"layers must be a whole number from 1, not 0"),
        ({"layers": True}, r"layers must be a whole number from 1, not True"),
        ({"layers": 10**9}, r"1,000,000,000 layers are too many"),
        ({"vocab": 1.5}, r"vocab must be a whole number"),
        ({"d_model": 10**12, "n_heads": 1}, r"head_dim is 1000000000000"),
        ({"n_heads": 3}, r"64 does not divide into 3 heads\. Give head_dim"),
        ({"n_kv_heads": 3}, r"4 query heads cannot share 3 KV heads"),
        ({"attention": "linear"}, r"'linear' is no known kind of attention"),
        ({"attention": "mla"}, r"has no kv_lora_rank"),
        ({"attention": "mla", "mla": {"rank": 3}}, r"'rank' is no key of mla"),
        ({"attention": "mla", "mla": 3}, r"mla must be a table"),
        ({"mla": {"kv_lora_rank": 3}}, r"no known kind of attention"),
        ({"norm": "batch"}, r"'batch' is no kind of norm\. Kinds: rms, layer, none"),
        ({"norms_per_layer": 99}, r"99 norms"),
        ({"window_layers": "LG"}, r"window_layers says nothing without sliding_window"),
        ({"sliding_window": 4, "window_layers": "SG"}, r"window_layers is 'SG'"),
        ({"sliding_window": 0}, r"sliding_window must be a whole number from 1"),
        ({"top_k": 2}, r"top_k says nothing without experts"),
        ({"dense_layers_first": 1}, r"dense_layers_first says nothing without experts"),
        ({"experts": 4, "top_k": 5}, r"cannot go to 5 of 4 experts"),
        ({"experts": 4}, r"has no top_k"),
        ({"experts": 4, "top_k": 2, "dense_layers_first": 4}, r"All 4 layers are dense"),
        ({"published_params": "many"}, r"published_params must be a number"),
        ({"name": 3}, r"name must be a text"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        model_of_table({key: value for key, value in (PLAIN | change).items() if value is not None}, "mine.toml")


@given(
    st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(1, 50), st.integers(1, 30),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_books_formula_holds(
    layers: int, kv: int, group: int, head: int, hidden: int, vocab: int, gated: bool, tied: bool
) -> None:
    width = 8
    model = model_of_table({
        "layers": layers, "d_model": width, "n_heads": kv * group, "n_kv_heads": kv, "head_dim": head, "d_ff": hidden,
        "gated": gated, "vocab": vocab, "tied_embeddings": tied, "norm": "none",
    })  # fmt: skip
    mlp, attention = (3 if gated else 2) * width * hidden, 2 * width * (kv * group + kv) * head
    assert param_counts(model).all == layers * (mlp + attention) + (1 if tied else 2) * vocab * width
