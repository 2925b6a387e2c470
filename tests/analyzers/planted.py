"""A small sharded training loop with one fault planted in it, captured by ``tpuprof.capture``.

Run as ``python planted.py FAULT LOGDIR`` with four CPU devices. What the fault is, a person can read below; the
finding must say it without being told.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tpuprof.capture import capture, step

WARMUP, STEPS = 3, 24
PERIOD = 8
WIDTH, BATCH = 512, 256


def batches(fault: str) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((BATCH, WIDTH), dtype=np.float32)
    number = 0
    while True:
        yield next_batch(data, number, fault)
        number += 1


def next_batch(data: np.ndarray, number: int, fault: str) -> np.ndarray:
    if fault == "input" and number % PERIOD == PERIOD - 1:
        time.sleep(0.4)
    if fault == "recompile" and number >= WARMUP and number % PERIOD == PERIOD - 1:
        return data[: BATCH - 4 * number]
    return data


def train_step(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss_of(w: jax.Array) -> jax.Array:
        hidden = x
        for layer in range(4):
            hidden = jnp.tanh(hidden @ w[layer])
        return jnp.mean(hidden**2)

    loss, grad = jax.value_and_grad(loss_of)(weights)
    return weights - 0.01 * grad, loss


def with_straggler(mesh: Mesh):
    """Device 2 does the forward pass many times over."""

    def local(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        extra = jnp.where(jax.lax.axis_index("data") == 2, 40, 1)
        busy = jax.lax.fori_loop(0, extra, lambda _, y: jnp.tanh(y @ weights[0]), x)
        loss = jax.lax.pmean(jnp.mean(busy**2), "data")
        return weights * 0.999, loss

    return jax.jit(
        jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=(P(), P()), check_vma=False)
    )


def with_gather_that_waits(mesh: Mesh):
    """Weights are gathered while nothing else runs, although much work does not need them."""

    def local(weights: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = WIDTH // jax.lax.axis_size("data")
        mine = jax.lax.dynamic_slice_in_dim(weights[1], jax.lax.axis_index("data") * rows, rows)
        gathered = jax.lax.all_gather(mine, "data", tiled=True)
        busy = x
        for _ in range(8):
            busy = jnp.tanh(busy @ weights[0])
        loss = jax.lax.pmean(jnp.mean((busy @ gathered) ** 2), "data")
        return weights * 0.999, loss

    return jax.jit(
        jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=(P(), P()), check_vma=False)
    )


def main(fault: str, logdir: str) -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, P("data", None))
    weights = jax.device_put(jnp.eye(WIDTH)[None].repeat(4, 0), NamedSharding(mesh, P()))
    special = {"straggler": with_straggler, "overlap": with_gather_that_waits}
    run = special[fault](mesh) if fault in special else jax.jit(train_step)
    loader = batches(fault)
    total = 0.0

    def one(weights):
        x = jax.device_put(next(loader), rows)
        weights, loss = run(weights, x)
        if fault == "host_sync":
            record(jax.device_get(loss))
        else:
            loss.block_until_ready()
        return weights

    def record(loss) -> None:
        nonlocal total
        total += float(loss)
        time.sleep(0.01)  # what people do with it: write it down

    for _ in range(WARMUP):
        weights = one(weights)
    level = 1 if fault == "input" else 0
    with capture(logdir, python_tracer_level=level) as captured:
        for number in range(STEPS):
            with step(WARMUP + number):
                weights = one(weights)
    if captured.error is not None:
        raise SystemExit(str(captured.error))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
