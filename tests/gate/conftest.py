"""The command line inside the test's process, on real files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gate.models import SLOW, Run, write_run
from tests.report.fake import without_analyzers
from tpuprof.cli import main


@pytest.fixture(autouse=True, scope="package")
def _no_analyzers() -> Iterator[None]:
    yield from without_analyzers()


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and one that is 25 % slower."""
    folder = tmp_path_factory.mktemp("runs")
    return write_run(folder / "base"), write_run(folder / "slow", SLOW)


@pytest.fixture
def tpuprof_cli(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Run:
    """Calls the command line in an empty directory: (exit code, stdout, stderr)."""
    for name in ("COLUMNS", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "NO_COLOR", "TPUPROF_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
