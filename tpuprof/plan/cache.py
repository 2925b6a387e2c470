"""The KV cache: bytes per token, per sequence and per batch, and how it is shared out.

Formulas: scaling book, chapters "Transformers" and "Inference".
"""

from __future__ import annotations

from math import floor, gcd

from tpuprof.dtypes import packed_bytes
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.model import Attention, Layer, ModelConfig
from tpuprof.plan.params import model_inputs

INFERENCE = "scaling book, inference"


def kv_bytes_per_token(layer: Layer, dtype: str = "bf16") -> float:
    """Bytes that one cached token takes in one layer: keys and values, or the latent vector and the rotary key.

    Raises:
        UsageError: the type is unknown.
    """
    return packed_bytes(dtype, kv_elements(layer))


def kv_elements(layer: Layer) -> int:
    """Cached numbers per token in one layer."""
    a = layer.attention
    return 2 * a.kv_heads * a.head_dim if isinstance(a, Attention) else a.kv_rank + a.rope_dim


def kv_bytes_per_sequence(model: ModelConfig, context: int, dtype: str = "bf16") -> float:
    """Bytes of the cache of one sequence in all layers; layers with a window keep no more than that.

    Raises:
        UsageError: the context is below 1, or the type is unknown.
    """
    counted("The context", context)
    return sum(
        count * kv_bytes_per_token(layer, dtype) * min(context, layer.attention.window or context)
        for layer, count in model.layer_counts.items()
    )


def cache_answers(model: ModelConfig, dtype: str, context: int | None, batch: int) -> dict[str, Derivation]:
    """``per-token``, and with a context ``per-sequence`` and ``batch``.

    Raises:
        UsageError: a number is below 1, or the type is unknown.
    """
    size = packed_bytes(dtype, 1)
    inputs = {
        "model": Quantity(model.name, "", model.source), **model_inputs(model), "b": Quantity(size, "B", dtype)
    }  # fmt: skip
    rows = [
        Step(f"{count} layers, {layer.kind}", _kv_formula(layer), count * kv_bytes_per_token(layer, dtype), "B/token")
        for layer, count in model.layer_counts.items()
    ]
    total = sum(count * kv_bytes_per_token(layer, dtype) for layer, count in model.layer_counts.items())
    formula = _kv_formula(model.layers[0]) if len(model.layer_counts) == 1 else "sum over the layers"
    per_token = Derivation(
        total, "B/token", "L * " + formula if len(rows) == 1 else formula, inputs, None, (), tuple(rows), INFERENCE
    )
    if context is None:
        return {"per-token": per_token}
    each = kv_bytes_per_sequence(model, context, dtype)
    windows = any(layer.attention.window is not None for layer in model.layer_counts)
    assumed = ("layers with a window keep no more tokens than it",) if windows else ()
    inputs = {**inputs, "S": Quantity(context, "token")}
    per_sequence = Derivation(
        each, "B/seq", "sum over layers of bytes per token * min(S, window)" if windows else "S * bytes per token",
        inputs, None, assumed, tuple(rows), INFERENCE,
    )  # fmt: skip
    inputs = {**inputs, "B": Quantity(counted("The batch", batch), "seq")}
    whole = Derivation(batch * each, "B", "B * bytes per sequence", inputs, None, assumed,
                       (per_sequence.as_step("one sequence"),), INFERENCE)  # fmt: skip
    found = {"per-sequence": per_sequence, "batch": whole, "per-token": per_token}
    return {"batch": whole, **found} if batch > 1 else found


