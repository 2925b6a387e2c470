"""What the package gives by name, and that it costs nothing before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tpuprof.compare


def test_every_name_is_there() -> None:
    for name in tpuprof.compare.__all__:
        assert callable(getattr(tpuprof.compare, name))
        assert name in dir(tpuprof.compare)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(tpuprof.compare, "nothing")  # noqa: B009


def test_a_verdict_needs_no_tables() -> None:
    code = (
        "import sys, tpuprof.compare.verdict\n"
        "print([name for name in ('pandas', 'numba', 'pyarrow', 'jax') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_names_stay_what_they_are_when_their_modules_are_imported() -> None:
    code = (
        "import tpuprof.compare.explanation, tpuprof.compare.why\n"
        "from tpuprof.compare import differences, explain\n"
        "assert callable(explain) and callable(differences)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
