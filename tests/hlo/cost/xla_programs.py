"""Lowers hundreds of small random programs and asks XLA what they cost; writes all as one JSON file.

Run as a script with a target file, in a process of its own. The programs are not compiled (XLA's cost analysis takes
them as they are lowered, and thousands of times faster), except for a few at the end.
"""

import base64
import json
import os
import pathlib
import random
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax

F32 = jnp.float32
ELEMENTWISE = ("add", "multiply", "maximum", "sub")
UNARY = (jnp.tanh, jnp.exp, jnp.sin, jnp.abs, jnp.negative, jnp.floor, lax.rsqrt, lax.logistic, jnp.sign, jnp.isfinite)


def arr(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(tuple(shape), dtype)


def einsum(rng):
    """A random contraction of two operands; letters of both, of one side, summed or kept."""
    sizes = {letter: rng.choice([1, 2, 3, 5, 8]) for letter in "abcdefgh"}
    batch, left, right, summed = "ab"[: rng.randint(0, 2)], "cd"[: rng.randint(0, 2)], "ef"[: rng.randint(0, 2)], "gh"
    summed = summed[: rng.randint(1, 2)]
    lhs, rhs, out = ("".join(rng.sample(part, len(part))) for part in (batch + left + summed, batch + right + summed,
                                                                       batch + left + right))  # fmt: skip
    dtype = rng.choice([F32, jnp.bfloat16])
    shapes = [arr(*(sizes[letter] for letter in side), dtype=dtype) for side in (lhs, rhs)]
    flops = 2
    for letter in batch + left + right + summed:
        flops *= sizes[letter]
    return (lambda x, y: jnp.einsum(f"{lhs},{rhs}->{out}", x, y)), shapes, {"matmul": flops}


def convolution(rng):
    """A random convolution with strides, padding, dilations and groups."""
    rank = rng.randint(1, 3)
    groups, batch_groups = rng.choice([(1, 1), (1, 1), (2, 1), (4, 1), (1, 2), (1, 3)])
    batch, features = batch_groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    out_features = groups * batch_groups * rng.randint(1, 3)
    spatial = [rng.randint(3, 8) for _ in range(rank)]
    kernel = [rng.randint(1, 3) for _ in range(rank)]
    letters = "XYZ"[:rank]
    numbers = rng.choice([("N" + "C" + letters, "OI" + letters, "N" + "C" + letters),
                          ("N" + letters + "C", letters + "IO", letters + "NC")])  # fmt: skip

    def shape(layout, values):
        return arr(*(values[letter] for letter in layout))

    lhs = shape(numbers[0], {"N": batch, "C": features, **dict(zip(letters, spatial, strict=True))})
    rhs = shape(numbers[1], {"O": out_features, "I": features // groups, **dict(zip(letters, kernel, strict=True))})
    options = {
        "window_strides": [rng.randint(1, 3) for _ in range(rank)],
        "padding": [(rng.randint(0, 3), rng.randint(0, 3)) for _ in range(rank)],
        "lhs_dilation": [rng.choice([1, 1, 2, 3]) for _ in range(rank)],
        "rhs_dilation": [rng.choice([1, 1, 2]) for _ in range(rank)],
    }

    def run(x, k):
        return lax.conv_general_dilated(
            x, k, **options, dimension_numbers=numbers, feature_group_count=groups, batch_group_count=batch_groups
        )

    return run, [lhs, rhs], {}


def transposed_convolution(rng):
    """The gradient of a convolution, whose window has base dilation and negative padding."""
    size, kernel, stride = rng.randint(6, 12), rng.randint(1, 4), rng.randint(1, 3)

    def run(x, k):
        return jax.grad(lambda x, k: lax.conv(x, k, (stride, stride), "VALID").sum(), argnums=(0, 1))(x, k)

    return run, [arr(2, 3, size, size), arr(4, 3, kernel, kernel)], {}


def loop(rng):
    """A scan or fori_loop, perhaps one in another, around a matmul."""
    n, inner, size = rng.randint(1, 9), rng.randint(1, 5), rng.choice([2, 4, 8])
    kind = rng.randint(0, 3)
    once = 2 * size**3
    if kind == 0:
        return (
            lambda x, w: lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, w)[0],
            [arr(size, size), arr(n, size, size)],
            {"matmul": n * once},
        )
    if kind == 1:
        return (
            lambda x: lax.fori_loop(0, n, lambda i, c: lax.fori_loop(0, inner, lambda j, d: d @ d + j, c) * i, x),
            [arr(size, size)],
            {"matmul": n * inner * once},
        )
    if kind == 2:
        step, start = rng.randint(1, 4), rng.randint(-5, 5)
        limit = start + rng.randint(0, 20)
        trips = max(0, -(-(limit - start) // step))
        return (
            lambda x: lax.while_loop(
                lambda s: s[0] < limit, lambda s: (s[0] + step, s[1] @ s[1]), (jnp.int32(start), x)
            ),
            [arr(size, size)],
            {"matmul": trips * once},
        )
    trips = rng.randint(0, 12)
    return (
        lambda x: lax.while_loop(lambda s: s[1] >= 1, lambda s: (s[0] @ s[0], s[1] - 1), (x, jnp.int32(trips))),
        [arr(size, size)],
        {"matmul": trips * once},
    )


def reduction(rng):
    dims = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    axes = tuple(sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims)))))
    function = rng.choice([jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.argmax, jnp.any])
    return (lambda x: function(x, axis=axes[0] if function is jnp.argmax else axes)), [arr(*dims)], {}


def window(rng):
    size, length, stride = rng.randint(1, 3), rng.randint(4, 9), rng.randint(1, 2)
    padding = rng.choice(["VALID", "SAME"])
    return (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, size, size), (1, stride, stride), padding),
        [arr(2, length, length)],
        {},
    )


