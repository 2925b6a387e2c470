"""Asking a running program for a capture."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.support import child_environment
from tpuprof.capture.plan import OnRequest
from tpuprof.capture.requests import Ask, RequestFile, ask_by_file, parse_request

DEFAULT = OnRequest(active=4, for_s=2.0)


def test_a_touched_file_asks_once(tmp_path):
    ask_by_file(tmp_path)  # from an earlier program
    file = RequestFile(tmp_path, DEFAULT)
    assert file.look() is None
    ask_by_file(tmp_path)
    assert file.look() == Ask(4, 2.0, "request file")
    assert file.look() is None


def test_a_new_file_asks_and_a_removed_one_does_not(tmp_path):
    file = RequestFile(tmp_path, DEFAULT)
    (tmp_path / "capture_request").write_text("steps=7\n")
    assert file.look() == Ask(7, 2.0, "request file: steps=7")
    (tmp_path / "capture_request").unlink()
    assert file.look() is None


@pytest.mark.parametrize(
    ("text", "ask"),
    [
        ("", Ask(4, 2.0, "request file")),
        ("steps=0", Ask(4, 2.0, "request file")),
        (" for=500ms ", Ask(0, 0.5, "request file: for=500ms")),
        ("for=0s", Ask(4, 2.0, "request file")),
        ("for=9h", Ask(4, 2.0, "request file")),
        ("for=soon", Ask(4, 2.0, "request file")),
        ("rm -rf", Ask(4, 2.0, "request file")),
    ],
)
def test_what_a_request_may_say(text, ask):
    assert parse_request(text, DEFAULT) == ask


@given(st.text(max_size=60))
def test_any_text_is_a_request_of_bounded_size(text):
    ask = parse_request(text, DEFAULT)
    assert 0 <= ask.steps < 1_000_000
    assert 0 < ask.for_s <= 600


def test_asking_where_nothing_can_be_written_is_silent(tmp_path):
    ask_by_file(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_signals_that_the_program_handles_are_left_to_it():
    code = (
        "import os, signal\n"
        "from tpuprof.capture.requests import listen\n"
        "heard = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: heard.append('theirs'))\n"
        "assert not listen('SIGUSR1', lambda: heard.append('ours'))\n"
        "assert listen('SIGUSR2', lambda: heard.append('ours'))\n"
        "assert not listen('SIGNONE', print)\n"
        "os.kill(os.getpid(), signal.SIGUSR1); os.kill(os.getpid(), signal.SIGUSR2)\n"
        "assert heard == ['theirs', 'ours'], heard\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), check=True, timeout=60)
