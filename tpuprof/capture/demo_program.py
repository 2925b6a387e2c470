"""A small sharded Transformer that trains on random tokens: the program behind ``tpuprof demo``.

It is meant to be read. Eight devices form a mesh of ``data`` x ``model``. Every weight matrix is split over
both axes: over ``data`` because nobody needs the whole of it between uses (fully sharded data parallelism),
over ``model`` because each device computes only its share of heads and hidden units (tensor parallelism). Per
layer that makes an all-gather of each weight over ``data``, an all-reduce of the activations over ``model``
after attention and after the MLP, and in the backward pass a reduce-scatter of each gradient over ``data``.

Run it by itself with eight CPU devices::

    JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=8 \\
        python -m tpuprof.capture.demo_program --logdir demo-log
"""

# pyright: basic
# An example to be read; jax has no complete types, and casts would hide what it shows.

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tpuprof.capture import capture, step

Params = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """Sizes of the model; small enough for one step to take a fraction of a second on two CPU cores."""

    layers: int = 2
    width: int = 256
    heads: int = 8
    hidden: int = 1024
    vocabulary: int = 1024
    sequence: int = 128
    batch: int = 8
    learning_rate: float = 3e-3

    @property
    def head_width(self) -> int:
        """Features per attention head."""
        return self.width // self.heads


# Where each array lives. The leading axis of the layer weights is the layer, which the scan walks over.
LAYER_SPECS = {
    "norm_attention": P(None, None),
    "norm_mlp": P(None, None),
    "wqkv": P(None, "data", None, "model", None),  # layer, width, 3, heads, head width
    "wo": P(None, "model", None, "data"),  # layer, heads, head width, width
    "w_in": P(None, "data", "model"),  # layer, width, hidden
    "w_out": P(None, "model", "data"),  # layer, hidden, width
}
PARAM_SPECS: Params = {
    "embedding": P(None, "data"),  # vocabulary, width
    "unembedding": P("data", "model"),  # width, vocabulary
    "layers": LAYER_SPECS,
}


