"""Modules from real TPU and GPU compilations."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tpuprof.formats.xplane_schema import messages
from tpuprof.hlo import HloModule, load_hlo, parse_instruction_text, parse_proto, parse_shape, to_proto

pytestmark = pytest.mark.real
LLAMA = "llama3-8b-fsdp8-v6e-hlo/jit_train_step.after_optimizations.hlo.txt.gz"


def programs(path: Path) -> dict[int, HloModule]:
    """The modules of a trace by the id under which its device rows know them."""
    found: dict[int, HloModule] = {}
    for plane in messages().XSpace.FromString(path.read_bytes()).planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for entry in plane.event_metadata:
            for stat in entry.value.stats:
                if plane.name == b"/host:metadata" and names[stat.metadata_id] == b"Hlo Proto":
                    module = parse_proto(stat.bytes_value, program_id=entry.key)
                    found[module.id] = module
    return found


def instruction_texts(path: Path) -> list[str]:
    """The names of device events that hold an instruction."""
    found: list[str] = []
    for plane in messages().XSpace.FromString(path.read_bytes()).planes:
        if plane.name.startswith(b"/device:TPU"):
            texts = (entry.value.name.decode() for entry in plane.event_metadata)
            found += [text for text in texts if text.startswith("%")]
    return found


def test_the_llama_train_step(real_traces: Path):
    start = time.process_time()
    (module,) = load_hlo(str(real_traces / LLAMA))
    assert time.process_time() - start < 3
    assert (module.name, module.is_scheduled, module.num_partitions) == ("jit_train_step", True, 8)
    opcodes = Counter(i.opcode for c in module.computations for i in c.instructions)
    assert {name: opcodes[name] for name in ("while", "all-gather", "reduce-scatter", "all-reduce")} == {
        "while": 6, "all-gather": 21, "reduce-scatter": 8, "all-reduce": 4,
    }  # fmt: skip
    assert opcodes["copy-start"] == opcodes["copy-done"] == 129
    assert all("known_trip_count" not in i.backend_config for c in module.computations for i in c.instructions)
    matmuls = [
        instruction
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.fusion_kind == "kOutput"
        and any(each.opcode == "convolution" for each in module.called(instruction)[0].instructions)
    ]
    assert len(matmuls) == 31
    assert opcodes["convolution"] == 31


def test_collectives_of_the_llama_train_step_run_on_the_sparsecore(real_traces: Path):
    (module,) = load_hlo(str(real_traces / LLAMA))
    starts = [i for c in module.computations for i in c.instructions if i.opcode == "async-start"]
    assert len(starts) == 30
    assert {i.async_execution_thread for i in starts} == {"sparsecore"}
    inside: Counter[str] = Counter()
    for start in starts:
        for computation in module.inside(start):
            inside.update(each.opcode for each in computation.instructions)
    assert inside["all-gather"] + inside["reduce-scatter"] + inside["all-reduce"] == 30
    for computation in module.computations:
        for each in computation.instructions:
            if each.opcode in ("all-gather", "reduce-scatter", "all-reduce"):
                assert each.replica_groups is not None
                assert each.replica_groups.groups(8) == (tuple(range(8)),)
            if each.opcode == "async-done":
                assert module.async_start(each).opcode == "async-start"


def test_every_copy_done_finds_its_start(real_traces: Path):
    (module,) = load_hlo(str(real_traces / LLAMA))
    pairs = [
        (module.async_start(i).name, i.name)
        for c in module.computations
        for i in c.instructions
        if i.opcode == "copy-done"
    ]
    assert len({start for start, _ in pairs}) == 129
    assert {module.instruction(start).opcode for start, _ in pairs} == {"copy-start"}


def test_loop_conditions_of_the_llama_train_step_hold_their_bounds(real_traces: Path):
    (module,) = load_hlo(str(real_traces / LLAMA))
    bounds: list[object] = []
    for computation in module.computations:
        for loop in computation.instructions:
            if loop.opcode == "while":
                condition = module.computation(loop.called_by_role("condition")[0])
                assert condition.root.comparison_direction == "LT"
                bounds += [each.constant for each in condition.operands(condition.root) if each.opcode == "constant"]
    assert len(bounds) == 6
    assert bounds.count(32) >= 2  # layers, forward and backward
    assert all(isinstance(bound, int) and bound > 0 for bound in bounds)


def test_the_splash_attention_kernels_and_their_sources(real_traces: Path):
    (module,) = load_hlo(str(real_traces / LLAMA))
    kernels = [i for c in module.computations for i in c.instructions if i.custom_call_target == "tpu_custom_call"]
    assert len(kernels) == 3
    for kernel in kernels:
        assert "_splash_attention" in kernel.metadata.op_name
        assert kernel.metadata.source_file.endswith("splash_attention_kernel.py")
        assert kernel.metadata.source_line > 0
        assert kernel.stack[-1].file == "/app/trainer/train.py"
        assert isinstance(kernel.backend_config_json, dict)


def test_the_llama_train_step_survives_being_written(real_traces: Path):
    (module,) = load_hlo(str(real_traces / LLAMA))
    assert parse_proto(to_proto(module)) == module


def test_the_matmul_on_v5e(real_traces: Path):
    (path,) = (real_traces / "v5e-1-matmul").rglob("*.xplane.pb")
    modules = programs(path)
    assert {m.name for m in modules.values()} == {"jit_matmul", "jit__reduce_sum"}
    module = modules[7387342164949680137]
    assert module.name == "jit_matmul"
    fusion = module.instruction("fusion")
    assert str(fusion.shape) == "bf16[512,512]{1,0:T(8,128)(2,1)}"
    assert fusion.metadata.source_line == 93
    convolution = next(i for i in module.called(fusion)[0].instructions if i.opcode == "convolution")
    assert convolution.conv_dims is not None
    assert convolution.window == ()
    assert module.instruction("copy-done").shape.memory_space == 1
    assert module.buffer_assignment
    for each in modules.values():
        assert parse_proto(to_proto(each)) == each


def test_host_offload_on_v6e(real_traces: Path):
    modules = programs(real_traces / "v6e-4-host-offload" / "host.xplane.pb")
    module = modules[12190760917235803885]
    assert module.name == "jit_f"
    opcodes = Counter(i.opcode for i in module.entry.instructions)
    assert (opcodes["copy-start"], opcodes["copy-done"], opcodes["fusion"]) == (6, 6, 3)
    copies = [i for i in module.entry.instructions if i.opcode == "copy-start"]
    for copy in copies:
        assert 5 in {part.memory_space for part in copy.shape.leaves()}
        assert copy.shape.tuple_shapes[0].byte_size == 5 * 1024 * 1024 * 256 * 4
    assert (module.num_partitions, module.device_assignment) == (8, tuple((n,) for n in range(8)))
    psum = modules[9646411105960254074].instruction("all-reduce")
    assert psum.replica_groups is not None
    assert psum.replica_groups.groups(8) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert psum.replica_groups.group_size == 2
    for each in modules.values():
        assert parse_proto(to_proto(each)) == each


def test_gemm_calls_on_mi300(real_traces: Path):
    modules = programs(real_traces / "mi300-gemm" / "tw003.xplane.pb")
    assert len(modules) == 16
    targets = {
        i.custom_call_target for m in modules.values() for i in m.entry.instructions if i.opcode == "custom-call"
    }
    assert targets == {"__cublas$gemm"}
    for each in modules.values():
        assert parse_proto(to_proto(each)) == each


def test_every_instruction_text_in_the_events_agrees_with_the_module(real_traces: Path):
    path = real_traces / "v6e-4-host-offload" / "host.xplane.pb"
    known = {i.name: i for m in programs(path).values() for c in m.computations for i in c.instructions}
    texts = instruction_texts(path)
    assert len(texts) > 15
    compared = 0
    for text in texts:
        found = parse_instruction_text(text)
        assert not found.truncated
        module_one = known.get(found.name)
        if module_one is not None and module_one.opcode == found.opcode and module_one.shape == found.shape:
            assert found.operands == module_one.operands
            compared += 1
    assert compared >= 15
    done = next(text for text in texts if text.startswith("%copy-done"))
    (operand,) = parse_instruction_text(done).operand_shapes
    assert operand is not None
    assert operand.tuple_shapes[2] == parse_shape("u32[]{:S(2)}")
