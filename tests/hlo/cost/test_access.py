"""What fusions read and write: slices of stacked weights, updates in place, whole operands."""

from __future__ import annotations

import pytest

from tpuprof.hlo.cost import OpCost, program_cost
from tpuprof.hlo.text import parse_text

ROW = 128 * 4  # one row of the stacked array
WHOLE = 32 * 64 * ROW


def fused(body: str, result: str = "f32[64,128]", *, operands: str = "%w, %x, %i", extra: str = "") -> OpCost:
    """The cost of a fusion of w: f32[32,64,128], x: f32[64,128] and an index."""
    text = f"""HloModule m

{extra}
%fused (p0: f32[32,64,128], p1: f32[64,128], p2: s32[]) -> {result} {{
  %p0 = f32[32,64,128]{{2,1,0:T(8,128)}} parameter(0)
  %p1 = f32[64,128]{{1,0:T(8,128)}} parameter(1)
  %p2 = s32[] parameter(2)
  %zero = s32[] constant(0)
{body}
}}

ENTRY %main (w: f32[32,64,128], x: f32[64,128], i: s32[]) -> {result} {{
  %w = f32[32,64,128]{{2,1,0:T(8,128)}} parameter(0)
  %x = f32[64,128]{{1,0:T(8,128)S(1)}} parameter(1)
  %i = s32[] parameter(2)
  ROOT %op = {result} fusion({operands}), kind=kLoop, calls=%fused
}}
"""
    return program_cost(parse_text(text)).ops["op"]


LAYER = """  %layer = f32[1,64,128]{2,1,0:T(8,128)} dynamic-slice(%p0, %p2, %zero, %zero), \
dynamic_slice_sizes={1,64,128}
  %matrix = f32[64,128]{1,0:T(8,128)} bitcast(%layer)
"""


def test_a_layer_of_stacked_weights_is_read_alone():
    cost = fused(LAYER + "  ROOT %sum = f32[64,128] add(%matrix, %p1)")
    assert cost.bytes_read == {"hbm": 64 * ROW + 4, "vmem": 64 * ROW}
    assert cost.bytes_written == {"hbm": 64 * ROW}
    assert cost.flops == 64 * 128


def test_two_slices_add_up_but_never_exceed_the_whole():
    two = (
        LAYER
        + """  %part = f32[1,64,128] slice(%p0), slice={[3:4], [0:64], [0:128]}
  %other = f32[64,128] bitcast(%part)
  ROOT %sum = f32[64,128] add(%matrix, %other)"""
    )
    assert fused(two).bytes_read == {"hbm": 2 * 64 * ROW + 4}
    most = """  %a = f32[20,64,128] slice(%p0), slice={[0:20], [0:64], [0:128]}
  %b = f32[20,64,128] slice(%p0), slice={[12:32], [0:64], [0:128]}
  ROOT %sum = f32[20,64,128] add(%a, %b)"""
    assert fused(most, "f32[20,64,128]").bytes_read == {"hbm": WHOLE}


def test_an_operand_that_is_also_read_otherwise_is_read_as_a_whole():
    cost = fused(
        LAYER
        + """  %doubled = f32[32,64,128] add(%p0, %p0)
  %cut = f32[1,64,128] slice(%doubled), slice={[0:1], [0:64], [0:128]}
  %flat = f32[64,128] bitcast(%cut)
  ROOT %sum = f32[64,128] add(%matrix, %flat)"""
    )
    assert cost.bytes_read == {"hbm": WHOLE + 4}


