"""Models from the ``config.json`` of Hugging Face Transformers.

Each model type states which keys its arithmetic depends on and what they mean. A key that is neither one of these nor
known to leave shapes alone is an error unless it is off (null, false, 0, empty), so that nothing is silently taken for
a dense model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from tpuprof.errors import UsageError
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.table import Reader, model_of_table

Table = dict[str, object]

_HARMLESS = re.compile(
    r"_?(architectures|model_type|auto_map|.*token_id(s)?|.*torch_dtype|dtype|transformers_version|use_cache|"
    r"initializer_range|.*_init(_std)?|.*eps(ilon)?|rope_.*|max_position_embeddings|.*dropout.*|.*_pdrop|.*_drop|"
    r"hidden_act(ivation)?|activation_function|output_.*|return_dict|name_or_path|quantization_config|pretraining_tp|"
    r".*softcapping|query_pre_attn_scalar|attn_implementation|cache_implementation|use_return_dict|"
    r"max_window_layers|initial_context_length|swiglu_limit|router_aux_loss_coef|aux_loss_alpha|seq_aux|"
    r"router_jitter_noise|norm_topk_prob|routed_scaling_factor|scoring_func|topk_method|n_group|topk_group|"
    r"ep_size|num_nextn_predict_layers|summary_.*|task_specific_params|n_ctx|scale_attn_.*|reorder_and_.*|"
    r"unsloth.*|chunk_size_feed_forward|rotary_.*|original_max_position_embeddings|"
    r"problem_type|id2label|label2id|finetuning_task|"
    r"partial_rotary_factor|force_bos_token_to_be_generated|is_decoder|tie_encoder_decoder|tokenizer_class|"
    r"prefix|bad_words_ids|num_parameters|attn_scale)\Z"
)
_BASE = {
    "num_hidden_layers": "layers", "hidden_size": "d_model", "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads", "head_dim": "head_dim", "intermediate_size": "d_ff", "vocab_size": "vocab",
    "tie_word_embeddings": "tied_embeddings",
}  # fmt: skip
_MLA = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


class _Config(Reader):
    """A configuration that remembers which keys were asked for."""

    def __init__(self, table: Mapping[str, object], where: str) -> None:
        super().__init__(table, where)
        self.used: set[str] = set()

    def take(self, key: str, default: object = None) -> object:
        self.used.add(key)
        value = self.raw(key)
        return default if value is None else value

    def expected(self, key: str) -> object:
        """What makes a mixture: a configuration that leaves it out must not pass for a dense model."""
        value = self.take(key)
        if value is None:
            raise UsageError(f"The model has no {key}.", where=self.where, why="Its type is a mixture of experts.")
        return value

    def base(self, tied: bool) -> Table:
        """The keys that nearly all share."""
        made: Table = {ours: self.take(key) for key, ours in _BASE.items()}
        made["tied_embeddings"] = tied if made["tied_embeddings"] is None else made["tied_embeddings"]
        return made | {"gated": True}

    def windows(self, made: Table, pattern: str, on: bool = True) -> Table:
        """Adds the window and which layers have it; an explicit list of layer types wins over the pattern."""
        window, use = self.take("sliding_window"), self.take("use_sliding_window", on)
        kinds, every = self.take("layer_types"), self.take("sliding_window_pattern")
        every = every if every is not None else self.take("_sliding_window_pattern")
        if isinstance(kinds, list):
            pattern = "".join(self._letter(kind) for kind in cast("list[object]", kinds))
            if len(pattern) != made["layers"]:
                raise UsageError(f"layer_types names {len(pattern)} of {made['layers']} layers.", where=self.where)
        elif isinstance(every, int) and not isinstance(every, bool) and 1 <= every <= 1000:
            pattern = "L" * (every - 1) + "G"
        if window is None or use is False or "L" not in pattern:
            if "L" in pattern and isinstance(kinds, list):
                raise UsageError("Layers have a window of unknown size.", where=self.where, hint="Give sliding_window.")
            return made
        return made | {"sliding_window": window, "window_layers": pattern}

    def _letter(self, kind: object) -> str:
        found = {"sliding_attention": "L", "full_attention": "G"}.get(str(kind))
        if found is None:
            raise UsageError(
                f"{str(kind)[:60]!r} is no known kind of layer.", where=self.where,
                hint="Known: full_attention, sliding_attention.",
            )  # fmt: skip
        return found


def model_of_config(config: Mapping[str, object], where: str = "config.json", name: str = "model") -> ModelConfig:
    """The model that a configuration describes.

    Raises:
        UsageError: its type or a key is not known, a key is missing, or a value is one that it cannot have.
    """
    inner = config.get("text_config")
    if isinstance(inner, dict):  # a text model beside a vision encoder, of which only the text is counted
        merged = {"model_type": f"{config.get('model_type')}_text", **cast("Table", inner)}
        return model_of_config(merged, f"{where}, text_config", name)
    kind = config.get("model_type")
    family = _FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        raise UsageError(
            f"{str(kind)[:60]!r} is no model type that is known.", where=where,
            hint=f"Known: {', '.join(_FAMILIES)}. Describe others in a TOML file with the keys of docs/models.md.",
        )  # fmt: skip
    read = _Config(config, where)
    table = family(read)
    for key in read.names():
        value = read.raw(key)
        on = value not in (False, 0, "", [], {}, "default")
        if key not in read.used and on and not _HARMLESS.match(key):
            raise UsageError(
                f"{key[:60]!r} is not known for {kind}.", where=where,
                why="It may change the arithmetic.",
                hint="Describe the model in a TOML file with the keys of docs/models.md.",
            )  # fmt: skip
    table = {key: value for key, value in table.items() if value is not None}
    return model_of_table({"name": name, "source": f"{where} ({kind})", **table}, where)


def _llama(c: _Config) -> Table:
    bias = c.take("attention_bias", False)
    return c.base(False) | {"qkv_bias": bias, "out_bias": bias, "mlp_bias": c.take("mlp_bias", False)}


def _mistral(c: _Config) -> Table:
    return c.windows(c.base(False), "L")


def _mixtral(c: _Config) -> Table:
    experts = {"experts": c.take("num_local_experts", 8), "top_k": c.take("num_experts_per_tok", 2)}
    return c.windows(c.base(False) | experts, "L")


def _qwen2(c: _Config) -> Table:
    # Windows of this family start at a layer number, and published models do not use them.
    return _no_window(c, c.base(False) | {"qkv_bias": True})


def _qwen3(c: _Config) -> Table:
    bias = c.take("attention_bias", False)
    return _no_window(c, c.base(False) | {"qk_norm": True, "qkv_bias": bias, "out_bias": bias})


def _qwen_moe(c: _Config, made: Table) -> Table:
    made |= {
        "experts": c.expected("num_experts"), "top_k": c.expected("num_experts_per_tok"),
        "d_ff_expert": c.expected("moe_intermediate_size"), "moe_layer_step": c.take("decoder_sparse_step", 1),
    }  # fmt: skip
    if c.take("mlp_only_layers"):
        raise UsageError("mlp_only_layers is not known.", where=c.where, hint="Describe the model in a TOML file.")
    shared = c.take("shared_expert_intermediate_size")
    return made | ({"d_ff_shared": shared, "shared_gate": True} if shared else {})


def _no_window(c: _Config, made: Table) -> Table:
    if c.take("use_sliding_window", False):
        raise UsageError(
            "use_sliding_window with a first layer is not known.", where=c.where,
            hint="Describe the model in a TOML file with window_layers.",
        )  # fmt: skip
    return c.windows(made, "G", on=False)


def _gemma(c: _Config) -> Table:
    return c.base(True)


def _gemma2(c: _Config) -> Table:
    return c.windows(c.base(True) | {"norms_per_layer": 4}, "LG")


def _gemma3(c: _Config) -> Table:
    made = c.base(True) | {"norms_per_layer": 4, "qk_norm": True}
    # The configurations of the larger models leave out what is the default of their class.
    defaults: Table = {"vocab": 262_208, "n_heads": 8, "n_kv_heads": 4, "head_dim": 256}
    made |= {key: value for key, value in defaults.items() if made[key] is None}
    return c.windows(made, "LLLLLG")


def _gpt2(c: _Config) -> Table:
    width = c.take("n_embd")
    inner = c.take("n_inner") or (4 * width if isinstance(width, int) else None)
    return {
        "layers": c.take("n_layer"), "d_model": width, "n_heads": c.take("n_head"), "d_ff": inner, "gated": False,
        "vocab": c.take("vocab_size"), "tied_embeddings": c.take("tie_word_embeddings", True), "norm": "layer",
        "positions": c.take("n_positions", 1024), "qkv_bias": True, "out_bias": True, "mlp_bias": True,
    }  # fmt: skip


def _gpt_oss(c: _Config) -> Table:
    made = c.base(False) | {
        "experts": c.expected("num_local_experts"), "top_k": c.take("num_experts_per_tok", c.take("experts_per_token")),
        "d_ff_expert": c.take("intermediate_size"), "qkv_bias": True, "out_bias": True, "mlp_bias": True,
        "router_bias": True, "sinks": True,
    }  # fmt: skip
    c.take("attention_bias")
    return c.windows(made, "LG")


def _deepseek(c: _Config) -> Table:
    made = c.base(False) | {
        "attention": "mla", "mla": {key: c.take(key) for key in _MLA}, "experts": c.expected("n_routed_experts"),
        "top_k": c.expected("num_experts_per_tok"), "d_ff_expert": c.expected("moe_intermediate_size"),
        "shared_experts": c.take("n_shared_experts", 0), "dense_layers_first": c.take("first_k_dense_replace", 0),
        "moe_layer_step": c.take("moe_layer_freq", 1),
    }  # fmt: skip
    if c.take("attention_bias", False):
        raise UsageError("attention_bias with latent attention is not known.", where=c.where)
    c.take("qk_head_dim")  # the sum of the two parts
    # Of no meaning here: the class states a head size that its attention does not use.
    return made | {"head_dim": None, "n_kv_heads": None, "router_bias": c.raw("topk_method") == "noaux_tc"}


_FAMILIES: dict[str, Callable[[_Config], Table]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2_moe": lambda c: _qwen_moe(c, _qwen2(c)),
    "qwen3_moe": lambda c: _qwen_moe(c, _qwen3(c)),
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
