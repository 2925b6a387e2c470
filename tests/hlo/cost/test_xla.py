"""Hundreds of programs against XLA's own cost analysis. Where the two differ, the difference is the documented one."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from math import ceil, log2, prod
from pathlib import Path

import pytest

from tpuprof.hlo import HloModule, Instruction, parse_proto
from tpuprof.hlo.cost import ProgramCost, program_cost
from tpuprof.hlo.cost.windows import valid_pairs

pytest.importorskip("jax", reason="the programs are lowered with jax")
# XLA counts pointers of tuples and treats some transposes as free, so bytes are compared where there are none.
SAME_BYTES = ("convolution", "reduction", "window", "sort", "chain", "transform")


@dataclass(frozen=True)
class Program:
    """A program, what XLA says of it, and what is known of it by construction."""

    name: str
    kind: str
    module: HloModule
    xla: dict[str, float]
    truth: dict[str, int]

    @property
    def instructions(self) -> list[Instruction]:
        return [each for computation in self.module.reachable for each in computation.instructions]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Program]:
    target = tmp_path_factory.mktemp("xla") / "programs.json"
    script = Path(__file__).with_name("xla_programs.py")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, str(script), str(target)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [
        Program(each["name"], each["kind"], parse_proto(base64.b64decode(each["hlo"])), each["xla"], each["truth"])
        for each in json.loads(target.read_text())
    ]


def bodies_once(program: Program) -> ProgramCost:
    """The cost with every loop body counted once, as XLA does."""
    loops = [each.name for each in program.instructions if each.opcode == "while"]
    return program_cost(program.module, trips=dict.fromkeys(loops, 1))


def difference(each: Instruction, module: HloModule) -> float:
    """XLA's FLOPs of an instruction less ours, by the conventions of both."""
    operands = module.operands(each)
    elements = operands[0].shape.elements if operands else 0
    assert elements is not None
    if each.opcode == "convert":  # no arithmetic to us
        return each.shape.elements or 0
    if each.opcode == "while":  # we run the condition once more than the body
        return -1
    if each.opcode == "reduce-window":  # XLA counts positions in the padding
        dims = zip(each.window, operands[0].shape.dims, each.shape.dims, strict=True)
        pairs = prod(valid_pairs(dim, given, made) or 0 for dim, given, made in dims)
        return (each.shape.elements or 0) * prod(dim.size for dim in each.window) - pairs
    if each.opcode == "sort":  # XLA takes the logarithm of all elements, rounded up
        length = operands[0].shape.dims[each.dimensions[0]]
        return elements * ceil(log2(elements)) - elements * log2(length) if elements > 1 else 0
    if each.opcode == "fft":  # XLA counts 8 operations per butterfly of complex and real values alike
        real = each.attributes["fft_type"] != "FFT"
        points = (each.shape.elements if each.attributes["fft_type"] == "IRFFT" else elements) or 0
        return points * log2(prod(each.fft_length)) * (8 - (2.5 if real else 5))
    if each.opcode == "triangular-solve":  # XLA counts the zeros of the triangle too
        return (operands[1].shape.elements or 0) * operands[0].shape.dims[-1]
    if each.opcode == "cholesky":  # XLA rounds down
        third = elements * operands[0].shape.dims[-1] / 3
        return int(third) - third
    return 0


def test_flops_and_transcendentals_agree_with_xla_but_for_the_documented_differences(programs: list[Program]):
    assert len(programs) > 390
    wrong: list[str] = []
    for program in programs:
        if program.kind == "sharded":  # the partitioner's all-reduces are counted otherwise
            continue
        cost = bodies_once(program)
        assert not cost.lower_bound_reasons, program.name
        expected = cost.totals.flops + sum(difference(each, program.module) for each in program.instructions)
        if abs(expected - program.xla.get("flops", 0)) > 1e-6 * max(1, expected):
            wrong.append(f"{program.name}: XLA {program.xla.get('flops', 0)}, by our conventions {expected}")
        if cost.totals.transcendentals != program.xla.get("transcendentals", 0):
            wrong.append(f"{program.name}: {cost.totals.transcendentals} transcendentals")
    assert not wrong


def test_matmuls_and_convolutions_agree_exactly(programs: list[Program]):
    compared: Counter[str] = Counter()
    for program in programs:
        if {each.opcode for each in program.instructions} <= {
            "parameter",
            "dot",
            "transpose",
            "convolution",
            "reshape",
        }:
            compared[program.kind] += 1
            assert program_cost(program.module).totals.flops == program.xla.get("flops", 0), program.name
    assert compared["einsum"] >= 95
    assert compared["convolution"] == 120


def test_bytes_agree_with_xla(programs: list[Program]):
    compared = 0
    for program in programs:
        opcodes = {each.opcode for each in program.instructions}
        if program.kind not in SAME_BYTES or opcodes & {"tuple", "transpose", "call"}:
            continue
        compared += 1
        assert program_cost(program.module).totals.bytes == {"hbm": program.xla["bytes accessed"]}, program.name
    assert compared > 150


def test_loops_count_as_often_as_they_run(programs: list[Program]):
    loops = [program for program in programs if "matmul" in program.truth]
    assert sum(program.kind == "loop" for program in loops) == 40
    for program in loops:
        cost = program_cost(program.module)
        noted = {"known_trip_count"} if program.kind == "sharded" else set[str]()  # the CPU's compiler notes it
        assert {each.source for each in cost.trip_counts.values()} <= {"derived", *noted}, program.name
        assert cost.totals.matmul_flops == program.truth["matmul"], (program.name, cost.trip_counts)


def test_xla_counts_the_body_of_a_loop_once(programs: list[Program]):
    """Why its analysis is of no use for a step."""
    scan = next(program for program in programs if program.name == "compiled-scan")
    cost = program_cost(scan.module)
    assert cost.totals.matmul_flops == 6 * 2 * 4 * 8 * 8
    assert scan.xla["flops"] < cost.totals.flops / 5


def test_a_sharded_mlp_has_its_golden_flops(programs: list[Program]):
    """Three steps of five matmuls of 8192 x 4096 x 16384: 16.49267 TFLOP over all eight devices."""
    mlp = next(program for program in programs if program.kind == "sharded")
    cost = program_cost(mlp.module)
    assert 8 * cost.totals.matmul_flops == 3 * 5 * 2 * 8192 * 4096 * 16384 == pytest.approx(16.49267e12, rel=1e-6)
    assert mlp.xla["flops"] < 0.34 * cost.totals.flops
    assert cost.collective_bytes["all_reduce"] > 0
    assert mlp.module.num_partitions == 8


def test_compiled_programs_are_fused_and_touch_only_slices(programs: list[Program]):
    by_name = {program.name: program_cost(program.module) for program in programs if program.kind == "compiled"}
    slices = by_name["compiled-slices"].totals.bytes["hbm"]
    assert slices == 3 * 128 * 4  # two rows of 64 are read, one is written
    update = by_name["compiled-update"]
    written = [cost.bytes_written for name, cost in update.ops.items() if "update" in name]
    assert {"hbm": 128 * 4} in written  # in place


def test_the_matmul_shape_has_the_flops_of_the_operation(programs: list[Program]):
    dots = 0
    for program in programs:
        for cost in program_cost(program.module).ops.values():
            if not cost.matmuls or cost.matmul_flops is None:
                continue
            total = sum(each.flops for each in cost.matmuls)
            if all(each.kind == "dot" for each in cost.matmuls):
                dots += 1
                assert total == cost.matmul_flops, program.name
            else:
                assert total >= cost.matmul_flops, program.name
    assert dots > 100
