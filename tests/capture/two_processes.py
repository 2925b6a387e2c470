"""One of the processes of a distributed program on the CPU, for the tests: matmuls and a collective over all devices.

python two_processes.py INDEX COUNT PORT [LOGDIR]

With a log directory it captures by itself; without, it knows nothing of tpuprof.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

index, count, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", count, index)
mesh = jax.make_mesh((jax.device_count(),), ("data",))


def layer(x, w):
    y = jnp.tanh(x @ w) @ w.T
    return x + jax.lax.psum(y, "data") / jax.lax.axis_size("data")


train_step = jax.jit(jax.shard_map(layer, mesh=mesh, in_specs=(P("data"), P()), out_specs=P("data")))


def array(shape, spec):
    whole = np.full(shape, 0.01, np.float32)
    return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), lambda at: whole[at])


x, w = array((8 * 64, 128), P("data")), array((128, 128), P())
for _ in range(2):
    train_step(x, w).block_until_ready()


def train(steps):
    global x
    for step in range(steps):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            x = train_step(x, w)
            x.block_until_ready()


if len(sys.argv) > 4:
    import tpuprof

    schedule = tpuprof.Schedule(skip_first=2, warmup=1, active=4, repeat=2)
    with tpuprof.Profiler(sys.argv[4], schedule) as profiler:
        train(16)
    for made in profiler.captures:
        print(made.state.value, made.error, made.path.name, flush=True)
else:
    train(8)
jax.distributed.shutdown()
