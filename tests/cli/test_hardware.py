"""The command ``tpuprof hardware``."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tpuprof import hardware
from tpuprof.report.hardware import format_figure


def test_the_list_has_every_chip(run: Run) -> None:
    code, out, err = run("hardware")
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines()[2:] if line.startswith("  ")]
    assert names[: len(hardware.chips())] == [chip.name for chip in hardware.chips()]
    row = next(line for line in out.splitlines() if line.split()[:1] == ["v5p"])
    assert row.split()[1:3] == ["459", "TFLOP/s"]
    assert "95 GiB" in row


def test_the_list_as_data_is_raw_and_null_where_unknown(run: Run) -> None:
    code, out, _ = run("hardware", "--json")
    document = json.loads(out)
    assert (code, document["schema_version"], document["command"], document["edition"]) == (
        0,
        1,
        "hardware",
        "datasheet",
    )
    rows = {row["name"]: row for row in document["chips"]}
    assert rows["tpu7x"]["peak"] == {"bf16": 2307e12, "fp8": 4614e12}
    assert rows["tpu7x"]["devices_per_chip"] == 2
    assert rows["H100-NVL"]["hbm_bytes"] is None
    assert rows["v5e"]["link_bandwidth"] == 45e9
    assert rows["H100-SXM"]["link_bandwidth"] == 450e9
    table = list(csv.DictReader(io.StringIO(run("hardware", "--format", "csv")[1])))
    assert [row["name"] for row in table] == list(rows)
    assert float(table[3]["peak.bf16"]) == 197e12
    assert table[0]["price_usd_per_hour"] == ""


def test_a_page_shows_sources_conflicts_and_what_is_unverified(run: Run) -> None:
    code, out, _ = run("hardware", "tpu V5 LITE", "--no-color")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("v5e (tpu), edition datasheet; also TPU v5 lite")
    row = next(line for line in lines if line.split()[:1] == ["hbm_bandwidth"])
    assert row.split()[1:3] == ["819", "GB/s"]
    assert "conflict" in row
    number = row.split()[3]
    text = " ".join(" ".join(lines).split())
    assert f"{number} Cloud TPU documentation, v5e page (older table); newer table says 800 GiBps" in text
    assert "hbm_bandwidth: elsewhere 820 in jax-ml/jax" in text
    assert "per device" not in text
    clock = next(line for line in run("hardware", "v2")[1].splitlines() if line.split()[:1] == ["clock_hz"])
    assert "unverified" in clock


def test_a_page_shows_devices_where_a_chip_has_several_and_why_a_peak_is_missing(run: Run) -> None:
    out = run("hardware", "tpu7x")[1]
    row = next(line for line in out.splitlines() if line.split()[:1] == ["peak.bf16"])
    assert row.split()[1:5] == ["2.307", "PFLOP/s", "1.153", "PFLOP/s"]
    missing = next(line for line in out.splitlines() if line.split()[:1] == ["peak.int8"])
    assert missing.split()[1] == "n/a"
    assert "peak.int8: jax-ml/jax jax/_src/tpu_info.py (2026-08) lists 0 (not available)" in out


def test_a_page_shows_ridge_points(run: Run) -> None:
    out = run("hardware", "v5e", "--edition", "book-2026")[1]
    head, row = out.partition("Ridge points")[2].splitlines()[1:3]
    assert head.split() == ["dtype", "hbm", "vmem", "ici", "dcn", "pcie"]
    assert row.split() == ["bf16", "240", "10.9", "2,189", "63,040", "12,312"]
    gpu = run("hardware", "H100")[1].partition("Ridge points")[2]
    assert gpu.splitlines()[1].split() == ["dtype", "hbm", "scale", "up", "scale", "out"]
    assert "ici" not in gpu


def test_a_page_as_data(run: Run) -> None:
    document = json.loads(run("hardware", "tpu7x", "--json")[1])
    assert document["chip"]["name"] == "tpu7x"
    assert document["chip"]["edition"] == "datasheet"
    figures = {row["name"]: row for row in document["figures"]}
    assert len(figures) == len(document["figures"])
    hbm = figures["hbm_bandwidth"]
    assert (hbm["value"], hbm["unit"], hbm["device_value"]) == (7.38e12, "B/s", 3.69e12)
    assert hbm["conflict"].startswith("7400 in")
    assert figures["peak.int8"]["value"] is None
    assert figures["peak.int8"]["reason"]
    assert figures["pod_shape"]["value"] == [4, 4, 576]
    assert figures["ici.link_bandwidth"]["device_value"] is None
    assert all(row["source"] or row["reason"] for row in document["figures"])
    ridge = next(r for r in document["ridges"] if (r["dtype"], r["path"]) == ("bf16", "hbm"))
    assert ridge["flops_per_byte"] == pytest.approx(2307 / 7.38)
    rows = [json.loads(line) for line in run("hardware", "tpu7x", "--format", "jsonl")[1].splitlines()]
    assert rows == document["figures"]
    assert "| peak.bf16 |" in run("hardware", "tpu7x", "--format", "md")[1]


@pytest.mark.parametrize("name", [chip.name for chip in hardware.chips()])
def test_every_chip_has_a_page(run: Run, name: str) -> None:
    code, out, err = run("hardware", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name} (")


def test_a_file_of_the_user_changes_and_adds(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[chips.mine]\nplatform = "gpu"\n[chips.v5e]\nhbm_bandwidth = "800 GiB/s"\n', encoding="utf-8")
    code, out, _ = run("hardware", "--hardware", str(path), "--json")
    rows = {row["name"]: row for row in json.loads(out)["chips"]}
    assert code == 0
    assert rows["v5e"]["hbm_bandwidth"] == 800 * 2**30
    assert rows["mine"]["peak"] == {}
    page = run("hardware", "mine", "--hardware", str(path))[1]
    assert "No ridge points." in page
    assert "user file mine.toml" in run("hardware", "v5e", "--hardware", str(path))[1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("v9x",), 2, "There is no chip 'v9x'."),
        (("gfx950",), 2, "'gfx950' stands for several chips: MI355X, MI350X."),
        (("v5e", "--edition", "x"), 2, "There is no edition 'x'."),
        (("v4", "--edition", "cloud-docs"), 2, "The edition cloud-docs says nothing of v4."),
        (("v5e", "--hardware", "none.toml"), 3, "The hardware file cannot be read: No such file or directory."),
    ],
)
def test_wrong_use_is_explained(run: Run, words: tuple[str, ...], code: int, message: str) -> None:
    found, out, err = run("hardware", *words)
    assert (found, out) == (code, "")
    assert f"tpuprof: error: {message}\n" in err
    assert "tpuprof: next: " in err


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "B", "n/a"),
        (16e9, "B", "16 GB"),
        (2**30 * 95, "B", "95 GiB"),
        (2**40 * 1.5, "B", "1.5 TiB"),
        (2**20 * 64, "B", "64 MiB"),
        (256e3, "B", "256 kB"),
        (1e-6, "s", "1 us"),
        (4.2, "USD/h", "4.2 USD/h"),
        ([4, 4, 576], "", "4 x 4 x 576"),
        ([90.0, 170.0, 192.5], "", "90 / 170 / 192.5"),
        (8960, "", "8,960"),
        ("only_16", "", "only_16"),
        (1.5e9, "Hz", "1.5 GHz"),
    ],
)
def test_figures_for_people(value: object, unit: str, text: str) -> None:
    assert format_figure(value, unit) == text
