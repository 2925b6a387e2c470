"""Decode and prefill of a known model on some chips, from its layers.

Formulas: scaling book, chapters "Inference" and "Serving LLaMA".
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.dtypes import packed_bytes
from tpuprof.perfmodel.checks import counted
from tpuprof.perfmodel.derivation import Derivation, Quantity
from tpuprof.plan.cache import kv_bytes_per_sequence
from tpuprof.plan.flops import decode_flops, model_flops
from tpuprof.plan.matmuls import Masking
from tpuprof.plan.model import Experts, ModelConfig
from tpuprof.plan.params import model_inputs, param_counts
from tpuprof.plan.serving import SERVING, batch_limit, decode_step, share

_ROUTED = "tokens choose experts independently and evenly"


def weight_bytes(model: ModelConfig, dtype: str = "bf16") -> float:
    """Bytes of all weights.

    Raises:
        UsageError: the type is unknown.
    """
    return packed_bytes(dtype, param_counts(model).all)


def reached_experts(experts: Experts, tokens: float) -> float:
    """How many experts so many tokens reach on average, if they choose independently and evenly."""
    return experts.count * (1 - (1 - experts.top_k / experts.count) ** tokens)


def weight_bytes_read(model: ModelConfig, tokens: float, dtype: str = "bf16") -> float:
    """Bytes of weights that a step over so many tokens reads: no embedding rows but the output matrix, and the experts
    that are reached.

    Raises:
        UsageError: the type is unknown.
    """
    counts = param_counts(model)
    total = float(counts.all) - counts.total["embedding"] * (not model.tied)
    for layer, count in model.layer_counts.items():
        if isinstance(layer.mlp, Experts):
            each = layer.mlp.matrices * layer.width * layer.mlp.hidden
            total -= count * each * (layer.mlp.count - reached_experts(layer.mlp, tokens))
    return packed_bytes(dtype, total)


def decode_of_model(
    model: ModelConfig, *, batch: int, context: int, chips: int, bandwidth: Quantity, peak: Quantity | None = None,
    capacity: Quantity | None = None, weights: str = "bf16", cache: str = "bf16",
) -> dict[str, Derivation]:  # fmt: skip
    """The answers of :func:`tpuprof.plan.serving.decode_step` for a model, whose operations include attention scores.

    Args:
        batch: sequences.
        context: tokens of each in the cache.
        bandwidth, peak, capacity: of one chip.
        weights, cache: types in which they are kept.

    Raises:
        UsageError: a number is out of range, or a type is unknown.
    """
    counted("The batch", batch)
    each = kv_bytes_per_sequence(model, context, cache)
    work = decode_flops(model, batch, context).forward_all / 2 / batch
    read = weight_bytes_read(model, batch, weights)
    found = decode_step(
        batch=batch, kv_bytes=each, weight_bytes=read, chips=chips, bandwidth=bandwidth, params=work, peak=peak
    )
    if capacity is not None:
        found |= batch_limit(weight_bytes(model, weights), each, capacity, chips)
    extra = {
        "model": Quantity(model.name, "", model.source), **_without(model_inputs(model), "N", "V"),
        "S": Quantity(context, "token"), "type of weights": Quantity(weights), "type of cache": Quantity(cache),
    }  # fmt: skip
    assumed = ["P is half the operations per token, attention scores included"] if peak is not None else []
    if any(isinstance(layer.mlp, Experts) for layer in model.layer_counts):
        assumed.append(_ROUTED)
    return {name: replace(made, inputs={**extra, **made.inputs}).assuming(*assumed) for name, made in found.items()}


def _without(inputs: dict[str, Quantity], *symbols: str) -> dict[str, Quantity]:
    """Sizes of the model whose symbols mean something else in decode: chips, not heads."""
    return {symbol: given for symbol, given in inputs.items() if symbol not in symbols}


def prefill_of_model(
    model: ModelConfig, *, tokens: int, chips: int, peak: Quantity, utilization: float = 0.4, sequences: int = 1,
    masking: Masking = "causal",
) -> Derivation:  # fmt: skip
    """The time of prompts, bound by arithmetic, attention scores included.

    Args:
        tokens: of each prompt.
        peak: of one chip.

    Raises:
        UsageError: a number is out of range.
    """
    work = model_flops(model, sequences, tokens, masking=masking)
    rate = counted("The number of chips", chips) * peak.number() * share(utilization)
    inputs = {
        "model": Quantity(model.name, "", model.source), **model_inputs(model), "T": Quantity(tokens, "token"),
        "B": Quantity(sequences, "seq"), "chips": Quantity(chips, "chip"), "C": peak,
        "MFU": Quantity(utilization, "fraction"), "FLOPs": Quantity(work.forward_all, "FLOP"),
    }  # fmt: skip
    assumed = ("logits of all tokens are computed",)
    return Derivation(work.forward_all / rate, "s", "FLOPs / (chips*C*MFU)", inputs, None, assumed, (), SERVING)
