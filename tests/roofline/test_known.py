"""Runs with known answers: costs, bounds, MFU and what must be refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from string import Template

import pandas as pd
import pytest

from tests.inputs import changes, clean
from tests.roofline.made import MATMUL, MATMUL_FLOPS, US, matmul_run, op_of, rates, run_builder, run_of
from tpuprof.errors import InputError, UsageError
from tpuprof.report import build_report
from tpuprof.report.roofline import utilisation_notes
from tpuprof.roofline import HardwareOptions, roofline
from tpuprof.roofline.table import roofline_frame
from tpuprof.testing import Program, TraceBuilder
from tpuprof.testing.values import Unsigned
from tpuprof.trace import load


def test_f00_every_number(tmp_path: Path) -> None:
    found = roofline(load(clean.f00(tmp_path)))
    rows = {row.op: row for row in found.table.itertuples()}
    product, loop, copy = rows["fusion.2"], rows["fusion.1"], rows["copy.4"]
    assert (product.flops, product.dtype, product.bound_by) == (MATMUL_FLOPS, "bf16", "compute")
    assert product.hbm_bytes == 2 * (4096 * 1024 + 1024 * 3584 + 4096 * 3584)
    assert product.bound_ps == pytest.approx(MATMUL_FLOPS / 197e12 * 1e12)
    assert product.efficiency == pytest.approx(MATMUL_FLOPS / 197e12 / 300e-6)
    assert product.recoverable_ps == pytest.approx(3 * (300 * US - product.bound_ps))
    assert (loop.hbm_bytes, loop.bound_by) == (2 * 4096 * 1024 * 2, "hbm")
    assert loop.efficiency == pytest.approx(loop.hbm_bytes / 819e9 / 400e-6)
    assert copy.flops == 0
    assert copy.hbm_bytes == 2 * 2 * 4096 * 3584
    used = found.utilisation
    assert used.mfu == used.hfu == pytest.approx(MATMUL_FLOPS / 197e12 / 1000e-6)
    assert used.hbm_utilisation == pytest.approx(
        (product.hbm_bytes + loop.hbm_bytes + copy.hbm_bytes) / 819e9 / 1000e-6
    )
    assert not used.is_lower_bound
    assert used.without_cost_fraction == 0
    assert used.bound_by == pytest.approx(
        {"compute": 300 * US, "hbm": 450 * US, "vmem": 0, "host": 0, "nothing": 0, "unknown": 0}
    )
    assert [(r.name, r.step_ps / US) for r in found.ladder[:5]] == [
        ("measured", 1000), ("without_skew", 1000), ("without_exposed_collectives", 800),
        ("without_copy_waits", 800), ("without_idle", 750),
    ]  # fmt: skip
    # The copy of 59 MB in 50 us is faster than any v5e: said as an error, and its time is its bound.
    assert copy.above_peak
    assert copy.recoverable_ps == 0
    assert [(entry.id, entry.severity, entry.scope) for entry in found.quality] == [
        ("rate_above_peak", "error", {"ops": ["copy.4"]})
    ]
    assert found.ladder[-1].step_ps == pytest.approx(product.bound_ps + loop.bound_ps + 50 * US)


def test_f21_a_kernel_without_a_cost_makes_mfu_a_lower_bound(tmp_path: Path) -> None:
    trace = load(changes.f21(tmp_path, "no_cost"))
    found = roofline(trace)
    row = found.table.set_index("op").loc["fusion.2"]
    assert row[["flops", "bound_ps", "efficiency", "recoverable_ps", "cost_source"]].isna().all()
    assert row["reason"]
    assert found.utilisation.without_cost_fraction == pytest.approx(0.30)
    assert found.utilisation.is_lower_bound
    section = build_report(trace, [])["roofline"]
    assert section["mfu_is_lower_bound"] is True
    assert section["time_without_cost_model_fraction"] == pytest.approx(0.30)
    assert section["mfu_convention"]


def test_f21_an_estimate_of_the_author_counts(tmp_path: Path) -> None:
    found = roofline(load(changes.f21(tmp_path, "estimate")))
    row = found.table.set_index("op").loc["fusion.2"]
    assert (row["flops"], row["cost_source"]) == (12_000_000_000, "cost_estimate")
    assert row["achieved_flops"] == pytest.approx(40e12)
    assert found.utilisation.without_cost_fraction == 0


def test_f21_a_library_product_has_its_flops(tmp_path: Path) -> None:
    found = roofline(load(changes.f21(tmp_path, "cublas")))
    row = found.table.set_index("op").loc["fusion.2"]
    assert row["flops"] == 2 * 4096 * 1024 * 3584 == MATMUL_FLOPS
    assert not found.utilisation.is_lower_bound
    (shape,) = found.matmuls.itertuples()
    assert (shape.m, shape.k, shape.n) == (4096, 1024, 3584)


def test_f22_more_than_the_peak_is_an_error_and_no_mfu(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 206.85e12)
    found = roofline(trace)
    errors = {entry.id: entry for entry in found.quality}
    assert {entry.severity for entry in found.quality} == {"error"}
    assert set(errors) == {"rate_above_peak", "utilisation_above_peak"}
    assert "MFU 105.00 %" in errors["utilisation_above_peak"].message
    assert "dot.1 (1.05 times the compute rate)" in errors["rate_above_peak"].message
    assert found.utilisation.mfu is None
    assert found.utilisation.hfu is None
    assert found.utilisation.reason
    row = found.table.iloc[0]
    assert bool(row["above_peak"])
    assert row[["efficiency"]].isna().all()
    report = build_report(trace, [])
    assert report["roofline"]["mfu"] is None
    assert {"rate_above_peak", "utilisation_above_peak"} <= {entry["id"] for entry in report["quality"]}
    assert found.utilisation.reason in utilisation_notes(report)


def test_f22_one_fast_op_in_a_slow_step_leaves_the_mfu(tmp_path: Path) -> None:
    found = roofline(matmul_run(tmp_path, 206.85e12, share=0.5))
    assert [entry.id for entry in found.quality] == ["rate_above_peak"]
    assert found.utilisation.mfu == pytest.approx(0.525, rel=1e-6)


def test_f22_a_device_of_tpu7x_is_half_a_chip(tmp_path: Path) -> None:
    found = roofline(matmul_run(tmp_path, 461.4e12, kind="TPU7x"))
    assert found.utilisation.peak_flops == pytest.approx(2307e12 / 2)
    assert found.utilisation.mfu == pytest.approx(0.40, rel=1e-6)
    assert found.quality == ()


def test_an_unknown_device_has_costs_and_no_bounds(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 100e12, kind="TPU v9x")
    found = roofline(trace)
    assert found.hardware.chip is None
    assert "TPU v9x" in found.hardware.reason
    assert "--peak" in found.hardware.reason
    assert len(found.table) == 0
    assert found.utilisation.mfu is None
    assert found.utilisation.model_flops == MATMUL_FLOPS
    assert found.utilisation.reason == found.hardware.reason
    assert found.ladder[-1].reason == found.hardware.reason
    (op,) = build_report(trace, [])["ops"]
    assert (op["flops"], op["bound_by"]) == (MATMUL_FLOPS, None)


def test_what_the_user_says_of_the_hardware_counts(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 100e12, kind="TPU v9x")
    given = roofline(trace, HardwareOptions(peaks=("bf16=250T,hbm=1e12",)))
    assert given.utilisation.mfu == pytest.approx(0.4, rel=1e-6)
    assert given.hardware.source == "--peak"
    named = roofline(trace, HardwareOptions(chip="v5e"))
    assert named.utilisation.mfu == pytest.approx(100 / 197, rel=1e-6)
    with pytest.raises(UsageError, match="The trace states no peaks"):
        roofline(trace, HardwareOptions(from_trace=True))
    with pytest.raises(UsageError, match="v99"):
        roofline(trace, HardwareOptions(chip="v99"))


def test_stated_peaks_that_differ_are_told_and_used_when_asked(tmp_path: Path) -> None:
    length = MATMUL_FLOPS // 100  # at 100 TFLOP/s
    stats = {"peak_teraflops_per_second": 202.7, "peak_hbm_bw_gigabytes_per_second": 819.0}
    trace = run_of(tmp_path, MATMUL, [("dot.1", 0, length, "convolution")], length, stats=stats)
    table = roofline(trace)
    (entry,) = table.quality
    assert (entry.id, entry.severity) == ("peaks_disagree", "info")
    assert "202.7" in entry.message
    assert "197" in entry.message
    assert table.utilisation.mfu == pytest.approx(100 / 197, rel=1e-6)
    stated = roofline(trace, HardwareOptions(from_trace=True))
    assert stated.utilisation.mfu == pytest.approx(100 / 202.7, rel=1e-6)
    assert stated.hardware.source == "stated in the trace"


@pytest.mark.parametrize(
    "precision",
    [
        "operand_precision={highest,highest}",
        "operand_precision={high,default}",
        "algorithm=dot_bf16_bf16_bf16",
        "algorithm=dot_bf16_bf16_f32_x9",
        "algorithm=dot_any_f8_any_f8_f32_fast_accum",
        "algorithm=dot_f64_f64_f64",
        "algorithm=dot_tf32_tf32_f32_x3",
    ],
)
def test_every_precision_of_a_product_can_be_listed(precision: str, tmp_path: Path) -> None:
    text = MATMUL.replace("rhs_contracting_dims={0}", f"rhs_contracting_dims={{0}}, {precision}")
    found = roofline(run_of(tmp_path, text, [("dot.1", 0, 300 * US, "convolution")], 300 * US))
    (row,) = found.matmuls.itertuples()
    assert row.flops == MATMUL_FLOPS


def test_float32_at_highest_takes_six_passes_and_says_so(tmp_path: Path) -> None:
    text = MATMUL.replace("bf16", "f32").replace(
        "rhs_contracting_dims={0}", "rhs_contracting_dims={0}, operand_precision={highest,highest}"
    )
    found = roofline(run_of(tmp_path, text, [("dot.1", 0, 2000 * US, "convolution")], 2000 * US))
    row = found.table.iloc[0]
    assert row["dtype"] == "f32@highest"
    assert row["compute_ps"] == pytest.approx(6 * MATMUL_FLOPS / 197e12 * 1e12)
    assert found.matmuls["shape"].tolist() == ["4096 x 1024 x 3584 f32@highest -> f32"]


def test_products_of_equal_sizes_and_different_precision_are_two_rows(tmp_path: Path) -> None:
    text = """HloModule jit_f, is_scheduled=true, num_partitions=1

