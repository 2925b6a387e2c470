"""Captures of a running job through its profiler server."""

import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tpuprof
from tests.capture.support import child_environment
from tpuprof.capture import grab as grab_module
from tpuprof.capture.grab import check_addresses, grab
from tpuprof.cli import main
from tpuprof.errors import CaptureError, MissingDependencyError, UsageError
from tpuprof.sidecar import problems

needs_xprof = pytest.mark.skipif(importlib.util.find_spec("xprof") is None, reason="xprof is not installed")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def server():
    port = free_port()
    program = Path(__file__).with_name("profiler_server.py")
    job = subprocess.Popen(
        [sys.executable, str(program), str(port)],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout.readline() == "serving\n"
        yield f"localhost:{port}"
        job.stdin.close()
        assert job.wait(30) == 0
    finally:
        job.kill()
        job.wait()
        job.stdout.close()


@needs_xprof
def test_a_running_job_is_captured_from_outside(server, tmp_path, capsys):
    assert main(["grab", server, "--for", "300ms", "--logdir", str(tmp_path / "log")]) == 0
    said = capsys.readouterr()
    (session,) = (tmp_path / "log" / "plugins" / "profile").iterdir()
    assert said.out == f"{session}\n"
    assert f"tpuprof report {session}" in said.err
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["plugins"]
    trace = tpuprof.load(session)
    assert trace.n_steps >= 5
    assert not trace.ops.empty
    assert trace.metadata["trigger"] == "grab: 0.3 s of time"
    assert trace.metadata["options"]["python_tracer_level"] == 0
    assert not {entry.id for entry in trace.quality} & {"capture_incomplete", "hosts_missing", "sidecar_unreadable"}


@needs_xprof
def test_a_server_that_is_not_there_is_named_beside_one_that_is(server, tmp_path):
    away = f"localhost:{free_port()}"
    found = grab([server, away], logdir=str(tmp_path), for_s=0.2, name="mine")
    assert found.session.name == "mine"
    assert len(found.files) == 1
    content = json.loads((found.session / "tpuprof.json").read_text())
    assert problems(content) == []
    assert (content["complete"], content["errors"]) == (False, [f"No trace came from {away}."])
    again = grab([server], logdir=str(tmp_path), for_s=0.2, name="mine")
    assert again.session.name == "mine-2"


@needs_xprof
def test_nobody_there_is_an_error_with_its_reason(tmp_path):
    address = f"localhost:{free_port()}"
    with pytest.raises(
        CaptureError, match=r"No trace came from the profiler server\. Nothing listens there\. The job must"
    ) as error:
        grab([address], logdir=str(tmp_path), for_s=0.2)
    assert error.value.where == address
    assert list((tmp_path / "plugins" / "profile").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]


def test_without_xprof_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r'pip install "tpuprof\[xprof\]"'):
        grab(["localhost:1"], logdir=str(tmp_path / "log"), for_s=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "localhost:", ":80", "http://h:1", "h:0", "h:65536", "h:1,g:2", "a b:1", "h:1\n", "-x:1"],
)
def test_addresses_that_are_none(address):
    with pytest.raises(UsageError, match="is not the address of a profiler server"):
        check_addresses([address, "ok:1"] if address != "h:1\n" else ["h:1\nx"])


def test_addresses_are_taken_once():
    assert check_addresses(["h:1", "h:1", "[::1]:2", "10.0.0.1:3"]) == ["h:1", "[::1]:2", "10.0.0.1:3"]
    with pytest.raises(UsageError, match="0 addresses are not between 1 and 1024"):
        check_addresses([])


@pytest.mark.parametrize("for_s", [0, -1, 601, float("nan"), float("inf")])
def test_windows_are_bounded(for_s, tmp_path):
    with pytest.raises(UsageError, match="is not above 0 and at most 600 s"):
        grab(["h:1"], logdir=str(tmp_path), for_s=for_s)


def test_the_command_ends_with_the_code_of_its_error(tmp_path, capsys):
    assert main(["grab", "nowhere", "--logdir", str(tmp_path)]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


@pytest.fixture
def client(monkeypatch):
    """Puts another program in the place of the client; `text` becomes its file of one server."""

    def use(program: str) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
        monkeypatch.setattr(
            grab_module, "_CLIENT", f"import json, os, sys, time\na = json.loads(sys.argv[1])\n{program}"
        )

    return use


def test_what_the_client_is_asked(client, tmp_path):
    from tpuprof.capture.options import check_options

    client("os.makedirs(a[1] + '/x'); open(a[1] + '/x/h_1.xplane.pb', 'w').write(json.dumps(a))")
    options = check_options(host_tracer_level=1, tpu_trace_mode="TRACE_ONLY_XLA")
    found = grab(["h:1"], logdir=str(tmp_path), for_s=0.25, options=options)
    address, _, milliseconds, asked = json.loads(found.files[0].read_text())
    assert (address, milliseconds) == ("h:1", 250)
    assert asked == {"host_tracer_level": 1, "python_tracer_level": 0, "tpu_trace_mode": "TRACE_ONLY_XLA"}


def test_an_empty_trace_names_the_limit(client, tmp_path):
    client("open(a[1] + '/h_1.xplane.pb', 'w')")
    with pytest.raises(CaptureError, match="above 2 GB cannot be delivered"):
        grab(["h:1"], logdir=str(tmp_path), for_s=1)


def test_a_client_that_crashes_is_quoted(client, tmp_path):
    client("print('Strange: news'); os.abort()")
    with pytest.raises(CaptureError, match=r"The client said: Strange: news"):
        grab(["h:1"], logdir=str(tmp_path), for_s=1)
    client("os._exit(1)")
    with pytest.raises(CaptureError, match=r"The client said nothing"):
        grab(["h:1"], logdir=str(tmp_path), for_s=1)


def test_a_client_that_hangs_is_ended(client, tmp_path, monkeypatch):
    monkeypatch.setattr(grab_module, "EXTRA_S", 0.2)
    client("time.sleep(60)")
    with pytest.raises(CaptureError, match=r"No trace came within 0\.3 s"):
        grab(["h:1"], logdir=str(tmp_path), for_s=0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]
