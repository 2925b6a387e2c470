"""Models from tables of plain keys, as in a TOML file or a JSON object: every key is known, or it is an error."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, cast

from tpuprof.errors import UsageError
from tpuprof.plan.model import (
    MOST_LAYERS,
    NORMS,
    AnyAttention,
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    ModelConfig,
)  # fmt: skip

KEYS: dict[str, str] = {
    "name": "name of the model",
    "layers": "number of layers",
    "d_model": "width of the residual path",
    "n_heads": "query heads",
    "n_kv_heads": "KV heads; as many as query heads if not given",
    "head_dim": "size of a head; d_model / n_heads if not given",
    "d_ff": "hidden width of the MLP",
    "gated": "the MLP has three matrices (SwiGLU, GeGLU) instead of two",
    "vocab": "entries of the vocabulary",
    "tied_embeddings": "the output matrix is the embedding table",
    "norm": "rms (default), layer (with a bias) or none",
    "norms_per_layer": "2 (default), 1 if attention and MLP share one, 4 if outputs have their own",
    "final_norm": "the last output is normalised (default)",
    "parallel": "attention and MLP read the same input",
    "positions": "learned position embeddings",
    "qkv_bias": "biases of query, key and value projections",
    "out_bias": "bias of the attention's output projection",
    "mlp_bias": "biases of the MLP, or of the experts",
    "qk_norm": "queries and keys are normalised per head",
    "sinks": "each head has a learned logit beside the keys",
    "sliding_window": "keys that a query sees in layers with a window",
    "window_layers": 'which layers have it: "all" (default), or a pattern such as "LLLLLG" that repeats, G being full',
    "global_head_dim": "size of a head in layers with full attention, where it differs",
    "global_kv_heads": "KV heads in layers with full attention, where they differ",
    "attention": 'mla for latent attention, whose sizes are in the table "mla"',
    "mla": "q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim",
    "experts": "routed experts of a layer",
    "top_k": "routed experts per token",
    "d_ff_expert": "hidden width of a routed expert",
    "shared_experts": "experts that see all tokens, as wide as routed ones",
    "d_ff_shared": "hidden width of all shared experts together, where it is not that",
    "router_bias": "each expert has a bias in the router",
    "shared_gate": "a learned gate scales the shared expert",
    "dense_layers_first": "layers with a plain MLP before the mixtures of experts",
    "moe_layer_step": "every so many layers one has experts, the others a plain MLP; 1 if not given",
    "source": "where the numbers come from",
    "published_params": "parameters that the source states",
}
"""Keys of a model with their meaning."""

_MLA = {
    "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank", "qk_nope_head_dim": "nope_dim", "qk_rope_head_dim": "rope_dim",
    "v_head_dim": "value_dim",
}  # fmt: skip
_MOST_LETTERS = 64


class Reader:
    """A table whose values are asked for by type; what is wrong is said with the key and where it is."""

    def __init__(self, table: Mapping[str, object], where: str) -> None:
        self.where = where
        self._table = {key: value for key, value in table.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number; required without a default."""
        value = self._table.get(key, default)
        if value is None:
            raise UsageError(f"The model has no {key}.", where=self.where, hint=f"Give {key}: {KEYS.get(key, key)}.")
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"{key} must be a whole number from {least}, not {_short(value)}.", where=self.where)
        return value

    def optional(self, key: str, *, least: int = 1) -> int | None:
        """A whole number, or null if the key is absent."""
        return self.count(key, least=least) if key in self else None

    def yes(self, key: str, default: bool | None = None) -> bool:
        """True or false; required without a default."""
        value = self._table.get(key, default)
        if value is None:
            raise UsageError(
                f"The model does not say {key}.", where=self.where, hint=f"Give true or false: {KEYS.get(key, key)}."
            )
        if not isinstance(value, bool):
            raise UsageError(f"{key} must be true or false, not {_short(value)}.", where=self.where)
        return value

    def text(self, key: str, default: str) -> str:
        """A text."""
        value = self._table.get(key, default)
        if not isinstance(value, str) or len(value) > 1000:
            raise UsageError(f"{key} must be a text, not {_short(value)}.", where=self.where)
        return value

    def table(self, key: str) -> Reader:
        """A table inside."""
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            raise UsageError(f"{key} must be a table, not {_short(value)}.", where=self.where)
        return Reader(cast("dict[str, object]", value), f"{self.where}, {key}")

    def names(self) -> list[str]:
        """Keys with a value."""
        return list(self._table)

    def raw(self, key: str) -> object:
        """Whatever is there; null if nothing."""
        return self._table.get(key)


def model_of_table(table: Mapping[str, object], where: str = "model") -> ModelConfig:
    """The model that a table of :data:`KEYS` describes.

    Raises:
        UsageError: a key is missing, unknown or has a value that it cannot have.
    """
    read = Reader(table, where)
    for key in read.names():
        if key not in KEYS:
            near = difflib.get_close_matches(key[:_MOST_LETTERS], KEYS, n=2)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"Keys: {', '.join(KEYS)}."
            raise UsageError(f"{key[:_MOST_LETTERS]!r} is no key of a model.", where=where, hint=hint)
    count = read.count("layers")
    if count > MOST_LAYERS:
        raise UsageError(f"{count:,} layers are too many.", where=where, hint=f"The limit is {MOST_LAYERS:,}.")
    return ModelConfig(
        read.text("name", "model")[:_MOST_LETTERS],
        _layers(read, count),
        read.count("vocab"),
        read.yes("tied_embeddings"),
        read.count("positions", 0, least=0),
        read.yes("final_norm", True),
        read.text("source", ""),
        _published(read),
    )


