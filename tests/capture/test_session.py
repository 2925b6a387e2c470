"""Files of a run: the layout, and that nothing is ever overwritten."""

import os
import threading
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.capture.session import (
    ProcessIdentity,
    check_logdir,
    check_name,
    host_name,
    open_logdir,
    session_name,
    store,
    write_new,
)
from tpuprof.errors import CaptureError, UsageError

NOON = datetime(2026, 3, 1, 12, 59, 59)


def test_sessions_are_named_as_jax_names_them():
    assert session_name(NOON) == "2026_03_01_12_59_59"


def test_a_lone_process_moves_on_to_the_next_second(tmp_path):
    lone = ProcessIdentity("h", 1)
    paths = [store(data, tmp_path, lone, started=NOON) for data in (b"a", b"b")]
    assert [path.parent.name for path in paths] == ["2026_03_01_12_59_59", "2026_03_01_13_00_00"]
    assert [path.name for path in paths] == ["h.xplane.pb", "h.xplane.pb"]
    assert [path.read_bytes() for path in paths] == [b"a", b"b"]


def test_processes_of_one_program_share_the_session(tmp_path):
    names = [
        store(b"", tmp_path, ProcessIdentity("h", pid, index, 4), started=NOON).name
        for pid, index in ((11, 0), (12, 1), (13, 1), (13, 1))
    ]
    assert names == ["h.p0.xplane.pb", "h.p1.xplane.pb", "h.p1.13.xplane.pb", "h.p1.13.2.xplane.pb"]
    assert len(list((tmp_path / "plugins" / "profile").iterdir())) == 1


def test_a_given_name_is_kept(tmp_path):
    paths = [store(b"", tmp_path, ProcessIdentity("h", 7), started=NOON, name="mine") for _ in range(3)]
    assert {path.parent.name for path in paths} == {"mine"}
    assert len(set(paths)) == 3


@pytest.mark.parametrize("hard_links", [True, False])
def test_of_many_writers_of_one_name_exactly_one_wins(tmp_path, monkeypatch, hard_links):
    if not hard_links:

        def refuse(*_):
            raise OSError(95, "not supported")

        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "file"
    won = []
    barrier = threading.Barrier(8)

    def write(n):
        barrier.wait()
        if write_new(path, bytes([n]) * 100_000):
            won.append(n)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert path.read_bytes() == bytes(won) * 100_000
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "chmod", fail)
    with pytest.raises(CaptureError, match=r"trace cannot be written. No space left"):
        store(b"data", tmp_path, ProcessIdentity("h", 1), started=NOON)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_files_get_the_usual_permissions(tmp_path):
    (tmp_path / "ordinary").write_text("")
    write_new(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_opening_leaves_only_the_directories(tmp_path):
    open_logdir(tmp_path / "a" / "b")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "plugins", "profile"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "a b", "x" * 201, "a\n", "a\0"])
def test_names_that_are_no_file_names_are_refused(name):
    with pytest.raises(UsageError, match="cannot name a run"):
        check_name(name)


@given(st.text(max_size=40))
def test_an_accepted_name_stays_inside_the_directory(tmp_path_factory, name):
    try:
        check_name(name)
    except UsageError:
        return
    base = tmp_path_factory.getbasetemp()
    assert (base / name).resolve().parent == base.resolve()


def test_log_directories_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_logdir("log") == tmp_path / "log"


def test_odd_host_names_become_file_names(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "a/b c:1")
    assert host_name() == "a_b_c_1"
    monkeypatch.setattr("socket.gethostname", lambda: "")
    assert host_name() == "localhost"
