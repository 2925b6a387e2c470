"""What only shows in a process of its own: imports, start-up, pipes, locales, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("jax", "pandas", "numpy", "numba", "pyarrow", "google", "rich", "scipy", "fsspec", "streamlit")


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "analyzers", "dashboards"))
    env = {**kept, "PYTHONPATH": paths, **environment}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, timeout=120, check=False)


def imported_by(code: str) -> set[str]:
    done = python("-c", f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr.decode()
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_imports_nothing_heavy() -> None:
    modules = imported_by("import tpuprof")
    assert not modules & {*HEAVY, "click"}


@pytest.mark.parametrize("words", [["--help"], ["report", "--help"], ["ops", "--help"], ["doctor", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    modules = imported_by(f"from tpuprof.cli import main\nassert main({words!r}) == 0")
    assert not modules & set(HEAVY)


def test_help_lists_commands_without_importing_them() -> None:
    from tpuprof.cli.commands import COMMANDS

    modules = imported_by("from tpuprof.cli import main\nmain(['--help'])")
    assert not modules & {module for module, _ in COMMANDS.values()}


def test_machine_formats_do_not_import_rich() -> None:
    code = (
        "from tests.cli.with_fake import install, without_analyzers\ninstall()\nwithout_analyzers()\n"
        "from tpuprof.cli import main\nassert main(['report', 'clean', {!r}]) == 0"
    )
    assert "rich" not in imported_by(code.format("--json"))
    assert "rich" in imported_by(code.format("--no-color"))


@pytest.mark.parametrize(
    ("code", "bar_s"), [("import tpuprof", 0.15), ("from tpuprof.cli import main; main(['--help'])", 0.3)]
)
def test_start_is_fast(code: str, bar_s: float) -> None:
    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    times = []
    for _ in range(5):
        before = cpu_s()  # of the processor, so that a busy machine does not spoil the answer
        assert python("-c", code).returncode == 0
        times.append(cpu_s() - before)
    assert min(times) < bar_s


def test_a_closed_pipe_is_quiet() -> None:
    for words in ("ops clean --format csv", "report clean", "report clean --json", "--help"):
        script = (
            f"{sys.executable} -m tests.cli.with_fake {words} -q"
            if "clean" in words
            else f"{sys.executable} -m tpuprof {words}"
        )
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script} | head -c 1 >/dev/null; {script} | true"],
            cwd=ROOT, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.stderr == b""
        assert done.returncode in (0, 1)


def test_the_exit_code_of_the_result_survives_a_closed_pipe() -> None:
    script = f"{sys.executable} -m tests.cli.with_fake report poor -q --fail-on error"
    done = subprocess.run(
        ["bash", "-c", f"{script} | true; exit ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"")


def shell(script: str) -> subprocess.CompletedProcess[bytes]:
    script = script.replace("FAKE", f"{sys.executable} -m tests.cli.with_fake")
    return subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, timeout=120, check=False)


def test_closed_streams_leave_the_exit_code() -> None:
    done = shell("FAKE report poor --fail-on error >&-")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Traceback" not in done.stderr
    assert shell("FAKE report nothing 2>&-").returncode == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said() -> None:
    done = shell("FAKE ops clean --json -q >/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(b"tpuprof: error: The result cannot be written: No space left on device.")
    assert b"Exception ignored" not in done.stderr


def test_progress_is_for_terminals_that_wait() -> None:
    code = (
        "import time, sys\nfrom tpuprof.cli.progress import progress\n"
        "with progress('reading abc', patience_s=float(sys.argv[1])) as count:\n"
        "    count(3, 64)\n    time.sleep(0.6)"
    )

    def stderr_on_terminal(patience: str) -> bytes:
        leader, follower = pty.openpty()
        subprocess.run(
            [sys.executable, "-c", code, patience],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm"},
            stderr=follower,
            check=True,
        )
        os.close(follower)
        shown = b""
        try:
            while piece := os.read(leader, 65536):
                shown += piece
        except OSError:  # the other side has closed
            pass
        os.close(leader)
        return shown

    shown = stderr_on_terminal("0.05")
    assert b"reading abc" in shown
    assert b"(3 of 64)" in shown
    assert stderr_on_terminal("60") == b""
    assert python("-c", code, "0.05").stderr == b""


@pytest.mark.parametrize("path", ["clean", "hostile"])
def test_an_ascii_locale_gets_ascii_text(path: str) -> None:
    for words in (["report", path], ["ops", path], ["info", path]):
        done = python("-m", "tests.cli.with_fake", *words, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.isascii()
        assert done.stderr.isascii()
    html = python(
        "-m", "tests.cli.with_fake", "report", path, "--format", "html", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert html.stdout.decode("utf-8").startswith("<!doctype html>")


def test_a_terminal_gets_colors_and_its_own_width() -> None:
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "COLORTERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.with_fake", "report", "clean", "-q"],
        cwd=ROOT, env={**kept, "TERM": "xterm-256color"}, stdout=follower, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other side has closed
            break
        if not piece:
            break
        text += piece
    assert process.wait(timeout=60) == 0
    os.close(leader)
    shown = text.decode()
    assert "\x1b[38;5;" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert 60 < max(map(len, lines)) <= 72
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_python_m_tpuprof_is_the_command() -> None:
    done = python("-m", "tpuprof", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"tpuprof ")
