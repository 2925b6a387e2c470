"""Instructions without their program: what a trace event's text alone says."""

from __future__ import annotations

import pytest

from tpuprof.hlo import parse_instruction_text
from tpuprof.hlo.cost import OpCost, instruction_cost

A = "f32[64,128]{1,0:T(8,128)} %a"
SIZE = 64 * 128 * 4


def cost(text: str) -> OpCost:
    return instruction_cost(parse_instruction_text(text))


def test_a_dot_is_counted_as_in_its_program():
    found = cost(f"%dot = f32[64,32]{{1,0}} dot({A}, f32[128,32]{{1,0:S(1)}} %b), "
                 "lhs_contracting_dims={1}, rhs_contracting_dims={0}")  # fmt: skip
    assert found.flops == found.matmul_flops == 2 * 64 * 128 * 32
    assert (found.bytes_read, found.bytes_written) == ({"hbm": SIZE, "vmem": 128 * 32 * 4}, {"hbm": 64 * 32 * 4})


def test_of_a_fusion_only_the_bytes_are_known_as_an_upper_bound():
    found = cost(f"%fusion = f32[8,128] fusion({A}), kind=kLoop, calls=%fused_computation")
    assert found.flops is None
    assert found.reason == "What the fusion does stands in a computation that is not at hand."
    assert found.bytes == {"hbm": SIZE + 8 * 128 * 4}
    assert found.note == "Operands are counted as a whole; the instruction may read less of them."


def test_a_reduction_is_taken_to_apply_one_operation():
    found = cost(f"%reduce = f32[64] reduce({A}, f32[] %zero), dimensions={{1}}, to_apply=%add")
    assert found.flops == 64 * 127
    assert found.note == "What it applies to elements is taken to be one operation."


@pytest.mark.parametrize(
    "text",
    [
        "%slice-start = ((f32[64,128]), f32[8,128]{1,0:S(1)}, u32[]) slice-start(f32[64,128] %a), "
        "slice={[0:8], [0:128]}",
        "%slice-start.3 = ((f32[64,128]), f32[8,128]{1,0:S(1)}, u32[]) async-start(f32[64,128] %a), calls=%async.1",
    ],
)
def test_the_start_of_a_slice_moves_the_slice(text: str):
    found = cost(text)
    assert (found.flops, found.bytes_read, found.bytes_written) == (0, {"hbm": 4096}, {"vmem": 4096})


def test_an_asynchronous_start_of_something_else_is_unknown():
    found = cost("%kernel-start = ((f32[64]), f32[64], u32[]) async-start(f32[64] %a), calls=%async.1")
    assert found.flops is None


def test_done_halves_and_names_for_values_are_free():
    for text in (
        "%copy-done = f32[8] copy-done((f32[8], f32[8], u32[]) %copy-start)",
        f"%bitcast = f32[8192] bitcast({A})",
        "%while = (s32[], f32[8]) while((s32[], f32[8]) %tuple), condition=%c, body=%b",
    ):
        assert cost(text).is_free


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%add = f32[8] add(%a, %b)", "The shapes of its operands do not stand in the instruction's text."),
        (f"%fusion = f32[8,128] fusion({A}, f32[64,12", "The text of the instruction is cut off."),
        ("%new = f32[8] some-new-opcode(f32[8] %a)", "No cost is known for the operation 'some-new-opcode'."),
        ("%dot = f32[8] dot(f32[8] %a, f32[8] %b), lhs_contracting_dims={7}",
         "The shapes of the dot dot do not fit together."),
        ("%conv = f32[8] convolution(f32[8] %a, f32[8] %b), dim_labels=zz", "conv: dim_labels='zz' is not of the form "
         "b01f_01io->b01f."),
        ("%map = f32[8] map(f32[8] %a), to_apply=%f", "What the map does stands in a computation that is not at hand."),
    ],
)  # fmt: skip
def test_what_cannot_be_known_says_why(text: str, reason: str):
    found = cost(text)
    assert (found.flops, found.source, found.reason) == (None, None, reason)
