"""What a layer keeps for its backward pass, and what it computes again, under named policies.

A layer's tensors form a small graph. The backward pass needs some of them; a policy says which are kept after the
forward pass, and those that are needed and not kept are computed again from what is kept. What nothing needs is not
computed again, as a compiler that drops dead code does.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from types import MappingProxyType

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative
from tpuprof.plan.matmuls import LayerMatmul
from tpuprof.plan.model import Attention, Experts, LatentAttention, Layer

INPUT = "block_input"
"""The residual at the start of a layer. It is kept under every policy: everything else can be made from it."""


@dataclass(frozen=True, slots=True)
class LayerTensor:
    """An activation of a layer.

    Args:
        elements: per token.
        made_from: tensors that are enough to compute it.
        needed: the backward pass reads it.
        ways: into how many pieces tensor parallelism can split it at most; 1 for the residual and norms.
        bits: of one element, where it is not the activations' type.
    """

    name: str
    elements: int
    made_from: tuple[str, ...]
    needed: bool = True
    ways: int = 1
    bits: int | None = None

    def bytes_per_token(self, dtype: str) -> float:
        """Bytes of one token."""
        return self.elements * self.bits / 8 if self.bits else packed_bytes(dtype, self.elements)


@dataclass(frozen=True, slots=True)
class RematPolicy:
    """What is kept after the forward pass, beside the input of each layer.

    Args:
        saved: names of tensors; null keeps all that the backward pass needs.
        offloaded: names of tensors that are kept in the host's memory; :data:`INPUT` may be one.
        unread: of the saved ones those that are kept even if nothing reads them.
        plain: element-wise steps are not fused, and each keeps what its own backward step reads.
    """

    name: str
    saved: frozenset[str] | None
    offloaded: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    plain: bool = False


_QKV = frozenset({"query", "key", "value"})
_LATENTS = frozenset({"query_latent", "kv_latent"})
_FIRST = frozenset({"gate", "up", "shared_gate", "shared_up"})
_OUTPUTS = frozenset({"mlp_out", "shared_mlp_out"})
_SLOPES = _FIRST | {"hidden", "shared_hidden", INPUT, "mlp_norm"}
"""Tensors whose gradients are alive together in the backward pass of an MLP."""
_PROJECTIONS = _QKV | _LATENTS | {"attention_out"}
POLICIES = MappingProxyType({
    policy.name: policy
    for policy in (
        RematPolicy("no-checkpoint", None, plain=True),
        RematPolicy("everything", None),
        RematPolicy("matmul-outputs-and-context", _PROJECTIONS | _FIRST | _OUTPUTS | {"router", "context"}),
        RematPolicy("matmul-outputs", _PROJECTIONS | _FIRST | _OUTPUTS | {"router"}),
        RematPolicy("matmul-outputs-but-mlp-in", _PROJECTIONS | _OUTPUTS | {"router"}),
        RematPolicy("matmul-outputs-but-mlp", _PROJECTIONS | {"router"}),
        RematPolicy("mlp-matmuls", _FIRST | _OUTPUTS),
        RematPolicy("qkv", _QKV | _LATENTS),
        RematPolicy("attention-out", frozenset({"attention_out"})),
        RematPolicy("block-inputs", frozenset()),
    )
})  # fmt: skip
"""From the most memory to the least."""

OTHER_NAMES = MappingProxyType({
    "none": "no-checkpoint", "selective": "everything", "full": "block-inputs", "minimal": "matmul-outputs",
    "minimal_with_context": "matmul-outputs-and-context", "save_dot_except_mlpwi": "matmul-outputs-but-mlp-in",
    "save_dot_except_mlp": "matmul-outputs-but-mlp", "save_qkv_proj": "qkv", "save_out_proj": "attention-out",
    "dots_saveable": "matmul-outputs", "checkpoint_dots": "matmul-outputs", "nothing_saveable": "block-inputs",
    "everything_saveable": "no-checkpoint",
})  # fmt: skip
"""Names that MaxText, JAX and Megatron use. ``selective`` keeps all but scores, as fused kernels do anyway."""

TENSOR_NAMES = MappingProxyType({
    "decoder_layer_input": (INPUT,), "query_proj": ("query",), "key_proj": ("key",), "value_proj": ("value",),
    "qkv_proj": ("query", "key", "value"), "out_proj": ("attention_out",), "mlpwi_0": ("gate",), "mlpwi_1": ("up",),
    "mlpwi": ("gate", "up"), "mlpwo": ("mlp_out",), "context": ("context",),
})  # fmt: skip
"""Names of tensors in MaxText, each with ours."""


def remat_policy(name: str) -> RematPolicy:
    """A policy by its name or another one of :data:`OTHER_NAMES`.

    Raises:
        UsageError: there is none.
    """
    found = POLICIES.get(OTHER_NAMES.get(name.strip(), name.strip()))
    if found is None:
        raise UsageError(
            f"{name[:60]!r} is no policy of rematerialisation.",
            hint=f"Policies: {', '.join(POLICIES)}; also {', '.join(OTHER_NAMES)}.",
        )
    return found


def custom_policy(saved: tuple[str, ...] = (), offloaded: tuple[str, ...] = ()) -> RematPolicy:
    """A policy that keeps named tensors on the device and others in the host's memory.

    Args:
        saved, offloaded: our names, or those of :data:`TENSOR_NAMES`.

    Raises:
        UsageError: a name is not known.
    """
    known = _PROJECTIONS | _FIRST | _OUTPUTS | {"router", "context", INPUT}

    def ours(names: tuple[str, ...]) -> frozenset[str]:
        found = {tensor for name in names for tensor in TENSOR_NAMES.get(name, (name,))}
        for name in sorted(found - known):
            raise UsageError(f"{name[:60]!r} is no tensor that a policy can keep.",
                             hint=f"Tensors: {', '.join(sorted(known))}; also {', '.join(TENSOR_NAMES)}.")  # fmt: skip
        return frozenset(found)

    return RematPolicy("custom", ours(saved) - {INPUT}, ours(offloaded))


def layer_tensors(layer: Layer) -> tuple[LayerTensor, ...]:
    """The tensors of a layer in the order in which the forward pass makes them.

    Element-wise steps that a compiler fuses into their readers (rotations, residual sums before a norm) are not tensors
    of their own. Scores of attention never leave the kernel; it keeps a 32-bit number per head and token instead.
    """
    width, a = layer.width, layer.attention
    tensors = [LayerTensor(INPUT, width, ()), LayerTensor("attention_norm", width, (INPUT,))]
    own_norms = layer.norms > 2  # outputs have norms of their own, whose backward pass reads them
    if isinstance(a, Attention):
        kv = a.kv_heads * a.head_dim
        tensors += [
            LayerTensor("query", a.heads * a.head_dim, ("attention_norm",), ways=a.heads),
            LayerTensor("key", kv, ("attention_norm",), ways=a.kv_heads),
            LayerTensor("value", kv, ("attention_norm",), ways=a.kv_heads),
        ]
        value = a.head_dim
    else:
        tensors += _latent_tensors(a)
        value = a.value_dim
    tensors += [
        LayerTensor("context", a.heads * value, ("query", "key", "value"), ways=a.heads),
        LayerTensor("logsumexp", a.heads, ("context",), ways=a.heads, bits=32),
        LayerTensor("attention_out", width, ("context",), needed=own_norms),
    ]
    if layer.parallel:
        middle, norm = (), "attention_norm"
    else:
        norm = "mlp_norm"
        middle = (
            LayerTensor("mlp_input", width, (INPUT, "attention_out")),
            LayerTensor(norm, width, ("mlp_input",)),
        )
    return (*tensors, *middle, *_mlp_tensors(layer, norm, own_norms))


def saved_tensors(layer: Layer, policy: RematPolicy) -> tuple[LayerTensor, ...]:
    """The tensors that a policy keeps, on the device or in the host's memory.

    Of the named ones those that the backward pass reads or computes something from: what nothing needs, such as the
    output of the MLP, which is only added to the residual, is not kept, as ``jax.checkpoint`` has it.
    """
    tensors = layer_tensors(layer)
    if policy.saved is None:
        extra = _plain_tensors(layer) if policy.plain else ()
        return tuple(tensor for tensor in tensors if tensor.needed) + extra
    named = policy.saved | policy.offloaded | {INPUT}
    named |= {"logsumexp"} if "context" in named else set[str]()
    again = _made_again(tensors, named)
    read = {source for tensor in tensors if tensor.name in again for source in tensor.made_from}
    read |= policy.unread | {INPUT}
    return tuple(tensor for tensor in tensors if tensor.name in named and (tensor.needed or tensor.name in read))


def recomputed(layer: Layer, policy: RematPolicy) -> frozenset[str]:
    """The names of the tensors that the backward pass computes again."""
    return _made_again(layer_tensors(layer), {tensor.name for tensor in saved_tensors(layer, policy)})


def _made_again(tensors: tuple[LayerTensor, ...], kept: Set[str]) -> frozenset[str]:
    """Names of what the backward pass needs and of what that is made from, as far as it is not kept."""
    known = {tensor.name: tensor for tensor in tensors}
    again: set[str] = set()
    todo = [tensor.name for tensor in tensors if tensor.needed]
    while todo:
        name = todo.pop()
        if name in again or name in kept:
            continue
        again.add(name)
        todo.extend(known[name].made_from)
    return frozenset(again)


def recomputed_matmuls(layer: Layer, policy: RematPolicy, matmuls: tuple[LayerMatmul, ...]) -> tuple[LayerMatmul, ...]:
    """Those of a layer's forward matmuls that the backward pass does again; scores go with the context."""
    again = recomputed(layer, policy)
    return tuple(made for made in matmuls if ("context" if made.output == "scores" else made.output) in again)


