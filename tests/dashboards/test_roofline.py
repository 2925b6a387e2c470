"""Page Roofline: the utilisation of the report, hardware from the URL, and reasons where it is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpuprof
from tests.dashboards.harness import SAMPLES, page_test, problems, sample, sample_report, texts
from tpuprof.roofline import HardwareOptions, roofline
from tpuprof.units import format_percent

RUN = SAMPLES / "tpu_loop_async"


@pytest.mark.parametrize("name", ["tpu_loop_async", "tpu_two_hosts"])
def test_it_shows_the_roofline_of_the_report(name: str) -> None:
    report = sample_report(name)
    test = page_test("roofline", SAMPLES / name)
    assert problems(test) == []
    assert f"MFU {format_percent(report['roofline']['mfu'], 1)}" in texts(test)
    expected = roofline(sample(name)).table
    table = test.dataframe[0].value
    assert sorted(table["op"]) == sorted(expected["op"])
    recoverable = table["recoverable_ps"].dropna().tolist()
    assert recoverable == sorted(recoverable, reverse=True)
    matmuls = page_test("roofline", SAMPLES / name, table="matmuls").dataframe[0].value
    assert matmuls["shape"].tolist() == [row["shape"] for row in report["roofline"]["matmuls"]]


def test_without_hardware_it_says_how_to_give_it() -> None:
    test = page_test("roofline", SAMPLES / "cpu_demo")
    assert problems(test) == []
    shown = texts(test)
    assert "no peaks are known" in shown.replace("\\", "")
    assert "Pick the chip above" in shown
    assert not test.metric


def test_the_url_gives_a_chip_or_peaks_to_every_page() -> None:
    trace = sample("cpu_demo")
    chip = roofline(trace, HardwareOptions(chip="v5e")).utilisation
    assert f"MFU {format_percent(chip.mfu, 1)}" in texts(page_test("roofline", SAMPLES / "cpu_demo", chip="v5e"))
    peaks = {"peak": "f32=1T,bf16=1T,hbm=100GB/s"}
    used = roofline(trace, HardwareOptions(peaks=(peaks["peak"],))).utilisation
    assert used.mfu is not None
    for slug in ("roofline", "overview"):
        assert f"MFU {format_percent(used.mfu, 1)}" in texts(page_test(slug, SAMPLES / "cpu_demo", **peaks))
    test = page_test("ops", SAMPLES / "cpu_demo", **peaks)
    assert test.dataframe[0].value["roofline_efficiency"].notna().any()


@pytest.mark.parametrize(
    "wrong", [{"chip": "v99"}, {"peak": "bf16=fast"}, {"peak": "ici=1GB/s"}, {"chip": "<b>", "peak": "1e999"}]
)
def test_hardware_that_does_not_exist_is_said_and_not_used(wrong: dict[str, str]) -> None:
    test = page_test("roofline", SAMPLES / "cpu_demo", **wrong)
    assert problems(test) == []
    assert "It is not used." in texts(test)
    assert "Pick the chip above" in texts(test)


def test_filters_narrow_chart_and_table() -> None:
    test = page_test("roofline", RUN, kind="matmul")
    assert problems(test) == []
    assert set(test.dataframe[0].value["kind_label"]) == {"matmul"}
    assert "2 ops" in texts(test)  # the caption of the chart


def test_a_selected_op_shows_its_bound() -> None:
    test = page_test("roofline", RUN, op="fusion.9")
    assert problems(test) == []
    assert "No execution can take less than" in texts(test)


def test_odd_runs_are_sentences(odd: Path) -> None:
    test = page_test("roofline", odd, run="no_devices")
    assert problems(test) == []
    assert "no device work" in texts(test)
    test = page_test("roofline", odd, run="hostile_ops", op="nothing", table="x", scope="\u202e")
    assert problems(test) == []
    assert "There is no op" in texts(test)


@pytest.mark.real
def test_a_real_run_with_its_chip(real_traces: Path) -> None:
    test = page_test("roofline", real_traces, run="mi300-gemm", chip="MI300X")
    assert problems(test) == []
    used = roofline(tpuprof.load(real_traces / "mi300-gemm"), HardwareOptions(chip="MI300X")).utilisation
    assert f"MFU {format_percent(used.mfu, 1)}" in texts(test)