def kv_of_sizes(layers: int, elements: int, dtype: str, tokens: int = 1, batch: int = 1) -> Derivation:
    """Bytes of a cache of keys and values: 2 x layers x (KV heads x head size) x tokens x sequences.

    Args:
        elements: KV heads times head size.

    Raises:
        UsageError: a number is below 1, or the type is unknown.
    """
    given = {"L": (layers, "layer"), "KH": (elements, "element"), "S": (tokens, "token"), "B": (batch, "seq")}
    for name, (value, _) in given.items():
        counted(f"The number {name}", value)
    inputs = {name: Quantity(value, unit) for name, (value, unit) in given.items()}
    inputs["b"] = Quantity(packed_bytes(dtype, 1), "B", dtype)
    value = 2 * packed_bytes(dtype, layers * elements * tokens * batch)
    return Derivation(value, "B", "2 * b * L * KH * S * B", inputs, source=INFERENCE)


def kv_of_heads(layers: int, kv_heads: int, head_dim: int, dtype: str, tokens: int = 1, batch: int = 1) -> Derivation:
    """As :func:`kv_of_sizes`, from the number of KV heads and their size.

    Raises:
        UsageError: a number is below 1, or the type is unknown.
    """
    elements = counted("The number of KV heads", kv_heads) * counted("The size of a head", head_dim)
    return kv_of_sizes(layers, elements, dtype, tokens, batch)


def kv_of_token(per_token: float, context: float, batch: float = 1) -> Derivation:
    """Bytes of a cache from its bytes per token.

    Raises:
        UsageError: a number is negative.
    """
    given = {"b_token": (per_token, "B/token"), "S": (context, "token"), "B": (batch, "seq")}
    for name, (value, _) in given.items():
        not_negative(f"The number {name}", value)
    inputs = {name: Quantity(value, unit) for name, (value, unit) in given.items()}
    return Derivation(per_token * context * batch, "B", "b_token * S * B", inputs, source=INFERENCE)


def kv_of_sequences(per_sequence: float, batch: float) -> Derivation:
    """Bytes of the caches of so many sequences.

    Raises:
        UsageError: a number is negative.
    """
    value = not_negative("The bytes of a sequence", per_sequence) * not_negative("The batch", batch)
    inputs = {"KV": Quantity(per_sequence, "B/seq"), "B": Quantity(batch, "seq")}
    return Derivation(value, "B", "KV * B", inputs, source=INFERENCE)


def sequences_outweighing(per_sequence: float, weights: float) -> Derivation:
    """The smallest number of sequences whose caches take more bytes than the weights.

    Raises:
        UsageError: a number is out of range.
    """
    ratio = not_negative("The bytes of the weights", weights) / positive("The bytes of a sequence", per_sequence)
    inputs = {"KV": Quantity(per_sequence, "B/seq"), "weights": Quantity(weights, "B")}
    return Derivation(floor(ratio) + 1, "seq", "floor(weights / KV) + 1", inputs, source=INFERENCE)


def kv_sharding(kv_heads: int, chips: int, batch: int | None = None) -> Derivation:
    """How the cache is split over chips: over heads as far as they go, then over sequences, the rest over tokens.

    Splitting heads costs nothing more than the projections already do; sequences cost two all-to-alls of small
    activations per layer; tokens need the softmax to be merged.

    Args:
        batch: sequences; as many as needed if not given.

    Raises:
        UsageError: a number is below 1.
    """
    heads = gcd(counted("The number of KV heads", kv_heads), counted("The number of chips", chips))
    rest = chips // heads
    by_batch = rest if batch is None else gcd(counted("The batch", batch), rest)
    value: dict[str, int] = {"heads": heads, "batch": by_batch}
    if rest // by_batch > 1:
        value["tokens"] = rest // by_batch
    inputs = {"K": Quantity(kv_heads, "head"), "N": Quantity(chips, "chip")}
    if batch is not None:
        inputs["B"] = Quantity(batch, "seq")
    assumed = ("every part is split evenly",)
    return Derivation(value, "way", "gcd(K, N) over heads, the rest over sequences, then tokens", inputs, None, assumed,
                      (), INFERENCE)  # fmt: skip


def _kv_formula(layer: Layer) -> str:
    return "2*K*H*b" if isinstance(layer.attention, Attention) else "(c_kv + d_rope)*b"
