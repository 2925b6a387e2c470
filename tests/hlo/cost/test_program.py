"""Whole programs: loops in loops, conditionals, asynchronous work, recomputation, what is unknown."""

from __future__ import annotations

import pytest

from tests.hlo.cost.programs import ASYNC, cost, recomputed
from tpuprof.hlo.cost import CallCost, program_cost
from tpuprof.hlo.cost.formulas import RegisteredFormula
from tpuprof.hlo.text import parse_text

DOT = "dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
STATE = "(s32[], f32[128,256], f32[256,512])"


def nested(outer: str, inner: str | None, bound: str = "constant(24)") -> str:
    """A loop, with another loop in it if ``inner`` is given, around a dot of f32[128,256] with f32[256,512]."""
    body = f"  %dot = f32[128,512] {DOT}\n"
    inside = ""
    if inner is not None:
        body = f"  %inner = {STATE} while(%s), condition=%condition.2, body=%body.2{inner}\n"
        inside = (
            f"%body.2 (t: {STATE}) -> {STATE} {{\n  %t = {STATE} parameter(0)\n"
            "  %t.x = f32[128,256] get-tuple-element(%t), index=1\n"
            "  %t.w = f32[256,512] get-tuple-element(%t), index=2\n"
            f"  %dot = f32[128,512] {DOT.replace('%x', '%t.x').replace('%w', '%t.w')}\n"
            f"  ROOT %t.out = {STATE} copy(%t)\n}}\n\n"
            f"%condition.2 (d: {STATE}) -> pred[] {{\n  %d = {STATE} parameter(0)\n"
            "  ROOT %d.yes = pred[] constant(true)\n}\n"
        )
    return f"""HloModule m

{inside}
%body (s: {STATE}) -> {STATE} {{
  %s = {STATE} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[128,256] get-tuple-element(%s), index=1
  %w = f32[256,512] get-tuple-element(%s), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
{body}  ROOT %state = {STATE} tuple(%next, %x, %w)
}}

%condition (c: {STATE}) -> pred[] {{
  %c = {STATE} parameter(0)
  %c.i = s32[] get-tuple-element(%c), index=0
  %limit = s32[] {bound}
  ROOT %less = pred[] compare(%c.i, %limit), direction=LT
}}

ENTRY %main (i: s32[], a: f32[128,256], b: f32[256,512]) -> {STATE} {{
  %i0 = s32[] parameter(0)
  %a = f32[128,256] parameter(1)
  %b = f32[256,512] parameter(2)
  %init = {STATE} tuple(%i0, %a, %b)
  ROOT %loop = {STATE} while(%init), condition=%condition, body=%body{outer}
}}
"""


def known(count: int) -> str:
    return f', backend_config={{"known_trip_count":{{"n":"{count}"}}}}'


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        (nested(known(24), None), 805_306_368),
        (nested(known(24), known(3)), 2_415_919_104),
    ],
)
def test_loops_multiply_what_is_in_them(text: str, flops: int):
    found = cost(text)
    assert found.totals.matmul_flops == flops == found.totals.model_matmul_flops
    assert found.totals.flops_by_dtype == {"f32": flops}
    assert found.executions["dot"] == flops // 33_554_432
    assert not found.is_lower_bound


def test_a_loop_without_a_bound_counts_once_and_is_a_lower_bound():
    found = cost(nested("", None, "get-tuple-element(%c), index=0"))
    assert found.totals.matmul_flops == 33_554_432
    (reason,) = found.lower_bound_reasons
    assert reason.startswith("loop: trip count unknown")


def conditional(scale: int) -> str:
    return f"""HloModule m

%small (p: f32[8,8]) -> f32[8,8] {{
  %p = f32[8,8] parameter(0)
  ROOT %negate = f32[8,8] negate(%p)
}}

%large (x: f32[8,8]) -> f32[8,8] {{
  %x = f32[8,8] parameter(0)
  ROOT %dot = f32[8,8] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

ENTRY %main (which: pred[], a: f32[8,8]) -> f32[8,8] {{
  %which = pred[] parameter(0)
  %a = f32[{8 * scale},8] parameter(1)
  ROOT %choice = f32[8,8] conditional(%which, %a, %a), true_computation=%small, false_computation=%large
}}
"""


def test_of_a_conditional_the_dearest_branch_counts_and_the_range_is_kept():
    found = cost(conditional(1))
    assert found.totals.flops == 2 * 8**3
    assert found.low.flops == 64
    assert (found.executions["dot"], found.executions["negate"]) == (1, 0)
    assert found.ops["negate"].flops == 64  # what it would cost is known all the same
    assert found.ops["choice"].is_free


def test_calls_count_as_often_as_they_are_made():
    found = cost("""HloModule m

%twice (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  ROOT %sum = f32[8] add(%p, %p)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  %one = f32[8] call(%a), to_apply=%twice
  ROOT %two = f32[8] call(%one), to_apply=%twice
}
""")
    assert found.totals.flops == 16
    assert found.executions["sum"] == 2
    assert found.totals.bytes == {"hbm": 2 * 2 * 32}  # a value that is both operands is read once


