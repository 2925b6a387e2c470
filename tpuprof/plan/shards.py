"""The part of a layer that one device of a tensor-parallel or expert-parallel group computes.

Tensor parallelism gives each device a share of the heads and of the hidden width; what is small (latent vectors, the
router, keys and values where there are fewer KV heads than devices) is computed by all. The share is a layer itself, so
that everything that is known of layers holds for it.
"""

from __future__ import annotations

from dataclasses import replace

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted
from tpuprof.plan.model import AnyAttention, Attention, Experts, Layer


def local_layer(layer: Layer, tensor: int) -> Layer:
    """A device's share of a layer under tensor parallelism.

    Args:
        tensor: devices of the group.

    Raises:
        UsageError: heads, KV heads or a hidden width do not divide.
    """
    if counted("The degree of tensor parallelism", tensor) == 1:
        return layer
    mlp = layer.mlp
    hidden = _share(mlp.hidden, tensor, "the hidden width")
    if isinstance(mlp, Experts):
        shared = _share(mlp.shared_hidden, tensor, "the width of shared experts") if mlp.shared_hidden else 0
        part = replace(mlp, hidden=hidden, shared_hidden=shared)
    else:
        part = replace(mlp, hidden=hidden)
    return replace(layer, attention=_attention(layer.attention, tensor), mlp=part)


def hosted_experts(layer: Layer, expert: int) -> int | None:
    """Routed experts that each device of an expert-parallel group holds; null if the layer has none.

    Raises:
        UsageError: they do not divide.
    """
    counted("The degree of expert parallelism", expert)
    return _share(layer.mlp.count, expert, "the number of experts") if isinstance(layer.mlp, Experts) else None


def _attention(attention: AnyAttention, tensor: int) -> AnyAttention:
    heads = _share(attention.heads, tensor, "the number of heads")
    if not isinstance(attention, Attention):
        return replace(attention, heads=heads)
    kv = attention.kv_heads
    if kv % tensor and tensor % kv:
        raise UsageError(
            f"{kv} KV heads can neither be split over {tensor} devices nor copied to them evenly.",
            hint="One of the two numbers must be a multiple of the other.",
        )
    return replace(attention, heads=heads, kv_heads=max(1, kv // tensor))


def _share(size: int, ways: int, what: str) -> int:
    if size % ways:
        raise UsageError(f"{what.capitalize()}, {size:,}, does not divide over {ways:,} devices.",
                         hint="Choose a degree that divides it.")  # fmt: skip
    return size // ways
