"""Configurations of Hugging Face: the same models as the named ones, and nothing is silently taken for dense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpuprof.errors import UsageError
from tpuprof.plan import load_model, model_of_config, param_counts

NOISE: dict[str, Any] = {
    "architectures": ["X"], "bos_token_id": 1, "eos_token_id": [1, 2], "torch_dtype": "bfloat16", "use_cache": True,
    "initializer_range": 0.02, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "rope_scaling": {"factor": 8.0},
    "attention_dropout": 0.0, "hidden_act": "silu", "max_position_embeddings": 8192, "transformers_version": "4.40.0",
}  # fmt: skip


def _base(layers: int, width: int, heads: int, kv: int, hidden: int, vocab: int, **more: Any) -> dict[str, Any]:
    return NOISE | {
        "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "num_key_value_heads": kv,
        "intermediate_size": hidden, "vocab_size": vocab, **more,
    }  # fmt: skip


QWEN_WINDOW = {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 28}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama3-70b": _base(80, 8192, 64, 8, 28672, 128256, model_type="llama", attention_bias=False, mlp_bias=False,
                        pretraining_tp=1, tie_word_embeddings=False),
    "llama3.2-1b": _base(16, 2048, 32, 8, 8192, 128256, model_type="llama", head_dim=64, tie_word_embeddings=True),
    "mistral-7b": _base(32, 4096, 32, 8, 14336, 32000, model_type="mistral", sliding_window=4096),
    "mistral-7b-v0.3": _base(32, 4096, 32, 8, 14336, 32768, model_type="mistral", sliding_window=None),
    "mixtral-8x7b": _base(32, 4096, 32, 8, 14336, 32000, model_type="mixtral", num_local_experts=8,
                          num_experts_per_tok=2, router_aux_loss_coef=0.02, output_router_logits=False),
    "qwen2.5-7b": _base(28, 3584, 28, 4, 18944, 152064, model_type="qwen2", **QWEN_WINDOW),
    "qwen3-8b": _base(36, 4096, 32, 8, 12288, 151936, model_type="qwen3", head_dim=128, attention_bias=False,
                      **QWEN_WINDOW | {"sliding_window": None}),
    "qwen3-30b-a3b": _base(48, 2048, 32, 4, 6144, 151936, model_type="qwen3_moe", head_dim=128, num_experts=128,
                           num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1,
                           mlp_only_layers=[], norm_topk_prob=True, **QWEN_WINDOW | {"sliding_window": None}),
    "qwen2-57b-a14b": _base(28, 3584, 28, 4, 18944, 151936, model_type="qwen2_moe", num_experts=64,
                            num_experts_per_tok=8, moe_intermediate_size=2560, shared_expert_intermediate_size=20480,
                            decoder_sparse_step=1, **QWEN_WINDOW),
    "gemma-2b": _base(18, 2048, 8, 1, 16384, 256000, model_type="gemma", head_dim=256,
                      hidden_activation="gelu_pytorch_tanh"),
    "gemma2-9b": _base(42, 3584, 16, 8, 14336, 256000, model_type="gemma2", head_dim=256, sliding_window=4096,
                       attn_logit_softcapping=50.0, query_pre_attn_scalar=256, cache_implementation="hybrid"),
    "gemma3-1b": _base(26, 1152, 4, 1, 6912, 262144, model_type="gemma3_text", head_dim=256, sliding_window=512,
                       sliding_window_pattern=6, rope_local_base_freq=10000),
    "gpt2": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
             "vocab_size": 50257, "layer_norm_epsilon": 1e-5, "summary_type": "cls_index", "attn_pdrop": 0.1},
    "gpt-oss-20b": _base(24, 2880, 64, 8, 2880, 201088, model_type="gpt_oss", head_dim=64, num_local_experts=32,
                         num_experts_per_tok=4, experts_per_token=4, sliding_window=128, attention_bias=True,
                         layer_types=["sliding_attention", "full_attention"] * 12, swiglu_limit=7.0),
    "deepseek-v2-lite": _base(27, 2048, 16, 16, 10944, 102400, model_type="deepseek_v2", q_lora_rank=None,
                              kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                              n_routed_experts=64, num_experts_per_tok=6, moe_intermediate_size=1408,
                              n_shared_experts=2, first_k_dense_replace=1, moe_layer_freq=1, topk_method="greedy",
                              routed_scaling_factor=1.0, scoring_func="softmax", aux_loss_alpha=0.001, seq_aux=True),
    "deepseek-v3": _base(61, 7168, 128, 128, 18432, 129280, model_type="deepseek_v3", q_lora_rank=1536,
                         kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                         n_routed_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048, n_shared_experts=1,
                         first_k_dense_replace=3, moe_layer_freq=1, topk_method="noaux_tc", n_group=8, topk_group=4,
                         num_nextn_predict_layers=1, ep_size=1, qk_head_dim=192, head_dim=64, rope_interleave=True,
                         quantization_config={"quant_method": "fp8"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_is_the_named_model(name: str) -> None:
    found, named = model_of_config(CONFIGS[name]), load_model(name)
    assert found.layers == named.layers
    assert (found.vocab, found.tied, found.positions) == (named.vocab, named.tied, named.positions)
    assert param_counts(found) == param_counts(named)


def test_the_text_part_of_a_model_that_also_sees_is_counted() -> None:
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    config = {"model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "text_config": text}
    assert model_of_config(config).layers == load_model("gemma3-4b").layers


def test_a_directory_of_a_download_is_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIGS["llama3.2-1b"]), encoding="utf-8")
    assert load_model(folder).name == "My-Model"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("llama3-70b", {"model_type": "mamba"}, r"'mamba' is no model type that is known\. Known: llama, mistral"),
        ("llama3-70b", {"model_type": None}, r"'None' is no model type"),
        ("llama3-70b", {"num_local_experts": 8}, r"'num_local_experts' is not known for llama\. It may change"),
        ("llama3-70b", {"num_kv_shared_layers": 10}, r"'num_kv_shared_layers' is not known"),
        ("llama3-70b", {"sliding_window": 4096}, r"'sliding_window' is not known for llama"),
        ("llama3-70b", {"hidden_size": None}, r"has no d_model"),
        ("llama3-70b", {"hidden_size": "8192"}, r"d_model must be a whole number"),
        ("qwen2.5-7b", {"use_sliding_window": True}, r"use_sliding_window with a first layer is not known"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [0]}, r"mlp_only_layers is not known"),
        ("qwen3-30b-a3b", {"num_experts": None}, r"has no num_experts\."),
        ("qwen3-30b-a3b", {"moe_intermediate_size": None}, r"has no moe_intermediate_size\."),
        ("gpt-oss-20b", {"num_local_experts": None}, r"has no num_local_experts\."),
        ("deepseek-v3", {"n_routed_experts": None}, r"has no n_routed_experts\."),
        ("gpt-oss-20b", {"layer_types": ["linear_attention"] * 24}, r"'linear_attention' is no known kind of layer"),
        ("gpt-oss-20b", {"layer_types": ["full_attention"]}, r"layer_types names 1 of 24 layers"),
        ("gpt-oss-20b", {"sliding_window": None}, r"window of unknown size"),
        ("deepseek-v3", {"attention_bias": True}, r"attention_bias with latent attention"),
        ("deepseek-v3", {"index_topk": 2048}, r"'index_topk' is not known for deepseek_v3"),
    ],
)
def test_what_would_change_the_arithmetic_is_an_error(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        model_of_config(CONFIGS[name] | change)


def test_what_is_off_is_no_error() -> None:
    found = model_of_config(CONFIGS["llama3-70b"] | {"use_mla": False, "extra_layers": 0, "note": "", "none": None})
    assert found.layers == load_model("llama3-70b").layers
