"""What a served model keeps in the memory of a device, and how many sequences fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip, Figure
from tpuprof.plan.cache import kv_bytes_per_token
from tpuprof.plan.model import Attention, Experts, Layer, ModelConfig
from tpuprof.plan.params import param_counts
from tpuprof.plan.serve.layout import ServeLayout
from tpuprof.plan.serve.setup import Types, Workload

MOST_SEQUENCES = 65_536
"""More sequences at a time are not considered."""


@dataclass(frozen=True, slots=True)
class ServeMemory:
    """Bytes on the fullest device.

    Args:
        weights: its share; norms are on every device.
        cache: of all sequences at their full length.
        work: activations of the largest pass, and logits.
        capacity: what may be filled.
    """

    weights: float
    cache: float
    work: float
    capacity: float

    @property
    def total(self) -> float:
        """All that is kept."""
        return self.weights + self.cache + self.work

    @property
    def fits(self) -> bool:
        """Whether it is no more than may be filled."""
        return self.total <= self.capacity

    def to_json(self) -> dict[str, float]:
        """By name, with ``total`` and ``capacity``."""
        return {
            "weights": self.weights, "cache": self.cache, "work": self.work, "total": self.total,
            "capacity": self.capacity,
        }  # fmt: skip


def capacity_of(chip: Chip) -> Figure:
    """What a device has for programs: what the runtime leaves, where that is known, else all.

    An edition of constants other than the datasheet's counts with all of what it prints.

    Raises:
        UsageError: neither is known.
    """
    found = chip.device_hbm_usable_bytes if chip.edition == "datasheet" else None
    found = found or chip.device_hbm_bytes
    if found is None:
        raise UsageError(f"The memory of {chip.name} is not known.", hint="Give hbm_bytes in a file with --hardware.")
    return found


def memory_of(
    model: ModelConfig, layout: ServeLayout, types: Types, workload: Workload, batch: int, budget: int, capacity: float
) -> ServeMemory:
    """What a device keeps with so many sequences, each with room for its full length.

    Args:
        budget: tokens of the largest pass.
        capacity: what may be filled.
    """
    return ServeMemory(
        weights_of(model, layout, types), cache_of(model, layout, types, workload.context, batch),
        work_of(model, layout, types, batch, budget), capacity,
    )  # fmt: skip


def weights_of(model: ModelConfig, layout: ServeLayout, types: Types) -> float:
    """Bytes of weights on the fullest device."""
    counts = param_counts(model).total
    split = sum(number for block, number in counts.items() if block not in ("norms", "routed-experts"))
    routed = 0.0
    for layer, count in model.layer_counts.items():
        if isinstance(layer.mlp, Experts):
            mlp = layer.mlp
            each = mlp.matrices * layer.width * mlp.hidden / (layout.devices // layout.experts)
            routed += count * ceil(mlp.count / layout.experts) * each
    return packed_bytes(types.weights, split / layout.devices + counts["norms"] + routed)


def cache_of(model: ModelConfig, layout: ServeLayout, types: Types, context: int, batch: int) -> float:
    """Bytes of cache on the fullest device; layers with a window keep no more than that."""
    each = sum(
        count
        * kv_bytes_per_token(layer, types.cache)
        * ceil(min(context, layer.attention.window or context) / layout.token_ways)
        for layer, count in model.layer_counts.items()
    )
    return each * ceil(batch / layout.batch_ways) / layout.heads


def work_of(model: ModelConfig, layout: ServeLayout, types: Types, batch: int, budget: int) -> float:
    """Bytes of activations of the largest pass through one layer, and of float32 logits of every sequence."""
    widest = max(_activations(layer, layout) for layer in model.layer_counts)
    return packed_bytes(types.activations, budget * widest) + packed_bytes("f32", batch * model.vocab / layout.y)


def most_sequences(
    model: ModelConfig, layout: ServeLayout, types: Types, workload: Workload, budget: int, capacity: float
) -> int:
    """The largest batch that fits, at most :data:`MOST_SEQUENCES`; 0 if not even one does."""

    def fits(batch: int) -> bool:
        return memory_of(model, layout, types, workload, batch, budget, capacity).fits

    low, high = 0, 1
    while high <= MOST_SEQUENCES and fits(high):
        low, high = high, 2 * high
    high = min(high, MOST_SEQUENCES + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _activations(layer: Layer, layout: ServeLayout) -> float:
    """Elements per token on one device: the residual path before and after, and what is split between."""
    a, mlp = layer.attention, layer.mlp
    heads = a.heads * (a.head_dim if isinstance(a, Attention) else a.query_dim)
    pairs = 2 * a.kv_heads * a.head_dim if isinstance(a, Attention) else a.kv_rank + a.rope_dim
    hidden = mlp.matrices * mlp.hidden * (mlp.top_k if isinstance(mlp, Experts) else 1)
    return 2 * layer.width + max(2 * heads + pairs, hidden) / layout.y
