"""Functions that the tests have compiled, and some that cannot be."""

import os
import sys
import time


def product(devices, *, size, count=1):
    """A chain of sharded matmuls."""
    jax, numpy, jnp, P, NamedSharding, Mesh = _jax()
    print("what a program prints is not the answer")
    mesh = Mesh(numpy.array(devices), ("d",))
    x = jax.ShapeDtypeStruct((size, size), jnp.bfloat16, sharding=NamedSharding(mesh, P("d")))

    def run(x):
        for _ in range(count):
            x = x @ x
        return x

    return jax.jit(run, donate_argnums=0).lower(x)


def offloaded(devices, *, size):
    """A product that is written to the host's memory."""
    jax, numpy, jnp, P, NamedSharding, Mesh = _jax()
    mesh = Mesh(numpy.array(devices), ("d",))
    x = jax.ShapeDtypeStruct((size, size), jnp.bfloat16, sharding=NamedSharding(mesh, P("d")))
    return jax.jit(lambda x: x @ x, out_shardings=NamedSharding(mesh, P("d"), memory_kind="pinned_host")).lower(x)


def no_program(devices):
    """Returns nothing that can be compiled."""
    return len(devices)


def failing(devices):
    """Raises."""
    raise ValueError(f"not for {len(devices)} devices")


def slow(devices):
    """Never ends in time."""
    time.sleep(60)


def noted(devices, *, path):
    """Says which process it is in, and never ends in time."""
    with open(path, "w") as stream:
        stream.write(f"{os.getpid()}.")
    time.sleep(60)


def dying(devices):
    """Ends the process, as an unknown flag does."""
    sys.stderr.write("Unknown command line flag 'xla_no_such'\n")
    sys.stderr.flush()
    os._exit(1)


def _jax():
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    return jax, numpy, jnp, PartitionSpec, NamedSharding, Mesh
