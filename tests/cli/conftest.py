"""Running commands inside the test's process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli import with_fake
from tests.report.fake import without_analyzers
from tpuprof.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True, scope="module")
def _no_analyzers() -> Iterator[None]:
    yield from without_analyzers()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Calls the command line on the stand-in traces: (exit code, stdout, stderr)."""
    monkeypatch.setitem(sys.modules, "tpuprof.trace", None)
    with_fake.install()
    for name in ("COLUMNS", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call