def make_mesh(devices: list[Any], model: int) -> Mesh:
    """A ``data`` x ``model`` mesh over all devices."""
    if len(devices) % model:
        raise SystemExit(f"{len(devices)} devices cannot be divided into groups of {model}.")
    return jax.make_mesh((len(devices) // model, model), ("data", "model"), devices=devices)


def init_params(config: Config, key: jax.Array) -> Params:
    """Weights in float32, scaled by the square root of their fan-in."""
    c, keys = config, iter(jax.random.split(key, 6))

    def normal(fan_in: int, *shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape, jnp.float32) / fan_in**0.5

    return {
        "embedding": normal(1, c.vocabulary, c.width),
        "unembedding": normal(c.width, c.width, c.vocabulary),
        "layers": {
            "norm_attention": jnp.ones((c.layers, c.width)),
            "norm_mlp": jnp.ones((c.layers, c.width)),
            "wqkv": normal(c.width, c.layers, c.width, 3, c.heads, c.head_width),
            "wo": normal(c.width, c.layers, c.heads, c.head_width, c.width),
            "w_in": normal(c.width, c.layers, c.width, c.hidden),
            "w_out": normal(c.hidden, c.layers, c.hidden, c.width),
        },
    }


def gather(weight: jax.Array, axis: int) -> jax.Array:
    """The full weight along the axis that is split over ``data``; its gradient is a reduce-scatter."""
    return lax.all_gather(weight, "data", axis=axis, tiled=True)


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation over the features."""
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(x: jax.Array, layer: Params) -> jax.Array:
    """Causal attention over this device's heads, summed over ``model``. ``x`` is (batch, sequence, width)."""
    wqkv, wo = gather(layer["wqkv"], 0), gather(layer["wo"], 2)
    query, key, value = jnp.einsum("bsd,dthk->tbhsk", x, wqkv)
    scores = jnp.einsum("bhqk,bhsk->bhqs", query, key) / query.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqs,bhsk->bqhk", weights, value)
    return lax.psum(jnp.einsum("bqhk,hkd->bqd", mixed, wo), "model")


def mlp(x: jax.Array, layer: Params) -> jax.Array:
    """Two matmuls over this device's hidden units, summed over ``model``."""
    hidden = jax.nn.gelu(x @ gather(layer["w_in"], 0))
    return lax.psum(hidden @ gather(layer["w_out"], 1), "model")


def block(x: jax.Array, layer: Params) -> tuple[jax.Array, None]:
    """One Transformer layer, in the form that ``lax.scan`` wants."""
    with jax.named_scope("attention"):
        x = x + attention(rms_norm(x, layer["norm_attention"]), layer)
    with jax.named_scope("mlp"):
        x = x + mlp(rms_norm(x, layer["norm_mlp"]), layer)
    return x, None


def loss_fn(params: Params, tokens: jax.Array) -> jax.Array:
    """Mean next-token cross entropy of the whole batch; each device holds a slice of the vocabulary."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    with jax.named_scope("embed"):
        x = gather(params["embedding"], 1)[inputs]
    # Recomputing a layer in the backward pass keeps one layer's activations alive instead of all of them.
    x, _ = lax.scan(jax.checkpoint(block), x, params["layers"])
    with jax.named_scope("loss"):
        logits = x @ gather(params["unembedding"], 0)
        top = lax.pmax(lax.stop_gradient(logits.max(-1)), "model")
        log_sum = jnp.log(lax.psum(jnp.exp(logits - top[..., None]).sum(-1), "model")) + top
        local = targets - lax.axis_index("model") * logits.shape[-1]
        picked = jax.nn.one_hot(local, logits.shape[-1]) * logits  # rows of other devices are all zero
        return lax.pmean(jnp.mean(log_sum - lax.psum(picked.sum(-1), "model")), "data")


def make_train_step(config: Config, mesh: Mesh) -> Any:
    """A jitted ``(params, momentum, tokens) -> (params, momentum, loss)`` over the mesh."""

    def train_step(params: Params, momentum: Params, tokens: jax.Array) -> tuple[Params, Params, jax.Array]:
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
        with jax.named_scope("optimizer"):
            momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
            params = jax.tree.map(lambda p, m: p - config.learning_rate * m, params, momentum)
        return params, momentum, loss

    sharded = jax.shard_map(
        train_step,
        mesh=mesh,
        in_specs=(PARAM_SPECS, PARAM_SPECS, P("data", None)),
        out_specs=(PARAM_SPECS, PARAM_SPECS, P()),
    )
    return jax.jit(sharded, donate_argnums=(0, 1))


def train(config: Config, mesh: Mesh, logdir: str, *, warmup: int, steps: int) -> Any:
    """Trains for ``warmup`` steps, then captures ``steps`` more; returns the finished capture."""
    on_mesh = functools.partial(
        jax.tree.map, lambda spec: NamedSharding(mesh, spec), is_leaf=lambda x: isinstance(x, P)
    )
    init = jax.jit(functools.partial(init_params, config), out_shardings=on_mesh(PARAM_SPECS))
    params = init(jax.random.key(0))
    momentum = jax.tree.map(jnp.zeros_like, params)
    train_step = make_train_step(config, mesh)
    tokens = jax.random.randint(jax.random.key(1), (config.batch, config.sequence + 1), 0, config.vocabulary)
    tokens = jax.device_put(tokens, NamedSharding(mesh, P("data", None)))

    for _ in range(warmup):  # the first call compiles: keep that out of the window
        params, momentum, loss = train_step(params, momentum, tokens)
        loss.block_until_ready()
    with capture(logdir) as captured:
        for i in range(steps):
            with step(warmup + i):
                params, momentum, loss = train_step(params, momentum, tokens)
                loss.block_until_ready()
    print(f"loss after {warmup + steps} steps: {loss:.3f}")
    return captured


def main() -> None:
    """Command line of the demo program."""
    parser = argparse.ArgumentParser(description="Train a small sharded Transformer and capture some of its steps.")
    parser.add_argument("--logdir", required=True, help="log directory that receives the run")
    parser.add_argument("--steps", type=int, default=10, help="captured steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the capture")
    parser.add_argument("--model-axis", type=int, default=2, help="size of the model axis of the mesh")
    parser.add_argument("--session-file", help="file that receives the path of the captured session")
    args = parser.parse_args()
    mesh = make_mesh(jax.devices(), args.model_axis)
    print(f"mesh: {dict(mesh.shape)} on {jax.devices()[0].device_kind}")
    captured = train(Config(), mesh, args.logdir, warmup=args.warmup, steps=args.steps)
    if captured.error is not None:
        raise SystemExit(str(captured.error))
    print(f"captured: {captured.path}")
    if args.session_file:
        Path(args.session_file).write_text(str(captured.path), encoding="utf-8")


if __name__ == "__main__":
    main()
