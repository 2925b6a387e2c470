"""The matmuls of a layer, with their shapes, so that each can be costed with padding and sharding.

Formulas: scaling book, chapter "Transformers". Attention is counted as what a fused kernel computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.plan.model import Attention, Experts, LatentAttention, Layer, ModelConfig

Part = Literal["projections", "scores", "mlp", "experts", "shared-experts", "router", "head"]
Masking = Literal["causal", "full"]
MASKINGS: tuple[Masking, ...] = ("causal", "full")
"""``causal``: only pairs that are not masked, half of a long sequence's. ``full``: all pairs, as many papers count."""


@dataclass(frozen=True, slots=True)
class LayerMatmul:
    """A matmul of a layer's forward pass.

    Args:
        output: the tensor that it makes, by the names of :mod:`tpuprof.plan.remat`.
        part: what it belongs to.
        matmul: its shape on one device that holds everything.
        weights: the right operand is a weight.
        counted: the share of its operations that count; below 1 where masked or unused rows are part of the shape.
    """

    output: str
    part: Part
    matmul: Matmul
    weights: bool = True
    counted: float = 1.0

    @property
    def flops(self) -> float:
        """Operations that count."""
        return self.matmul.flops * self.counted


def layer_matmuls(
    layer: Layer, sequences: int, queries: int, keys: int | None = None, *, masking: Masking = "causal",
    dtype: str = "bf16", hosted: int | None = None,
) -> tuple[LayerMatmul, ...]:  # fmt: skip
    """The matmuls of a layer's forward pass over whole sequences or chunks of them (training, prefill).

    Args:
        sequences: in the batch.
        queries: tokens per sequence that are computed.
        keys: tokens that they can look at, the computed ones included; the same number if not given.
        masking: which pairs of queries and keys count.
        dtype: of weights and activations.
        hosted: routed experts that the device holds under expert parallelism; all if not given.

    Raises:
        UsageError: a count is below 1, or there are fewer keys than queries.
    """
    keys = _checked(sequences, queries, keys)
    tokens = sequences * queries
    share = attention_pairs(queries, keys, layer.attention.window, masking) / (queries * keys)
    a, width = layer.attention, layer.width

    def product(
        output: str, part: Part, m: int, k: int, n: int, batch: int = 1, weights: bool = True, share: float = 1.0
    ) -> LayerMatmul:
        return LayerMatmul(output, part, Matmul(m, n, k, batch, dtype, dtype, dtype), weights, share)

    if isinstance(a, Attention):
        sized = [("query", a.heads), ("key", a.kv_heads), ("value", a.kv_heads)]
        found = [product(name, "projections", tokens, width, heads * a.head_dim) for name, heads in sized]
        rows, batch = queries * a.group, sequences * a.kv_heads
        found.append(product("scores", "scores", rows, a.head_dim, keys, batch, False, share))
        found.append(product("context", "scores", rows, keys, a.head_dim, batch, False, share))
        found.append(product("attention_out", "projections", tokens, a.heads * a.head_dim, width))
    else:
        found = _latent_down(a, width, tokens, dtype)
        cached = sequences * keys
        found.append(product("key", "projections", cached, a.kv_rank, a.heads * a.nope_dim))
        found.append(product("value", "projections", cached, a.kv_rank, a.heads * a.value_dim))
        batch = sequences * a.heads
        found.append(product("scores", "scores", queries, a.query_dim, keys, batch, False, share))
        found.append(product("context", "scores", queries, keys, a.value_dim, batch, False, share))
        found.append(product("attention_out", "projections", tokens, a.heads * a.value_dim, width))
    return (*found, *mlp_matmuls(layer, tokens, dtype=dtype, hosted=hosted))


def decode_matmuls(
    layer: Layer, sequences: int, keys: int, *, dtype: str = "bf16", hosted: int | None = None
) -> tuple[LayerMatmul, ...]:
    """The matmuls of a layer for one new token per sequence, which looks at ``keys`` cached ones or its window.

    Latent attention is computed on the latent vectors themselves: what would expand them is multiplied into the query
    and the output.

    Raises:
        UsageError: a count is below 1.
    """
    seen = min(keys, layer.attention.window or keys)
    a = layer.attention
    if isinstance(a, Attention):
        return layer_matmuls(layer, sequences, 1, seen, masking="full", dtype=dtype, hosted=hosted)
    _checked(sequences, 1, keys)

    def per_head(output: str, k: int, n: int) -> LayerMatmul:
        made = Matmul(sequences, n, k, a.heads, dtype, dtype, dtype)
        return LayerMatmul(output, "projections", made)

    latent = a.kv_rank + a.rope_dim
    scores = Matmul(a.heads, seen, latent, sequences, dtype, dtype, dtype)
    context = Matmul(a.heads, a.kv_rank, seen, sequences, dtype, dtype, dtype)
    out = Matmul(sequences, layer.width, a.heads * a.value_dim, 1, dtype, dtype, dtype)
    return (
        *_latent_down(a, layer.width, sequences, dtype),
        per_head("query_absorbed", a.nope_dim, a.kv_rank),
        LayerMatmul("scores", "scores", scores, False),
        LayerMatmul("context_latent", "scores", context, False),
        per_head("context", a.kv_rank, a.value_dim),
        LayerMatmul("attention_out", "projections", out),
        *mlp_matmuls(layer, sequences, dtype=dtype, hosted=hosted),
    )