def activation_bytes(
    layer: Layer, policy: RematPolicy, tokens: float, *, dtype: str = "bf16", tensor: int = 1,
    sequence_sharded: bool = True,
) -> float:  # fmt: skip
    """Bytes on one device that a layer keeps from the forward to the backward pass.

    Args:
        tokens: of the device's share of the batch that is in flight: of one microbatch, and divided over the axes of
            data and context parallelism, not over tensor parallelism.
        tensor: degree of tensor parallelism.
        sequence_sharded: the residual path is split over it too.

    Raises:
        UsageError: tokens are negative, or the degree is below 1.
    """
    kept = [part for part in saved_tensors(layer, policy) if part.name not in policy.offloaded]
    return _bytes(kept, tokens, dtype, tensor, sequence_sharded)


def offloaded_bytes(
    layer: Layer, policy: RematPolicy, tokens: float, *, dtype: str = "bf16", tensor: int = 1,
    sequence_sharded: bool = True,
) -> float:  # fmt: skip
    """Bytes that a layer sends to the host's memory in the forward pass, and takes back in the backward pass.

    Raises:
        UsageError: as :func:`activation_bytes`.
    """
    away = [part for part in saved_tensors(layer, policy) if part.name in policy.offloaded]
    return _bytes(away, tokens, dtype, tensor, sequence_sharded)


