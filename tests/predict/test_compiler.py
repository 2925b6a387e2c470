"""Compiling in a process of its own: with the compiler where it is installed, and what happens without."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tpuprof.errors import CompilerError, MissingDependencyError, UsageError
from tpuprof.predict import Compiled, Installed, Program, Refused, Topology, compile_program, compiler_versions
from tpuprof.predict.child import laid_out
from tpuprof.predict.installed import wanted_libtpu

PROGRAMS = Path(__file__).with_name("programs.py")
FOUR = Topology("v5e:2x2")


def _program(name: str, **arguments: object) -> Program:
    return Program(f"{PROGRAMS}:{name}", arguments)


@pytest.fixture
def compiler() -> None:
    """The test needs the real compiler."""
    for name in ("jax", "libtpu"):
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed: the TPU compiler comes with the extra tpu")


@pytest.mark.usefixtures("compiler")
def test_memory_of_a_sharded_product() -> None:
    found = compile_program(_program("product", size=4096), FOUR)
    assert isinstance(found, Compiled)
    share = 2 * 4096 * 4096 // 4
    assert found.memory["arguments"] == found.memory["outputs"] == found.memory["aliased"] == share
    # The right operand is gathered whole beside the share, but into VMEM.
    assert found.memory["peak"] >= 5 * share
    assert found.memory["hbm"] == share
    assert found.memory["host"] == 0
    assert (found.device_kind, found.devices) == ("TPU v5 lite", 4)
    assert found.seconds > 0


@pytest.mark.usefixtures("compiler")
def test_a_program_that_does_not_fit_is_an_answer() -> None:
    found = compile_program(_program("product", size=2**18), FOUR)
    assert isinstance(found, Refused)
    assert found.kind == "hbm"
    assert found.available_bytes == 15.75 * 2**30
    assert found.needed_bytes is not None
    assert found.needed_bytes > found.available_bytes


@pytest.mark.usefixtures("compiler")
def test_what_a_user_can_get_wrong_says_so() -> None:
    with pytest.raises(UsageError, match=r"no topology v5e:3x3") as caught:
        compile_program(_program("product", size=256), Topology("v5e:3x3"))
    assert "divisible" in str(caught.value)
    with pytest.raises(UsageError, match=r"ValueError: not for 4 devices \(programs.py:\d+\)"):
        compile_program(_program("failing"), FOUR)
    found = compile_program(_program("product", size=256), FOUR, options={"xla_tpu_no_such": "1"})
    assert isinstance(found, Refused)
    assert (found.kind, found.option) == ("option", "xla_tpu_no_such")


@pytest.mark.usefixtures("compiler")
def test_the_hosts_memory_is_not_taken_for_that_of_the_device() -> None:
    found = compile_program(_program("offloaded", size=4096), FOUR)
    assert isinstance(found, Compiled)
    assert found.memory["host"] == 2 * 4096 * 4096 // 4
    assert "peak" not in found.memory
    assert found.memory["hbm"] > 0


def test_the_compilers_report_is_read_if_it_is_one(tmp_path: Path) -> None:
    assert laid_out(tmp_path) is None
    report = tmp_path / "module_0000.jit_f.after_optimizations-memory-usage-report.txt"
    report.write_text("Memory Space: default (color=0)\nTotal bytes: 1298315552 (1.21GiB)\n  cumulative_size;\n")
    assert laid_out(tmp_path) == 1298315552
    for other in ("", "Memory Space: vmem (color=1)\nTotal bytes: 5 (5B)\n", "\0" * 100):
        report.write_text(other)
        assert laid_out(tmp_path) is None


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jax that lists devices and compiles nothing, so that the process around it can be tested anywhere."""
    package = tmp_path / "jax" / "experimental"
    package.mkdir(parents=True)
    (tmp_path / "jax" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "topologies.py").write_text(
        "from types import SimpleNamespace as N\n"
        "def get_topology_desc(platform, topology_name, **more):\n"
        "    if topology_name == 'v5e:3x3':\n        raise ValueError('not divisible by the host')\n"
        "    return N(devices=[N(device_kind='stand-in', more=more)] * 4)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tpuprof.predict.compiler.compiler_versions", lambda: Installed("1", "0.0.9", "0.0.8.*"))


