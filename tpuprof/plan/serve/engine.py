"""What a serving engine spends beside matmuls, cache and collectives: small ops, attention kernels, tokens to experts.

The figures of the default come from one public trace of an engine (vLLM) at a prompt of 1,024 tokens on TPU7x. They
were looked up after planned servers had turned out too fast, and are fitted to no measured server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.plan.model import Attention, Experts, Layer
from tpuprof.plan.serve.layout import ServeLayout

_WIDTH, _HEADS, _HIDDEN = 10, 2, 2
"""Elements through memory per element of the residual, of queries and keys, and of hidden values, as in training."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's ways.

    Args:
        attention: share of the peak that the kernel for prompts reaches on what it computes.
        key_block: keys that it computes at a time, whether they are masked or not there yet.
        ops: of a layer that are neither matmul nor attention nor collective.
        op_s: the shortest op, seconds.
        gather: share of the memory bandwidth that gathered rows reach, read and written.
        tile: rows of experts that a grouped kernel takes at a time, at most.
        source: where the figures come from.

    Raises:
        UsageError: a figure is out of range.
    """

    attention: float
    key_block: int
    ops: int
    op_s: float
    gather: float
    tile: int
    source: str

    def __post_init__(self) -> None:
        for name in ("attention", "gather"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(
                    f"The share {name} of an engine is {getattr(self, name)}; it is above 0 and at most 1."
                )
        for name in ("key_block", "tile"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} of an engine is {getattr(self, name)}; it is 1 or more.")
        if self.ops < 0 or not (math.isfinite(self.op_s) and self.op_s >= 0):
            raise UsageError(f"An engine cannot have {self.ops} ops of {self.op_s} s in a layer.")


VLLM = Engine(
    0.34, 4096, 47, 0.5e-6, 0.068, 128,
    "public trace of vLLM on TPU7x, a prompt of 1,024 tokens through 64 layers: 3,454 ops, 7 a layer of them matmuls,"
    " attention and sums; 17 ms in attention, 0.34 of the peak if heads are padded and blocks of 4,096 keys computed"
    " whole; a gather of 1,024 rows at 0.068 of the bandwidth. The shortest op takes 0.2 to 1 us (TPU7x, v6e). Tiles:"
    " the default of the grouped kernel",
)  # fmt: skip
"""The default."""


def loop_seconds(engine: Engine, layer: Layer, tokens: int, layout: ServeLayout, dtype: str, bandwidth: float) -> float:
    """Seconds of a layer's element-wise work over so many tokens on one device.

    Args:
        dtype: of activations.
        bandwidth: of memory that is reached in order, B/s.
    """
    a, mlp = layer.attention, layer.mlp
    heads = (a.heads + a.kv_heads) * a.head_dim if isinstance(a, Attention) else 2 * a.heads * a.query_dim
    hidden = mlp.top_k * mlp.hidden + mlp.shared_hidden if isinstance(mlp, Experts) else mlp.hidden
    elements = _WIDTH * layer.width + (_HEADS * heads + _HIDDEN * hidden) / layout.devices
    return max(engine.ops * engine.op_s, packed_bytes(dtype, tokens * elements) / bandwidth)


def dispatch_seconds(engine: Engine, layer: Layer, tokens: int, layout: ServeLayout, dtype: str, peak: float) -> float:
    """Seconds in which a device gathers the rows of its experts, and puts their outputs back.

    Args:
        peak: bandwidth of memory, B/s.
    """
    if not isinstance(layer.mlp, Experts):
        return 0.0
    routed = packed_bytes(dtype, tokens * layer.mlp.top_k * layer.width) / layout.experts
    return 2 * 2 * routed / (peak * engine.gather)


def computed_keys(engine: Engine, keys: int) -> int:
    """Keys that the kernel for prompts computes for each query."""
    return math.ceil(keys / engine.key_block) * engine.key_block
