"""Compiles many small programs with jax on 8 CPU devices; writes each as HLO text and as protobuf, with its memory.

Run as a script with a target directory, in a process of its own: the number of devices must be set before jax starts.
"""

import json
import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
ONE = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
F32 = jnp.float32


def arr(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def sharded(function, in_specs, out_specs, mesh=MESH):
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def scan(x, w):
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, w)


def cond(p, x):
    return lax.cond(p, lambda v: jnp.sin(v) @ v.T, lambda v: jnp.cos(v) @ v, x)


def switch(i, x):
    return lax.switch(i, [jnp.sin, lambda v: v @ v, jnp.sort, lambda v: v * 2], x)


def while_loop(x):
    return lax.while_loop(lambda s: s[0] < 17, lambda s: (s[0] + 3, s[1] * 1.5 + s[0]), (jnp.int32(2), x))


def nested(x):
    return lax.fori_loop(0, 5, lambda i, c: lax.fori_loop(0, 3, lambda j, d: jnp.dot(d, d) + j, c) - i, x)


def remat(x, w):
    @jax.checkpoint
    def block(h, w):
        return jnp.sin(jnp.tanh(h @ w) @ w.T)

    return jax.grad(lambda x, w: lax.scan(lambda h, w: (block(h, w), None), x, w)[0].sum(), argnums=(0, 1))(x, w)


def callback(x):
    return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1


def custom_derivative(x):
    @jax.custom_vjp
    def f(v):
        return jnp.exp(v)

    f.defvjp(lambda v: (jnp.exp(v), v), lambda v, g: (g * 2,))
    return jax.value_and_grad(lambda v: f(v).sum())(x)


def small_types(a, b, c):
    return (a.astype(jnp.int8) * 3).astype(jnp.int4), b.astype(F32).sum(), c * (1 + 2j)


def constants(x):
    table = jnp.asarray(np.arange(6, dtype=np.int32).reshape(2, 3))
    big = jnp.asarray(np.linspace(-3, 3, 200, dtype=np.float32))
    flags = jnp.asarray([True, False, True])
    return x + table, big * x[0, 0], jnp.where(flags, x[0], np.float32(0.1)), x * jnp.bfloat16(0.3), jnp.inf * x


def gather_scatter(x, i):
    return x.at[i].add(1.0).at[0, i].set(2.0), x[i, i], jnp.take_along_axis(x, i[:, None], 1)


def windows(x):
    pool = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return jax.grad(lambda v: lax.reduce_window(v, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "VALID").sum())(x), pool


def convs(x, k):
    numbers = ("NHWC", "HWIO", "NHWC")
    one = lax.conv_general_dilated(x, k, (2, 1), "SAME", rhs_dilation=(2, 1), dimension_numbers=numbers)
    two = lax.conv_general_dilated(
        x, k[:, :, :1], (1, 1), [(1, 0), (0, 2)], dimension_numbers=numbers, feature_group_count=4
    )
    return one, two, lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=numbers)


def collectives(a, b):
    c = lax.psum(a @ b, "x")
    d = lax.all_gather(c, "y", axis=1, tiled=True)
    e = lax.psum_scatter(d, "x", scatter_dimension=0, tiled=True)
    f = lax.all_to_all(e.reshape(2, -1), "y", 0, 1)
    g = lax.ppermute(f, "x", [(i, (i + 1) % 4) for i in range(4)])
    return lax.pmax(g.sum(), ("x", "y")) * jnp.ones((1, 1))


def linear(x, a):
    q, r = jnp.linalg.qr(a)
    return (
        jnp.linalg.cholesky(a @ a.T),
        lax.linalg.triangular_solve(r, x, left_side=True, lower=False),
        jnp.linalg.svd(q)[1],
    )


def shapes(x):
    y = jnp.pad(x, ((1, 2), (0, 3)))
    padded = lax.pad(x, F32(0), ((1, -1, 2), (0, 0, 1)))
    return (
        y[::2, 1:],
        padded,
        x.T.reshape(-1),
        jnp.concatenate([x, x * 2], 1),
        x[::-1],
        jnp.broadcast_to(x[None], (3, *x.shape)),
    )


def precision(a, b):
    one = jnp.dot(a, b, precision=lax.Precision.HIGHEST)
    two = lax.dot_general(a, b, (((1,), (0,)), ((), ())), precision=lax.DotAlgorithmPreset.BF16_BF16_F32)
    return one, two, lax.reduce_precision(a, 5, 10)


def rng(key):
    bits = jax.random.bits(key, (8,), jnp.uint32)
    return (
        bits,
        jax.random.normal(key, (4, 3)),
        lax.rng_uniform(0.0, 1.0, (3,)),
        lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (5,)),
    )


def scoped(x, w):
    with jax.named_scope("outer scope"), jax.named_scope('quo"ted'):
        return jax.nn.softmax(jnp.einsum("bij,bjk->bik", x, w))


def donated(x, y):
    return x + y, y * 2, (x - y, ())


