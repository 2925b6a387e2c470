"""Compiles a sharded MLP for TPU chips that are not there; writes its HLO and what XLA says of its FLOPs.

Run as a script with a target folder, in a process of its own: libtpu is loaded for good and wants its own environment.
"""

import json
import os
import pathlib
import sys

os.environ.update(
    JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_LOG_DIR="disabled", TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v5litepod-16", ALLOW_MULTIPLE_LIBTPU_LOAD="1",
)  # fmt: skip

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

D, F, B = 4096, 16384, 8192


def run(up, down, x):
    """Three steps of five matmuls each."""

    def loss(weights):
        return (jax.nn.relu(x @ weights[0]) @ weights[1]).astype(jnp.float32).var()

    def step(weights, _):
        gradients = jax.grad(loss)(weights)
        return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], None

    return lax.scan(step, [up, down], None, length=3)[0]


def main(target):
    devices = topologies.get_topology_desc(platform="tpu", topology_name="v6e:2x4").devices
    mesh = Mesh(np.array(devices).reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    specs = [P("data", "model"), P("model", "data"), P("data", None)]
    places = [NamedSharding(mesh, spec) for spec in specs]
    shapes = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=place)
        for shape, place in zip([(D, F), (F, D), (B, D)], places, strict=True)
    ]
    executable = jax.jit(run, out_shardings=places[:2]).lower(*shapes).compile()
    module = executable.runtime_executable().hlo_modules()[0]
    (target / "mlp.pb").write_bytes(module.as_serialized_hlo_module_proto())
    (target / "xla.json").write_text(json.dumps({"flops": executable.cost_analysis()["flops"]}))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
