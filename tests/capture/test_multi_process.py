"""A real distributed program of two processes with four devices each: one run, merged with aligned clocks."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tpuprof
from tests.capture.support import LAUNCH, child_environment
from tpuprof.capture import read_sidecars
from tpuprof.report.build import build_report
from tpuprof.sidecar import problems

PROGRAM = Path(__file__).with_name("two_processes.py")


def run_program(*arguments: str, under: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """What each of the two processes said on stdout and stderr; `under` is a command that starts each of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = child_environment(
        XLA_FLAGS="--xla_force_host_platform_device_count=4", TPUPROF_RUN_ID=None, TPUPROF_HOSTS=None
    )
    processes = [
        subprocess.Popen(
            [*under, sys.executable, str(PROGRAM), str(index), "2", str(port), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=90) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return outputs


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    logdir = tmp_path_factory.mktemp("pod")
    outputs = [out.splitlines() for out, _ in run_program(str(logdir))]
    first, second = ([line.split() for line in lines if line.startswith("done ")] for lines in outputs)
    assert first == second
    assert [line[:2] for line in first] == [["done", "None"]] * 2
    return logdir


@pytest.fixture(scope="module")
def sessions(log) -> list[Path]:
    return sorted((log / "plugins" / "profile").iterdir())


def test_each_capture_is_one_run_with_a_file_per_process(sessions):
    assert len(sessions) == 2
    for session in sessions:
        names = sorted(path.name for path in session.glob("*.xplane.pb"))
        host = socket.gethostname()
        assert names == [f"{host}.p0.xplane.pb", f"{host}.p1.xplane.pb"]
        assert (session / "tpuprof.json").is_file()
        assert (session / f"{host}.p1.tpuprof.json").is_file()


def test_the_sidecars_tell_one_story(sessions):
    found = sorted(read_sidecars(sessions[0]).values(), key=lambda one: one["process_index"])
    for content in found:
        assert problems(content) == []
        assert content["run"]["name"] == sessions[0].name
        assert content["run"]["agreed_by"] == "coordinator"
        assert content["run"]["expected_processes"] == [0, 1]
        assert (content["process_count"], content["device_count"]) == (2, 8)
        assert len(content["devices"]) == 4
        (mesh,) = content["meshes"]
        assert mesh["axes"] == {"data": 8}
        assert len(mesh["device_ids"]) == 8
        assert content["first_step"] == 3
    assert max(len(content["run"]["seen"]) for content in found) == 2
    devices = {device["id"] for content in found for device in content["devices"]}
    assert devices == set(found[0]["meshes"][0]["device_ids"])


def test_the_report_merges_the_processes_on_one_clock(sessions):
    trace = tpuprof.load(sessions[0])
    host = socket.gethostname()
    assert trace.hosts == (host, f"{host}.p1")
    assert len(trace.devices) == 8
    assert trace.n_steps == 4
    report = build_report(trace)
    found = {entry["id"]: entry for entry in report["quality"]}
    assert "clocks_not_comparable" not in found
    assert report["run"]["window_ps"] is not None
    assert report["breakdown"]["parts"]["collective_exposed_ps"] > 0
    (collective,) = report["collectives"]
    assert collective["participants"] == 8
    assert collective["count"] == 8 * 4
    assert trace.built.host_clocks.comparable
    assert not trace.arrivals.empty
    # Both processes ran by this machine's clock, so the true offset is none: it must be within what is claimed.
    clocks = trace.built.host_clocks
    for name, offset in clocks.offset_ps.items():
        assert abs(offset) <= clocks.residual_ps[name] + 20_000_000_000


def test_an_unmodified_program_is_captured_on_the_process_asked_for(tmp_path):
    under = (*LAUNCH, "--logdir", str(tmp_path), "--steps", "3:6", "--hosts", "1", "--")
    first, second = run_program(under=under)
    assert "There is no run: other processes of the program were asked for with --hosts." in first[1]
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    assert f"The run is in {session}." in second[1]
    assert sorted(path.suffix for path in session.iterdir()) == [".json", ".pb"]
    content = json.loads((session / "tpuprof.json").read_text())
    assert content["process_index"] == 1
    assert content["run"]["expected_processes"] == [1]
    assert content["first_step"] == 3
    assert "hosts_missing" not in {entry.id for entry in tpuprof.load(session).quality}
