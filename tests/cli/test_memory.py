"""The command ``memory``: of a run, and of a saved memory profile."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.formats.test_pprof import profile, save
from tests.hlo.buffer_helper import PADDED, TEXT
from tests.tables.test_memory import buffers_of, trace_of
from tpuprof.cli import main
from tpuprof.testing import Program


@pytest.fixture
def run(tmp_path: Path) -> str:
    """Two programs; the second one has its working memory in the host's memory, and more of it."""

    def offloaded(message) -> None:
        message.buffer_allocations[3].color = 5
        message.buffer_allocations[3].size = 50 * PADDED

    hostile = TEXT.replace("jit_f", "jit_g").replace("jit(f)/mlp/mul", "jit(f)/\x1b[31mmlp|`x")
    return trace_of(
        tmp_path,
        (Program("jit_f", 7, TEXT), buffers_of()),
        (Program("jit_g", 8, hostile), buffers_of(offloaded)),
        (Program("jit_h", 9), b""),
        text=True,
    ).path


def call(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(("memory", *words))
    out, err = capfd.readouterr()
    return code, out, err


@pytest.mark.parametrize("by", ["program", "buffer", "scope", "source"])
@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_every_grouping_in_every_format(run: str, capfd: pytest.CaptureFixture[str], by: str, form: str) -> None:
    code, out, _ = call(capfd, run, "--by", by, "--format", form)
    assert code == 0
    assert out.endswith("\n")
    assert "\x1b" not in out
    assert "jit_g(8)" in out


def test_the_document(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capfd, run, "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["schema_version"], document["command"], document["by"]) == (1, "memory", "program")
    rows = [(row["module"], row["memory_space"], row["total_bytes"]) for row in document["programs"]]
    assert rows == [
        ("jit_g(8)", "host", 50 * PADDED),
        ("jit_g(8)", "hbm", 3 * PADDED),
        ("jit_f(7)", "hbm", 6 * PADDED),
        ("jit_h(9)", None, None),
    ]
    assert [row["reason"] for row in document["programs"]] == [None, None, None, "hlo_missing"]
    assert document["total"] == 4
    assert document["allocators"] == []
    live = document["live"]
    assert [(row["module"], row["memory_space"], row["op"]) for row in live][:4] == [
        ("jit_g(8)", "host", "x"),
        ("jit_g(8)", "host", "z"),
        ("jit_g(8)", "host", "y"),
        ("jit_g(8)", "hbm", "a"),
    ]
    assert [row["peak_fraction"] for row in live[:3]] == pytest.approx([1 / 3] * 3)


def test_sums_by_scope_cover_the_peak(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    for by in ("scope", "source"):
        document = json.loads(call(capfd, run, "--by", by, "--json")[1])
        for program in document["programs"]:
            if program["peak_bytes"] is not None:
                key = (program["module"], program["memory_space"])
                mine = [row for row in document["live"] if (row["module"], row["memory_space"]) == key]
                assert sum(row["bytes"] for row in mine) == program["peak_bytes"]
                assert sum(row["buffers"] for row in mine) == program["live_buffers"]
                assert sum(row["peak_fraction"] for row in mine) == pytest.approx(1)
                assert [row["bytes"] for row in mine] == sorted((row["bytes"] for row in mine), reverse=True)
    names = {row["name"] for row in document["live"] if row["module"] == "jit_f(7)"}
    assert names == {"m.py:7", "m.py:8", None}


def test_rows_of_csv_and_the_limit(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(call(capfd, run, "--format", "csv", "--top", "2")[1])))
    assert [row["module"] for row in rows] == ["jit_g(8)"] * 2
    assert rows[0]["temp_bytes"] == str(50 * PADDED)
    buffers = list(csv.DictReader(io.StringIO(call(capfd, run, "--by", "buffer", "--format", "csv")[1])))
    assert len(buffers) == 3 + 3 + 5
    assert buffers[0]["shape"] == "f32[8,4]{1,0:T(8,128)}"


def test_text_says_what_is_unknown(run: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, out, err = call(capfd, run, "--by", "buffer")
    titles = [line for line in out.splitlines() if line.startswith("Live at the peak of")]
    assert [title.split(",")[0].removeprefix("Live at the peak of ") for title in titles] == [
        "jit_g(8) in host",
        "jit_g(8) in hbm",
        "jit_f(7) in hbm",
    ]
    _, out, err = call(capfd, run)
    assert "hlo_missing" in out
    assert "Live at the peak of jit_g(8) in host" in out
    assert "204.8 kB" in out
    assert "hlo_missing" in err  # quality goes to stderr


def test_a_saved_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path, profile())
    document = json.loads(call(capfd, path, "--json")[1])
    assert document["profile"] == {"path": path, "time_ns": 5, "total_bytes": 130}
    assert document["allocations"][0] == {
        "kind": "buffer",
        "device": "TPU_0",
        "count": 2,
        "bytes": 100,
        "function": "step",
        "source": "m.py:7",
        "stack": ["zeros (/venv/site-packages/jax/numpy.py:3)", "step (m.py:7)"],
    }
    by_source = json.loads(call(capfd, path, "--by", "source", "--json")[1])
    assert [(row["source"], row["bytes"]) for row in by_source["allocations"]] == [
        ("m.py:7", 100),
        ("/venv/site-packages/jax/numpy.py:3", 30),
    ]
    for form in ("table", "jsonl", "csv", "md"):
        code, out, _ = call(capfd, path, "--format", form)
        assert code == 0
        assert "m.py:7" in out
    assert "130 B" in call(capfd, path)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--steps", "1:2"), "--steps means nothing for a saved memory profile."),
        (("--step-program", "f"), "--step-program means nothing for a saved memory profile."),
        (("--by", "scope"), "A saved memory profile has no name scopes."),
    ],
)
def test_options_that_mean_nothing_for_a_profile(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, out, err = call(capfd, save(tmp_path, profile()), *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_damaged_profile_ends_with_3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memory.prof"
    path.write_bytes(b"\x1f\x8b broken")
    code, out, err = call(capfd, str(path))
    assert (code, out) == (3, "")
    assert "This is no device memory profile." in err


@pytest.mark.real
def test_real_allocators_are_listed(real_traces: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call(capfd, str(real_traces / "v6e-4-host-offload"), "--json", "-q")[1])
    assert [row["memory_space"] for row in document["programs"]][:3] == ["hbm", "host", "sync_flags"]
    assert len(document["allocators"]) == 4
    assert all(row["max_bytes"] < row["capacity_bytes"] == 33_550_237_696 for row in document["allocators"])
