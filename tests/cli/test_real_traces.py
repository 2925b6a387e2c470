"""Commands on real traces, against numbers that a plain reader of the files gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def tpuprof(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tpuprof", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout, done.stderr


def document(*words: str) -> dict[str, Any]:
    code, out, err = tpuprof(*words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.real
def test_host_offload_waits_for_copies(real_traces: Path) -> None:
    run = str(real_traces / "v6e-4-host-offload")
    report = document("report", run)
    assert (report["run"]["n_devices"], report["run"]["n_steps"]) == (4, 100)
    assert report["run"]["device_kind"] == "TPU v6 Lite"
    breakdown = report["breakdown"]
    assert breakdown["parts"]["dma_wait_ps"] / breakdown["step_ps"] == pytest.approx(0.969, abs=0.001)
    assert sum(breakdown["parts"].values()) == pytest.approx(breakdown["step_ps"], abs=1)
    assert {entry["id"] for entry in report["quality"]} >= {"cores_missing"}
    (copy,) = [op for op in report["ops"] if op["name"] == "copy-done.4"]
    assert copy["occurrences"] == 400
    assert copy["total_ps"] / 400 == pytest.approx(194_433.04e6, rel=1e-6)
    (reduce,) = report["collectives"]
    assert (reduce["kind"], reduce["participants"], reduce["count"]) == ("all_reduce", 2, 12)
    assert reduce["window_ps"] == pytest.approx(121.69e9, rel=1e-3)
    rows = document("steps", run)["steps"]
    assert len(rows) == 400
    assert all(sum(row["parts"].values()) == row["duration_ps"] for row in rows)
    assert document("steps", run, "--devices", "TPU:2", "--steps", "10:13")["total"] == 3


@pytest.mark.real
def test_prefill_from_json_is_the_sum_of_its_ops(real_traces: Path) -> None:
    kinds = {row["name"]: row for row in document("ops", str(real_traces / "v7x-2-prefill"), "--by", "kind")["ops"]}
    assert kinds["matmul"]["occurrences"] == 2 * 257
    assert kinds["collective"]["occurrences"] == 262


@pytest.mark.real
def test_a_file_copied_in_text_mode_is_named_as_that(real_traces: Path) -> None:
    code, out, err = tpuprof("report", str(real_traces / "broken" / "text-mode-copy.xplane.pb"))
    assert (code, out) == (3, "")
    assert "text mode" in err
    assert "Traceback" not in err
