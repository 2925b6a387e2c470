"""The log of step times: what is written stays, whatever becomes of the process."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.support import child_environment
from tpuprof.capture.steplog import StepLog, find_step_logs, read_step_log
from tpuprof.errors import NotATraceError, TraceNotFoundError


@pytest.fixture
def log(tmp_path):
    made = StepLog(tmp_path)
    yield made
    made.close()


def test_steps_and_events_come_back(log, tmp_path):
    origin = log._origin
    log.step(0, origin + 5, 7)
    log.event("capture_started", step=1, trigger='steps "1:2"\n')
    log.step(1, origin + 20, 9)
    read = read_step_log(log.path)
    assert read.steps == [(0, 5, 7), (1, 20, 9)]
    assert [(event["event"], event["trigger"]) for event in read.events] == [("capture_started", 'steps "1:2"\n')]
    assert (read.facts["pid"], read.facts["schema_version"], read.damaged) == (os.getpid(), 1, 0)
    assert find_step_logs(tmp_path) == [log.path]


def test_a_process_that_marks_no_steps_leaves_no_file(tmp_path):
    log = StepLog(tmp_path)
    log.close()
    assert list(tmp_path.iterdir()) == []
    log.step(0, 0, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_cannot_be_written_costs_the_log_only(tmp_path):
    (tmp_path / "step_times").write_text("in the way")
    log = StepLog(tmp_path)
    for n in range(3):
        log.step(n, 0, 1)
        log.event("x")
    assert log.path is None
    assert log.error == "The step-time log cannot be written: File exists."


def test_a_full_disk_ends_the_log(log):
    log.step(0, log._origin, 1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file)
    os.close(full)
    log.step(1, log._origin, 1)
    assert "No space left" in log.error
    log.step(2, log._origin, 1)
    assert read_step_log(log.path).steps == [(0, 0, 1)]


def test_every_step_outlives_a_kill(tmp_path):
    code = (
        "import os, signal, sys, time\n"
        "from pathlib import Path\n"
        "from tpuprof.capture.steplog import StepLog\n"
        "log = StepLog(Path(sys.argv[1]))\n"
        "for n in range(500): log.step(n, time.perf_counter_ns(), n)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=child_environment(), check=False)
    assert done.returncode == -signal.SIGKILL
    (path,) = find_step_logs(tmp_path)
    read = read_step_log(path)
    assert [(step, duration) for step, _, duration in read.steps] == [(n, n) for n in range(500)]


def test_damaged_lines_are_counted_and_left_out(log):
    log.step(0, log._origin, 1)
    with log.path.open("ab") as file:
        file.write(b'[1,2]\n[1,2,"3"]\n[1,2,-3]\n[true,1,1]\n{"no":1}\nnonsense\n' + b"[" * 5000 + b"\n[4,5,6]\n[7,8")
    read = read_step_log(log.path)
    assert read.steps == [(0, 0, 1), (4, 5, 6)]
    assert read.damaged == 8


@pytest.mark.parametrize("content", [b"", b"[1,2,3]\n", b"{}\n", b'{"kind":"other"}\n', b"\xff\xfe\n"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(NotATraceError, match=r"This is no step-time log. Captures write them into LOGDIR/step_times"):
        read_step_log(path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(TraceNotFoundError, match=r"cannot be read. No such file"):
        read_step_log(tmp_path / "x.jsonl")


@given(st.binary(max_size=200))
def test_any_bytes_after_the_first_line_are_read_without_an_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(json.dumps({"kind": "step_times"}).encode() + b"\n" + data)
    read_step_log(path)


def test_logs_are_found_from_a_session_below_in_the_order_of_their_start(tmp_path):
    folder = tmp_path / "step_times"
    folder.mkdir()
    for name in ("b.1.900.jsonl", "a.2.10000.jsonl", "a.2.20.jsonl"):
        (folder / name).write_text("")
    session = tmp_path / "plugins" / "profile" / "run"
    session.mkdir(parents=True)
    names = ["a.2.20.jsonl", "b.1.900.jsonl", "a.2.10000.jsonl"]
    assert [path.name for path in find_step_logs(session)] == names
    assert find_step_logs(folder / names[0]) == [folder / names[0]]
    assert find_step_logs(session.with_name("misspelt")) == []


def test_a_log_ends_before_it_is_too_large_to_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tpuprof.capture.steplog.LARGEST_BYTES", (1 << 20) + 100)
    log = StepLog(tmp_path)
    for n in range(1000):
        log.step(n, time.perf_counter_ns(), 5)
    log.event("after")
    assert log.error == "The step-time log is full; later steps are not noted."
    found = read_step_log(log.path)
    assert 2 <= len(found.steps) <= 20
    assert [event["event"] for event in found.events] == ["log_full"]
