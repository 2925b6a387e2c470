"""Dots and convolutions: their FLOPs by type and precision, and the matrix product that they are."""

from __future__ import annotations

import pytest

from tests.hlo.cost.programs import cost, recomputed
from tpuprof.hlo.cost import mxu_passes

PRECISIONS = [
    ("", "f32", "default"),
    (", operand_precision={highest,highest}", "f32@highest", "highest"),
    (", operand_precision={high,default}", "f32@high", "high"),
    (", algorithm=dot_bf16_bf16_f32_x3", "f32@high", "dot_bf16_bf16_f32_x3"),
    (", algorithm=dot_tf32_tf32_f32", "tf32", "dot_tf32_tf32_f32"),
]


@pytest.mark.parametrize(("attribute", "key", "precision"), PRECISIONS)
def test_the_type_of_the_work_holds_the_precision(attribute: str, key: str, precision: str):
    text = recomputed("fusion", "").replace("rhs_contracting_dims={0}", "rhs_contracting_dims={0}" + attribute)
    found = cost(text).ops["fusion"]
    assert found.flops_by_dtype == {key: 2048}
    assert {each.precision for each in found.matmuls} == {precision}


def test_mixed_types_count_as_the_wider_one():
    text = """HloModule m

ENTRY %main (x: s8[8,4], w: bf16[4,16]) -> f32[8,16] {
  %x = s8[8,4] parameter(0)
  %w = bf16[4,16] parameter(1)
  ROOT %dot = f32[8,16] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    assert cost(text).totals.flops_by_dtype == {"bf16": 2 * 8 * 4 * 16}


RAGGED = [
    ("f32[10,4]", "f32[3,4,6]", "f32[10,6]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
     "lhs_ragged_dims={0}, rhs_group_dims={0}", 2 * 10 * 4 * 6),
    ("f32[10,4]", "f32[4,6]", "f32[3,10,6]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
     2 * 10 * 4 * 6),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "out", "attributes", "flops"), RAGGED)
def test_a_ragged_dot_multiplies_every_row_with_one_group(lhs: str, rhs: str, out: str, attributes: str, flops: int):
    text = f"""HloModule m

ENTRY %main (x: {lhs}, w: {rhs}, g: s32[3]) -> {out} {{
  %x = {lhs} parameter(0)
  %w = {rhs} parameter(1)
  %g = s32[3] parameter(2)
  ROOT %dot = {out} ragged-dot(%x, %w, %g), {attributes}
}}
"""
    assert cost(text).totals.matmul_flops == flops


def test_a_complex_product_is_four_real_ones():
    text = recomputed("fusion", "").replace("f32", "c64")
    assert cost(text).totals.matmul_flops == 4 * 2048


@pytest.mark.parametrize("dims", ["dim_labels=bf_io->bf", "dim_labels=b0f_0io->b0f, window={size=3}"])
def test_a_convolution_whose_shapes_do_not_fit_is_unknown(dims: str):
    text = f"""HloModule m

ENTRY %main (x: f32[8], w: f32[4,16]) -> f32[8,16] {{
  %x = f32[8] parameter(0)
  %w = f32[4,16] parameter(1)
  ROOT %conv = f32[8,16] convolution(%x, %w), {dims}
}}
"""
    op = cost(text).ops["conv"]
    assert op.flops is None
    assert op.reason == "The shapes of the convolution conv do not fit together."


MATMULS = [
    # window, labels, lhs, rhs, out -> batch, m, n, k, kind
    ("", "bf_io->bf", "f32[8,4]", "f32[4,16]", "f32[8,16]", (1, 8, 16, 4, "dot")),
    ("window={size=1}, ", "0bf_oi0->0bf", "f32[4,8,32]", "f32[16,32,1]", "f32[4,8,16]", (1, 32, 16, 32, "dot")),
    ("window={size=1x32 pad=0_0x31_31 rhs_reversal=0x1}, ", "0bf1_1oi0->0b1f", "f32[4,8,64,1]", "f32[32,128,64,1]",
     "f32[4,8,32,128]", (1, 32, 4096, 64, "dot")),
    ("window={size=4}, ", "0fb_0io->bf0", "f32[4,8,16]", "f32[4,8,32]", "f32[16,32,1]", (1, 16, 32, 32, "dot")),
    ("window={size=6 stride=5 lhs_dilate=6}, ", "0bf_0io->0bf", "f32[6,8,4]", "f32[6,4,16]", "f32[6,8,16]",
     (6, 8, 16, 4, "dot")),
    ("window={size=3x3 pad=1_1x1_1}, ", "b01f_01io->b01f", "f32[2,8,8,4]", "f32[3,3,4,16]", "f32[2,8,8,16]",
     (1, 128, 16, 36, "convolution")),
]  # fmt: skip


@pytest.mark.parametrize(("window", "labels", "lhs", "rhs", "out", "expected"), MATMULS)
def test_the_matmul_in_a_convolution(
    window: str, labels: str, lhs: str, rhs: str, out: str, expected: tuple[int, int, int, int, str]
):
    text = f"""HloModule m

ENTRY %main (x: {lhs}, w: {rhs}) -> {out} {{
  %x = {lhs} parameter(0)
  %w = {rhs} parameter(1)
  ROOT %conv = {out} convolution(%x, %w), {window}dim_labels={labels}
}}
"""
    op = cost(text).ops["conv"]
    (shape,) = op.matmuls
    assert (shape.batch, shape.m, shape.n, shape.k, shape.kind) == expected
    if shape.kind == "dot":
        assert shape.flops == op.matmul_flops
    else:
        assert op.matmul_flops == 2 * 2 * 22 * 22 * 4 * 16  # 22 of 24 positions per dimension are real


def test_products_of_the_matrix_unit_per_product():
    assert [mxu_passes(key) for key in ("bf16", "f32", "f32@high", "f32@highest", "f32@bf16_x9")] == [1, 1, 3, 6, 9]


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "axes"),
    [
        ("f32[4,128]", "f32[64,16]", "f32[4,16]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("f32[4,128]", "f32[128,16]", "f32[4,9]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("f32[4,128]", "f32[128,16]", "f32[4,16]", "lhs_contracting_dims={1,1}, rhs_contracting_dims={0,0}"),
        ("f32[4,128]", "f32[128,16]", "f32[4,16]", "lhs_contracting_dims={1}, rhs_contracting_dims={}"),
        ("f32[4,128]", "f32[128,16]", "f32[4,16]", "lhs_contracting_dims={7}, rhs_contracting_dims={0}"),
        ("f32[2,4,8]", "f32[3,8,16]", "f32[2,4,16]",
         "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
    ],
)  # fmt: skip
def test_a_dot_whose_shapes_do_not_fit_is_unknown(lhs: str, rhs: str, out: str, axes: str):
    text = f"""HloModule m

ENTRY %main (x: {lhs}, w: {rhs}) -> {out} {{
  %x = {lhs} parameter(0)
  %w = {rhs} parameter(1)
  ROOT %dot = {out} dot(%x, %w), {axes}
}}
"""
    op = cost(text).ops["dot"]
    assert op.flops is None
    assert op.reason == "The shapes of the dot dot do not fit together."
