"""A small Transformer's training step in plain jax, as it is usually written: the planner's memory is held against it.

Layers are stacked and scanned, weights and both moments of Adam are in 32 bits, matmuls in 16, attention is the splash
kernel that comes with jax. Run in a process of its own by ``tpuprof.predict``.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def lowered(devices, *, model, sequences, sequence, policy, mesh, microbatches=1, offloaded=()):
    """The step of a model (sizes by name) for the devices, lowered with shapes only.

    ``policy`` is null to keep everything, else the names of what a layer keeps beside its input; what is ``offloaded``
    goes to the host's memory, the input too if it is named.
    """
    axes = {"data": 1, "fsdp": 1, "tensor": 1, **mesh}
    grid = Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    weights = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(grid, spec))
        for name, (shape, spec) in shapes(model).items()
    }
    batch = jax.ShapeDtypeStruct(
        (sequences, sequence), jnp.int32, sharding=NamedSharding(grid, P(("data", "fsdp"), None))
    )
    state = {"weights": weights, "mean": weights, "square": weights}
    places = jax.tree.map(lambda each: each.sharding, state)
    kept = None if policy is None else jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(policy), names_which_can_be_offloaded=list(offloaded),
        offload_src="device", offload_dst="pinned_host",
    )  # fmt: skip
    step = jax.jit(
        partial(train_step, model=model, policy=kept, grid=grid, microbatches=microbatches),
        donate_argnums=0, out_shardings=(places, None),
    )  # fmt: skip
    return step.lower(state, batch)


def shapes(model):
    """Shape and sharding of every weight; those of layers are stacked."""
    depth, d, f, v = model["layers"], model["width"], model["hidden"], model["vocab"]
    n, k, h = model["heads"], model["kv_heads"], model["head_dim"]
    found = {
        "embedding": ((v, d), P("tensor", "fsdp")),
        "final_norm": ((d,), P(None)),
        "norm_1": ((depth, d), P(None, None)),
        "norm_2": ((depth, d), P(None, None)),
        "query": ((depth, d, n, h), P(None, "fsdp", "tensor", None)),
        "key": ((depth, d, k, h), P(None, "fsdp", "tensor", None)),
        "value": ((depth, d, k, h), P(None, "fsdp", "tensor", None)),
        "out": ((depth, n, h, d), P(None, "tensor", None, "fsdp")),
        "up": ((depth, d, f), P(None, "fsdp", "tensor")),
        "down": ((depth, f, d), P(None, "tensor", "fsdp")),
    }
    if model["gated"]:
        found["gate"] = ((depth, d, f), P(None, "fsdp", "tensor"))
    if not model["tied"]:
        found["head"] = ((d, v), P("fsdp", "tensor"))
    return found


def train_step(state, tokens, *, model, policy, grid, microbatches):
    """Forward, backward and Adam."""
    one = partial(jax.value_and_grad(loss_of), state["weights"], model=model, policy=policy, grid=grid)
    if microbatches == 1:
        loss, gradients = one(tokens)
    else:
        parts = tokens.reshape(microbatches, -1, tokens.shape[-1])
        parts = lax.with_sharding_constraint(parts, NamedSharding(grid, P(None, ("data", "fsdp"), None)))

        def add(total, part):
            loss, gradients = one(part)
            return jax.tree.map(jnp.add, total, gradients), loss

        gradients, losses = lax.scan(add, jax.tree.map(jnp.zeros_like, state["weights"]), parts)
        loss = jnp.mean(losses)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
    square = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g * g, state["square"], gradients)
    weights = jax.tree.map(
        lambda w, m, s: w - 3e-4 * (m / (jnp.sqrt(s) + 1e-8) + 0.1 * w), state["weights"], mean, square
    )
    return {"weights": weights, "mean": mean, "square": square}, loss


def loss_of(weights, tokens, model, policy, grid):
    """Mean cross-entropy of the next token."""
    residual = NamedSharding(grid, P(("data", "fsdp"), "tensor", None))
    x = lax.with_sharding_constraint(weights["embedding"].astype(jnp.bfloat16)[tokens], residual)
    stacked = {name: each for name, each in weights.items() if name not in ("embedding", "final_norm", "head")}
    body = partial(layer, model=model, grid=grid, residual=residual)
    if policy is not None:
        body = jax.checkpoint(body, policy=policy, prevent_cse=False)
    x, _ = lax.scan(lambda x, w: (body(x, w), None), x, stacked)
    x = norm(x, weights["final_norm"])
    head = (weights["embedding"].T if model["tied"] else weights["head"]).astype(jnp.bfloat16)
    logits = lax.with_sharding_constraint(x @ head, NamedSharding(grid, P(("data", "fsdp"), None, "tensor")))
    logits = logits.astype(jnp.float32)
    targets = jnp.roll(tokens, -1, axis=1)
    chosen = jnp.sum(jnp.where(jnp.arange(logits.shape[-1]) == targets[..., None], logits, 0.0), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def layer(x, w, *, model, grid, residual):
    """Attention and MLP beside the residual; weights become 16 bits inside the loop, so that gradients stay in 32."""
    w = {name: each.astype(jnp.bfloat16) for name, each in w.items()}
    x = checkpoint_name(x, "block_input")
    batch = ("data", "fsdp")
    whole, hidden = (NamedSharding(grid, P(batch, None, axis)) for axis in (None, "tensor"))
    y = lax.with_sharding_constraint(norm(x, w["norm_1"]), whole)
    q = checkpoint_name(jnp.einsum("bsd,dnh->bnsh", y, w["query"]), "query")
    k = checkpoint_name(jnp.einsum("bsd,dkh->bksh", y, w["key"]), "key")
    v = checkpoint_name(jnp.einsum("bsd,dkh->bksh", y, w["value"]), "value")
    context = checkpoint_name(attention(rotated(q), rotated(k), v, grid), "context")
    out = lax.with_sharding_constraint(jnp.einsum("bnsh,nhd->bsd", context, w["out"]), residual)
    x = x + checkpoint_name(out, "attention_out")
    y = lax.with_sharding_constraint(norm(x, w["norm_2"]), whole)
    up = checkpoint_name(lax.with_sharding_constraint(y @ w["up"], hidden), "up")
    if model["gated"]:
        gate = checkpoint_name(lax.with_sharding_constraint(y @ w["gate"], hidden), "gate")
        activated = jax.nn.silu(gate) * up
    else:
        activated = getattr(jax.nn, model.get("activation", "relu"))(up)
    out = lax.with_sharding_constraint(activated @ w["down"], residual)
    return x + checkpoint_name(out, "mlp_out")


def attention(q, k, v, grid):
    """Causal, by the splash kernel, each device its own sequences and heads."""
    spec = P(("data", "fsdp"), "tensor", None, None)
    heads = q.shape[1] // grid.shape["tensor"]
    mask = masks.MultiHeadMask([masks.CausalMask((q.shape[2], k.shape[2]))] * heads)
    with jax.ensure_compile_time_eval():  # the kernel's tables of blocks are constants
        kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    run = jax.shard_map(
        lambda q, k, v: jax.vmap(kernel)(q, k, v), mesh=grid, in_specs=spec, out_specs=spec, check_vma=False
    )
    return run(q, k, v)


def norm(x, scale):
    """Root mean square, in 32 bits."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale.astype(
        x.dtype
    )


def rotated(x):
    """Rotary positions over the halves of a head."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[-2])[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)
