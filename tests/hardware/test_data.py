"""The packaged figures against the table that they were taken from, and against each other."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tpuprof import hardware
from tpuprof.hardware import Chip, Fact, Figure, lookup

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
TABLE: dict[str, dict[str, Any]] = json.loads((DATA / "hardware.json").read_text(encoding="utf-8"))["chips"]

# field of the table → (attribute of Chip, what one of its units is in SI)
FIGURES = {
    "hbm_gb_per_s": ("hbm_bandwidth", 1e9),
    "vmem_mib_per_core": ("core_vmem_bytes", 2**20),
    "cmem_mb_per_chip": ("cmem_bytes", 1e6),
    "dcn_gbps_per_chip": ("dcn_bandwidth", 1e9 / 8),
    "power_w": ("power_w", 1),
    "price_usd_per_chip_hour": ("price_usd_per_hour", 1),
    "scale_up_oneway_gb_per_s": ("scale_up_bandwidth", 1e9),
    "scale_out_oneway_gb_per_s": ("scale_out_bandwidth", 1e9),
}
ICI_FIGURES = {
    "bidi_total_gb_per_s": ("total_bandwidth", 1e9),
    "per_link_oneway_gb_per_s": ("link_bandwidth", 1e9),
    "all_reduce_pod_tb_per_s": ("pod_all_reduce", 1e12),
    "all_reduce_pod_pb_per_s": ("pod_all_reduce", 1e15),
    "bisection_tb_per_s": ("pod_bisection", 1e12),
}
FACTS = {
    "cores_per_chip": "cores_per_chip",
    "jax_devices_per_chip": "devices_per_chip",
    "sparse_cores": "sparse_cores",
    "pod_chips": "pod_chips",
    "gpus_per_scale_up_domain": "scale_up_size",
    "host": "host",
}
OTHER = {"kind", "aliases", "note", "peak_tflops", "ici", "hbm_gb", "mxu", "dcn_gbps_per_pod", "power_w_min_mean_max"}


def same(said: Figure | Fact | None, stated: dict[str, Any]) -> None:
    """Source, conflict and doubt are those of the table; its notes may have got more words."""
    assert said is not None
    assert said.source == stated["source"]
    assert said.conflict == stated.get("conflict", "")
    assert said.unverified == stated.get("unverified", False)
    assert stated.get("note", "") in said.note
    measured = stated.get("measured", "").partition(" (published")[0]
    assert measured in said.note


@pytest.mark.parametrize("name", TABLE)
def test_every_figure_of_the_table_is_there_with_value_source_and_flags(name: str) -> None:
    stated, chip = TABLE[name], hardware.chip(name)
    assert set(stated) <= {*FIGURES, *FACTS, *OTHER}
    assert chip.name == name
    assert chip.platform == stated["kind"].lower()
    assert chip.note == stated.get("note", "")
    for dtype, row in stated["peak_tflops"].items():
        if row["value"] is None:
            assert dtype not in chip.peak
            assert chip.no_peak(dtype) == row["source"]
        else:
            assert chip.peak[dtype].value == pytest.approx(row["value"] * 1e12, rel=1e-12)
            same(chip.peak[dtype], row)
    for key, (attribute, scale) in FIGURES.items():
        if stated.get(key) is not None:
            figure = getattr(chip, attribute)
            assert figure.value == pytest.approx(stated[key]["value"] * scale, rel=1e-12)
            same(figure, stated[key])
    for key, attribute in FACTS.items():
        if stated.get(key) is not None:
            assert chip.facts[attribute].value == stated[key]["value"]
            same(chip.facts[attribute], stated[key])
    if stated.get("hbm_gb") is not None:
        row = stated["hbm_gb"]
        unit = 2**30 if "(GiB)" in row["source"] else 1e9
        assert chip.hbm_bytes is not None
        assert chip.hbm_bytes.value == pytest.approx(row["value"] * unit, rel=1e-12)
        same(chip.hbm_bytes, row)


@pytest.mark.parametrize("name", [name for name, stated in TABLE.items() if stated["kind"] == "TPU"])
def test_matrix_units_links_and_power_of_tpus_are_those_of_the_table(name: str) -> None:
    stated, chip = TABLE[name], hardware.chip(name)
    if "mxu" in stated:
        found = re.match(r"(\d+) x (\d+)", stated["mxu"]["value"])
        assert found is not None
        assert (chip.mxus_per_core, chip.mxu_size) == (int(found[1]), int(found[2]))
        same(chip.facts["mxu_size"], stated["mxu"])
    for key, row in stated.get("ici", {}).items():
        assert chip.ici is not None
        if key in ICI_FIGURES:
            attribute, scale = ICI_FIGURES[key]
            figure = getattr(chip.ici, attribute)
            assert figure.value == pytest.approx(row["value"] * scale, rel=1e-12)
            same(figure, row)
        else:
            assert chip.facts[f"ici.{key}"].value == row["value"]
            same(chip.facts[f"ici.{key}"], row)
    if "power_w_min_mean_max" in stated:
        assert list(chip.facts["power_w_min_mean_max"].value) == stated["power_w_min_mean_max"]["value"]  # type: ignore[arg-type]
    if "dcn_gbps_per_pod" in stated:
        assert chip.dcn_bandwidth is not None
        assert chip.pod_chips is not None
        pod_bytes = stated["dcn_gbps_per_pod"]["value"] * 1e9 / 8
        assert chip.dcn_bandwidth.value * chip.pod_chips == pytest.approx(pod_bytes)
        assert chip.dcn_bandwidth.source == stated["dcn_gbps_per_pod"]["source"]


def figures(chip: Chip) -> list[tuple[str, Figure | Fact]]:
    """Every figure and fact of a chip, its ICI included."""
    found: list[tuple[str, Figure | Fact]] = [(f"peak.{key}", figure) for key, figure in chip.peak.items()]
    found += list(chip.facts.items())
    for owner in (chip, chip.ici):
        for field in dataclasses.fields(owner) if owner is not None else ():
            value = getattr(owner, field.name)
            found += [(field.name, value)] if isinstance(value, Figure) else []
    return found


@pytest.mark.parametrize("edition", hardware.EDITIONS)
def test_every_number_has_a_source_and_no_reference_is_left_open(edition: str) -> None:
    for chip in hardware.chips(edition=edition):
        for key, said in figures(chip):
            assert said.source.strip(), (chip.name, key)
            for text in (said.source, said.note, said.conflict, chip.note, *chip.reasons.values()):
                assert "@" not in text, (chip.name, key, text)
            if isinstance(said, Figure):
                assert said.value > 0


@pytest.mark.parametrize("edition", hardware.EDITIONS)
def test_counts_shapes_and_links_agree(edition: str) -> None:
    for chip in hardware.chips(edition=edition):
        assert chip.devices_per_chip in (1, chip.cores_per_chip), chip.name
        if chip.pod_shape is not None:
            size = 1
            for axis in chip.pod_shape:
                size *= axis
            assert chip.pod_chips == size, chip.name
        if chip.ici is not None:
            assert chip.ici.links == 2 * chip.ici.dims
            assert (chip.ici.wrap_rule == "only_16") == (chip.ici.dims == 2)
            for shape in (chip.host_shape, chip.pod_shape, chip.max_job_shape):
                assert shape is None or len(shape) == chip.ici.dims


def test_clocks_reproduce_the_peaks_that_they_were_derived_from() -> None:
    for name, doubled in (("v2", 1), ("v3", 1), ("v4", 1), ("v5e", 1), ("v5p", 1), ("v6e", 2)):
        chip = hardware.chip(name)
        assert chip.mxu_size is not None
        assert chip.mxus_per_core is not None
        assert chip.clock_hz is not None
        cells = chip.mxu_size**2 * chip.mxus_per_core * chip.cores_per_chip
        ideal = chip.peak["bf16"].value / (2 * cells * doubled)
        assert chip.clock_hz.value == pytest.approx(ideal, rel=0.005), name


def test_vmem_bandwidth_is_derived_from_hbm_and_says_so() -> None:
    v5e, v5p = hardware.chip("v5e"), hardware.chip("v5p")
    assert v5e.vmem_bandwidth is not None
    assert v5e.vmem_bandwidth.value == 22 * 819e9
    assert v5e.vmem_bandwidth.note.startswith("derived: 22 x the HBM bandwidth")
    assert not v5e.vmem_bandwidth.unverified
    assert v5p.vmem_bandwidth is not None
    assert v5p.vmem_bandwidth.unverified  # the book states the ratio for v5e
    assert hardware.chip("tpu8i").vmem_bandwidth is None
    assert hardware.chip("H100-SXM").vmem_bandwidth is None


def test_the_packaged_tables_hold_no_source_that_nothing_refers_to() -> None:
    folder = Path(lookup.__file__).with_name("data")
    for path in folder.glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        for name in tomllib.loads(text).get("sources", {}):
            assert re.search(rf"@{name}\b", text), (path.name, name)


def test_loading_takes_less_than_20_ms_of_the_processor() -> None:
    times: list[float] = []
    for _ in range(5):
        lookup._packaged.cache_clear()
        lookup._edition_entries.cache_clear()
        before = time.process_time()
        hardware.chip("v5e", edition="book-2026")
        times.append(time.process_time() - before)
    assert min(times) < 0.02


def test_importing_the_package_loads_no_hardware() -> None:
    code = "import sys, tpuprof\nassert not [m for m in sys.modules if m.startswith('tpuprof.hardware')]"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0


def test_importing_hardware_imports_nothing_heavy() -> None:
    code = (
        "import sys, tpuprof.hardware\n"
        "heavy = {'numpy', 'pandas', 'click', 'rich', 'jax', 'google'} & set(sys.modules)\nassert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0
