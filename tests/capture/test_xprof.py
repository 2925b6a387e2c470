"""What we write opens in XProf: its server finds our runs, and its tools answer on them."""

import gzip
import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import tpuprof
from tests.capture.support import child_environment

pytestmark = pytest.mark.skipif(importlib.util.find_spec("xprof") is None, reason="xprof is not installed")
START_S = 60.0


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """A log directory with a run captured by us, and everything that we put beside it."""
    logdir = tmp_path_factory.mktemp("log")
    train_step = jax.jit(lambda x: jnp.tanh(x @ x))
    x = jnp.ones((400, 400))
    train_step(x).block_until_ready()
    schedule = tpuprof.capture.Schedule(skip_first=1, warmup=1, active=4)
    tpuprof.capture.note_program(train_step.lower(x).compile(), "train_step")
    try:
        with tpuprof.capture.Profiler(logdir, schedule, name="captured") as profiler:
            for _ in range(8):
                profiler.step()
                train_step(x).block_until_ready()
    finally:
        tpuprof.capture.forget_programs()
    (made,) = profiler.captures
    assert made.error is None
    assert (made.path / "hlo").is_dir()
    assert (logdir / "step_times").is_dir()
    return logdir


@pytest.fixture(scope="module")
def ask(log):
    """Asks XProf's server, which runs in a child process, and returns what its browser page would get."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    output = (log.parent / "server.txt").open("w+")
    command = [sys.executable, "-m", "xprof.server", "--logdir", str(log), "--port", str(port)]
    server = subprocess.Popen(command, env=child_environment(), stdout=output, stderr=subprocess.STDOUT)
    # A proxy of the environment must not be asked for this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(place: str, **query: str) -> object:
        url = f"http://127.0.0.1:{port}/data/plugin/profile/{place}?{urllib.parse.urlencode(query)}"
        with opener.open(url, timeout=60) as answer:
            data = answer.read()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return json.loads(text) if text[:1] in b"[{" else text.decode()

    try:
        end = time.monotonic() + START_S
        while True:
            try:
                get("runs")
                break
            except (urllib.error.URLError, ConnectionError):
                assert server.poll() is None, Path(output.name).read_text()
                assert time.monotonic() < end, Path(output.name).read_text()
                time.sleep(0.1)
        yield get
    finally:
        server.kill()
        server.wait()
        output.close()


def test_the_server_lists_our_run(ask):
    assert ask("runs") == ["captured"]


def test_it_offers_its_tools_for_our_capture(ask):
    offered = set(ask("run_tools", run="captured"))
    assert {"overview_page", "trace_viewer@", "hlo_stats", "op_profile", "memory_viewer", "graph_viewer"} <= offered


def test_the_hosts_are_ours(ask):
    (host,) = ask("hosts", run="captured", tag="trace_viewer@")
    assert host["hostname"] == socket.gethostname()


def test_the_overview_knows_our_steps(ask):
    tables = ask("data", run="captured", tag="overview_page", host="ALL_HOSTS")
    (steps,) = (table for table in tables if "stepnum" in {column["id"] for column in table.get("cols", ())})
    assert len(steps["rows"]) == 4


def test_the_timeline_shows_our_ops(ask, log):
    ops = set(tpuprof.load(log).ops["op"])
    trace = ask("data", run="captured", tag="trace_viewer@", host=socket.gethostname())
    names = {event.get("name") for event in trace["traceEvents"]}
    assert names & ops, (ops, names)


@pytest.mark.parametrize("tool", ["framework_op_stats", "input_pipeline_analyzer", "roofline_model", "pod_viewer"])
def test_the_other_tools_answer(ask, tool):
    assert ask("data", run="captured", tag=tool, host="ALL_HOSTS")