def working_bytes(
    layer: Layer, policy: RematPolicy, tokens: float, *, dtype: str = "bf16", tensor: int = 1,
    sequence_sharded: bool = True, overlapped: bool = False,
) -> float:  # fmt: skip
    """Bytes that one layer's backward pass needs beside what was kept.

    That is what it computes again, or, where that is less, the gradients of the MLP's hidden tensors. With tensor
    parallelism that splits the residual path both are alive, and arrays of all its group's tokens: the input of a
    block, and the sum of its gradient from each of the MLP's first matmuls. So the TPU compiler has it.

    Args:
        overlapped: both are alive without tensor parallelism, too.

    Raises:
        UsageError: as :func:`activation_bytes`.
    """
    again = recomputed(layer, policy)
    tensors = layer_tensors(layer)
    remade = [part for part in tensors if part.name in again]
    slopes = [part for part in tensors if part.name in _SLOPES]
    parts = [_bytes(each, tokens, dtype, tensor, sequence_sharded) for each in (remade, slopes)]
    split = tensor > 1 and sequence_sharded
    whole = layer.mlp.matrices * packed_bytes(dtype, layer.width * tokens) if split else 0.0
    return (sum(parts) if split or overlapped else max(parts)) + whole


def _plain_tensors(layer: Layer) -> tuple[LayerTensor, ...]:
    """What automatic differentiation keeps beside the tensors of a layer where nothing is fused.

    Of a norm its input in 32 bits instead of 16, and what it has before its scale; of an MLP's function, which models
    do not state, what SiLU keeps where the MLP is gated (two arrays) and what GELU keeps where it is not (four).
    """
    norms = layer.norms if layer.norm != "none" else 0
    found = [LayerTensor(f"norm_{number}", 2 * layer.width, (INPUT,)) for number in range(norms)]
    mlp = layer.mlp
    hidden = mlp.hidden * mlp.top_k + mlp.shared_hidden if isinstance(mlp, Experts) else mlp.hidden
    return (*found, LayerTensor("function", (2 if mlp.gated else 4) * hidden, (INPUT,), ways=hidden))


