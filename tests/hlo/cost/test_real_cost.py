"""Costs of real compilations, against published numbers and counts by hand."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tpuprof.formats.xplane_schema import messages
from tpuprof.hlo import HloModule, load_hlo, parse_instruction_text, parse_proto
from tpuprof.hlo.cost import OpCost, ProgramCost, instruction_cost, program_cost

pytestmark = pytest.mark.real
TOKENS = 4 * 8192
LAYERS = 32
PARAMETERS = 7.5e9  # of the matrices: 6.98e9 in the layers, 0.525e9 in the head


@pytest.fixture(scope="module")
def llama(real_traces: Path) -> HloModule:
    (module,) = load_hlo(str(real_traces / "llama3-8b-fsdp8-v6e-hlo/jit_train_step.after_optimizations.hlo.txt.gz"))
    return module


@pytest.fixture(scope="module")
def llama_cost(llama: HloModule) -> ProgramCost:
    return program_cost(llama)


def stored(path: Path) -> list[HloModule]:
    """The modules of a trace."""
    stored: list[bytes] = []
    for plane in messages().XSpace.FromString(path.read_bytes()).planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for entry in plane.event_metadata:
            if plane.name == b"/host:metadata":
                stored += [s.bytes_value for s in entry.value.stats if names[s.metadata_id] == b"Hlo Proto"]
    return [parse_proto(data) for data in stored]


def named(path: Path, name: str) -> HloModule:
    """The one module of a trace with that name."""
    (module,) = [each for each in stored(path) if each.name == name]
    return module


def executed(cost: ProgramCost, kept: list[tuple[str, OpCost]]) -> float:
    return sum((op.matmul_flops or 0) * cost.executions[name] for name, op in kept)


def test_every_loop_of_the_llama_step_is_counted_out(llama_cost: ProgramCost):
    assert Counter(each.trips for each in llama_cost.trip_counts.values()) == {32: 4, 63: 2}
    assert {each.source for each in llama_cost.trip_counts.values()} == {"derived"}
    assert not llama_cost.is_lower_bound
    assert llama_cost.totals.unknown_ops == 0


def test_the_hardware_flops_of_the_llama_step(llama_cost: ProgramCost):
    fusions = [(name, op) for name, op in llama_cost.ops.items() if op.matmuls]
    assert sum(llama_cost.executions[name] for name, _ in fusions) == 8_928
    convolutions = executed(llama_cost, fusions)
    assert convolutions == pytest.approx(1_845.0e12, rel=1e-3)
    # Counted by hand: forward, backward and recomputation of the layers, without recomputing the down projection;
    # the head forward, backward and recomputed in the loss.
    by_hand = 6.98e9 * TOKENS * 8 - 58.7e6 * LAYERS * TOKENS * 2 + 525e6 * TOKENS * 8
    assert convolutions == pytest.approx(by_hand, rel=1e-3)
    assert {shape.kind for _, op in fusions for shape in op.matmuls} == {"dot"}
    assert sum(s.flops for _, op in fusions for s in op.matmuls) == sum(op.matmul_flops or 0 for _, op in fusions)


def test_the_attention_of_the_llama_step(llama_cost: ProgramCost):
    kernels = [(name, op) for name, op in llama_cost.ops.items() if op.family == "splash_attention"]
    assert sum(llama_cost.executions[name] for name, _ in kernels) == 96
    assert executed(llama_cost, kernels) == pytest.approx(395.8e12, rel=1e-3)
    forward = 4 * 4 * 32 * 8192 * 8192 * 128 * 20 / 32
    assert [op.matmul_flops for _, op in kernels] == [forward, forward, 2.5 * forward]
    assert [op.remat for _, op in kernels] == [False, True, False]
    assert {op.bound for _, op in kernels} == {"exact"}


def test_the_model_flops_of_the_llama_step(llama_cost: ProgramCost):
    """6 x matmul parameters x tokens, plus attention over the block pairs that a causal mask leaves (20 of 32, and 10
    of 16): forward once and backward once, which counts the scores that the backward kernel makes again."""
    attention = LAYERS * 3.5 * 4 * 4 * 32 * 8192 * 8192 * 128 * 20 / 32
    expected = 6 * PARAMETERS * TOKENS + attention
    assert llama_cost.totals.model_matmul_flops == pytest.approx(expected, rel=0.01)
    assert llama_cost.totals.matmul_flops > 1.2 * expected  # what remat costs


def test_what_the_llama_step_recomputes(llama: HloModule, llama_cost: ProgramCost):
    again = {name for name, op in llama_cost.ops.items() for shape in op.matmuls if shape.remat}
    marked = {
        name for name, op in llama_cost.ops.items() if op.matmuls and any(
            each.opcode == "convolution" and "rematted_computation" in each.metadata.op_name
            for computation in llama.inside(llama.instruction(name)) for each in computation.instructions
        )
    }  # fmt: skip
    assert len(marked) == 6
    (loss,) = again - marked  # the logits that the backward pass of the loss makes again, 32 x 63 blocks of them
    assert marked < again
    assert llama_cost.executions[loss] == 32 * 63
    assert [(s.m, s.n, s.k) for s in llama_cost.ops[loss].matmuls] == [(2048, 1024, 4096)]


def test_the_types_and_bytes_of_the_llama_step(llama_cost: ProgramCost):
    totals = llama_cost.totals
    assert sum(totals.flops_by_dtype.values()) == totals.matmul_flops
    assert totals.flops_by_dtype["bf16"] > 0.96 * totals.matmul_flops
    # A layer reads its own weights: with all 32 layers the loops alone would move 30 times as much.
    assert totals.bytes["hbm"] == pytest.approx(2.1e12, rel=0.02)
    assert set(totals.bytes) == {"hbm", "vmem", "space_6"}


def test_the_collectives_of_the_llama_step(llama: HloModule, llama_cost: ProgramCost):
    starts = [op for op in llama_cost.ops if llama.instruction(op).opcode == "async-start"]
    assert sum(llama_cost.executions[op] for op in starts) == 805
    counts = Counter(each.kind for each in llama_cost.collectives)
    assert counts == {"all_gather": 21, "reduce_scatter": 8, "all_reduce": 4}
    assert {each.group_size for each in llama_cost.collectives} == {8}
    # Gathered in every layer: 218e6 parameters in bf16 forward, and again for the recomputation and the backward pass.
    layer = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    scattered = LAYERS * layer + 4096 * 128256 * 4
    moved = llama_cost.collective_bytes
    assert moved["all_gather"] == pytest.approx(2 * LAYERS * layer + 2 * 4096 * 128256 * 2, rel=1e-3)
    assert moved["reduce_scatter"] == pytest.approx(scattered, rel=1e-3)
    assert moved["all_reduce"] == pytest.approx(4096 * 128256 * 2, rel=2e-3)


def test_the_matmul_on_v5e(real_traces: Path):
    (path,) = (real_traces / "v5e-1-matmul").rglob("*.xplane.pb")
    fusion = program_cost(named(path, "jit_matmul")).ops["fusion"]
    assert fusion.flops == fusion.matmul_flops == 268_435_456
    assert fusion.bytes_read == {"vmem": 524_288, "hbm": 524_288}  # one operand was copied into VMEM before
    assert fusion.bytes_written == {"hbm": 524_288}
    assert fusion.estimated_cycles is None  # far below what can be trusted


def test_host_offload_on_v6e(real_traces: Path):
    path = real_traces / "v6e-4-host-offload" / "host.xplane.pb"
    cost = program_cost(named(path, "jit_f"))
    array = 5 * 1024 * 1024 * 256 * 4
    assert cost.totals.bytes == {"host": 6 * array, "hbm": 12 * array}
    assert cost.ops["broadcast_add_fusion.1"].bytes == {"hbm": 2 * array}
    (reduce,) = program_cost(named(path, "jit__psum")).collectives
    assert (reduce.kind, reduce.bytes, reduce.group_size) == ("all_reduce", array, 2)


def test_library_matmuls_on_mi300(real_traces: Path):
    path = real_traces / "mi300-gemm" / "tw003.xplane.pb"
    calls = [
        (module.instruction(name), op)
        for module in stored(path)
        for name, op in program_cost(module).ops.items()
        if op.family == "gemm"
    ]
    assert calls
    for instruction, op in calls:
        (shape,) = op.matmuls
        assert op.matmul_flops == shape.flops
        assert shape.m * shape.n == instruction.shape.tuple_shapes[0].elements


def test_lone_instructions_of_a_trace(real_traces: Path):
    """Where only the texts of the instructions were recorded."""
    (path,) = (real_traces / "v7x-2-prefill").glob("*.json.gz")
    texts: dict[str, dict[str, str]] = {}
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        given = event.get("args") or {}
        if str(given.get("long_name", "")).startswith("%"):
            texts.setdefault(given["long_name"], given)
    known = 0
    for text, given in texts.items():
        cost = instruction_cost(parse_instruction_text(text))
        if "RPA-" in text:
            assert cost.flops == pytest.approx(51.5e9, rel=1e-3)
        elif " all-reduce(" in text:
            assert cost.flops == float(given["model_flops"])
        elif " fusion(" in text:
            assert cost.flops is None
            assert cost.bytes
        assert (cost.flops is None) == (cost.source is None)
        known += cost.flops is not None
    assert known > 0.6 * len(texts)
