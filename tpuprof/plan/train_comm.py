"""What a device communicates in a step: which collectives, of how many bytes, and how much of them is hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tpuprof.dtypes import packed_bytes
from tpuprof.hardware.topology import Slice
from tpuprof.plan.model import Attention, Experts, Layer
from tpuprof.plan.params import layer_params
from tpuprof.plan.remat import RematPolicy, recomputed
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_placement import Piece, cost, network_cost
from tpuprof.plan.train_profile import Efficiency


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of collective of a step.

    Args:
        name: what it is for, such as ``fsdp_gather``.
        kind: of collective.
        size: bytes of one, as ``collective_time`` counts them.
        count: of them per step on one device.
        seconds: of all of them, hidden or not.
        exposed: of them, what adds to the step.
        regime: what bounds one of them.
    """

    name: str
    kind: str
    size: float
    count: float
    seconds: float
    exposed: float
    regime: str


@dataclass(frozen=True, slots=True)
class Need:
    """Collectives before their time is known: ``count`` of ``size`` bytes each along mesh axes."""

    name: str
    kind: str
    axes: tuple[str, ...]
    size: float
    count: float
    share: str


def needs(job: Job, layout: Layout) -> Iterator[Need]:
    """The collectives of one step inside a slice.

    Weights and gradients move in bf16, updated weights of ZeRO-1 and 2 in their own type. Gathered weights are dropped
    after use, so that the backward pass gathers them again. Gradients of ZeRO-2 and 3 are scattered after each
    microbatch, others are reduced once per step.
    """
    model, micro = job.model, layout.accumulation
    stage = 1 / layout.pipeline
    tokens = job.tokens / (layout.batch_ways * layout.context * micro)  # of a tensor-parallel group
    for layer, number in model.layer_counts.items():
        count = number * stage
        dense, routed = split_params(layer)
        for what, params, ways, axes in (
            ("", dense, layout.fsdp, ("fsdp",)), ("expert_", routed / layout.expert, layout.fsdp // layout.expert,
                                                   ("fsdp/expert",)),
        ):  # fmt: skip
            size = packed_bytes("bf16", params / layout.tensor)
            if not params:
                continue
            if ways > 1 and layout.zero == 3:
                yield Need(f"{what}fsdp_gather", "all_gather", axes, size, 2 * count * micro, "weights")
                yield Need(f"{what}fsdp_scatter", "reduce_scatter", axes, size, count * micro, "weights")
            elif ways > 1:
                rounds = micro if layout.zero == 2 else 1  # a device that keeps its share only has to hand on the rest
                yield Need(f"{what}gradients", "reduce_scatter", axes, size, count * rounds, "weights")
                whole = packed_bytes(job.types.weights, params / layout.tensor)
                yield Need(f"{what}weights", "all_gather", axes, whole, count, "weights")
            if layout.data > 1:
                held = size / ways
                yield Need(f"{what}data_gradients", "all_reduce", ("data",), held, count, "weights")
            if layout.context > 1:
                yield Need(f"{what}context_gradients", "all_reduce", ("context",), size / ways, count, "weights")
        passes = 2 + passes_again(layer, job.policy)
        if layout.tensor > 1:
            size = packed_bytes("bf16", tokens * layer.width)
            blocks = 1 if layer.parallel else 2
            each = blocks * passes * count * micro
            yield Need("tensor_gather", "all_gather", ("tensor",), size, each, "activations")
            yield Need("tensor_scatter", "reduce_scatter", ("tensor",), size, each, "activations")
        if layout.context > 1:
            size = packed_bytes("bf16", tokens * layout.context * kv_width(layer) / layout.tensor)
            yield Need("context_gather", "all_gather", ("context",), size, 2 * count * micro, "activations")
            yield Need("context_scatter", "reduce_scatter", ("context",), size, count * micro, "activations")
        if layout.expert > 1 and isinstance(layer.mlp, Experts):
            size = packed_bytes("bf16", tokens * layer.mlp.top_k * layer.width) / layout.tensor
            yield Need("expert_exchange", "all_to_all", ("expert",), size, 2 * passes * count * micro, "activations")
    ends = packed_bytes("bf16", model.vocab * model.width * (1 if model.tied else 2) / layout.tensor)
    if layout.fsdp > 1:
        gathers, scatters = (2.0 * micro, micro) if layout.zero == 3 else (1.0, micro if layout.zero == 2 else 1)
        yield Need("head_gather", "all_gather", ("fsdp",), ends, gathers, "weights")
        yield Need("head_scatter", "reduce_scatter", ("fsdp",), ends, scatters, "weights")
    if layout.data > 1:
        yield Need("head_gradients", "all_reduce", ("data",), ends / layout.fsdp, 1.0, "weights")
    if layout.pipeline > 1:
        size = packed_bytes("bf16", tokens * model.width / layout.tensor)
        yield Need("pipeline_hop", "collective_permute", ("pipeline",), size, 2.0 * micro, "activations")


