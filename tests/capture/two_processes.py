"""One of the processes of a distributed program on the CPU, for the tests: matmuls and a collective over all devices.

python two_processes.py INDEX COUNT PORT LOGDIR [HOSTS]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import tpuprof

index, count, port, logdir = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
hosts = sys.argv[5] if len(sys.argv) > 5 else None
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
schedule = tpuprof.capture.Schedule(skip_first=2, warmup=1, active=4, repeat=2)
with tpuprof.capture.Profiler(logdir, schedule=schedule, hosts=hosts) as profiler:
    for _ in range(16):
        with profiler.step():
            x = train_step(x, w)
            x.block_until_ready()
for made in profiler.captures:
    print(made.state.value, made.error, made.path.name if made.path else None, flush=True)
jax.distributed.shutdown()
