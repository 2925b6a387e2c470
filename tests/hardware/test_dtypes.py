"""Classes of dtypes, and the rate that matmuls of a dtype reach."""

from __future__ import annotations

import dataclasses

import pytest

from tpuprof import hardware
from tpuprof.errors import UsageError
from tpuprof.hardware import Figure
from tpuprof.hlo.cost import mxu_passes
from tpuprof.perfmodel import rates_of


@pytest.mark.parametrize(
    ("dtypes", "kind"),
    [
        (("bf16", "bfloat16", "BF16"), "bf16"),
        (("f16", "float16", "fp16"), "fp16"),
        (("f32", "float32", "fp32"), "fp32"),
        (("f64", "float64"), "fp64"),
        (
            (
                "fp8",
                "f8e4m3fn",
                "f8e5m2",
                "f8e4m3",
                "f8e3m4",
                "f8e4m3b11fnuz",
                "f8e4m3fnuz",
                "f8e5m2fnuz",
                "f8e8m0fnu",
                "float8_e4m3fn",
                "float8_e4m3b11fnuz",
                "float8_e8m0fnu",
                "e4m3",
            ),
            "fp8",
        ),
        (("fp4", "f4e2m1fn", "float4_e2m1fn"), "fp4"),
        (("s8", "u8", "int8", "uint8"), "int8"),
        (("s4", "u4", "int4", "uint4"), "int4"),
        (("s32", "u32", "s16", "pred", "c64", "s2", "token", "", "bf161", "xs8", "s88"), None),
    ],
)
def test_class_of_a_dtype(dtypes: tuple[str, ...], kind: str | None) -> None:
    assert [hardware.peak_class(dtype) for dtype in dtypes] == [kind] * len(dtypes)


@pytest.mark.parametrize(("precision", "passes"), [("default", 1), ("high", 3), ("highest", 6), ("HIGHEST", 6)])
def test_float32_on_tpus_takes_passes_of_bf16(precision: str, passes: int) -> None:
    peak = hardware.matmul_peak(hardware.chip("tpu7x"), "f32", precision)
    assert peak.chip is not None
    assert peak.device is not None
    assert peak.passes == passes
    assert peak.chip.value == pytest.approx(2307e12 / passes)
    assert peak.device.value == pytest.approx(2307e12 / passes / 2)
    words = "1 bf16 pass " if passes == 1 else f"{passes} bf16 passes "
    assert peak.assumption == f"float32 matmuls run as {words}at precision {precision.lower()}."
    assert peak.reason == ""


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UsageError, match="'tf32' is no precision") as caught:
        hardware.matmul_peak(hardware.chip("v5e"), "f32", "tf32")
    assert caught.value.hint == "Precisions: default, high, highest."


@pytest.mark.parametrize(
    ("name", "dtype", "flops"),
    [
        ("v5p", "f8e4m3fn", 459e12),  # as the table says: no gain from fp8
        ("v6e", "f8e5m2", 918e12),
        ("tpu7x", "f8e4m3fn", 4614e12),
        ("v5e", "s8", 393e12),
        ("v5e", "u4", 788e12),
        ("v4", "s8", 275e12),
        ("H100-SXM", "f8e4m3fn", 1978e12),
        ("B200-SXM", "f4e2m1fn", 9000e12),
        ("v5e", "bf16", 197e12),
    ],
)
def test_rates_are_those_of_the_table(name: str, dtype: str, flops: float) -> None:
    peak = hardware.matmul_peak(hardware.chip(name), dtype)
    assert peak.chip is not None
    assert peak.chip.value == flops
    assert (peak.passes, peak.assumption, peak.reason) == (1, "", "")


@pytest.mark.parametrize(
    ("name", "dtype", "reason"),
    [
        ("v5e", "f8e4m3fn", "No source states a peak of v5e for fp8."),
        ("v4", "s4", "No source states a peak of v4 for int4."),
        ("v5e", "f16", "No source states a peak of v5e for fp16."),
        ("H100-SXM", "f32", "No source states a peak of H100-SXM for fp32."),
        ("v5e", "s32", "There is no class of matrix units for s32."),
        ("v3", "f64", "No source states a peak of v3 for fp64."),
    ],
)
def test_no_peak_is_invented(name: str, dtype: str, reason: str) -> None:
    chip = hardware.chip(name)
    peak = hardware.matmul_peak(chip, dtype)
    assert (peak.chip, peak.device, peak.reason) == (None, None, reason)
    assert chip.device_peak(dtype) is None
    assert chip.no_peak(dtype) == reason


def test_the_table_says_why_tpu7x_has_no_int8_peak_and_an_edition_may_have_one() -> None:
    assert "lists 0 (not available)" in hardware.matmul_peak(hardware.chip("tpu7x"), "s8").reason
    printed = hardware.chip("tpu7x", edition="book-2026")
    assert printed.no_peak("s8") == ""
    assert printed.reasons == {}
    assert printed.peak["int8"].value == 4.61e15


def test_16_bit_floats_of_gpus_have_one_rate() -> None:
    peak = hardware.matmul_peak(hardware.chip("A100"), "f16")
    assert peak.chip is not None
    assert peak.chip.value == 312e12
    assert peak.assumption == "float16 matmuls run at the rate of bf16."


def test_float32_of_gpus_runs_as_tf32_where_that_peak_is_known() -> None:
    known = dataclasses.replace(hardware.chip("A100"), peak={"tf32": Figure(156e12, "FLOP/s", "test")})
    peak = hardware.matmul_peak(known, "f32")
    assert peak.chip is not None
    assert peak.chip.value == 156e12
    assert "tf32" in peak.assumption
    assert hardware.matmul_peak(known, "f32", "highest").chip is None


def test_a_float32_peak_that_was_given_counts() -> None:
    given = hardware.parse_peaks(["f32=50T"]).over(hardware.chip("v5e"))
    peak = hardware.matmul_peak(given, "f32", "highest")
    assert peak.chip is not None
    assert (peak.chip.value, peak.passes) == (50e12, 1)


def test_float32_without_a_bf16_peak_is_unknown() -> None:
    bare = dataclasses.replace(hardware.chip("v5e"), peak={})
    peak = hardware.matmul_peak(bare, "f32", "high")
    assert (peak.chip, peak.reason) == (None, "No source states a peak of v5e for bf16.")


@pytest.mark.parametrize(("key", "passes"), [("f32", 1), ("f32@high", 3), ("f32@highest", 6), ("f32@bf16_x9", 9)])
def test_cost_analysis_and_rates_count_the_same_passes(key: str, passes: int) -> None:
    v5e = hardware.chip("v5e")
    rate = rates_of(v5e).matmul_rate(key).value
    assert rate == pytest.approx(v5e.peak["bf16"].value / passes)
    assert mxu_passes(key) == passes