@pytest.mark.usefixtures("stand_in")
def test_failures_of_the_function_are_the_users() -> None:
    with pytest.raises(
        UsageError, match=r"failed before it was compiled: ValueError: not for 4 devices \(programs.py:"
    ):
        compile_program(_program("failing"), FOUR)
    with pytest.raises(UsageError, match="'int' object has no attribute 'compile'"):
        compile_program(_program("no_program"), FOUR)
    with pytest.raises(UsageError, match="has no attribute 'absent'"):
        compile_program(_program("absent"), FOUR)
    with pytest.raises(UsageError, match="unexpected keyword argument 'size'"):
        compile_program(_program("no_program", size=1), FOUR)
    with pytest.raises(UsageError, match="FileNotFoundError"):
        compile_program(Program("absent.py:f"), FOUR)
    with pytest.raises(UsageError, match="No module named 'absent_module'"):
        compile_program(Program("absent_module:f"), FOUR)
    with pytest.raises(UsageError, match="no topology v5e:3x3"):
        compile_program(_program("no_program"), Topology("v5e:3x3"))


@pytest.mark.usefixtures("stand_in")
def test_a_compiler_that_hangs_or_dies_is_ended() -> None:
    with pytest.raises(CompilerError, match=r"no answer within 0.5 s"):
        compile_program(_program("slow"), FOUR, timeout_s=0.5)
    with pytest.raises(CompilerError, match=r"without an answer \(exit code 1\)") as caught:
        compile_program(_program("dying"), FOUR)
    assert "Unknown command line flag" in caught.value.why
    assert "jax 1 wants libtpu 0.0.8.*, and 0.0.9 is installed" in caught.value.hint
    assert caught.value.exit_code == 5


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_odd_time_limits(seconds: float) -> None:
    with pytest.raises(UsageError, match="time limit"):
        compile_program(_program("slow"), FOUR, timeout_s=seconds)


@pytest.mark.usefixtures("stand_in")
def test_arguments_must_be_json() -> None:
    with pytest.raises(UsageError, match="JSON"):
        compile_program(_program("slow", size=object()), FOUR)


@pytest.mark.parametrize("text", ["", "f", "file.py:", ":f", "file.py:a b", "file.py"])
def test_a_function_needs_a_file_and_a_name(text: str) -> None:
    with pytest.raises(UsageError, match="names no function"):
        Program(text)


def test_without_the_compiler_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "libtpu":
            raise metadata.PackageNotFoundError(name)
        return "0.10.2"

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(MissingDependencyError, match=r"needs libtpu.*tpuprof\[tpu\]"):
        compiler_versions()


@pytest.mark.parametrize(
    ("libtpu", "wanted", "matched"),
    [
        ("0.0.42.1", "0.0.42.*", True), ("0.0.42", "0.0.42.*", True), ("0.0.420.1", "0.0.42.*", False),
        ("0.0.42", "0.0.42", True), ("0.0.42.1", "0.0.42", False), ("0.0.42", None, None),
    ],
)  # fmt: skip
def test_pins(libtpu: str, wanted: str | None, matched: bool | None) -> None:
    assert Installed("0.10.2", libtpu, wanted).matched is matched


def test_the_pin_is_read_from_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["numpy>=2", 'libtpu == 0.0.42.* ; extra == "tpu"'])
    assert wanted_libtpu() == "0.0.42.*"
    monkeypatch.setattr(metadata, "requires", lambda name: None)
    assert wanted_libtpu() is None


def test_importing_it_loads_no_jax() -> None:
    code = "import sys, tpuprof.predict; sys.exit('jax' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.usefixtures("stand_in")
def test_the_compiler_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import tpuprof.predict.compiler as c; from tpuprof.predict import *;"
        "c.compiler_versions = lambda: Installed('1', '1', None);"
        f"c.compile_program(Program({f'{PROGRAMS}:noted'!r}, {{'path': {str(note)!r}}}), Topology('v5e:2x2'))"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    _wait(lambda: note.exists() and note.read_text().endswith("."))
    asking.kill()
    asking.wait()
    child = int(note.read_text()[:-1])
    _wait(lambda: not _alive(child))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(reached: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)
