"""The examples of the how-tos run as they are written."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tpuprof
from tests.capture.support import REPOSITORY, child_environment

PAGE = REPOSITORY / "docs" / "howto-trainers.md"
_EXAMPLE = re.compile(r"^```python example (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = dict(_EXAMPLE.findall(PAGE.read_text(encoding="utf-8")))


def run(name: str, folder: Path) -> list[str]:
    """The lines that an example prints when it is run in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[name]],
        env=child_environment(XLA_FLAGS="--xla_force_host_platform_device_count=4", TMPDIR=str(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_example_has_a_test():
    assert set(EXAMPLES) == {"plain", "flax", "config", "notebook"}


def test_the_plain_loop(tmp_path):
    (path,) = run("plain", tmp_path)
    trace = tpuprof.load(path)
    assert trace.n_steps == 3
    assert len(trace.devices) == 4
    assert trace.ops["scope"].astype(str).str.contains("mlp").any()
    assert trace.metadata["first_step"] == 11
    assert trace.metadata["meshes"][0]["axes"] == {"data": 4}


@pytest.mark.skipif(
    importlib.util.find_spec("flax") is None or importlib.util.find_spec("optax") is None,
    reason="flax or optax is not installed",
)
def test_flax_nnx(tmp_path):
    (path,) = run("flax", tmp_path)
    trace = tpuprof.load(path)
    assert trace.n_steps == 3
    assert trace.ops["scope"].astype(str).str.contains("hidden").any()


def test_a_configuration_file(tmp_path):
    (line,) = run("config", tmp_path)
    sessions = sorted((tmp_path / "runs" / "plugins" / "profile").iterdir())
    assert line == str([session.name for session in sessions])
    assert [tpuprof.load(session).metadata["first_step"] for session in sessions] == [6, 12]


def test_a_notebook(tmp_path):
    assert run("notebook", tmp_path) == []
    (folder,) = tmp_path.glob("tpuprof-*")
    trace = tpuprof.load(folder)
    assert trace.n_steps == 5
    assert "<table" in trace._repr_html_()


def test_links_between_pages_lead_somewhere():
    for page in (REPOSITORY / "docs").glob("howto-*.md"):
        for target in re.findall(r"\]\(([\w./-]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} links to {target}"