ENTRY %main (a: f32[256,256], w: f32[256,256]) -> f32[256,256] {
  %a = f32[256,256]{1,0} parameter(0)
  %w = f32[256,256]{1,0} parameter(1)
  %dot.1 = f32[256,256]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %dot.2 = f32[256,256]{1,0} dot(%dot.1, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
operand_precision={highest,highest}
}
"""
    ops = [("dot.1", 0, 10 * US, "convolution"), ("dot.2", 10 * US, 30 * US, "convolution")]
    found = roofline(run_of(tmp_path, text, ops, 40 * US))
    assert found.matmuls["shape"].tolist() == ["256 x 256 x 256 f32@highest -> f32", "256 x 256 x 256 f32 -> f32"]
    assert found.matmuls["self_ps"].tolist() == [4 * 30 * US, 4 * 10 * US]


@pytest.mark.parametrize(
    ("sizes", "waste"),
    [
        ((4096, 64, 3584), 0.5),  # half of the unit's rows
        ((4096, 1024, 200), 0.0),  # 200 is a multiple of 8: it streams through, and 4096 lies in the unit
        ((100, 128, 100), 1 - 100 * 100 / (104 * 128)),
        ((1, 128, 128), 1 - 1 / 8),
        ((128, 128, 128), 0.0),
    ],
)
def test_padding_of_a_product(sizes: tuple[int, int, int], waste: float, tmp_path: Path) -> None:
    text = MATMUL
    for letter, old in zip("mkn", ("4096", "1024", "3584"), strict=True):
        text = text.replace(old, f"${letter}")
    text = Template(text).substitute(dict(zip("mkn", sizes, strict=True)))
    found = roofline(run_of(tmp_path, text, [("dot.1", 0, 100 * US, "convolution")], 100 * US))
    (row,) = found.matmuls.itertuples()
    assert (row.m, row.k, row.n) == sizes
    assert row.padding_waste == pytest.approx(waste)


SLICE = """HloModule jit_f, is_scheduled=true, num_partitions=1

%fused (p: bf16[64,4096,1024], i: s32[]) -> bf16[4096,1024] {
  %p = bf16[64,4096,1024]{2,1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %s = bf16[1,4096,1024]{2,1,0} dynamic-slice(%p, %i, %zero, %zero), dynamic_slice_sizes={1,4096,1024}
  ROOT %b = bf16[4096,1024]{1,0} bitcast(%s)
}

ENTRY %main (a: bf16[64,4096,1024], i: s32[]) -> bf16[4096,1024] {
  %a = bf16[64,4096,1024]{2,1,0} parameter(0)
  %i.1 = s32[] parameter(1)
  ROOT %fusion.1 = bf16[4096,1024]{1,0} fusion(bf16[64,4096,1024]{2,1,0} %a, s32[] %i.1), kind=kLoop, calls=%fused
}
"""


def test_a_slice_of_a_large_operand_is_no_impossible_rate(tmp_path: Path) -> None:
    """With the program the slice is counted; with the event's text alone how much is read is not known."""
    builder = run_builder(SLICE, [("fusion.1", 0, 25 * US, "loop fusion")], 25 * US)
    with_program = roofline(load(builder.write(tmp_path / "with")))
    assert with_program.table["hbm_bytes"].tolist() == [2 * 2 * 4096 * 1024 + 4], "and the index"
    builder["h"].drop_plane("/host:metadata")
    alone = roofline(load(builder.write(tmp_path / "alone")))
    (row,) = alone.table.itertuples()
    assert not row.above_peak
    assert (row.op, row.reason.partition(":")[0]) == ("fusion.1", "It does not read its operands as a whole")
    assert alone.table[["hbm_bytes", "bound_ps", "efficiency"]].isna().all(axis=None)
    assert alone.quality == ()
    assert alone.utilisation.hbm_utilisation == 0
    assert alone.utilisation.bound_by["unknown"] == 25 * US


def test_operands_that_can_have_been_read_as_a_whole_count(tmp_path: Path) -> None:
    builder = run_builder(SLICE, [("fusion.1", 0, 700 * US, "loop fusion")], 700 * US)
    builder["h"].drop_plane("/host:metadata")
    (row,) = roofline(load(builder.write(tmp_path))).table.itertuples()
    assert row.hbm_bytes == 65 * 2 * 4096 * 1024 + 4
    assert row.note.startswith("Operands are counted as a whole")


def test_an_upper_bound_of_flops_proves_nothing() -> None:
    fast = op_of("flash.1", 100 * US, kind="attention", flops=40e9)  # 200 us at 200 TFLOP/s
    assumed = replace(fast, cost=replace(fast.cost, upper_bound=True))
    known, upper = (roofline_frame([work], rates()).iloc[0] for work in (fast, assumed))
    assert (bool(known["above_peak"]), bool(upper["above_peak"])) == (True, False)
    assert pd.isna(known["efficiency"])
    assert pd.isna(upper["efficiency"])


def test_products_without_a_peak_have_no_bound(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 100e12, kind="TPU v9x")
    row = roofline(trace, HardwareOptions(peaks=("hbm=819GB/s",))).table.set_index("op").loc["dot.1"]
    assert row["hbm_ps"] > 0
    assert row[["bound_ps", "bound_by", "efficiency", "recoverable_ps"]].isna().all()
    assert "bf16" in row["reason"]
    both = roofline(trace, HardwareOptions(peaks=("hbm=819GB/s,bf16=200T",))).table.set_index("op").loc["dot.1"]
    assert both["efficiency"] == pytest.approx(0.5, rel=1e-3)


def test_a_wrong_file_or_edition_is_told_for_an_unknown_device_too(tmp_path: Path) -> None:
    trace = matmul_run(tmp_path, 100e12, kind="TPU v9x")
    with pytest.raises(UsageError, match="There is no edition 'x'"):
        roofline(trace, HardwareOptions(edition="x"))
    with pytest.raises(InputError, match="cannot be read"):
        roofline(trace, HardwareOptions(files=(tmp_path / "none.toml",)))


def test_a_product_that_is_stated_to_be_free_is_not_known(tmp_path: Path) -> None:
    trace = TraceBuilder()
    program = Program("jit_f", 7, MATMUL)  # its HLO is not in the file
    tpu = trace.add_host("h").add_tpu(0)
    steps, ops = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
    for step in range(4):
        steps.event(str(step), 100 * step, 100)
        ops.event("fusion.1", 100 * step, 90, meta={
            "program_id": Unsigned(program.id), "hlo_category": "convolution fusion", "flops": 0, "bytes_accessed": 0,
        })  # fmt: skip
    found = roofline(load(trace.write(tmp_path)))
    row = found.table.set_index("op").loc["fusion.1"]
    assert row["kind"] == "matmul"
    assert row[["flops", "bound_ps", "efficiency"]].isna().all()
    assert row["reason"]
    assert found.utilisation.is_lower_bound
