"""Quantities as people write them, and ``--peak``."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof import hardware
from tpuprof.errors import UsageError
from tpuprof.hardware.quantity import parse_quantity


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (197e12, "FLOP/s", 197e12),
        (197_000_000_000_000, "FLOP/s", 197e12),
        ("197e12", "FLOP/s", 197e12),
        ("197T", "FLOP/s", 197e12),
        ("197 TFLOP/s", "FLOP/s", 197e12),
        ("197 TFLOPS", "FLOP/s", 197e12),
        ("393 TOPS", "FLOP/s", 393e12),
        ("1.8P", "FLOP/s", 1.8e15),
        ("819GB/s", "B/s", 819e9),
        ("800 GiB/s", "B/s", 800 * 2**30),
        ("819 GBps", "B/s", 819e9),
        ("50 Gb/s", "B/s", 6.25e9),
        ("100Gbps", "B/s", 12.5e9),
        ("400 Gbit/s", "B/s", 50e9),
        (".5 TB/s", "B/s", 5e11),
        ("5.E2 GB/s", "B/s", 5e11),
        ("16 GiB", "B", 16 * 2**30),
        ("16GB", "B", 16e9),
        ("1.5 GHz", "Hz", 1.5e9),
        ("1 us", "s", 1e-6),
        ("0.5 µs", "s", 5e-7),
        ("700 W", "W", 700),
        ("$4.2", "USD/h", 4.2),
        ("4.2 USD/h", "USD/h", 4.2),
        (" 4.2 $/h ", "USD/h", 4.2),
    ],
)
def test_quantities(value: object, unit: str, expected: float) -> None:
    assert parse_quantity(value, unit, "it") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("16 GiB", "B/s", "it is in B/s, not '16 GiB'. 'GiB' is a unit of another quantity (B)."),
        ("819 GB/s", "B", "it is in B, not '819 GB/s'. 'GB/s' is a unit of another quantity (B/s)."),
        ("197 TFLOP/s", "B/s", "it is in B/s, not '197 TFLOP/s'. 'TFLOP/s' is a unit of another quantity (FLOP/s)."),
        ("819 gb/s", "B/s", "it is in B/s, not '819 gb/s'. 'gb/s' is no known unit."),
        ("1,5 TB/s", "B/s", "it is in B/s, not '1,5 TB/s'. ',5 TB/s' is no known unit."),
        ("fast", "B/s", "it: 'fast' is no quantity."),
        ("", "B", "it: '' is no quantity."),
        ("1" * 100_000, "B", f"it: '{'1' * 64}' is no quantity."),
        ("nan", "B", "it: 'nan' is no quantity."),
        ("-5 GB", "B", "it must be positive and finite, not -5 GB."),
        ("1e999", "B", "it must be positive and finite, not 1e999."),
        (0, "B", "it must be positive and finite, not 0."),
        (-1.0, "Hz", "it must be positive and finite, not -1.0."),
        (math.nan, "B", "it must be positive and finite, not nan."),
        (math.inf, "B", "it must be positive and finite, not inf."),
        (True, "B", "it must be a number or a text, not True."),
        (None, "B", "it must be a number or a text, not None."),
        ([1], "B", "it must be a number or a text, not [1]."),
        (197, "FLOP/s", "it is 197, which is 197 FLOP/s. No accelerator is that slow; a prefix seems to be missing."),
        ("819", "B/s", "it is 819, which is 819 B/s. No accelerator is that slow; a prefix seems to be missing."),
    ],
)
def test_what_is_no_quantity_is_refused_with_a_reason(value: object, unit: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_quantity(value, unit, "it", where="file")
    assert str(caught.value).startswith(f"file: {message} Write a number in {unit}")


def test_a_whole_number_that_no_float_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="must be positive and finite"):
        parse_quantity(10**400, "B", "it")


@given(st.floats(1, 999), st.sampled_from(["", "k", "M", "G", "T"]))
def test_a_prefix_multiplies(number: float, prefix: str) -> None:
    scale = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[prefix]
    assert parse_quantity(f"{number!r} {prefix}B", "B", "it") == pytest.approx(number * scale)


@given(st.text(max_size=20))
def test_no_text_ends_in_another_error(text: str) -> None:
    try:
        number = parse_quantity(text, "B/s", "it")
    except UsageError:
        return
    assert number >= 1e6


def test_a_number_alone_is_the_bf16_peak() -> None:
    peaks = hardware.parse_peaks(["197e12"])
    assert {key: figure.value for key, figure in peaks.figures.items()} == {"peak.bf16": 197e12}
    assert peaks.figures["peak.bf16"].source == "given by --peak"


def test_several_figures_in_one_text_or_many() -> None:
    texts = ["bf16=197T,hbm=819GB/s", " int8 = 394 TOPS ", "f8e4m3fn=1P"]
    assert {key: figure.value for key, figure in hardware.parse_peaks(texts).figures.items()} == {
        "peak.bf16": 197e12,
        "hbm_bandwidth": 819e9,
        "peak.int8": 394e12,
        "peak.fp8": 1e15,
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["l2=1TB/s"], "'l2' is no figure that can be given."),
        (["bf16=1T,bf16=2T"], "bf16 is given twice."),
        (["1T", "bfloat16=2T"], "bf16 is given twice."),
        ([""], "bf16: '' is no quantity."),
        (["bf16="], "bf16: '' is no quantity."),
        (["bf16=1T,"], "bf16: '' is no quantity."),
        (["hbm=16GiB"], "hbm is in B/s, not '16GiB'."),
        (["197"], "bf16 is 197, which is 197 FLOP/s."),
        (["=5T"], "'' is no figure that can be given."),
        (["s32=5T"], "'s32' is no figure that can be given."),
    ],
)
def test_a_wrong_peak_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        hardware.parse_peaks(texts)
    assert caught.value.what == message
    assert caught.value.where == "--peak"


def test_peaks_are_of_one_runtime_device() -> None:
    chip = hardware.parse_peaks(["bf16=1000T,hbm=3TB/s,ici=95GB/s"]).over(hardware.chip("tpu7x"))
    peak, bandwidth = chip.device_peak("bf16"), chip.device_hbm_bandwidth
    assert peak is not None
    assert bandwidth is not None
    assert (peak.value, bandwidth.value) == (1000e12, 3e12)
    assert chip.peak["bf16"].value == 2000e12
    assert chip.ici is not None
    assert chip.ici.link_bandwidth is not None
    assert chip.ici.link_bandwidth.value == 95e9  # a link is a link, whatever shares it
    assert chip.peak["fp8"] == hardware.chip("tpu7x").peak["fp8"]


def test_peaks_make_a_chip_of_an_unknown_device() -> None:
    chip = hardware.parse_peaks(["2T"]).over(None, name="TPU v9x")
    assert (chip.name, chip.devices_per_chip, chip.hbm_bandwidth) == ("TPU v9x", 1, None)
    peak = chip.device_peak("bf16")
    assert peak is not None
    assert peak.value == 2e12
    with pytest.raises(UsageError, match="The ICI links of TPU v9x are not known") as caught:
        hardware.parse_peaks(["ici=45GB/s"]).over(None, name="TPU v9x")
    assert "--hardware" in caught.value.hint
