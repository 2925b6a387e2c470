"""Captures over a fake profiler, and a way to run the launcher as a user would."""

import os
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tests.capture.support import LAUNCH, FakeProfiler, Process, child_environment
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.recorder import Capture


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def new_capture(tmp_path: Path, process: Process) -> Callable[..., Capture]:
    """Makes captures over fake profilers; `profiler` of the result is the fake."""

    def make(logdir: Path | None = None, *, profiler: FakeProfiler | None = None, **kwargs: object) -> Capture:
        fake = profiler or FakeProfiler(process)
        made = Capture(logdir or tmp_path / "log", CaptureOptions(), profiler=fake, **kwargs)
        made.profiler = fake
        return made

    return make


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Writes a program and returns its path, which has a space in it."""

    def write(text: str, name: str = "my program.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def launch(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs `tpuprof capture` in a child process and waits for it."""

    def run(
        *arguments: str, stdin: bytes = b"", env: dict[str, str | None] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*LAUNCH, "--logdir", str(tmp_path / "log"), *arguments],
            input=stdin,
            capture_output=True,
            env=child_environment(**(env or {})),
            cwd=tmp_path,
            timeout=60,
            check=False,
        )

    return run
