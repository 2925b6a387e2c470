"""Editions reproduce what their documents print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpuprof import hardware
from tpuprof.errors import UsageError
from tpuprof.hardware import Chip

DATA = Path(__file__).parents[1] / "data"
EDITIONS: dict[str, dict[str, Any]] = json.loads((DATA / "scaling_book.json").read_text(encoding="utf-8"))["editions"]


def value(figure: Any) -> Any:
    assert figure is not None
    return figure.value


# printed field → what must equal it
READ: dict[str, Any] = {
    "pod_shape": lambda chip: list(chip.pod_shape),
    "hbm_bytes": lambda chip: value(chip.hbm_bytes),
    "hbm_bytes_per_s": lambda chip: value(chip.hbm_bandwidth),
    "bf16_flop_per_s": lambda chip: value(chip.peak["bf16"]),
    "bf16_flop_per_s_per_core": lambda chip: value(chip.device_peak("bf16")),  # v2: a core is a device
    "int8_op_per_s": lambda chip: value(chip.peak["int8"]),
    "fp8_flop_per_s": lambda chip: value(chip.peak["fp8"]),
    "fp4_flop_per_s": lambda chip: value(chip.peak["fp4"]),
    "fp8_or_int8_op_per_s": lambda chip: value(chip.peak.get("fp8", chip.peak["int8"])),
    "fp8_flop_per_s_in_the_transformer_chapter": lambda chip: value(chip.peak["fp8"]),
    "torus_dims": lambda chip: chip.ici.dims,
    "ici_link_one_way_bytes_per_s": lambda chip: value(chip.ici.link_bandwidth),
    "ici_link_bidirectional_bytes_per_s": lambda chip: value(chip.ici.axis_bandwidth),
    "ici_bidirectional_total_bytes_per_s": lambda chip: value(chip.ici.total_bandwidth),
    "implied_link_one_way_bytes_per_s": lambda chip: value(chip.ici.link_bandwidth),
    "ici_ports": lambda chip: chip.ici.links,
    "dcn_bytes_per_s_per_chip": lambda chip: value(chip.dcn_bandwidth),
    "pcie_bytes_per_s_per_chip": lambda chip: value(chip.pcie_bandwidth),
    "cores_per_chip": lambda chip: chip.cores_per_chip,
    "jax_devices_per_chip": lambda chip: chip.devices_per_chip,
    "vector_flop_per_s_per_core": lambda chip: value(chip.vector_flops) / chip.cores_per_chip,
    "vmem_bytes": lambda chip: value(chip.vmem_bytes),
    "chips_per_host": lambda chip: chip.chips_per_host,
    "pod_chips": lambda chip: chip.pod_chips,
    "all_reduce_pod_bytes_per_s": lambda chip: value(chip.ici.pod_all_reduce),
    "bisection_bytes_per_s": lambda chip: value(chip.ici.pod_bisection),
    "largest_job_shape": lambda chip: list(chip.max_job_shape),
    "largest_job_chips": lambda chip: chip.max_job_shape[0] * chip.max_job_shape[1] * chip.max_job_shape[2],
    "sms": lambda chip: chip.sms,
    "nvlink_egress_bytes_per_s": lambda chip: value(chip.scale_up_bandwidth),
    "gpus_per_node": lambda chip: chip.scale_up_size,
    "node_egress_bytes_per_s": lambda chip: value(chip.node_egress_bandwidth),
    "scale_out_bytes_per_s_per_gpu": lambda chip: value(chip.scale_out_bandwidth),
    "scalable_unit_gpus": lambda chip: chip.scale_out_unit_size,
    "scalable_unit_spine_bytes_per_s": lambda chip: value(chip.scale_out_unit_bandwidth),
    "smem_bytes_per_sm": lambda chip: value(chip.smem_bytes),
    "clock_boost_hz": lambda chip: value(chip.clock_hz),
}
PRINTED_ONLY = {"bf16_flop_per_s_in_the_roofline_chapter", "clock_base_hz"}  # in a note or conflict, checked below

ROWS = [
    (edition, name)
    for edition, printed in EDITIONS.items()
    for name in (*printed.get("tpu", {}), *printed.get("gpu", {}))
]


@pytest.mark.parametrize(("edition", "name"), ROWS)
def test_an_edition_gives_the_figures_of_its_document(edition: str, name: str) -> None:
    printed = {**EDITIONS[edition].get("tpu", {}), **EDITIONS[edition].get("gpu", {})}[name]
    chip = hardware.chip(name, edition=edition)
    assert chip.edition == edition
    for field, expected in printed.items():
        if expected is None or field in PRINTED_ONLY:
            continue
        if field == "host_shape":
            assert list(chip.host_shape or ()) == ([2, 2] if name == "v2" else expected)  # v2 is printed in cores
            continue
        assert READ[field](chip) == pytest.approx(expected, rel=1e-12), field


@pytest.mark.parametrize("edition", EDITIONS)
def test_prices_and_general_constants_are_those_of_the_document(edition: str) -> None:
    printed = EDITIONS[edition]
    for name, price in printed.get("prices_usd_per_chip_hour", {}).items():
        assert value(hardware.chip(name, edition=edition).price_usd_per_hour) == price
    other = printed.get("other", {})
    chip = hardware.chip("v5e", edition=edition)
    if "ici_hop_latency_s" in other:
        assert chip.ici is not None
        assert value(chip.ici.hop_latency_s) == other["ici_hop_latency_s"]
        assert value(chip.vmem_bandwidth) == other["vmem_over_hbm_bandwidth"] * value(chip.hbm_bandwidth)
        assert [chip.mxu_size] * 2 == other["matrix_unit"]
    if "matrix_unit_v6e" in other:
        assert [hardware.chip("v6e", edition=edition).mxu_size] * 2 == other["matrix_unit_v6e"]
    if "vector_unit_lanes" in other:
        lanes = other["vector_unit_lanes"][0] * other["vector_unit_lanes"][1] * other["vector_alus_per_lane"]
        assert value(chip.vector_flops) == lanes * value(chip.clock_hz)
    if "dcn_bytes_per_s_per_host" in other:
        for name in ("v5e", "v5p"):
            each = hardware.chip(name, edition=edition)
            assert value(each.dcn_bandwidth) * (each.chips_per_host or 0) == other["dcn_bytes_per_s_per_host"]


def test_editions_are_those_of_the_cases_after_the_default() -> None:
    assert list(hardware.EDITIONS) == ["datasheet", *EDITIONS]
    assert hardware.chip("v5e").edition == "datasheet"
    assert hardware.chip("v5e", edition="Book-2026 ").edition == "book-2026"


def test_what_a_document_does_not_print_keeps_its_own_source() -> None:
    chip = hardware.chip("v6e", edition="book-2025-02")
    assert EDITIONS["book-2025-02"]["tpu"]["v6e"]["dcn_bytes_per_s_per_chip"] is None
    assert chip.dcn_bandwidth == hardware.chip("v6e").dcn_bandwidth
    assert chip.peak["bf16"].source == EDITIONS["book-2025-02"]["document"]
    assert chip.peak["fp8"].source.startswith("Cloud TPU documentation")


def test_what_differs_within_a_document_is_a_conflict_or_a_note() -> None:
    h100: Chip = hardware.chip("H100", edition="book-2026")
    assert "989e12 in the roofline chapter" in h100.peak["bf16"].conflict
    assert h100.clock_hz is not None
    assert "base 1.59 GHz" in h100.clock_hz.note
    v3 = hardware.chip("v3", edition="book-2026")
    assert "these are cores" in v3.facts["host_shape"].note
    assert hardware.chip("v3").chips_per_host == 4


def test_a_chip_that_an_edition_does_not_know_is_not_filled_from_elsewhere() -> None:
    with pytest.raises(UsageError, match="The edition cloud-docs says nothing of v4") as caught:
        hardware.chip("v4", edition="cloud-docs")
    assert "v5e, v5p, v6e, tpu7x" in caught.value.hint
    assert [chip.name for chip in hardware.chips(edition="cloud-docs")] == ["v5e", "v5p", "v6e", "tpu7x"]
    with pytest.raises(UsageError, match="There is no edition 'book-1999'") as caught:
        hardware.chips(edition="book-1999")
    assert "datasheet, book-2025-02, book-2026, cloud-docs" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "edition", "hbm", "ici", "dcn"),
    [
        ("v5e", "book-2026", 240, 2190, 63040),
        ("v5p", "book-2026", 164, 2550, 73440),
        ("v6e", "book-2026", 575, 5111, 73600),
        ("tpu7x", "book-2026", 311, 12780, 184000),
        ("v4", "book-2026", 229, 3056, 44000),
    ],
)
def test_ridge_points_are_the_critical_intensities_of_the_book(
    name: str, edition: str, hbm: float, ici: float, dcn: float
) -> None:
    found = {
        r.path: r.flops_per_byte for r in hardware.ridges(hardware.chip(name, edition=edition)) if r.dtype == "bf16"
    }
    assert found["hbm"] == pytest.approx(hbm, rel=0.003)
    assert found["ici"] == pytest.approx(ici, rel=0.003)
    assert found["dcn"] == pytest.approx(dcn, rel=0.003)
