"""Programs compiled once per test session, as HLO text and as protobuf."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NAME.pb and NAME.txt (and further forms of the text) per compiled program."""
    pytest.importorskip("jax", reason="the programs are compiled with jax")
    folder = tmp_path_factory.mktemp("compiled")
    script = Path(__file__).with_name("compile_programs.py")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_", "JAX_"))}
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder
