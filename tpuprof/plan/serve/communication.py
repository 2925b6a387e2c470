"""What a layer of a served model sends over the links between chips, per pass, in seconds.

Formulas: scaling book, chapters "Inference" (sharding of the cache, weight-stationary layouts) and "Serving LLaMA".
"""

from __future__ import annotations

from tpuprof.dtypes import packed_bytes
from tpuprof.plan.model import Attention, Experts, Layer
from tpuprof.plan.serve.links import Links
from tpuprof.plan.serve.setup import Types

_STATISTICS_BYTES = 8
"""Per head and query: the maximum and the sum of the softmax, in float32."""


def layer_moves(links: Links, layer: Layer, tokens: int, types: Types) -> float:
    """Around the matmuls of attention and a dense MLP.

    In one dimension the outputs of both are summed over all devices, so that each has the whole width again. In two
    dimensions the width is gathered over Y, partial sums over X are scattered and the result gathered, and the output
    is scattered over Y.
    """
    at = links.layout
    size = packed_bytes(types.activations, tokens)
    width = size * layer.width
    if at.x == 1:
        sums = 1 if layer.parallel or isinstance(layer.mlp, Experts) else 2
        return sums * links.seconds("all_reduce", "all", width)
    piece = width / at.x
    ends = links.seconds("all_gather", "y", piece) + links.seconds("reduce_scatter", "y", piece)
    total = (1 if layer.parallel else 2) * ends
    for into, out in ((_projected(layer), _attended(layer)), _hidden(layer)):
        total += links.seconds("reduce_scatter", "x", size * into / at.y)
        total += links.seconds("all_gather", "x", size * out / at.y)
    return total


def experts_moves(links: Links, layer: Layer, tokens: int, types: Types) -> float:
    """Around routed experts: a sum over all devices as for a dense MLP, or two all-to-alls where that is faster.

    All-to-alls send each token only to its experts; they need one device per group of experts.
    """
    mlp = layer.mlp
    if not isinstance(mlp, Experts):
        return 0.0
    at = links.layout
    size = packed_bytes(types.activations, tokens) * layer.width
    summed = 0.0 if layer.parallel else links.seconds("all_reduce", "all", size)
    if at.experts < at.devices:
        return summed
    sent = size / at.devices * min(mlp.top_k, at.devices)
    return min(summed, 2 * links.seconds("ragged_all_to_all", "all", sent))


def cache_moves(links: Links, layer: Layer, batch: int, types: Types) -> float:
    """Around the attention of decode, where the cache is split by sequences or by tokens besides heads.

    By sequences: queries with the new keys and values go to the devices of their sequence, and outputs come back. By
    tokens: queries are gathered, and partial outputs summed with the statistics of their softmax.
    """
    at = links.layout
    size = packed_bytes(types.activations, batch)
    if at.cache == "batch":
        there = size * _projected(layer) / at.devices
        back = size * _outputs(layer) / at.devices
        return links.seconds("all_to_all", "rest", there) + links.seconds("all_to_all", "rest", back)
    if at.cache == "tokens":
        gathered = size * _queries(layer) / at.heads
        partial = (size * _outputs(layer) + _STATISTICS_BYTES * batch * layer.attention.heads) / at.heads
        return links.seconds("all_gather", "rest", gathered) + links.seconds("reduce_scatter", "rest", partial)
    return 0.0


def _queries(layer: Layer) -> int:
    a = layer.attention
    return a.heads * (a.head_dim if isinstance(a, Attention) else a.kv_rank + a.rope_dim)


def _projected(layer: Layer) -> int:
    """Elements per token of queries with new keys and values."""
    a = layer.attention
    return _queries(layer) + (2 * a.kv_heads * a.head_dim if isinstance(a, Attention) else a.kv_rank + a.rope_dim)


def _outputs(layer: Layer) -> int:
    """Elements per token that the attention itself puts out."""
    a = layer.attention
    return a.heads * (a.head_dim if isinstance(a, Attention) else a.kv_rank)


def _attended(layer: Layer) -> int:
    """Elements per token that enter the output projection."""
    a = layer.attention
    return a.heads * (a.head_dim if isinstance(a, Attention) else a.value_dim)


def _hidden(layer: Layer) -> tuple[int, int]:
    """Elements per token out of the first matrices of the MLP, and into the last one."""
    hidden = layer.mlp.hidden
    return (layer.mlp.matrices - 1) * hidden, hidden
