"""A program from the TPU compiler, whose matmuls are convolutions in fusions and whose loops are derived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpuprof.hlo import parse_proto
from tpuprof.hlo.cost import program_cost

pytest.importorskip("jax", reason="the program is compiled with jax")
pytest.importorskip("libtpu", reason="the compiler for TPUs, libtpu, is not installed")


@pytest.mark.slow
def test_a_sharded_mlp_sums_to_its_golden_flops(tmp_path: Path):
    script = Path(__file__).with_name("tpu_program.py")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_", "JAX_", "TPU_"))}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    module = parse_proto((tmp_path / "mlp.pb").read_bytes())
    cost = program_cost(module)
    assert module.num_partitions == 8
    assert 8 * cost.totals.matmul_flops == 3 * 5 * 2 * 8192 * 4096 * 16384
    assert not cost.is_lower_bound
    assert [each.trips for each in cost.trip_counts.values()] == [3]
    xla = json.loads((tmp_path / "xla.json").read_text())["flops"]
    assert xla < 0.34 * cost.totals.flops  # it counts the body of the loop once
    assert {"all_gather", "reduce_scatter"} & set(cost.collective_bytes)