def _bytes(parts: list[LayerTensor], tokens: float, dtype: str, tensor: int, sequence_sharded: bool) -> float:
    counted("The degree of tensor parallelism", tensor)
    not_negative("The number of tokens", tokens)
    total = 0.0
    for part in parts:
        residual = part.ways == 1
        total += part.bytes_per_token(dtype) / (
            (tensor if sequence_sharded else 1) if residual else min(tensor, part.ways)
        )
    return total * tokens


def _latent_tensors(a: LatentAttention) -> list[LayerTensor]:
    query = "attention_norm" if a.q_rank is None else "query_latent"
    latent = [] if a.q_rank is None else [LayerTensor(query, a.q_rank, ("attention_norm",))]
    dim = a.heads * a.query_dim
    return [
        *latent,
        LayerTensor("query", dim, (query,), ways=a.heads),
        LayerTensor("kv_latent", a.kv_rank + a.rope_dim, ("attention_norm",)),
        LayerTensor("key", dim, ("kv_latent",), ways=a.heads),
        LayerTensor("value", a.heads * a.value_dim, ("kv_latent",), ways=a.heads),
    ]


def _mlp_tensors(layer: Layer, norm: str, own_norms: bool) -> tuple[LayerTensor, ...]:
    mlp, width = layer.mlp, layer.width
    if not isinstance(mlp, Experts):
        return _hidden("", mlp.gated, mlp.hidden, norm, width, own_norms)
    routed = mlp.hidden * mlp.top_k
    found = (
        LayerTensor("router", mlp.count, (norm,), bits=32),
        LayerTensor("dispatched", width * mlp.top_k, (norm, "router")),
        # The weights of the router's choice are learned through the outputs that they scale.
        *_hidden("", mlp.gated, routed, "dispatched", width * mlp.top_k, True),
    )
    if mlp.shared_hidden:
        found += _hidden("shared_", mlp.gated, mlp.shared_hidden, norm, width, own_norms or mlp.shared_gate)
    return found


def _hidden(prefix: str, gated: bool, hidden: int, source: str, out: int, out_needed: bool) -> tuple[LayerTensor, ...]:
    made: list[LayerTensor] = []
    if gated:
        made += [
            LayerTensor(f"{prefix}gate", hidden, (source,), ways=hidden),
            LayerTensor(f"{prefix}up", hidden, (source,), ways=hidden),
            LayerTensor(f"{prefix}activated", hidden, (f"{prefix}gate",), ways=hidden),
            LayerTensor(f"{prefix}hidden", hidden, (f"{prefix}activated", f"{prefix}up"), ways=hidden),
        ]
    else:
        made += [
            LayerTensor(f"{prefix}up", hidden, (source,), ways=hidden),
            LayerTensor(f"{prefix}hidden", hidden, (f"{prefix}up",), ways=hidden),
        ]
    return (*made, LayerTensor(f"{prefix}mlp_out", out, (f"{prefix}hidden",), needed=out_needed))