def _layers(read: Reader, count: int) -> tuple[Layer, ...]:
    width, norm = read.count("d_model"), read.text("norm", "rms")
    if norm not in NORMS:
        raise UsageError(f"{norm[:_MOST_LETTERS]!r} is no kind of norm.", where=read.where,
                         hint=f"Kinds: {', '.join(NORMS)}.")  # fmt: skip
    parallel = read.yes("parallel", False)
    norms = read.count("norms_per_layer", 1 if parallel else 2, least=0)
    local = _local_layers(read, count)
    attention = {flag: _attention(read, width, flag) for flag in set(local)}
    expert = _expert_layers(read, count)
    mlp = {flag: _experts(read) if flag else _mlp(read) for flag in set(expert)}
    return tuple(
        Layer(width, attention[windowed], mlp[mixed], norms, norm, parallel)
        for windowed, mixed in zip(local, expert, strict=True)
    )


def _local_layers(read: Reader, count: int) -> list[bool]:
    """Which layers have a window."""
    if "sliding_window" not in read:
        for key in ("window_layers", "global_head_dim", "global_kv_heads"):
            if key in read:
                raise UsageError(f"{key} says nothing without sliding_window.", where=read.where)
        return [False] * count
    pattern = read.text("window_layers", "all")
    pattern = "L" if pattern == "all" else pattern
    if not pattern or len(pattern) > MOST_LAYERS or set(pattern) - {"L", "G"}:
        raise UsageError(
            f"window_layers is {_short(pattern)}.", where=read.where,
            hint='Write "all", or a pattern of L (window) and G (full attention) that repeats, such as "LG".',
        )  # fmt: skip
    return [pattern[n % len(pattern)] == "L" for n in range(count)]


def _expert_layers(read: Reader, count: int) -> list[bool]:
    """Which layers have experts."""
    if "experts" not in read:
        for key in ("top_k", "d_ff_expert", "shared_experts", "d_ff_shared", "dense_layers_first", "moe_layer_step"):
            if read.raw(key):
                raise UsageError(f"{key} says nothing without experts.", where=read.where)
        return [False] * count
    first, step = read.count("dense_layers_first", 0, least=0), read.count("moe_layer_step", 1)
    if first >= count:
        raise UsageError(f"All {count} layers are dense: dense_layers_first is {first}.", where=read.where)
    return [n >= first and (n + 1) % step == 0 for n in range(count)]


def _attention(read: Reader, width: int, windowed: bool) -> AnyAttention:
    heads, kind = read.count("n_heads"), read.text("attention", "heads")
    window = read.count("sliding_window") if windowed else None
    if kind == "mla":
        return _latent(read, heads, window)
    if kind != "heads" or "mla" in read:
        raise UsageError(
            f"{_short(kind)} is no known kind of attention.", where=read.where,
            hint='Leave attention out for heads with or without groups, or write "mla" and a table mla.',
        )  # fmt: skip
    if "head_dim" not in read and width % heads:
        raise UsageError(f"{width} does not divide into {heads} heads.", where=read.where, hint="Give head_dim.")
    head_dim, kv_heads = read.count("head_dim", width // heads), read.count("n_kv_heads", heads)
    if not windowed:
        head_dim, kv_heads = read.count("global_head_dim", head_dim), read.count("global_kv_heads", kv_heads)
    flags = [read.yes(key, False) for key in ("qkv_bias", "out_bias", "qk_norm", "sinks")]
    return Attention(heads, kv_heads, head_dim, window, *flags)


def _latent(read: Reader, heads: int, window: int | None) -> LatentAttention:
    inside = read.table("mla")
    unknown = [key for key in inside.names() if key not in _MLA]
    if unknown:
        raise UsageError(f"{unknown[0][:_MOST_LETTERS]!r} is no key of mla.", where=read.where,
                         hint=f"Keys: {', '.join(_MLA)}.")  # fmt: skip
    if any(read.raw(key) for key in ("qkv_bias", "out_bias", "qk_norm", "sinks")):
        raise UsageError("Biases and norms of heads are not known with latent attention.", where=read.where)
    sizes = {name: inside.count(key) for key, name in _MLA.items() if name != "q_rank"}
    return LatentAttention(heads, inside.optional("q_lora_rank"), **sizes, window=window)


def _mlp(read: Reader) -> Mlp:
    return Mlp(read.count("d_ff"), read.yes("gated"), read.yes("mlp_bias", False))


def _experts(read: Reader) -> Experts:
    hidden = read.count("d_ff_expert") if "d_ff_expert" in read else read.count("d_ff")
    shared = read.count("d_ff_shared", read.count("shared_experts", 0, least=0) * hidden, least=0)
    flags = [read.yes(key, False) for key in ("mlp_bias", "router_bias", "shared_gate")]
    return Experts(read.count("experts"), read.count("top_k"), hidden, read.yes("gated"), shared, *flags)


def _published(read: Reader) -> float | None:
    value: Any = read.raw("published_params")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"published_params must be a number, not {_short(value)}.", where=read.where)
    return float(value)


def _short(value: object) -> str:
    return repr(value)[:_MOST_LETTERS]
