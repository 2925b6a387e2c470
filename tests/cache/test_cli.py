"""The cache as the commands use it, and what ``tpuprof doctor`` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpuprof.cache import CacheDir, finish_writing
from tpuprof.cli import main
from tpuprof.cli.checks import check_installation

SAMPLE = str(Path(__file__).parents[2] / "sample_traces" / "tpu_two_hosts")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, which takes small runs too."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(path))
    monkeypatch.delenv("TPUPROF_CACHE_SIZE", raising=False)
    monkeypatch.setattr("tpuprof.cache.user_cache", lambda tell: CacheDir(path, min_input_bytes=0, tell=tell))
    return path


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    assert main(words) == 0
    finish_writing()
    found = capsys.readouterr()
    return found.out, found.err


@pytest.mark.parametrize("command", [("report",), ("info",), ("steps",), ("memory",)])
def test_commands_say_the_same_from_the_cache(
    place: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    words = (*command, SAMPLE, "--json", "-v")
    without, said = call(capsys, *words, "--no-cache")
    assert "cache:" not in said
    assert not place.exists()
    first, said = call(capsys, *words)
    assert ".run is not there yet" in said
    assert "cache: this run is read from its files" in said
    assert f"written to {place}" in said
    second, said = call(capsys, *words)
    assert f"cache: taken from {place}" in said
    assert json.loads(without) == json.loads(first) == json.loads(second)


@pytest.mark.parametrize("command", [("diff", SAMPLE), ("check", SAMPLE, "--no-budget", "--against")])
def test_comparisons_use_it_too(place: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    for options, there in ((("--no-cache",), False), ((), True)):
        assert main([*command, SAMPLE, *options]) in (0, 5)
        finish_writing()
        assert place.exists() is there
    capsys.readouterr()
    main([*command, SAMPLE, "-v"])
    assert "cache: taken from" in capsys.readouterr().err


def test_it_is_silent_unless_asked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        _, said = call(capsys, "report", SAMPLE)
        assert "cache" not in said
    for entry in place.glob("*.run"):
        entry.unlink()
        entry.write_bytes(b"damaged")
    _, said = call(capsys, "report", SAMPLE)
    assert "cache" not in said


def test_a_size_that_cannot_be_read_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", "plenty")
    assert main(["report", SAMPLE]) == 2
    assert "TPUPROF_CACHE_SIZE" in capsys.readouterr().err
    assert main(["report", SAMPLE, "--no-cache", "-q"]) == 0


def check() -> Any:
    (found,) = [one for one in check_installation() if one.name == "run cache"]
    return found


def test_doctor_shows_where_it_is_and_how_large(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (check().status, check().detail) == ("ok", f"{place}: 0 B of 5 GB in 0 files")
    call(capsys, "report", SAMPLE)
    size = sum(path.stat().st_size for path in place.iterdir())
    count = len(list(place.iterdir()))
    assert check().detail == f"{place}: {size / 1000:.4g} kB of 5 GB in {count} file{'s' if count > 1 else ''}"


@pytest.mark.usefixtures("place")
def test_doctor_shows_what_is_wrong_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", "0")
    assert (check().status, check().detail) == ("ok", "off (TPUPROF_CACHE_SIZE)")
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", "plenty")
    assert (check().status, check().severity) == ("doubtful", "warning")
    assert "plenty" in check().detail
    monkeypatch.delenv("TPUPROF_CACHE_SIZE")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "open"))
    assert (check().status, check().severity) == ("doubtful", "warning")
    assert "others may write there" in check().detail
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("TPUPROF_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert (check().status, check().severity) == ("doubtful", "info")
    assert "not writable" in check().detail


def test_doctor_clears_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "report", SAMPLE)
    (place / "mine.txt").write_text("x")
    _, said = call(capsys, "doctor", "--clear-cache", "--json")
    assert said.startswith("tpuprof: deleted ")
    assert str(place) in said
    assert [path.name for path in place.iterdir()] == ["mine.txt"]
    _, said = call(capsys, "doctor", "--clear-cache", "--json")
    assert said.startswith("tpuprof: deleted 0 files, 0 B, from ")
