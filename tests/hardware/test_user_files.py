"""Hardware files of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpuprof import hardware
from tpuprof.errors import InputError, UsageError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(text: str, name: str = "chips.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def test_single_figures_of_a_known_chip_are_replaced(write: Write) -> None:
    path = write('[chips.v5e]\nhbm_bandwidth = "800 GiB/s"\n[chips.v5e.peak]\nint8 = 394e12\n')
    before, after = hardware.chip("v5e"), hardware.chip("v5e", files=[path])
    assert after.hbm_bandwidth is not None
    assert after.hbm_bandwidth.value == 800 * 2**30
    assert after.hbm_bandwidth.source == "user file chips.toml"
    assert after.peak["int8"].value == 394e12
    assert after.peak["bf16"] == before.peak["bf16"]
    assert after.ici == before.ici
    assert after.vmem_bandwidth is not None
    assert after.vmem_bandwidth.value == 22 * 800 * 2**30
    assert hardware.chip("v5e") == before  # nothing is remembered


def test_a_known_chip_can_be_named_by_its_device_kind(write: Write) -> None:
    path = write('[chips."TPU v5 lite"]\nclock_hz = "1.6 GHz"\naliases = ["lab chip"]\n')
    chip = hardware.find_chip("lab chip", files=[path])
    assert chip is not None
    assert chip.name == "v5e"
    assert chip.clock_hz is not None
    assert chip.clock_hz.value == 1.6e9


def test_figures_of_the_user_win_over_editions_and_later_files_over_earlier(write: Write) -> None:
    first = write("[chips.v5e]\nhbm_bandwidth = 700e9\npod_shape = [4, 4]\n", "a.toml")
    second = write("[chips.v5e]\nhbm_bandwidth = 600e9\n", "b.toml")
    chip = hardware.chip("v5e", edition="book-2026", files=[first, second])
    assert chip.hbm_bandwidth is not None
    assert chip.hbm_bandwidth.value == 600e9
    assert (chip.pod_shape, chip.pod_chips) == ((4, 4), 16)
    assert chip.peak["int8"].value == 394e12  # of the edition


def test_an_edition_without_the_chip_stays_without_it(write: Write) -> None:
    path = write("[chips.v4]\nhbm_bandwidth = 1e12\n")
    with pytest.raises(UsageError, match="The edition cloud-docs says nothing of v4"):
        hardware.chip("v4", edition="cloud-docs", files=[path])
    assert "v4" not in [chip.name for chip in hardware.chips(edition="cloud-docs", files=[path])]


NEW = """
[chips.mine]
platform = "tpu"
aliases = ["TPU v9x"]
hbm_bandwidth = { value = "2 TB/s", source = "a slide", note = "n", conflict = "1.9", unverified = true }
devices_per_chip = 2
cores_per_chip = 2
host_shape = [2, 2, 1]
[chips.mine.peak]
bf16 = "1 PFLOP/s"
[chips.mine.ici]
dims = 3
links = 6
wrap_rule = "multiples_of_4"
link_bandwidth = "100 GB/s"
"""


def test_a_new_chip(write: Write) -> None:
    path = write(NEW)
    chip = hardware.find_chip("tpu V9X", files=[path])
    assert chip is not None
    assert (chip.name, chip.platform, chip.devices_per_chip, chip.chips_per_host) == ("mine", "tpu", 2, 4)
    hbm = chip.hbm_bandwidth
    assert hbm is not None
    assert (hbm.value, hbm.source, hbm.note, hbm.conflict, hbm.unverified) == (2e12, "a slide", "n", "1.9", True)
    peak = chip.device_peak("bf16")
    assert peak is not None
    assert peak.value == 5e14
    assert chip.ici is not None
    assert (chip.ici.dims, chip.ici.links, chip.ici.hop_latency_s) == (3, 6, None)
    assert hardware.chips(files=[path])[-1] == chip
    assert hardware.chips(edition="cloud-docs", files=[path])[-1].name == "mine"
    assert hardware.find_chip("TPU v9x") is None


def test_the_example_of_the_docs_works(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    chip = hardware.chip("TPU v9x", files=[write(example)])
    assert chip.name == "mine"
    peak = chip.device_peak("bf16")
    assert peak is not None
    assert peak.value == 5e14


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chips.v5e]\nhbm_bandwith = 1e12", "'hbm_bandwith' is no key of a chip."),
        ("[chips.v5e.peak]\nbf32 = 1e12", "'peak.bf32' is no key of a chip."),
        ("[chips.v5e]\nhbm_bandwidth = -1e12", "hbm_bandwidth must be positive and finite, not -1000000000000.0."),
        ("[chips.v5e]\nhbm_bandwidth = nan", "hbm_bandwidth must be positive and finite, not nan."),
        ("[chips.v5e]\nhbm_bandwidth = '16 GiB'", "hbm_bandwidth is in B/s, not '16 GiB'."),
        ("[chips.v5e]\nhbm_bandwidth = true", "hbm_bandwidth must be a number or a text, not True."),
        ("[chips.v5e]\nhbm_bandwidth = 819", "hbm_bandwidth is 819, which is 819 B/s."),
        ("[chips.v5e]\nhbm_bandwidth = { source = 'x' }", "hbm_bandwidth has no value."),
        ("[chips.v5e]\nhbm_bandwidth = { value = 1e12, unit = 'B' }", "'unit' is no part of hbm_bandwidth."),
        ("[chips.v5e]\nhbm_bandwidth = { value = 1e12, source = 3 }", "source of hbm_bandwidth must be a text, not 3."),
        (
            "[chips.v5e]\nhbm_bandwidth = { value = 1e12, unverified = 1 }",
            "unverified of hbm_bandwidth must be true or false, not 1.",
        ),
        ("[chips.v5e]\ncores_per_chip = 1.5", "cores_per_chip must be a whole number above 0, not 1.5."),
        ("[chips.v5e]\ndevices_per_chip = 0", "devices_per_chip must be a whole number above 0, not 0."),
        ("[chips.v5e]\nmxu_size = true", "mxu_size must be a whole number above 0, not True."),
        ("[chips.v5e]\nhost_shape = [2, -2]", "host_shape must be a list of one to three sizes, not [2, -2]."),
        ("[chips.v5e]\nhost_shape = []", "host_shape must be a list of one to three sizes, not []."),
        ("[chips.v5e]\nhost_shape = '2x2'", "host_shape must be a list of one to three sizes, not '2x2'."),
        ("[chips.v5e]\npower_w_min_mean_max = [1, -2, 3]", "power_w_min_mean_max must be positive and finite, not -2."),
        ("[chips.v5e.ici]\ndims = 4", "ici.dims must be 2 or 3, not 4."),
        ("[chips.v5e.ici]\nwrap_rule = 'never'", "ici.wrap_rule is 'never'."),
        ("[chips.v5e.ici]\ntopology = 2", "ici.topology must be a text, not 2."),
        ("[chips.v5e]\npeak = 5", "peak must be a table, not 5."),
        ("[chips.v5e]\naliases = 'x'", "aliases must be a list of names."),
        ("[chips.v5e]\naliases = [5]", "5 is no name for a chip."),
        ("[chips.v5e]\naliases = [' ']", "' ' is no name for a chip."),
        ('[chips."a\\u0007b"]\nplatform = "tpu"', "'a\\x07b' is no name for a chip."),
        ("[chips.v5e]\naliases = ['v4']", "The name 'v4' of v5e already stands for v4."),
        ("[chips.v5e]\nplatform = 'npu'", "'npu' is no platform."),
        ("[chips.v5e]\nnote = 5", "note must be a text, not 5."),
        ("[chips.v5e]\nreasons = { 'peak.fp8' = 5 }", "peak.fp8 must be a text, not 5."),
        ("[chips.new]\nhbm_bandwidth = 1e12", "'new' is a new chip, so its platform must be stated."),
        ("[chips.new]\nplatform = 'tpu'\n[chips.new.ici]\ndims = 2", "The ICI of new lacks links, wrap_rule."),
        (
            "[chips.v5e]\nhost_shape = [2, 2, 1]",
            "host_shape of v5e is (2, 2, 1), but its torus has 2 dimensions.",
        ),
        ("[chips.v5e]\npod_chips = 100", "pod_shape of v5e has 256 chips, but pod_chips is 100."),
        ("[chips.v5e]\ndevices_per_chip = 2", "v5e has 2 runtime devices per chip, but 1 core."),
        ("chips = 5", "The hardware file has no chip."),
        ("[chips]", "The hardware file has no chip."),
        ("", "The hardware file has no chip."),
        ("[chips]\nv5e = 5", "a chip must be a table, not 5."),
        ("[v5e]\nhbm_bandwidth = 1e12", "'v5e' is no table of a hardware file."),
        ("[chips.v5e", "The hardware file is no TOML."),
        ("a = " + "[" * 5000, "The hardware file is no TOML."),
        ("[chips.v5e]\nhbm_bytes = " + "1" * 5000, "The hardware file is no TOML."),
        ("[chips.v5e]\nnote = '" + "x" * 1_000_000 + "'", "The hardware file is too large."),
    ],
)
def test_a_wrong_file_is_refused_with_what_and_where(write: Write, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(UsageError) as caught:
        hardware.chips(files=[path])
    assert caught.value.what == message
    assert str(path) in caught.value.where


def test_hints_name_what_was_meant(write: Write) -> None:
    with pytest.raises(UsageError) as caught:
        hardware.chips(files=[write("[chips.v5e]\nhbm_bandwith = 1e12")])
    assert "hbm_bandwidth" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        hardware.chips(files=[write("[chips.v5e.peak]\nxyz = 1e12")])
    assert caught.value.hint == "Classes of dtypes: bf16, fp16, tf32, fp32, fp64, fp8, fp4, int8, int4."


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The hardware file cannot be read: No such file") as caught:
        hardware.chip("v5e", files=[tmp_path / "none.toml"])
    assert caught.value.where.endswith("none.toml")
    with pytest.raises(InputError, match="cannot be read"):
        hardware.chip("v5e", files=[tmp_path])
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8"):
        hardware.chip("v5e", files=[binary])


def test_references_of_the_packaged_files_mean_nothing_in_others(write: Write) -> None:
    path = write("[chips.v5e]\nhbm_bandwidth = { value = 1e12, source = 'mail of @cloud' }\n")
    chip = hardware.chip("v5e", files=[path])
    assert chip.hbm_bandwidth is not None
    assert chip.hbm_bandwidth.source == "mail of @cloud"


def test_a_cpu_can_be_described(write: Write) -> None:
    path = write('[chips.desk]\nplatform = "cpu"\naliases = ["cpu"]\n[chips.desk.peak]\nfp32 = "1 TFLOP/s"\n')
    chip = hardware.find_chip("cpu", files=[path])
    assert chip is not None
    peak = hardware.matmul_peak(chip, "f32", "highest")
    assert peak.chip is not None
    assert (chip.platform, peak.chip.value, peak.passes) == ("cpu", 1e12, 1)


def test_texts_of_a_file_cannot_steer_the_terminal(write: Write) -> None:
    path = write('[chips.v5e]\nhbm_bandwidth = { value = 1e12, source = "our\\u001b]0;x\\u0007 own" }\n')
    figure = hardware.chip("v5e", files=[path]).hbm_bandwidth
    assert figure is not None
    assert figure.source == "our own"


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "chips.toml"
    path.write_bytes(b"\xef\xbb\xbf[chips.v5e]\nhbm_bandwidth = 1e12\n")
    figure = hardware.chip("v5e", files=[path]).hbm_bandwidth
    assert figure is not None
    assert figure.value == 1e12


def test_a_derived_figure_keeps_the_conflict_apart_from_its_own_value() -> None:
    tpu7x = hardware.chip("tpu7x")
    printed, device = tpu7x.peak["bf16"].conflict, tpu7x.device_peak("bf16")
    assert device is not None
    assert device.conflict == f"{printed} for the figure before that"
    assert device.times(2, "twice").conflict == device.conflict