def test_what_is_applied_to_elements_may_call_but_loops_in_it_are_not_followed():
    text = """HloModule m

%inner (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%yes (z: f32[]) -> pred[] {
  %z = f32[] parameter(0)
  ROOT %true = pred[] constant(true)
}

%same (q: f32[]) -> f32[] {
  ROOT %q = f32[] parameter(0)
}

%apply (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %called = f32[] call(%l, %r), to_apply=%inner
}

ENTRY %main (a: f32[8]) -> f32[] {
  %a = f32[8] parameter(0)
  %zero = f32[] constant(0)
  ROOT %reduce = f32[] reduce(%a, %zero), dimensions={0}, to_apply=%apply
}
"""
    assert cost(text).totals.flops == 7
    looping = text.replace("call(%l, %r), to_apply=%inner", "while(%l), condition=%yes, body=%same")
    op = cost(looping).ops["reduce"]
    assert op.flops is None
    assert op.reason == "The while called is part of an instruction and is not followed."


def test_asynchronous_work_is_that_of_the_start():
    found = cost(ASYNC)
    ops = found.ops
    assert (ops["start"].bytes_read, ops["start"].bytes_written) == ({"hbm": 4096}, {"hbm": 32768})
    assert (ops["copy-start"].bytes_read, ops["copy-start"].bytes_written) == ({"hbm": 32768}, {"vmem": 32768})
    assert (ops["slice-start"].bytes_read, ops["slice-start"].bytes_written) == ({"hbm": 4096}, {"vmem": 4096})
    for done in ("done", "copy-done", "slice-done"):
        assert ops[done].is_free
    assert ops["all-reduce"].flops == 64 * 128
    assert found.totals.bytes == {"hbm": 4096 + 32768 + 32768 + 4096 + 2 * 32768, "vmem": 32768 + 4096}
    assert "all-gather" not in ops  # it is no operation of the program by itself


def test_collectives_with_what_they_move():
    by_kind = {each.kind: each for each in cost(ASYNC).collectives}
    gather, reduce = by_kind["all_gather"], by_kind["all_reduce"]
    assert (gather.instruction, gather.op, gather.channel_id, gather.group_size) == ("all-gather", "start", 1, 8)
    assert (gather.bytes, gather.shard_bytes, gather.executions) == (32768, 4096, 1)
    assert (reduce.bytes, reduce.shard_bytes, reduce.group_size) == (32768, 32768, 4)
    assert cost(ASYNC).collective_bytes == {"all_gather": 32768, "all_reduce": 32768}


def test_a_collective_woven_into_matmuls_counts_once():
    piece = """%{0} (p.{0}: f32[16,128]) -> f32[128,128] {{
  %p.{0} = f32[16,128] parameter(0)
  {1}ROOT %gather.{0} = f32[128,128] all-gather(%p.{0}), channel_id=3, replica_groups=[1,8]<=[8], dimensions={{0}}
}}

"""
    mark = '%mark = f32[] custom-call(), custom_call_target="AsyncCollectiveStart"\n  '
    text = "HloModule m, num_partitions=8\n\n" + piece.format("begin", mark) + piece.format("go_on", "")
    text += (
        piece.format("more", "")
        + """ENTRY %main (a: f32[16,128]) -> f32[128,128] {
  %a = f32[16,128] parameter(0)
  %go = f32[128,128] fusion(%a), kind=kOutput, calls=%go_on
  %first = f32[128,128] fusion(%a), kind=kCustom, calls=%begin
  ROOT %last = f32[128,128] fusion(%a), kind=kOutput, calls=%more
}
"""
    )
    (only,) = cost(text).collectives
    assert (only.op, only.bytes) == ("first", 65536)


def test_an_all_reduce_of_which_each_device_keeps_its_part_is_a_reduce_scatter():
    found = cost("""HloModule m, num_partitions=4

%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %s = f32[] add(%l, %r)
}

%fused (p: f32[64], i: s32[]) -> f32[16] {
  %p = f32[64] parameter(0)
  %i = s32[] parameter(1)
  %sum = f32[64] all-reduce(%p), channel_id=1, replica_groups={}, to_apply=%add
  ROOT %part = f32[16] dynamic-slice(%sum, %i), dynamic_slice_sizes={16}
}

ENTRY %main (a: f32[64], i: s32[]) -> f32[16] {
  %a = f32[64] parameter(0)
  %i.1 = s32[] parameter(1)
  ROOT %scatter = f32[16] fusion(%a, %i.1), kind=kCustom, calls=%fused
}
""")
    (only,) = found.collectives
    assert (only.kind, only.bytes, only.shard_bytes, only.group_size) == ("reduce_scatter", 256, 64, 4)


