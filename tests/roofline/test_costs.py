"""Where costs come from: HLO, the text of an event, what the trace states; and which hardware is taken."""

from __future__ import annotations

from typing import Any

import pytest

from tpuprof.hlo import parse_instruction_text
from tpuprof.roofline.costs import ProgramCosts, op_cost
from tpuprof.roofline.hardware import HardwareOptions, run_hardware
from tpuprof.tables.opclass import OpClass
from tpuprof.tables.rows import Device, OpInfo
from tpuprof.tables.stated import StatedCost

FUSION = "%fusion.1 = bf16[1024,512]{1,0} fusion(bf16[1024,256]{1,0} %a, bf16[256,512]{1,0} %b), kind=kOutput, calls=%f"
KERNEL = '%k.1 = bf16[64,64]{1,0} custom-call(bf16[64,64]{1,0} %a), custom_call_target="tpu_custom_call"'
DOT = (
    "%dot.1 = bf16[64,16]{1,0} dot(bf16[64,32]{1,0} %a, bf16[32,16]{1,0} %b), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)


def cost(text: str | None, kind: str, stated: StatedCost | None = None) -> Any:
    instruction = None if text is None else parse_instruction_text(text)
    info = OpInfo("op", OpClass(kind, "hlo"), instruction=instruction, stated=stated)
    return op_cost([info], ProgramCosts())


def test_a_lone_product_tells_its_flops() -> None:
    found = cost(DOT, "matmul")
    assert (found.flops, found.source) == (2 * 64 * 32 * 16, "hlo")
    assert found.bytes == {"hbm": 2 * (64 * 32 + 32 * 16 + 64 * 16)}


def test_a_lone_fusion_needs_what_the_trace_states() -> None:
    alone = cost(FUSION, "matmul")
    assert alone.flops is None
    assert alone.reason
    stated = cost(FUSION, "matmul", StatedCost(flops=2 * 1024 * 256 * 512 + 100, bytes_accessed=10**9))
    assert (stated.flops, stated.matmul_flops, stated.source) == (268_435_556, 268_435_556, "trace")
    assert stated.by_dtype == {"bf16": 268_435_556}
    assert stated.bytes == {"hbm": 2 * (1024 * 256 + 256 * 512 + 1024 * 512)}
    assert stated.note


def test_stated_work_of_an_elementwise_fusion_is_no_product() -> None:
    found = cost(FUSION, "elementwise", StatedCost(flops=1000))
    assert (found.flops, found.matmul_flops, found.vector_flops, dict(found.by_dtype)) == (1000, 0, 1000, {})


def test_no_more_bytes_than_the_compiler_counts() -> None:
    found = cost(FUSION, "elementwise", StatedCost(flops=1000, bytes_accessed=5000))
    assert found.bytes == {"hbm": 5000}
    exact = cost(FUSION, "elementwise", StatedCost(flops=1000, bytes=(("hbm", 700), ("vmem", 30))))
    assert exact.bytes == {"hbm": 700, "vmem": 30}


def test_zeros_stated_for_a_kernel_are_no_cost() -> None:
    for text in (KERNEL, None):
        found = cost(text, "custom_kernel", StatedCost(flops=0, bytes_accessed=0))
        assert found.flops is None
        assert found.reason
    known = cost(KERNEL, "custom_kernel", StatedCost(flops=77, bytes_accessed=10))
    assert (known.flops, known.source) == (77, "trace")


def test_nothing_known_has_a_reason() -> None:
    found = cost(None, "matmul")
    assert (found.flops, found.bytes, found.source) == (None, None, None)
    assert found.reason


def device(kind: str | None, platform: str = "tpu", **stats: Any) -> Device:
    return Device("h/TPU:0", "h", "/device:TPU:0", platform, 0, kind, stats)


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ([], "No device op was recorded."),
        ([device(None, "cpu")], "The run is on CPUs"),
        ([device(None)], "does not say which device"),
        ([device("TPU v9x")], "TPU v9x is not a known device"),
        ([device("TPU v4"), device("TPU v5 lite")], "of several kinds: TPU v4, TPU v5 lite"),
    ],
)
def test_why_there_is_no_hardware(devices: list[Device], reason: str) -> None:
    found = run_hardware(devices)
    assert found.chip is None
    assert reason in found.reason
    given = run_hardware(devices, HardwareOptions(chip="v5e"))
    assert given.chip is not None
    assert given.reason == ""


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), 1e30, "197", True, None])
def test_stated_peaks_that_are_none(value: Any) -> None:
    found = run_hardware([device("TPU v5 lite", peak_teraflops_per_second=value)])
    assert found.stated == {}
    assert found.quality == ()


def test_stated_peaks_that_differ_between_devices_are_not_taken() -> None:
    devices = [device("TPU v5 lite", peak_teraflops_per_second=x) for x in (197.0, 200.0)]
    assert run_hardware(devices).stated == {}


def test_two_per_cent_are_no_disagreement() -> None:
    assert run_hardware([device("TPU v5 lite", peak_teraflops_per_second=197 * 1.0199)]).quality == ()
    (entry,) = run_hardware([device("TPU v5 lite", peak_teraflops_per_second=197 * 1.021)]).quality
    assert entry.id == "peaks_disagree"
    assert entry.scope == {"bf16": {"trace": pytest.approx(197e12 * 1.021), "table": 197e12}}