def test_a_slice_after_a_change_of_type_is_still_a_slice():
    cost = fused(
        """  %small = bf16[32,64,128]{2,1,0:T(8,128)(2,1)} convert(%p0)
  %layer = bf16[1,64,128]{2,1,0:T(8,128)(2,1)} dynamic-slice(%small, %p2, %zero, %zero), dynamic_slice_sizes={1,64,128}
  ROOT %matrix = bf16[64,128]{1,0:T(8,128)(2,1)} bitcast(%layer)""",
        "bf16[64,128]",
    )
    assert cost.bytes_read == {"hbm": 64 * ROW + 4}  # in the type of the operand
    assert cost.bytes_written == {"hbm": 64 * ROW // 2}
    assert cost.flops == 0


def test_slices_are_found_through_nested_fusions():
    inner = """%inner (q0: s32[], q1: f32[32,64,128]) -> f32[64,128] {
  %q1 = f32[32,64,128]{2,1,0:T(8,128)} parameter(1)
  %q0 = s32[] parameter(0)
  %q.zero = s32[] constant(0)
  %q.layer = f32[1,64,128] dynamic-slice(%q1, %q0, %q.zero, %q.zero), dynamic_slice_sizes={1,64,128}
  ROOT %q.flat = f32[64,128] bitcast(%q.layer)
}
"""
    cost = fused(
        "  %nested = f32[64,128] fusion(%p2, %p0), kind=kLoop, calls=%inner\n"
        "  ROOT %sum = f32[64,128] add(%nested, %p1)",
        extra=inner,
    )
    assert cost.bytes_read == {"hbm": 64 * ROW + 4, "vmem": 64 * ROW}


UPDATE = """  %row = f32[1,64,128] bitcast(%p1)
  ROOT %new = f32[32,64,128]{2,1,0:T(8,128)} dynamic-update-slice(%p0, %row, %p2, %zero, %zero)"""


def test_an_update_in_place_reads_nothing_of_the_array_and_writes_the_update():
    cost = fused(UPDATE, "f32[32,64,128]")
    assert cost.bytes_read == {"vmem": 64 * ROW, "hbm": 4}
    assert cost.bytes_written == {"hbm": 64 * ROW}


def test_an_update_that_is_computed_with_further_reads_the_whole_array():
    body = UPDATE.replace("ROOT ", "") + "\n  ROOT %twice = f32[32,64,128]{2,1,0:T(8,128)} add(%new, %new)"
    cost = fused(body, "f32[32,64,128]")
    assert cost.bytes_read == {"hbm": WHOLE + 4, "vmem": 64 * ROW}
    assert cost.bytes_written == {"hbm": WHOLE}


def test_several_updates_in_a_row_add_up():
    body = (
        UPDATE.replace("ROOT ", "")
        + """
  %short = f32[1,8,128] slice(%row), slice={[0:1], [0:8], [0:128]}
  ROOT %newer = f32[32,64,128]{2,1,0:T(8,128)} dynamic-update-slice(%new, %short, %zero, %zero, %p2)"""
    )
    cost = fused(body, "f32[32,64,128]")
    assert cost.bytes_written == {"hbm": (64 + 8) * ROW}
    assert cost.bytes_read == {"vmem": 64 * ROW, "hbm": 4}


def test_an_update_of_what_the_fusion_makes_itself_writes_all():
    body = """  %nothing = f32[] constant(0)
  %blank = f32[32,64,128]{2,1,0:T(8,128)} broadcast(%nothing), dimensions={}
""" + UPDATE.replace("%p0", "%blank")
    cost = fused(body, "f32[32,64,128]")
    assert cost.bytes_written == {"hbm": WHOLE}
    assert cost.bytes_read == {"vmem": 64 * ROW, "hbm": 4}


def test_a_scatter_reads_and_writes_what_it_updates():
    extra = """%sum (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %s = f32[] add(%l, %r)
}
"""
    body = """  %table = f32[2048,128] bitcast(%p0)
  %where = s32[64,1] iota(), iota_dimension=0
  ROOT %added = f32[2048,128] scatter(%table, %where, %p1), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum"""
    cost = fused(body, "f32[2048,128]", extra=extra)
    assert (cost.bytes_read, cost.bytes_written) == ({"hbm": 64 * ROW, "vmem": 64 * ROW}, {"hbm": 64 * ROW})
    assert cost.flops == 64 * 128


def test_an_update_in_one_part_of_a_result():
    body = (
        UPDATE.replace("ROOT ", "")
        + """
  %twice = f32[64,128] add(%p1, %p1)
  ROOT %both = (f32[32,64,128], f32[64,128]) tuple(%new, %twice)"""
    )
    cost = fused(body, "(f32[32,64,128]{2,1,0:T(8,128)}, f32[64,128]{1,0:T(8,128)S(1)})")
    assert cost.bytes_written == {"hbm": 64 * ROW, "vmem": 64 * ROW}
    assert cost.bytes_read == {"vmem": 64 * ROW, "hbm": 4}


def test_a_gather_reads_the_rows_that_it_takes():
    body = """  %table = f32[2048,128] bitcast(%p0)
  %where = s32[8,1] iota(), iota_dimension=0
  ROOT %rows = f32[8,128] gather(%table, %where), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,128}"""
    assert fused(body, "f32[8,128]").bytes_read == {"hbm": 8 * ROW}


def test_an_operand_that_nothing_uses_is_not_read():
    assert fused("  ROOT %same = f32[64,128] add(%p1, %p1)").bytes_read == {"vmem": 64 * ROW}


def test_an_operand_that_is_passed_on_is_read():
    body = "  ROOT %pair = (f32[32,64,128], f32[64,128]) tuple(%p0, %p1)"
    cost = fused(body, "(f32[32,64,128], f32[64,128])")
    assert cost.bytes_read == {"hbm": WHOLE, "vmem": 64 * ROW}


OPERATIONS = [
    ("f32[4,128] slice(%a), slice={[0:4], [0:128]}", 4 * ROW, 4 * ROW, 0),
    ("f32[4,128] dynamic-slice(%a, %i, %i), dynamic_slice_sizes={4,128}", 4 * ROW + 4, 4 * ROW, 0),
    ("f32[64,128] dynamic-update-slice(%a, %r, %i, %i)", ROW + 4, ROW, 0),
    ("f32[64,128] copy(%a)", 64 * ROW, 64 * ROW, 0),
    ("f32[64,128] negate(%a)", 64 * ROW, 64 * ROW, 64 * 128),
    ("f32[128,64] transpose(%a), dimensions={1,0}", 64 * ROW, 64 * ROW, 0),
    ("f32[2,64,128] broadcast(%a), dimensions={1,2}", 64 * ROW, 128 * ROW, 0),
    ("f32[64,128] bitcast(%a)", 0, 0, 0),
    ("bf16[64,128] convert(%a)", 64 * ROW, 32 * ROW, 0),
    ("s32[64,128] iota(), iota_dimension=0", 0, 64 * ROW, 0),
]


@pytest.mark.parametrize(("operation", "read", "written", "flops"), OPERATIONS)
def test_operations_by_themselves(operation: str, read: int, written: int, flops: int):
    text = f"""HloModule m

ENTRY %main (a: f32[64,128], r: f32[1,128], i: s32[]) -> f32[] {{
  %a = f32[64,128] parameter(0)
  %r = f32[1,128] parameter(1)
  %i = s32[] parameter(2)
  ROOT %op = {operation}
}}
"""
    cost = program_cost(parse_text(text)).ops["op"]
    assert (cost.bytes_read, cost.bytes_written, cost.flops) == (
        {"hbm": read} if read else {}, {"hbm": written} if written else {}, flops,
    )  # fmt: skip