@pytest.mark.parametrize(
    ("name", "scope", "model", "remat"),
    [
        ("fusion", "jit(f)/dot_general", 2048, False),
        ("fusion", "jit(f)/transpose(jvp())/checkpoint/rematted_computation/dot_general", 1024, False),
        ("fusion.3.remat2", "jit(f)/dot_general", 0, True),
    ],
)
def test_what_is_recomputed_is_hardware_work_but_no_model_work(name: str, scope: str, model: int, remat: bool):
    found = cost(recomputed(name, scope))
    assert found.totals.flops == 2048
    assert found.totals.model_flops == found.totals.model_matmul_flops == model
    assert found.ops[name].remat is remat
    assert [each.remat for each in found.ops[name].matmuls] == [model < 2048 and not remat, False] or remat


def test_a_backward_matmul_of_the_same_two_values_is_a_repetition():
    def program(scope: str, second: str) -> float:
        return cost(f"""HloModule m

%convert (p: f32[8,16]) -> bf16[8,16] {{
  %p = f32[8,16] parameter(0)
  ROOT %c = bf16[8,16] convert(%p)
}}

ENTRY %main (x: f32[8,16], w: f32[16,4], v: f32[16,4]) -> f32[4,8] {{
  %x = f32[8,16] parameter(0)
  %w = f32[16,4] parameter(1)
  %v = f32[16,4] parameter(2)
  %forward = f32[8,4] dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, \
metadata={{op_name="jit(f)/jvp()/dot"}}
  %x.b = bf16[8,16] fusion(%x), kind=kLoop, calls=%convert
  ROOT %again = f32[4,8] dot({second}, %x.b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}, \
metadata={{op_name="jit(f)/{scope}/dot"}}
}}
""").totals.model_flops

    once = 2 * 8 * 16 * 4
    assert program("transpose(jvp())", "%w") == once
    assert program("transpose(jvp())", "%v") == 2 * once  # another weight
    assert program("jvp()", "%w") == 2 * once  # not in the backward pass


def test_unknown_work_makes_the_program_a_lower_bound():
    text = """HloModule m

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  %odd = f32[8] custom-call(%p), custom_call_target="odd"
  ROOT %sum = f32[8] add(%odd, %p)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  %kernel = f32[8] custom-call(%a), custom_call_target="odd"
  %new = f32[8] some-new-opcode(%kernel)
  ROOT %fusion = f32[8] fusion(%new), kind=kLoop, calls=%fused
}
"""
    found = cost(text)
    assert found.totals.unknown_ops == 3
    assert [found.ops[name].flops for name in ("kernel", "new", "fusion")] == [None] * 3
    assert found.ops["kernel"].bytes is None
    assert found.ops["new"].bytes == {"hbm": 64}  # an opcode that is not known still moves its operands
    assert found.lower_bound_reasons == (
        "kernel: No cost is known for custom calls to 'odd'.",
        "new: No cost is known for the operation 'some-new-opcode'.",
        "fusion: No cost is known for custom calls to 'odd'.",
    )


def test_a_matmul_is_known_even_if_something_else_in_its_fusion_is_not():
    text = recomputed("fusion", "").replace(
        "ROOT %dot.2 = f32[8,8] dot(%dot.1, %x)",
        """%odd = f32[8,8] \
custom-call(%dot.1), custom_call_target="odd"
  ROOT %dot.2 = f32[8,8] dot(%odd, %x)""",
    )
    found = cost(text)
    assert (found.ops["fusion"].flops, found.ops["fusion"].bound) == (2048, "lower")
    assert found.totals.matmul_flops == sum(found.totals.flops_by_dtype.values()) == 2048
    assert found.lower_bound_reasons == ("fusion: No cost is known for custom calls to 'odd'.",)


def test_formulas_can_be_given_for_one_program():
    import re

    formula = RegisteredFormula(re.compile("odd"), lambda call: CallCost(vector_flops=9), "nine")
    text = """HloModule m

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  ROOT %kernel = f32[8] custom-call(%a), custom_call_target="odd"
}
"""
    assert program_cost(parse_text(text), user_formulas=(formula,)).totals.vector_flops == 9
    assert program_cost(parse_text(text), user_formulas=()).totals.unknown_ops == 1


@pytest.mark.parametrize(
    ("model", "cycles", "expected"),
    [
        ("COST_MODEL_TYPE_CLASSIC", "123456", 123456),
        ("COST_MODEL_TYPE_INVALID", "123456", None),  # loops, copies and reductions: several times too slow
        ("COST_MODEL_TYPE_CLASSIC", "9999", None),  # a fixed part of it is too large for small operations
        ("COST_MODEL_TYPE_CLASSIC", "9223372036854775807", None),
        ("COST_MODEL_TYPE_CLASSIC", "-5", None),
    ],
)
def test_the_compilers_estimate_only_where_it_can_be_trusted(model: str, cycles: str, expected: int | None):
    config = f', backend_config={{"window_config":{{"estimated_cycles":"{cycles}","cost_model_type":"{model}"}}}}'
    text = recomputed("fusion", "").replace("calls=%fused", "calls=%fused" + config)
    assert cost(text).ops["fusion"].estimated_cycles == expected
