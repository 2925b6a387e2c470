"""Damaged buffer assignments give `HloError` or figures that can be used, never another exception."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hlo.buffer_helper import assignment, compiled_module, module_with
from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, parse_proto, parse_text, to_proto
from tpuprof.hlo.buffer_schema import messages
from tpuprof.hlo.buffers import MAX_BYTES, parse_buffers
from tpuprof.hlo.live_ranges import schedule
from tpuprof.hlo.liveness import memory_use


def read(module: HloModule) -> bool:
    try:
        buffers = parse_buffers(module)
        if buffers is None:
            return False
        use = memory_use(module, buffers)
    except HloError:
        return False
    for space in use.spaces if use is not None else ():
        assert 0 <= space.peak <= space.totals.total
        assert sum(each.size for each in space.live) == space.peak
        for each in space.live:
            assert each.unpadded_size is None or 0 <= each.unpadded_size <= each.size
            str(each.buffer and each.buffer.shape)
    return True


def alter(change: Callable[[Any], object]) -> HloModule:
    message = assignment()
    change(message)
    return module_with(message)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: setattr(m.buffer_allocations[1], "index", 0), "two allocations have one index"),
        (lambda m: setattr(m.logical_buffers[1], "id", 0), "two buffers have one id"),
        (lambda m: setattr(m.buffer_allocations[1], "size", -1), "has the size -1"),
        (lambda m: setattr(m.buffer_allocations[1], "size", MAX_BYTES), "larger than"),
        (lambda m: setattr(m.buffer_allocations[3].assigned[0], "offset", -8), "buffer 3 does not fit"),
        (lambda m: setattr(m.buffer_allocations[3].assigned[0], "size", 1 << 62), "buffer 3 does not fit"),
        (lambda m: setattr(m.buffer_allocations[3].assigned[0], "size", -5), "buffer 3 does not fit"),
        (lambda m: setattr(m.buffer_allocations[3].assigned[1], "logical_buffer_id", 3), "unknown or assigned twice"),
        (lambda m: setattr(m.buffer_allocations[3].assigned[1], "logical_buffer_id", 99), "unknown or assigned twice"),
        (lambda m: m.heap_simulator_traces.add().events.add(kind=7), "the unknown kind 7"),
    ],
)
def test_impossible_assignments_are_refused(change: Callable[[Any], object], words: str) -> None:
    with pytest.raises(HloError, match=words):
        parse_buffers(alter(change))


def test_bytes_that_are_no_message_are_refused() -> None:
    module = replace(module_with(assignment()), buffer_assignment=b"\x0a\xff\xff")
    with pytest.raises(HloError, match=r"'jit_f' cannot be used: it is no valid protobuf\. The trace was damaged"):
        parse_buffers(module)


def test_buffers_of_unknown_instructions_keep_their_sizes() -> None:
    module = alter(lambda m: setattr(m.logical_buffers[3].defined_at, "instruction_id", 12345))
    buffers = parse_buffers(module)
    assert buffers is not None
    unknown = next(buffer for buffer in buffers.buffers if buffer.id == 3)
    assert (unknown.instruction, unknown.shape, unknown.unpadded_size) == (None, None, None)
    assert read(module)


def test_a_buffer_smaller_than_its_value_has_no_padding() -> None:
    module = alter(lambda m: setattr(m.buffer_allocations[3].assigned[0], "size", 16))
    buffers = parse_buffers(module)
    assert buffers is not None
    assert next(buffer for buffer in buffers.buffers if buffer.id == 3).unpadded_size == 16
    assert read(module)


def test_an_index_into_a_shape_that_has_no_parts_is_unknown() -> None:
    module = alter(lambda m: m.logical_buffers[3].defined_at.shape_index.extend([4, -1]))
    buffers = parse_buffers(module)
    assert buffers is not None
    assert next(buffer for buffer in buffers.buffers if buffer.id == 3).shape is None
    assert read(module)


def test_calls_nested_too_deep_are_refused() -> None:
    bodies = ["%c0 (p: f32[]) -> f32[] {\n  ROOT %p0 = f32[] parameter(0)\n}\n"]
    bodies += [
        f"%c{n} (p: f32[]) -> f32[] {{\n  %p{n} = f32[] parameter(0)\n"
        f"  ROOT %r{n} = f32[] call(%p{n}), to_apply=%c{n - 1}\n}}\n"
        for n in range(1, 700)
    ]
    entry = (
        "ENTRY %main (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  ROOT %r = f32[] call(%p), to_apply=%c699\n}"
    )
    module = parse_text("HloModule deep, is_scheduled=true\n\n" + "\n".join(bodies) + entry)
    with pytest.raises(HloError, match="call each other more than 500 deep"):
        schedule(module)


def test_tuples_that_hold_more_than_their_shapes_say_take_linear_time() -> None:
    lines = ["  %a = f32[8,4]{1,0} parameter(0)", "  %t0 = (f32[8,4]{1,0}, f32[8,4]{1,0}) tuple(%a, %a)"]
    lines += [f"  %t{n} = (f32[8,4]{{1,0}}, f32[8,4]{{1,0}}) tuple(%t{n - 1}, %t{n - 1})" for n in range(1, 60)]
    lines += ["  ROOT %r = f32[8,4]{1,0} custom-call(%t59)"]
    text = "HloModule wide, is_scheduled=true\n\nENTRY %main (a: f32[8,4]) -> f32[8,4] {\n" + "\n".join(lines) + "\n}\n"
    module = parse_proto(to_proto(parse_text(text)))
    message = messages().BufferAssignmentProto()
    message.buffer_allocations.add(index=0, size=128).assigned.add(logical_buffer_id=1, size=128)
    message.logical_buffers.add(id=1, size=128).defined_at.instruction_id = module.instruction("a").id
    start = time.process_time()
    assert read(replace(module, buffer_assignment=message.SerializeToString()))
    assert time.process_time() - start < 2


def test_every_prefix() -> None:
    data = assignment().SerializeToString()
    good = sum(read(replace(module_with(assignment()), buffer_assignment=data[:end])) for end in range(len(data)))
    assert good < len(data) // 4


@pytest.mark.parametrize("seed", range(3))
def test_mutations(compiled: Path, seed: int) -> None:
    source = random.Random(seed)
    good = 0
    for name in ("scan", "cond", "tuples", "remat"):
        module = compiled_module(compiled, name)
        for _ in range(60):
            data = bytearray(module.buffer_assignment)
            for _ in range(source.choice([1, 1, 2, 5])):
                at = source.randrange(len(data))
                if source.random() < 0.7:
                    data[at] = source.randrange(256)
                else:
                    data[at : at + source.choice([0, 1, 4])] = source.randbytes(source.randrange(4))
            good += read(replace(module, buffer_assignment=bytes(data)))
    assert good > 8
