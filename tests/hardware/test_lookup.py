"""Names, aliases and device kinds; chips and runtime devices."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof import hardware
from tpuprof.errors import UsageError
from tpuprof.hardware import Chip, Figure


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TPU v2", "v2"),
        ("TPU v3", "v3"),
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5e", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v5p", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("TPU v6e", "v6e"),
        ("TPU7x", "tpu7x"),
        ("TPU8i", "tpu8i"),
        ("TPU8t", "tpu8t"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB-SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA H200", "H200-SXM"),
        ("NVIDIA B200", "B200-SXM"),
        ("NVIDIA GB200", "GB200"),
        ("Tesla V100-SXM2-32GB", "V100-SXM-32GB"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI250X", "MI250X"),
    ],
)
def test_device_kinds_of_traces(kind: str, name: str) -> None:
    for spelled in (kind, kind.lower(), kind.upper(), f" {kind} ", kind.replace(" ", "_"), kind.replace("-", " ")):
        found = hardware.find_chip(spelled)
        assert found is not None, spelled
        assert found.name == name
        assert hardware.chip(spelled) == found


@pytest.mark.parametrize("word", ["v5litepod", "Trillium", "v4p", "ironwood", "V7X", "h100", "a100", "GB200-NVL72"])
def test_other_names_are_known_too(word: str) -> None:
    assert hardware.chip(word).name in {"v5e", "v6e", "v4", "tpu7x", "H100-SXM", "A100-80GB-SXM", "GB200"}


def test_every_name_and_alias_finds_its_own_chip() -> None:
    for chip in hardware.chips():
        for name in (chip.name, *chip.aliases):
            assert hardware.chip(name) == chip


@pytest.mark.parametrize(
    "kind",
    [None, "", "TPU v9x", "cpu", "TFRT_CPU_0", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 80GB HBM2", "TPU", "v5", "gfx942"],
)
def test_an_unknown_device_is_null_and_never_a_similar_one(kind: str | None) -> None:
    assert hardware.find_chip(kind) is None


@given(st.text(max_size=30))
def test_no_text_breaks_the_search(text: str) -> None:
    found = hardware.find_chip(text)
    if found is None:
        with pytest.raises(UsageError):
            hardware.chip(text)
    else:
        assert hardware.chip(text) == found


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(UsageError, match="There is no chip 'v6'") as caught:
        hardware.chip("v6")
    assert "v6e" in caught.value.hint
    assert "--hardware FILE" in caught.value.hint
    with pytest.raises(UsageError, match="There is no chip 'zzzzzzzzzz'") as caught:
        hardware.chip("zzzzzzzzzz")
    assert "Chips: v2, v3, v4" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        hardware.chip("x" * 100_000)
    assert len(str(caught.value)) < 1000


def test_an_architecture_that_several_gpus_share_is_no_chip() -> None:
    with pytest.raises(UsageError, match="'gfx942' stands for several chips: MI300X, MI325X, MI300A") as caught:
        hardware.chip("gfx942")
    assert caught.value.hint == "Name one of MI300X, MI325X."


def test_what_to_say_of_an_unknown_device() -> None:
    assert hardware.unknown_device("TPU v9x").startswith("TPU v9x is not a known device, so its peaks are unknown.")
    assert "--peak" in hardware.unknown_device("TPU v9x")
    assert "does not say which device" in hardware.unknown_device(None)


# chip → (runtime devices per chip, bf16 FLOP/s and HBM B/s of one)
DEVICES = {
    "v2": (2, 23e12, 358e9),
    "v3": (2, 61.5e12, 450e9),
    "v4": (1, 275e12, 1.2e12),
    "v5e": (1, 197e12, 819e9),
    "v5p": (1, 459e12, 2.765e12),
    "v6e": (1, 918e12, 1.638e12),
    "tpu7x": (2, 1153.5e12, 3.69e12),
    "tpu8i": (2, 550.5e12, 4.3e12),
    "H100-SXM": (1, 989e12, 3.35e12),
    "MI250X": (2, 191.5e12, 1.6e12),
}


@pytest.mark.parametrize("name", DEVICES)
def test_figures_of_one_runtime_device(name: str) -> None:
    count, flops, bandwidth = DEVICES[name]
    chip = hardware.chip(name)
    assert chip.devices_per_chip == count
    peak, hbm = chip.device_peak("bf16"), chip.device_hbm_bandwidth
    assert peak is not None
    assert hbm is not None
    assert peak.value == pytest.approx(flops)
    assert hbm.value == pytest.approx(bandwidth)
    assert ("runtime devices" in peak.note) == (count > 1)
    assert peak.source == chip.peak["bf16"].source


def test_memory_of_cores_devices_and_chips() -> None:
    v5p, tpu7x, v5e = hardware.chip("v5p"), hardware.chip("tpu7x"), hardware.chip("v5e")
    values = [
        (v5p.core_vmem_bytes, 64 * 2**20),
        (v5p.vmem_bytes, 128 * 2**20),
        (v5p.device_vmem_bytes, 128 * 2**20),  # both cores are one device
        (tpu7x.vmem_bytes, 128 * 2**20),
        (tpu7x.device_vmem_bytes, 64 * 2**20),
        (tpu7x.device_hbm_bytes, 96 * 2**30),
        (tpu7x.device_hbm_usable_bytes, 94.74 * 2**30),
        (v5e.device_vmem_bytes, 128 * 2**20),
        (v5p.device_vector_flops, 1.44e13),
        (tpu7x.device_vmem_bandwidth, 11 * 7.38e12),
    ]
    for figure, expected in values:
        assert figure is not None
        assert figure.value == pytest.approx(expected)
    assert hardware.chip("H100-SXM").vmem_bytes is None
    assert hardware.chip("H100-NVL").device_hbm_bytes is None


def test_chips_can_be_keys_and_cross_process_borders() -> None:
    chip = hardware.chip("v5e")
    assert {chip: 1}[hardware.chip("TPU v5 lite")] == 1
    assert len({hardware.chip("v5e", edition=edition) for edition in hardware.EDITIONS}) == len(hardware.EDITIONS)
    assert pickle.loads(pickle.dumps(chip)) == chip


def test_bandwidth_of_an_axis_is_that_of_both_directions() -> None:
    ici = hardware.chip("v5p").ici
    assert ici is not None
    assert ici.link_bandwidth is not None
    assert ici.axis_bandwidth is not None
    assert ici.axis_bandwidth.value == 2 * ici.link_bandwidth.value == 180e9


def test_hosts_and_nodes() -> None:
    assert [hardware.chip(name).chips_per_host for name in ("v3", "v4", "v5e", "v6e", "tpu7x")] == [4, 4, 8, 8, 4]
    assert hardware.chip("tpu8i").chips_per_host is None
    node = hardware.chip("H100").node_egress_bandwidth
    assert node is not None
    assert node.value == 400e9
    assert hardware.chip("MI300X").node_egress_bandwidth is None


def test_ridge_points_hold_for_chips_and_devices_alike() -> None:
    chip = hardware.chip("tpu7x")
    for ridge in hardware.ridges(chip):
        assert ridge.flops_per_byte == ridge.peak.value / ridge.bandwidth.value
        assert hardware.path_bandwidth(chip, ridge.path) == ridge.bandwidth
    hbm = next(r for r in hardware.ridges(chip) if (r.dtype, r.path) == ("bf16", "hbm"))
    peak, bandwidth = chip.device_peak("bf16"), chip.device_hbm_bandwidth
    assert peak is not None
    assert bandwidth is not None
    assert hbm.flops_per_byte == pytest.approx(peak.value / bandwidth.value)
    assert hardware.ridges(Chip("x", "tpu", "user", peak={"bf16": Figure(1e12, "FLOP/s", "s")})) == ()