def sort(rng):
    dims = [rng.choice([1, 2, 4, 7, 16]) for _ in range(rng.randint(1, 3))]
    axis = rng.randrange(len(dims))
    return (lambda x: lax.sort(x, dimension=axis)), [arr(*dims)], {}


def chain(rng):
    functions = [rng.choice(UNARY) for _ in range(rng.randint(1, 5))]
    shape = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]

    def run(x):
        for function in functions:
            x = jnp.where(function(x) > 0.5, x * 2, x + 1) if function is jnp.isfinite else function(x) + x
        return x

    return run, [arr(*shape)], {}


def transform(rng):
    n, batch = rng.choice([2, 4, 8, 16]), rng.randint(1, 3)
    kind = rng.choice(["FFT", "RFFT", "IRFFT"])
    given = arr(batch, n, dtype=F32) if kind == "RFFT" else arr(batch, n, dtype=jnp.complex64)
    if kind == "IRFFT":
        given = arr(batch, n // 2 + 1, dtype=jnp.complex64)
    return (lambda x: lax.fft(x, kind, (n,))), [given], {}


def linear(rng):
    n, m = rng.randint(1, 9), rng.randint(1, 5)
    if rng.random() < 0.5:
        return (lambda a: lax.linalg.cholesky(a, symmetrize_input=False)), [arr(2, n, n)], {}
    return (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True)), [arr(n, n), arr(n, m)], {}


def indexing(rng):
    n = rng.randint(2, 8)
    kind = rng.randint(0, 3)
    index = arr(n, dtype=jnp.int32)
    if kind == 0:
        return (lambda x, i: x[i]), [arr(16, 5), index], {}
    if kind == 1:
        return (lambda x, i: x.at[i].add(1.0)), [arr(16, 5), index], {}
    if kind == 2:
        return (lambda x, i: lax.dynamic_update_slice(x, x[:2], (i[0], 0))), [arr(16, 5), index], {}
    return (lambda x: x[1::2, ::-1].T.reshape(-1)), [arr(16, 5)], {}


KINDS = {
    einsum: 100, convolution: 120, transposed_convolution: 10, loop: 40, reduction: 40, window: 20, sort: 15, chain: 25,
    transform: 10, linear: 10, indexing: 12,
}  # fmt: skip


def compiled(rng):
    """Programs that are compiled, so that they are fused and scheduled, with what XLA says of the executable."""
    del rng
    yield "mlp", lambda x, w: jnp.tanh(x @ w).sum(), [arr(32, 16), arr(16, 8)]
    yield "softmax", jax.nn.softmax, [arr(16, 32)]
    yield "scan", lambda x, w: lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, w)[0], [arr(4, 8), arr(6, 8, 8)]
    yield "slices", lambda x: x[2] * 2 + x[5], [arr(64, 128)]
    yield "update", lambda x, y: lax.dynamic_update_slice(x, y * 2, (3, 0)), [arr(64, 128), arr(1, 128)]


def sharded_mlp():
    """Three training steps of a sharded MLP, five matmuls each, in a loop; not compiled for its speed."""
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    place = {name: NamedSharding(mesh, P(*spec)) for name, spec in
             {"x": ("data", None), "up": (None, "model"), "down": ("model", None)}.items()}  # fmt: skip
    d, f, b = 4096, 16384, 8192

    def loss(weights, x):
        return (jax.nn.relu(x @ weights[0]) @ weights[1]).astype(F32).var()

    def step(weights, _):
        gradients = jax.grad(loss)(weights, x_of_step)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], None

    def run(up, down, x):
        nonlocal x_of_step
        x_of_step = x
        return lax.scan(step, [up, down], None, length=3)[0]

    x_of_step = None
    shapes = [arr(d, f, dtype=jnp.bfloat16), arr(f, d, dtype=jnp.bfloat16), arr(b, d, dtype=jnp.bfloat16)]
    shardings = (place["up"], place["down"], place["x"])
    executable = jax.jit(run, in_shardings=shardings, out_shardings=[*shardings[:2]]).lower(*shapes).compile()
    return executable, {"matmul": 3 * 5 * 2 * b * d * f // 8}


def main(target):
    rng = random.Random(20240611)
    client = jax.devices("cpu")[0].client
    found = []
    for kind, count in KINDS.items():
        for n in range(count):
            function, shapes, truth = kind(rng)
            # On the CPU's own platform decompositions and FFTs would be calls to libraries.
            lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",))
            module = lowered.compiler_ir("hlo").as_hlo_module()
            found.append({
                "name": f"{kind.__name__}-{n}", "kind": kind.__name__, "truth": truth,
                "hlo": base64.b64encode(module.as_serialized_hlo_module_proto()).decode(),
                "xla": _jax.hlo_module_cost_analysis(client, module),
            })  # fmt: skip
    for name, function, shapes in compiled(rng):
        executable = jax.jit(function).lower(*shapes).compile()
        module = executable.runtime_executable().hlo_modules()[0]
        found.append({
            "name": f"compiled-{name}", "kind": "compiled", "truth": {},
            "hlo": base64.b64encode(module.as_serialized_hlo_module_proto()).decode(),
            "xla": executable.cost_analysis(),
        })  # fmt: skip
    executable, truth = sharded_mlp()
    module = executable.runtime_executable().hlo_modules()[0]
    found.append({
        "name": "sharded-mlp", "kind": "sharded", "truth": truth,
        "hlo": base64.b64encode(module.as_serialized_hlo_module_proto()).decode(), "xla": executable.cost_analysis(),
    })  # fmt: skip
    pathlib.Path(target).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