def mlp_matmuls(
    layer: Layer, tokens: int, *, dtype: str = "bf16", hosted: int | None = None
) -> tuple[LayerMatmul, ...]:
    """The matmuls of the MLP, or of router and experts, for so many tokens.

    Routed tokens are spread evenly over the experts that any of them reaches; each expert's rows are rounded up in the
    shape, and what that adds does not count. A device that holds a part of the experts gets tokens of others in
    exchange for its own, so that it has as many.

    Raises:
        UsageError: the number of tokens is below 1.
    """
    counted("The number of tokens", tokens)
    mlp, width = layer.mlp, layer.width
    if not isinstance(mlp, Experts):
        return _mlp("mlp", "", mlp.gated, width, mlp.hidden, tokens, 1, 1.0, dtype)
    routed = tokens * mlp.top_k
    held = mlp.count if hosted is None else counted("The number of experts on a device", hosted)
    reached = min(held, routed)
    rows = ceil(routed / reached)
    router = Matmul(tokens, mlp.count, width, 1, dtype, dtype, dtype)
    found = (
        LayerMatmul("router", "router", router),
        *_mlp("experts", "", mlp.gated, width, mlp.hidden, rows, reached, routed / (reached * rows), dtype),
    )
    if mlp.shared_hidden:
        found += _mlp("shared-experts", "shared_", mlp.gated, width, mlp.shared_hidden, tokens, 1, 1.0, dtype)
    return found


def head_matmul(model: ModelConfig, tokens: int, *, dtype: str = "bf16", tensor: int = 1) -> Matmul:
    """The matmul that makes logits of so many tokens, on one of some devices that split the vocabulary.

    Raises:
        UsageError: a number is below 1.
    """
    part = ceil(model.vocab / counted("The degree of tensor parallelism", tensor))
    return Matmul(counted("The number of tokens", tokens), part, model.width, 1, dtype, dtype, dtype)


def attention_pairs(queries: int, keys: int, window: int | None = None, masking: Masking = "causal") -> float:
    """Pairs of a query and a key that count in one head of one sequence; the last query is at the last key.

    Causal pairs are taken as an area, so that a whole sequence has half of all pairs, as everybody counts, and not one
    diagonal more. A window caps the keys per query under both maskings.

    Raises:
        UsageError: a count is below 1, there are fewer keys than queries, or the masking is unknown.
    """
    _checked(1, queries, keys)
    if masking not in MASKINGS:
        raise UsageError(f"{masking!r} is no way to count attention.", hint=f"Ways: {', '.join(MASKINGS)}.")
    width = keys if window is None else min(window, keys)
    if masking == "full":
        return float(queries * width)
    first = keys - queries
    growing = max(0, width - first)  # queries that see fewer keys than the window holds
    if growing == 0:
        return float(queries * width)
    return (width * width - first * first) / 2 + (keys - width) * width


def _latent_down(a: LatentAttention, width: int, tokens: int, dtype: str) -> list[LayerMatmul]:
    """Query and latent vector of keys and values of new tokens."""

    def product(output: str, k: int, n: int) -> LayerMatmul:
        return LayerMatmul(output, "projections", Matmul(tokens, n, k, 1, dtype, dtype, dtype))

    rank = a.q_rank
    query = [product("query", width if rank is None else rank, a.heads * a.query_dim)]
    down = [] if rank is None else [product("query_latent", width, rank)]
    return [*down, *query, product("kv_latent", width, a.kv_rank + a.rope_dim)]


def _mlp(
    part: Part, prefix: str, gated: bool, width: int, hidden: int, rows: int, batch: int, share: float, dtype: str
) -> tuple[LayerMatmul, ...]:
    into = Matmul(rows, hidden, width, batch, dtype, dtype, dtype)
    out = Matmul(rows, width, hidden, batch, dtype, dtype, dtype)
    names = ("gate", "up") if gated else ("up",)
    made = [LayerMatmul(prefix + name, part, into, True, share) for name in names]
    return (*made, LayerMatmul(f"{prefix}mlp_out", part, out, True, share))


def _checked(sequences: int, queries: int, keys: int | None) -> int:
    counted("The number of sequences", sequences)
    counted("The number of queries", queries)
    keys = queries if keys is None else keys
    if keys < queries:
        raise UsageError(f"{queries} queries cannot be among {keys} keys.", hint="Keys include the queries.")
    return keys
