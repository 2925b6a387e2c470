"""What ``ops`` and ``collectives`` say of a run that is faster than the hardware it is set against."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.roofline.made import MATMUL, MATMUL_FLOPS, run_builder
from tpuprof.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Calls the command line: (exit code, stdout, stderr)."""
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


@pytest.fixture
def product(tmp_path: Path) -> str:
    """A product at 100 TFLOP/s."""
    length = round(MATMUL_FLOPS / 100e12 * 1e12)
    trace = run_builder(MATMUL, [("dot.1", 0, length, "convolution")], 2 * length)
    return str(trace.write(tmp_path))


def test_impossible_rates_are_told_and_fail_if_asked(run: Run, product: str) -> None:
    code, _, err = run("ops", product)
    assert (code, err) == (0, "")
    code, out, err = run("ops", product, "--peak", "bf16=50T", "--json", "--fail-on", "error")
    assert code == 1
    assert [entry["id"] for entry in json.loads(out)["quality"]] == ["rate_above_peak"]
    assert "rate_above_peak: 1 op ran faster than the hardware allows: dot.1 (2.00 times the compute rate)" in err


@pytest.mark.parametrize("command", ["ops", "collectives"])
def test_groups_take_nothing_of_the_hardware(run: Run, product: str, command: str) -> None:
    assert run(command, product, "--by", "kind")[0] == 0
    code, out, err = run(command, product, "--by", "kind", "--chip", "v6e")
    assert (code, out) == (2, "")
    assert f"What the hardware allows is given for single {command} only." in err
    assert "--by kind" in err


def test_a_slice_of_another_chip_is_refused(run: Run, product: str) -> None:
    code, _, err = run("collectives", product, "--topology", "v6e:2x4")
    assert code == 2
    assert "v6e:2x4 is a slice of v6e, but the run is set against v5e." in err
