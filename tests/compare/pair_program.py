"""A small sharded training loop with one thing changed in it, captured by ``tpuprof.capture``.

Run as ``python pair_program.py CHANGE LOGDIR STEPS`` with two CPU devices. ``CHANGE`` is ``none`` or what one
side of a pair differs in; all else is the same, to the seed. The comparison must name the change without being told.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tpuprof.capture import capture, step

WARMUP = 3
LAYERS, WIDTH, INNER, BATCH = 3, 256, 512, 256
CHANGED_LAYER = 1
Weights = list[dict[str, jax.Array]]


def attention(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x + jnp.tanh(x @ weights["attn"])


def mlp(weights: dict[str, jax.Array], x: jax.Array, number: int, change: str, mesh: Mesh) -> jax.Array:
    up, down = weights["up"], weights["down"]
    if number == CHANGED_LAYER:
        if change == "gather":
            # The weight is kept in pieces, and put together where it is used.
            up = jax.lax.with_sharding_constraint(up, NamedSharding(mesh, P()))
        if change == "f64":
            up, down = up.astype(jnp.float64), down.astype(jnp.float64)
            return x + (jax.nn.relu(x.astype(jnp.float64) @ up) @ down).astype(x.dtype)
        if change == "bf16":
            up, down = up.astype(jnp.bfloat16), down.astype(jnp.bfloat16)
            return x + (jax.nn.relu(x.astype(jnp.bfloat16) @ up) @ down).astype(x.dtype)
    return x + jax.nn.relu(x @ up) @ down


def head(x: jax.Array, turns: jax.Array, change: str) -> jax.Array:
    """Elementwise work that is one fusion, unless something stands in between.

    An optimisation barrier is gone before the CPU backend fuses; a loop of which only the run tells that it makes one
    turn is not.
    """
    y = jnp.sin(x) * 2.0 + jnp.cos(x)
    if change == "split":
        return jax.lax.fori_loop(0, turns, lambda _, z: jnp.tanh(z) * jnp.exp(-jnp.abs(z)), y)
    return jnp.tanh(y) * jnp.exp(-jnp.abs(y))


def layer(weights: dict[str, jax.Array], x: jax.Array, number: int, change: str, mesh: Mesh) -> jax.Array:
    with jax.named_scope("attn"):
        x = attention(weights, x)
    with jax.named_scope("mlp"):
        return mlp(weights, x, number, change, mesh)


def training_step(change: str, mesh: Mesh) -> Callable[[Weights, jax.Array, jax.Array], tuple[Weights, jax.Array]]:
    def loss_of(weights: Weights, x: jax.Array, turns: jax.Array) -> jax.Array:
        for number, each in enumerate(weights):
            run = partial(layer, number=number, change=change, mesh=mesh)
            with jax.named_scope(f"layers_{number}"):
                x = (jax.checkpoint(run) if change == "remat" else run)(each, x)
        with jax.named_scope("head"):
            x = x * (1.0 + jnp.mean(head(jax.lax.stop_gradient(x), turns, change)))
        with jax.named_scope("loss"):
            return jnp.mean(x**2)

    def train_step(weights: Weights, x: jax.Array, turns: jax.Array) -> tuple[Weights, jax.Array]:
        loss, grad = jax.value_and_grad(loss_of)(weights, x, turns)
        with jax.named_scope("optimizer"):
            return jax.tree.map(lambda w, g: w - 0.01 * g, weights, grad), loss

    return train_step


def placed_weights(change: str, mesh: Mesh) -> tuple[Weights, list[dict[str, NamedSharding]]]:
    rng = np.random.default_rng(0)
    shapes = {"attn": (WIDTH, WIDTH), "up": (WIDTH, INNER), "down": (INNER, WIDTH)}
    weights: Weights = []
    shardings: list[dict[str, NamedSharding]] = []
    for number in range(LAYERS + (change == "layer")):
        cut = {"up"} if change == "gather" and number == CHANGED_LAYER else set[str]()
        places = {name: NamedSharding(mesh, P("data", None) if name in cut else P()) for name in shapes}
        made = {name: 0.05 * rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
        weights.append({name: jax.device_put(made[name], places[name]) for name in shapes})
        shardings.append(places)
    return weights, shardings


def next_batch(data: np.ndarray, change: str) -> np.ndarray:
    if change == "stall":
        time.sleep(0.03)
    return data


def main(change: str, logdir: str, steps: int) -> None:
    jax.config.update("jax_enable_x64", True)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data", None))
    weights, shardings = placed_weights(change, mesh)
    run = jax.jit(training_step(change, mesh), out_shardings=(shardings, NamedSharding(mesh, P())), donate_argnums=0)
    turns = jax.device_put(np.int32(1), NamedSharding(mesh, P()))
    data = np.random.default_rng(1).standard_normal((BATCH, WIDTH), dtype=np.float32)

    def one(weights: Weights) -> Weights:
        x = jax.device_put(next_batch(data, change), rows)
        weights, loss = run(weights, x, turns)
        loss.block_until_ready()
        return weights

    for _ in range(WARMUP):
        weights = one(weights)
    with capture(logdir, python_tracer_level=1) as captured:
        for number in range(steps):
            with step(WARMUP + number):
                weights = one(weights)
    if captured.error is not None:
        raise SystemExit(str(captured.error))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
