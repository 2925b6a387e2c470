"""Real traces against figures worked out by hand or published."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tpuprof.report import build_report
from tpuprof.report.collectives import collective_rows
from tpuprof.roofline import HardwareOptions, roofline

pytestmark = pytest.mark.real


def test_a_product_on_v5e_against_both_peaks(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v5e-1-matmul")
    published, stated = roofline(trace), roofline(trace, HardwareOptions(from_trace=True))
    for found, peak in ((published, 197e12), (stated, 202.7e12)):
        row = found.table.set_index("op").loc["fusion"]
        assert (row["flops"], row["hbm_bytes"]) == (268_435_456, 1_048_576)
        # Two inputs and the output of 512 KiB: one of them is in VMEM.
        assert row["compute_ps"] == pytest.approx(268_435_456 / peak * 1e12, rel=1e-3)
        assert row["bound_by"] == "compute"
        assert row["efficiency"] == pytest.approx(268_435_456 / peak * 1e12 / row["mean_ps"], rel=1e-3)
        assert [entry.id for entry in found.quality] == ["peaks_disagree"]
        assert "202.7 TFLOP/s in the trace, 197 published" in found.quality[0].message
    assert published.matmuls["shape"].tolist() == ["512 x 512 x 512 bf16 -> bf16"]


def test_loop_fusions_and_pairs_on_v6e(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    found = roofline(trace)
    fusions = found.table[found.table["op"].str.startswith("broadcast_add_fusion")]
    assert len(fusions) == 3
    assert fusions["achieved_hbm"].between(1.31e12, 1.36e12).all()
    assert (fusions["bound_by"] == "hbm").all()
    assert found.rates.link("hbm").value == pytest.approx(1.638e12)
    assert fusions["efficiency"].between(0.80, 0.83).all()
    (reduce,) = collective_rows(trace, found)
    assert reduce["predicted_ps"] == pytest.approx(119.3e9, rel=1e-3)
    assert reduce["transfer_ps"] == pytest.approx(121.7e9, rel=1e-3)
    assert (reduce["count"], reduce["participants"], reduce["regime"]) == (12, 2, "line")
    assert reduce["bound_fraction"] == pytest.approx(0.980, abs=0.001)
    assert found.place.where.n_chips == 8, "four of eight were traced"


def test_a_prefill_on_v7x_is_costed_from_what_the_trace_states(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "v7x-2-prefill")
    unknown = roofline(trace)
    assert unknown.hardware.chip is None
    assert unknown.utilisation.mfu is None
    found = roofline(trace, HardwareOptions(chip="tpu7x"))
    products = found.table[found.table["kind"] == "matmul"]
    assert products["flops"].notna().all()
    assert set(products["cost_source"]) == {"trace"}
    assert (products["efficiency"].dropna() <= 1).all()
    largest = products.iloc[0]
    assert largest["bound_by"] == "compute"
    assert largest["efficiency"] == pytest.approx(0.638, abs=0.005)
    used = found.utilisation
    assert used.is_lower_bound
    assert used.without_cost_fraction == pytest.approx(0.254, abs=0.0005)
    assert used.mfu == pytest.approx(0.4137, abs=0.001)
    assert used.peak_flops == pytest.approx(2307e12 / 2)
    assert not any(entry.severity == "error" for entry in found.quality)
    section = build_report(trace, [], HardwareOptions(chip="tpu7x"))["roofline"]
    assert section["mfu_is_lower_bound"]


def test_gemms_on_mi300_with_the_chip_given(real_traces: Path) -> None:
    trace = tpuprof.load(real_traces / "mi300-gemm")
    assert roofline(trace).utilisation.mfu is None
    found = roofline(trace, HardwareOptions(chip="MI300X"))
    first = found.matmuls.iloc[0]
    assert (first["m"], first["k"], first["n"]) == (8192, 4096, 8192)
    assert first["achieved_flops"] == pytest.approx(2 * 8192 * 4096 * 8192 / 611e-6, rel=1e-3)
    assert first["efficiency"] == pytest.approx(0.688, abs=0.002)
    assert first[["padding_waste"]].isna().all(), "no matrix unit of known size"
    assert found.utilisation.without_cost_fraction == 0