def programs():
    """(name, jitted function, arguments)."""
    b16 = functools.partial(arr, dtype=jnp.bfloat16)
    i32 = functools.partial(arr, dtype=jnp.int32)
    spec = NamedSharding(MESH, P("x", "y"))
    yield "scan", scan, (arr(4, 8), arr(6, 8, 8))
    yield "cond", cond, (arr(dtype=jnp.bool_), arr(8, 8))
    yield "switch", switch, (i32(), arr(8, 8))
    yield "while", while_loop, (arr(16),)
    yield "nested", nested, (arr(8, 8),)
    yield "remat", remat, (arr(4, 8), arr(3, 8, 8))
    yield "callback", callback, (arr(4),)
    yield "custom_derivative", custom_derivative, (arr(4),)
    yield (
        "small_types",
        small_types,
        (arr(9, dtype=jnp.int4), arr(5, dtype=jnp.float8_e4m3fn), arr(3, dtype=jnp.complex64)),
    )
    yield "constants", constants, (arr(2, 3),)
    yield "gather_scatter", gather_scatter, (arr(8, 8), i32(8))
    yield "windows", windows, (arr(2, 8, 8, 3),)
    yield "convs", convs, (arr(2, 9, 8, 4), arr(3, 2, 4, 8))
    yield "linear", linear, (arr(8, 2), arr(8, 8))
    yield "shapes", shapes, (arr(5, 7),)
    yield "precision", precision, (b16(32, 64), b16(64, 16))
    yield "rng", rng, (arr(2, dtype=jnp.uint32),)
    yield "scoped", scoped, (arr(3, 8, 8), arr(3, 8, 8))
    yield "donated", jax.jit(donated, donate_argnums=(0, 1)), (arr(8, 8), arr(8, 8))
    yield "sort", lambda x, y: lax.sort((x, y), num_keys=1, is_stable=True), (arr(32), i32(32))
    yield "topk", lambda x: lax.top_k(x, 3), (arr(4, 32),)
    yield "fft", lambda x: (jnp.fft.fft(x), jnp.fft.rfft2(x.real), jnp.fft.irfft(x)), (arr(4, 16, dtype=jnp.complex64),)
    yield "batch_dot", lambda x, w: jnp.einsum("bhqd,bhkd->bhqk", x, w), (b16(2, 3, 16, 8), b16(2, 3, 16, 8))
    yield (
        "dynamic",
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, i), (2, 8)) + 1, (i * 0, i)),
        (arr(8, 8), i32()),
    )
    yield "tuples", lambda t: {"a": t[0] + 1, "b": (t[1][0] * 2, [t[1][1]])}, ((arr(3), (arr(2, 2), i32(4))),)
    yield "cumulative", lambda x: (jnp.cumsum(x), jnp.argmax(x), jnp.median(x), jnp.unique(x, size=4)), (arr(16),)
    yield "integers", lambda a, b: (a // b, a % b, a << 2, lax.clz(a), a ^ b, lax.population_count(b)), (i32(8), i32(8))
    yield "compare", lambda a, b: (a < b, jnp.isnan(a), jnp.sign(a), jnp.clip(a, 0, 1), lax.sort(a)), (arr(8), arr(8))
    yield "empty", lambda x: (x.sum(), jnp.zeros((0, 3))), (arr(0, 4),)
    yield "collectives", sharded(collectives, (P("x", "y"), P("y", None)), P("x", "y")), (arr(32, 16), arr(16, 32))
    yield (
        "ring",
        sharded(lambda x: lax.fori_loop(0, 4, lambda i, v: lax.ppermute(v, "x", [(0, 1), (1, 0)]), x), P("x"), P("x")),
        (arr(8),),
    )
    yield (
        "auto",
        jax.jit(
            lambda a, b: jax.nn.relu(a @ b).sum(0), in_shardings=(spec, spec), out_shardings=NamedSharding(MESH, P("y"))
        ),
        (arr(16, 32), arr(32, 16)),
    )
    yield (
        "auto_grad",
        jax.jit(
            jax.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).mean()),
            in_shardings=(NamedSharding(MESH, P(None, "y")), NamedSharding(MESH, P("x"))),
        ),
        (arr(16, 32), arr(8, 16)),
    )
    yield (
        "replicated",
        jax.jit(lambda x: x * 2, in_shardings=NamedSharding(MESH, P()), out_shardings=NamedSharding(MESH, P("y", "x"))),
        (arr(8, 8),),
    )


def main(target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    from jaxlib import _hlo

    large = _hlo.HloPrintOptions()
    large.print_large_constants = True
    long = _hlo.HloPrintOptions()
    long.print_operand_shape = True
    short = _hlo.HloPrintOptions()
    short.print_percent = False
    for name, function, arguments in programs():
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        executable = jitted.lower(*arguments).compile()
        module = executable.runtime_executable().hlo_modules()[0]
        memory = executable.memory_analysis()
        sizes = {key: getattr(memory, key) for key in dir(memory) if key.endswith("_in_bytes")}
        (target / f"{name}.memory.json").write_text(json.dumps(sizes))
        (target / f"{name}.buffers").write_bytes(memory.serialized_buffer_assignment_proto)
        (target / f"{name}.pb").write_bytes(module.as_serialized_hlo_module_proto())
        (target / f"{name}.txt").write_text(module.to_string())
        (target / f"{name}.large.txt").write_text(module.to_string(large))
        (target / f"{name}.long.txt").write_text(module.to_string(long))
        (target / f"{name}.short.txt").write_text(module.to_string(short))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
