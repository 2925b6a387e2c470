"""Collectives of real traces against their predicted times."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tpuprof.hardware.slices import parse_slice
from tpuprof.hlo.groups import parse_replica_groups
from tpuprof.hlo.load import load_hlo
from tpuprof.perfmodel.collective_time import collective_time

pytestmark = pytest.mark.real


def test_pairs_on_v6e_take_what_their_shared_link_allows(real_traces: Path) -> None:
    found = tpuprof.load(real_traces / "v6e-4-host-offload").collectives
    reduces = found[(found["kind"] == "all_reduce") & (found["transfer_ps"] > 0)]
    groups = parse_replica_groups("[4,2]<=[2,4]T(1,0)").groups(8)
    size = float(reduces["bytes"].iloc[0])
    predicted = collective_time("all_reduce", size, parse_slice("v6e:2x4"), groups=groups)
    assert predicted.seconds is not None
    fastest = float(reduces["transfer_ps"].min()) / 1e12
    assert predicted.seconds / fastest == pytest.approx(0.98, abs=0.005)
    # A ring of two with links of its own would be four times as fast.
    assert predicted.seconds == pytest.approx(size / 45e9)


def test_cores_of_a_v7x_chip(real_traces: Path) -> None:
    found = tpuprof.load(real_traces / "v7x-2-prefill").collectives
    reduces = found[found["kind"] == "all_reduce"]
    assert len(reduces) == 258
    predicted = collective_time("all_reduce", float(reduces["bytes"].iloc[0]), parse_slice("tpu7x:1x1x1"))
    assert predicted.seconds is not None
    assert predicted.expected_s is not None
    measured = reduces["transfer_ps"].astype(float) / 1e12
    assert predicted.seconds < measured.min()
    assert predicted.expected_s == pytest.approx(measured.median(), rel=0.02)


def test_every_collective_of_a_train_step_has_a_time(real_traces: Path) -> None:
    (module,) = load_hlo(real_traces / "llama3-8b-fsdp8-v6e-hlo")
    where = parse_slice("v6e:2x4")
    opcodes = {"all-gather", "reduce-scatter", "all-reduce"}
    seen = 0
    for computation in module.computations:
        for instruction in computation.instructions:
            groups = instruction.replica_groups
            if instruction.opcode in opcodes and groups is not None:
                found = collective_time(instruction.opcode, 1e9, where, groups=groups.groups(8))
                passes = 2 if instruction.opcode == "all-reduce" else 1
                # Eight chips of 2x4 receive over two links each.
                assert found.seconds == pytest.approx(passes * 7 / 8 * 1e9 / 180e9)
                seen += 1
    assert seen == 33
