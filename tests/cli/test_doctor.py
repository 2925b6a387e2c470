"""The checks of ``tpuprof doctor``."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tpuprof.cli import checks

ROOT = Path(__file__).parents[2]


def by_name(found: list[checks.Check]) -> dict[str, checks.Check]:
    return {check.name: check for check in found}


def test_required_packages_are_those_that_the_package_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert declared == set(checks.REQUIRED)


def test_a_sound_installation(run: Run) -> None:
    code, out, err = run("doctor", "--json", "--fail-on", "error")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["schema_version"], document["command"], document["ok"]) == (1, "doctor", True)
    assert {"tpuprof", "python", "numpy", "pandas", "jax"} <= {check["name"] for check in document["checks"]}


@pytest.mark.parametrize(("columns", "cut"), [(None, False), ("60", True)])
def test_what_is_piped_is_cut_only_to_a_width_that_was_asked_for(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: str | None, cut: bool
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = run("doctor")
    assert code == 0
    assert (str(ROOT / "tpuprof") not in out) is cut
    assert ("…" in out) is cut


def test_jax_is_not_imported_unasked() -> None:
    code = "import sys\nfrom tpuprof.cli import main\nmain(['doctor', '-q'])\nassert 'jax' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("error", "status"), [(ModuleNotFoundError("No module named 'numba'"), "missing"), (OSError("bad ELF"), "broken")]
)
def test_a_required_package_that_fails_is_an_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str
) -> None:
    real = importlib.import_module

    def failing(name: str, package: str | None = None) -> Any:
        if name == "numba":
            raise error
        return real(name, package)

    monkeypatch.setattr(checks.importlib, "import_module", failing)
    found = by_name(checks.check_installation())["numba"]
    assert (found.status, found.severity) == (status, "error")
    assert str(error) in (found.detail or "")
    assert found.next == "pip install --force-reinstall numba"
    code, out, _ = run("doctor", "--json", "--fail-on", "error")
    assert code == 1
    assert json.loads(out)["ok"] is False


def test_an_optional_package_that_is_missing_is_told_with_its_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_version", lambda name: None)
    found = by_name(checks.check_installation())["xprof"]
    assert (found.status, found.severity, found.version) == ("missing", "info", None)
    assert found.next == 'pip install "tpuprof[xprof]"'


@pytest.mark.parametrize(
    ("pin", "installed", "status"),
    [
        ("libtpu==0.0.21.*; extra == 'tpu'", "0.0.21.1", "ok"),
        ("libtpu==0.0.21; extra == 'tpu'", "0.0.21", "ok"),
        ("libtpu==0.0.21.*; extra == 'tpu'", "0.0.2", "doubtful"),
        ("libtpu==0.0.2.*; extra == 'tpu'", "0.0.21", "doubtful"),
    ],
)
def test_libtpu_must_be_the_one_that_jax_wants(
    monkeypatch: pytest.MonkeyPatch, pin: str, installed: str, status: str
) -> None:
    monkeypatch.setattr(checks, "_version", lambda name: installed if name == "libtpu" else "1.0")
    monkeypatch.setattr(checks.importlib.metadata, "requires", lambda name: ["numpy>=2", pin])
    found = by_name(checks.check_installation())["libtpu for this jax"]
    assert found.status == status
    assert (found.severity == "warning") == (status == "doubtful")


def test_jax_answers_from_a_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def child(program: str, timeout_s: float = 30) -> checks.Check:
        monkeypatch.setattr(checks, "_JAX_PROGRAM", program)
        (check,) = checks.check_jax(timeout_s)
        return check

    good = child("print('noise'); import json; print(json.dumps({'backend': 'tpu', 'devices': ['TPU v6 lite'] * 4}))")
    assert (good.status, good.detail) == ("ok", "4 x TPU v6 lite (tpu)")
    bad = child("raise RuntimeError('no TPU here')")
    assert (bad.status, bad.severity, bad.detail) == ("broken", "error", "RuntimeError: no TPU here")
    slow = child("import time; time.sleep(30)", timeout_s=0.5)
    assert (slow.status, slow.detail) == ("broken", "no answer after 0.5 s")
