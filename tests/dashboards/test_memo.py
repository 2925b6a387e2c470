"""Results kept for reuse."""

from __future__ import annotations

import threading

import pytest
from tpuprof_dashboards.memo import Memo


def test_a_result_is_made_once_however_many_ask() -> None:
    memo, made, go = Memo(4), [], threading.Barrier(8)

    def make() -> object:
        made.append(1)
        return object()

    found: list[object] = []

    def ask() -> None:
        go.wait(10)
        found.append(memo.get("key", make))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(made) == 1
    assert len(set(map(id, found))) == 1
    assert len(found) == 8


def test_the_one_asked_for_longest_ago_goes_first() -> None:
    memo = Memo(2)
    for key in ("a", "b", "a", "c"):
        memo.get(key, lambda key=key: key)
    assert [memo.has(key) for key in "abc"] == [True, False, True]


def test_a_failure_is_not_kept() -> None:
    memo = Memo(2)

    def fail() -> int:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        memo.get("a", fail)
    assert not memo.has("a")
    assert memo.get("a", lambda: 1) == 1


def test_a_slow_result_holds_up_nobody_who_wants_another() -> None:
    memo, started, release = Memo(4), threading.Event(), threading.Event()

    def slow() -> int:
        started.set()
        release.wait(10)
        return 1

    thread = threading.Thread(target=lambda: memo.get("slow", slow))
    thread.start()
    assert started.wait(10)
    assert memo.get("quick", lambda: 2) == 2
    assert not memo.has("slow")
    release.set()
    thread.join(10)
    assert memo.has("slow")
