"""The training is never harmed: every fault of a capture with jax's real profiler, where it can happen for real.

The same situations over a fake profiler are in test_recorder.py, test_loop.py and test_controller.py.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import pytest
from jax._src.lib import _profiler

from tests.capture.recorded import events_of
from tests.capture.support import child_environment
from tpuprof.capture import Budget, CaptureState, Profiler, Schedule, capture, read_sidecars, step
from tpuprof.capture.session import ProcessIdentity, store
from tpuprof.capture.steplog import find_step_logs, read_step_log
from tpuprof.errors import CaptureActiveError, CaptureError, ProfilerBusyError


@pytest.fixture(autouse=True)
def profiler_is_free_afterwards():
    yield
    assert jax._src.profiler._profile_state.profile_session is None


def work():
    return jax.jit(lambda x: x @ x)(jnp.ones((64, 64))).block_until_ready()


def step_numbers(session):
    (path,) = session.glob("*.xplane.pb")
    return [event.stats["step_num"] for event in events_of(path) if event.name == "train"]


def loop(profiler, count=6, body=lambda _: work()):
    ran = 0
    with profiler:
        for n in range(count):
            profiler.step(n)
            body(n)
            ran += 1
    assert ran == count
    return profiler


ONE = Schedule(skip_first=1, warmup=0, active=2)


def test_a_schedule_with_its_warm_up_leaves_one_run_of_the_right_steps(tmp_path):
    profiler = loop(Profiler(tmp_path, Schedule(skip_first=1, warmup=1, active=2)))
    (made,) = profiler.captures
    assert step_numbers(made.path) == [2, 3]
    (content,) = read_sidecars(made.path).values()
    assert content["estimate"]["step_events"] > 3
    assert list(profiler.trace.steps["step"].unique()) == [2, 3]


def test_a_capture_inside_a_profiler_s_window_takes_its_turn_first(tmp_path):
    with Profiler(tmp_path, Schedule(skip_first=0, warmup=0, active=9)) as profiler:
        profiler.step(0)
        with capture(tmp_path) as mine:
            work()
    assert mine.error is None
    (first,) = profiler.captures
    assert first.ended_early == "The program started a profile of its own."
    assert first.path != mine.path


def test_a_busy_session_costs_the_window_and_not_the_loop(tmp_path):
    theirs = _profiler.ProfilerSession(_profiler.ProfileOptions())
    try:
        profiler = loop(Profiler(tmp_path, ONE))
    finally:
        theirs.stop()
    assert isinstance(profiler.captures[0].error, ProfilerBusyError)
    again = loop(Profiler(tmp_path, ONE))
    assert step_numbers(again.captures[0].path) == [1, 2]
    (content,) = read_sidecars(again.captures[0].path).values()
    assert any("held by another session" in text for text in content["earlier_failures"])


def test_a_loop_that_raises_leaves_a_marked_run_and_a_free_profiler(tmp_path):
    profiler = Profiler(tmp_path, ONE)

    def fail(n):
        work()
        if n == 1:
            raise KeyError(n)

    with pytest.raises(KeyError):
        loop(profiler, 9, fail)
    (content,) = read_sidecars(profiler.captures[0].path).values()
    assert (content["complete"], content["errors"]) == (False, ["The captured code raised KeyError."])
    assert step_numbers(profiler.captures[0].path) == [1]
    assert loop(Profiler(tmp_path, ONE)).captures[0].error is None


def test_an_unwritable_directory_costs_the_runs_and_the_log(tmp_path):
    (tmp_path / "file").write_text("")
    profiler = loop(Profiler(tmp_path / "file" / "log", ONE))
    assert "cannot be written" in str(profiler.captures[0].error)
    assert "cannot be written" in profiler.log.error
    assert loop(Profiler(tmp_path / "good", ONE)).captures[0].error is None


def test_a_directory_that_may_not_be_written(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in str(loop(Profiler(tmp_path / "log", ONE)).captures[0].error)
    finally:
        tmp_path.chmod(0o700)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB; skipped where this user may not mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no small file system: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_leaves_no_half_a_run(small_disk):
    budget = Budget(min_free_disk_bytes=0)
    (small_disk / "filler").write_bytes(b"x" * (48 << 10))
    with capture(small_disk, budget=budget, python_tracer_level=1) as made:
        for n in range(50):
            with step(n):
                work()
    assert made.state is CaptureState.FAILED
    assert "disk space" in str(made.error) or "No space left" in str(made.error)
    assert not list(small_disk.rglob("*.pb"))
    assert not list((small_disk / "plugins" / "profile").iterdir())
    (small_disk / "filler").unlink()
    with pytest.raises(CaptureError, match="No space left"):  # the check is one thing, the write another
        store(b"x" * (80 << 10), small_disk, ProcessIdentity("h", 1), started=made._started)
    assert not list((small_disk / "plugins" / "profile").iterdir())


def test_without_the_reserve_nothing_is_started(small_disk):
    with capture(small_disk) as made:
        assert made.state is CaptureState.FAILED
    assert "There is too little disk space for a trace. 65.5" in str(made.error).partition(": ")[2]


# Processes that end


def run(tmp_path, body, *, number=None):
    """Runs a program that prints when it is ready, sends it a signal, and returns how it ended."""
    code = (
        "import os, sys, time, jax, jax.numpy as jnp, tpuprof\n"
        "f = jax.jit(lambda x: x @ x); x = f(jnp.ones((32, 32)))\n"
        "def ready():\n    print('recording', flush=True)\n    time.sleep(0.2)\n" + body
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as child:
        assert child.stdout.readline().strip() == "recording"
        if number is not None:
            child.send_signal(number)
        output, errors = child.communicate(timeout=60)
    return child.returncode, output, errors


BODY = (
    "with tpuprof.capture(sys.argv[1]) as c:\n"
    "    with tpuprof.step(1): f(x).block_until_ready()\n"
    "    ready()\n"
    "    while True: f(x).block_until_ready(); time.sleep(0.01)\n"
)
LOOP = (
    "p = tpuprof.Profiler(sys.argv[1], tpuprof.Schedule(skip_first=1, warmup=0, active=10**6))\n"
    "with p:\n"
    "    for n in range(10**6):\n"
    "        p.step(n); f(x).block_until_ready(); time.sleep(0.01)\n"
    "        if n == 3: ready()\n"
)


@pytest.mark.parametrize("body", [BODY, LOOP], ids=["capture", "Profiler"])
def test_termination_keeps_what_there_is_and_says_so(tmp_path, body):
    code, _, errors = run(tmp_path, body, number=signal.SIGTERM)
    assert code == -signal.SIGTERM, errors
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    (content,) = read_sidecars(session).values()
    assert content["complete"] is False
    assert content["errors"][0].startswith("The program was terminated inside the ")
    assert 1 in step_numbers(session)


def test_termination_while_the_trace_is_handed_over_waits_for_it(tmp_path):
    body = (
        "from tpuprof.capture.profiler import JaxProfiler\n"
        "stop = JaxProfiler.stop\n"
        "def slow(self): print('recording', flush=True); time.sleep(0.7); return stop(self)\n"
        "JaxProfiler.stop = slow\n"
        "with tpuprof.capture(sys.argv[1]):\n"
        "    with tpuprof.step(1): f(x).block_until_ready()\n"
        "print('survived')\n"
    )
    code, output, errors = run(tmp_path, body, number=signal.SIGTERM)
    assert (code, output, errors) == (-signal.SIGTERM, "", "")
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    (content,) = read_sidecars(session).values()
    assert content["complete"] is True
    assert step_numbers(session) == [1]


def test_the_end_of_the_program_inside_a_capture_keeps_what_there_is(tmp_path):
    body = "c = tpuprof.capture(sys.argv[1]); c.start()\nwith tpuprof.step(1): f(x).block_until_ready()\nready()\n"
    code, _, errors = run(tmp_path, body)
    assert (code, errors) == (0, "")
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    (content,) = read_sidecars(session).values()
    assert content["errors"] == ["The program ended inside the capture."]
    assert step_numbers(session) == [1]


def test_a_kill_leaves_no_half_a_run_and_the_log_of_all_steps(tmp_path):
    code, _, _ = run(tmp_path, LOOP, number=signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert list((tmp_path / "plugins" / "profile").iterdir()) == []
    (path,) = find_step_logs(tmp_path)
    log = read_step_log(path)
    assert [number for number, _, _ in log.steps][:3] == [0, 1, 2]
    assert [event["event"] for event in log.events] == ["capture_started"]


def test_a_program_that_handles_termination_keeps_its_handler(tmp_path):
    body = (
        "import signal\n"
        "def handler(*_): os.write(1, b'bye\\n'); sys.exit(4)\n"
        "signal.signal(signal.SIGTERM, handler)\n" + BODY
    )
    code, output, errors = run(tmp_path, body, number=signal.SIGTERM)
    assert (code, output) == (4, "bye\n"), errors
    (session,) = (tmp_path / "plugins" / "profile").iterdir()
    (content,) = read_sidecars(session).values()
    assert content["errors"] == ["The captured code raised SystemExit."]


def test_many_captures_leak_no_descriptors(tmp_path):
    def count():
        return len(os.listdir("/proc/self/fd"))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not list descriptors")
    before, handler = None, signal.getsignal(signal.SIGTERM)
    for n in range(8):
        with capture(tmp_path):
            work()
        if n == 2:
            before = count()
    limit = time.monotonic() + 10
    while count() > before and time.monotonic() < limit:  # threads close their ends when they look up next
        time.sleep(0.05)
    assert count() <= before
    assert signal.getsignal(signal.SIGTERM) == handler


# A profiler that hangs


def test_a_profiler_that_does_not_deliver_gives_the_program_back(tmp_path, new_capture, caplog, monkeypatch):
    monkeypatch.setattr("tpuprof.capture.stopping.HEARTBEAT_S", 0.05)
    let_go = threading.Event()
    made = new_capture(budget=Budget(stop_timeout_s=0.3))
    stop = made.profiler.stop

    def hang():
        let_go.wait(20)
        return stop()

    made.profiler.stop = hang
    begin = time.monotonic()
    with made:
        pass
    assert 0.25 < time.monotonic() - begin < 10
    assert "The trace has not come within 0.3 s." in str(made.error)
    beats = [record.message for record in caplog.records if "still waiting" in record.message]
    assert len(beats) >= 2
    with new_capture() as second:
        pass
    assert isinstance(second.error, CaptureActiveError)
    let_go.set()
    limit = time.monotonic() + 10
    while made.path is None and time.monotonic() < limit:
        time.sleep(0.01)
    (content,) = read_sidecars(made.path).values()
    assert content["complete"] is True
    assert content["late"] == "The trace has not come within 0.3 s."
    with new_capture() as after:
        pass
    assert after.error is None


def test_failures_are_written_down_in_the_log_directory(tmp_path, new_capture):
    made = new_capture()
    made.profiler.failures["start"] = RuntimeError("boom")
    with made:
        pass
    (line,) = (tmp_path / "log" / "capture_failures.jsonl").read_text().splitlines()
    content = json.loads(line)
    assert (content["error"], content["pid"], content["trigger"]) == ("CaptureError", os.getpid(), "context manager")
    assert "boom" in content["message"]
