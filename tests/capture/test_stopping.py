"""Waiting for work that may take for ever."""

import threading
import time

import pytest

from tpuprof.capture.stopping import patiently


def test_work_is_done_and_waited_for():
    done = []
    assert patiently(lambda: done.append(threading.current_thread().name), timeout_s=10, beat=pytest.fail)
    assert done == ["tpuprof-stop"]


def test_slow_work_is_heard_of_and_given_up_on(monkeypatch):
    monkeypatch.setattr("tpuprof.capture.stopping.HEARTBEAT_S", 0.05)
    go, beats = threading.Event(), []
    begin = time.monotonic()
    assert not patiently(lambda: go.wait(20), timeout_s=0.28, beat=beats.append)
    assert 0.27 < time.monotonic() - begin < 10
    go.set()
    assert beats == sorted(beats)
    assert 1 <= len(beats) <= 6
    assert all(0.04 < beat < 0.28 for beat in beats)


def test_an_interrupt_leaves_the_work_to_itself(monkeypatch):
    ended = threading.Event()

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tpuprof.capture.stopping.HEARTBEAT_S", 0.02)
    with pytest.raises(KeyboardInterrupt):
        patiently(lambda: (time.sleep(0.2), ended.set()), timeout_s=10, beat=interrupt)
    assert ended.wait(10)


def test_where_no_thread_can_be_started_the_work_is_done_here(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    assert patiently(lambda: done.append(threading.current_thread()), timeout_s=10, beat=pytest.fail)
    assert done == [threading.main_thread()]