def traffic(
    job: Job, layout: Layout, where: Slice, placed: Mapping[str, tuple[Piece, ...]], profile: Efficiency,
    compute_s: float,
) -> tuple[Traffic, ...]:  # fmt: skip
    """The collectives of a step with their times.

    Of each kind's time a stated share runs behind computation; all of them together hide no more than there is.

    Args:
        compute_s: seconds of computation in the step that they can run beside.

    Raises:
        UsageError: the bandwidth of a link is not known.
    """
    shares = {
        "weights": profile.overlap_weights, "activations": profile.overlap_activations,
        "network": profile.overlap_network,
    }  # fmt: skip
    timed: list[tuple[Need, float, str]] = []
    for need in merged(needs(job, layout)):
        price = cost(where, pieces_of(need.axes, placed, layout), need.kind)
        timed.append((need, need.count * price.seconds(need.size) / profile.reached(need.kind), price.regime))
    if layout.slices > 1:
        size = network_bytes(job, layout)
        price = network_cost(where, "all_reduce")
        need = Need("network_gradients", "all_reduce", ("slices",), size, 1.0, "network")
        timed.append((need, price.seconds(size), price.regime))
    hideable = sum(seconds * shares[need.share] for need, seconds, _ in timed)
    # Links are one resource: if more could be hidden than is computed, what is left shows.
    scale = 1.0 if hideable <= compute_s else compute_s / hideable
    return tuple(
        Traffic(
            need.name, need.kind, need.size, need.count, seconds, seconds * (1 - shares[need.share] * scale), regime
        )
        for need, seconds, regime in timed
    )


def merged(found: Iterator[Need]) -> list[Need]:
    """Needs of one name and size together."""
    counts: dict[tuple[str, str, tuple[str, ...], float, str], float] = {}
    for need in found:
        key = (need.name, need.kind, need.axes, need.size, need.share)
        counts[key] = counts.get(key, 0.0) + need.count
    return [Need(name, kind, axes, size, count, share) for (name, kind, axes, size, share), count in counts.items()]


def pieces_of(axes: tuple[str, ...], placed: Mapping[str, tuple[Piece, ...]], layout: Layout) -> tuple[Piece, ...]:
    """The torus axes of a collective; expert parallelism uses the inner devices of the FSDP axis."""
    (axis,) = axes
    if axis not in ("expert", "fsdp/expert"):
        return placed[axis]
    inner: list[Piece] = []
    outer: list[Piece] = []
    left = layout.expert
    for piece in placed["fsdp"]:
        taken = _common(piece.count, left)
        left //= taken
        if taken > 1:
            inner.append(Piece(piece.axis, taken, piece.stride))
        if piece.count > taken:
            outer.append(Piece(piece.axis, piece.count // taken, piece.stride * taken))
    return tuple(inner if axis == "expert" else outer)


def network_bytes(job: Job, layout: Layout) -> float:
    """Bytes of gradients that a device sums with its like in other slices, in the type in which they are kept."""
    total = 0.0
    for layer, number in job.model.layer_counts.items():
        dense, routed = split_params(layer)
        total += number * (dense + routed) / layout.pipeline
    total += job.model.vocab * job.model.width * (1 if job.model.tied else 2)
    return packed_bytes(job.types.gradients or "bf16", total / (layout.tensor * layout.fsdp))


@lru_cache(maxsize=256)
def split_params(layer: Layer) -> tuple[int, int]:
    """Parameters of a layer besides its routed experts, and theirs."""
    found = layer_params(layer)
    routed = found.get("routed-experts", 0)
    return sum(found.values()) - routed, routed


@lru_cache(maxsize=1024)
def passes_again(layer: Layer, policy: RematPolicy) -> float:
    """How often a recomputed block communicates its activations again: once if all of it is, half for a half."""
    again = recomputed(layer, policy)
    attention = "query" in again
    mlp = bool(again & {"up", "gate"})
    return (attention + mlp) / 2


def kv_width(layer: Layer) -> int:
    """Elements of keys and values of one token."""
    a = layer.attention
    if isinstance(a, Attention):
        return 2 * a.kv_heads * a.head_dim
    return a.kv_rank + a.rope_dim


def _common(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a
