"""The demo: a real sharded program on simulated devices, captured by our own capture."""

import re
import subprocess
import sys
from copy import copy
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.capture.recorded import events_of
from tests.capture.support import child_environment
from tpuprof.capture import read_sidecars
from tpuprof.cli import demo
from tpuprof.errors import CaptureError, MissingDependencyError, UsageError

DEMO = "from tpuprof.cli.demo import command; command()"


def run_of_the_demo(log: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", DEMO, "--logdir", str(log), "--steps", "3", "--no-report"],
        env=child_environment(JAX_PLATFORMS=None, XLA_FLAGS=None),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "mesh: {'data': 4, 'model': 2} on cpu" in done.stderr
    (found,) = (log / "plugins" / "profile").iterdir()
    assert f"Read it with: tpuprof report {found}" in done.stderr
    return found


@pytest.mark.slow
def test_the_demo(tmp_path):  # one test: others in other processes would run the program again
    session = run_of_the_demo(tmp_path)
    (path,) = session.glob("*.xplane.pb")
    assert path.stat().st_size < 10e6
    events = [event for event in events_of(path) if not event.name.startswith(("end: ", "Threadpool"))]
    exactly_the_asked_steps_are_traced(events, session)
    every_device_does_every_kind_of_collective(events)
    matmuls_take_time(events)


def exactly_the_asked_steps_are_traced(events, session):
    assert [stats["step_num"] for name, _, stats in events if name == "train"] == [3, 4, 5]
    (sidecar,) = read_sidecars(session).values()
    assert sidecar["complete"] is True
    assert sidecar["device_kinds"] == {"cpu": 8}
    assert sidecar["environment"]["JAX_PLATFORMS"] == "cpu"


def every_device_does_every_kind_of_collective(events):
    kinds = {"all_gather": 0, "reduce_scatter": 0, "psum_invariant": 0}
    for name, _, stats in events:
        kind = re.sub(r"\.\d+\Z", "", name)
        if kind in kinds and "hlo_op" in stats:
            kinds[kind] += 1
    # Two layers: 4 gathers forward, 4 more when a layer is recomputed, 4 scatters; embedding and unembedding
    # add 2 gathers and 2 scatters. Times 8 devices and 3 steps.
    assert kinds["all_gather"] == (2 * 8 + 2) * 24
    assert kinds["reduce_scatter"] == (2 * 4 + 2) * 24
    assert kinds["psum_invariant"] >= 2 * 4 * 24


def matmuls_take_time(events):
    durations = [
        ns for name, ns, stats in events if "hlo_op" in stats and re.match(r"dot|ynn_fusion|dot_general", name)
    ]
    assert len(durations) >= 24 * 2 * 8
    assert sum(durations) > 1e6
    assert min(durations) > 0


def test_the_report_is_printed_for_the_run(monkeypatch, tmp_path):
    printed = []
    monkeypatch.setattr(demo, "run_demo", lambda logdir, steps, devices: logdir / f"{steps}x{devices}")
    monkeypatch.setattr(demo, "_print_report", printed.append)
    runner = CliRunner()
    assert runner.invoke(copy(demo.command), ["--logdir", str(tmp_path)], catch_exceptions=False).exit_code == 0
    assert runner.invoke(copy(demo.command), ["--no-report"], catch_exceptions=False).exit_code == 0
    assert printed == [tmp_path / "10x8"]


def test_the_environment_keeps_what_it_does_not_set():
    made = demo.demo_environment(
        {"XLA_FLAGS": "--xla_a=1 --xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "tpu", "A": "b"}, 4
    )
    assert made["XLA_FLAGS"] == "--xla_a=1 --xla_force_host_platform_device_count=4"
    assert (made["JAX_PLATFORMS"], made["A"]) == ("cpu", "b")


def test_failures_are_typed(monkeypatch, tmp_path):
    runner = CliRunner()
    with pytest.raises(UsageError, match="--devices 3 is odd"):
        runner.invoke(copy(demo.command), ["--devices", "3"], catch_exceptions=False)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CaptureError, match="demo program ended with exit code 1 and left no run"):
        demo.run_demo(tmp_path, steps=1, devices=2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tpuprof\[capture\]"'):
        runner.invoke(copy(demo.command), [], catch_exceptions=False)
