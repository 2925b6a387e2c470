"""Copies from and to the host with planted rates and waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calibration.test_fit import reasons, values
from tests.roofline.made import run_of
from tpuprof.calibration import Calibration, calibrate
from tpuprof.hardware import chip

LINK = chip("v5p").pcie_bandwidth.value  # type: ignore[union-attr]
SIZE = 1 << 28
MS = 10**9
TEXT = f"""HloModule jit_f, is_scheduled=true, num_partitions=1

ENTRY %main (a: bf16[4096,1024], w: bf16[1024,3584], x: bf16[{SIZE // 2}], h: bf16[{SIZE // 2}]) -> bf16[4096,3584] {{
  %a = bf16[4096,1024]{{1,0}} parameter(0)
  %w = bf16[1024,3584]{{1,0}} parameter(1)
  %x = bf16[{SIZE // 2}]{{0}} parameter(2)
  %h = bf16[{SIZE // 2}]{{0:S(5)}} parameter(3)
  %copy-start.1 = (bf16[{SIZE // 2}]{{0:S(5)}}, bf16[{SIZE // 2}]{{0}}, u32[]{{:S(2)}}) copy-start(%x)
  %copy-start.2 = (bf16[{SIZE // 2}]{{0:S(5)}}, bf16[{SIZE // 2}]{{0}}, u32[]{{:S(2)}}) copy-start(%x)
  %copy-start.3 = (bf16[{SIZE // 2}]{{0}}, bf16[{SIZE // 2}]{{0:S(5)}}, u32[]{{:S(2)}}) copy-start(%h)
  %dot.1 = bf16[4096,3584]{{1,0}} dot(%a, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %copy-done.1 = bf16[{SIZE // 2}]{{0:S(5)}} copy-done(%copy-start.1)
  %copy-done.2 = bf16[{SIZE // 2}]{{0:S(5)}} copy-done(%copy-start.2)
  %copy-done.3 = bf16[{SIZE // 2}]{{0}} copy-done(%copy-start.3)
  ROOT %dot.2 = bf16[4096,3584]{{1,0}} dot(%a, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def fit(directory: Path, compute_ms: int, waited_ms: tuple[int, int, int], kind: str = "TPU v5p") -> Calibration:
    """A run that starts three copies, computes, and then waits for one after the other."""
    ops, at = [(f"copy-start.{number}", number - 1, 1, "copy-start") for number in (1, 2, 3)], 3
    ops.append(("dot.1", at, compute_ms * MS, "convolution"))
    at += compute_ms * MS
    for number, waited in enumerate(waited_ms, 1):
        ops.append((f"copy-done.{number}", at, waited * MS, "copy-done"))
        at += waited * MS
    ops.append(("dot.2", at, 40 * MS, "convolution"))
    return calibrate([run_of(directory, TEXT, ops, at + 50 * MS, kind=kind)])


def test_rate_and_hidden_share_are_found(tmp_path: Path) -> None:
    found = fit(tmp_path, 60, (10, 10, 0))
    # Two copies to the host are under way for 80 ms together, the one back for as long.
    both = 2 * SIZE / 0.08 / LINK
    back = SIZE / 0.08 / LINK
    one = next(each for each in found.fitted if each.constant == "offload.bandwidth_share")
    assert one.value == pytest.approx((both + back) / 2, rel=1e-6)  # the median of as many of each
    assert (one.low, one.high) == (pytest.approx(back, rel=1e-6), pytest.approx(both, rel=1e-6))
    assert values(found)["offload.hidden"] == pytest.approx(1 - 20 / 80, rel=1e-6)


def test_without_enough_computation_nothing_is_told_of_hiding(tmp_path: Path) -> None:
    found = fit(tmp_path, 20, (40, 40, 0))
    assert "longer than computation" in reasons(found)["offload.hidden"]
    assert "offload.bandwidth_share" in values(found)


def test_copies_faster_than_the_link_are_left_out(tmp_path: Path) -> None:
    found = fit(tmp_path, 10, (2, 2, 0))
    assert "faster than the link" in reasons(found)["offload.bandwidth_share"]
    assert not any(constant.startswith("offload") for constant in values(found))


def test_a_chip_whose_rate_was_measured_keeps_it_and_says_that_of_the_run(tmp_path: Path) -> None:
    found = fit(tmp_path, 60, (10, 10, 0), "TPU v6 lite")
    assert (
        "in one direction; plans take a bandwidth that was measured on v6e" in reasons(found)["offload.bandwidth_share"]
    )
    assert values(found)["offload.hidden"] == pytest.approx(0.75, rel=1e-6)
