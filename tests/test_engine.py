"""One function over many items, in this process and in others."""

from __future__ import annotations

import io
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import engine_functions as functions
from tpuprof import _worker, engine
from tpuprof.engine import map_hosts
from tpuprof.errors import NotATraceError, UsageError, WorkerError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that the engine starts during the test."""
    found: list[subprocess.Popen[bytes]] = []
    start = engine._start

    def noted() -> subprocess.Popen[bytes]:
        found.append(start())
        return found[-1]

    monkeypatch.setattr(engine, "_start", noted)
    return found


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(workers: int, started: list[subprocess.Popen[bytes]]) -> None:
    seen: list[tuple[int, int]] = []
    results = map_hosts(functions.square, range(7), workers=workers, progress=lambda done, n: seen.append((done, n)))
    assert list(results) == [0, 1, 4, 9, 16, 25, 36]
    assert seen == [(done, 7) for done in range(1, 8)]
    assert len(started) == (workers if workers > 1 else 0)
    assert all(process.poll() is not None for process in started)


def test_one_item_and_one_worker_stay_in_this_process(started: list[subprocess.Popen[bytes]]) -> None:
    assert list(map_hosts(functions.process_of, [0], workers=4)) == [os.getpid()]
    assert list(map_hosts(functions.process_of, [0, 1], workers=1)) == [os.getpid()] * 2
    assert list(map_hosts(functions.process_of, [], workers=4)) == []
    assert started == []
    assert os.getpid() not in list(map_hosts(functions.process_of, [0, 1], workers=2))


def test_the_default_is_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(3)), raising=False)
    assert engine.usable_cores() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(300)), raising=False)
    assert engine.usable_cores() == engine.MAX_WORKERS


def test_large_byte_strings_are_kept_once() -> None:
    results = list(map_hosts(functions.arrays, [10, 1000, 5000, 20_000], workers=2))
    for n, result in zip([10, 1000, 5000, 20_000], results, strict=True):
        np.testing.assert_array_equal(result["big"], np.arange(n))
        np.testing.assert_array_equal(result["strided"], np.arange(2 * n)[::2])
        assert result["empty"].shape == (0, 3)
        assert result["blob"] == functions.BLOB
        assert result["blob"] is results[0]["blob"]


def test_a_large_byte_string_is_sent_once() -> None:
    sent: set[bytes] = set()
    first, second = io.BytesIO(), io.BytesIO()
    _worker.send(first, [functions.BLOB, functions.BLOB], sent)
    _worker.send(second, {"again": bytes(functions.BLOB)}, sent)
    assert len(functions.BLOB) < len(first.getvalue()) < len(functions.BLOB) + 1000
    assert len(second.getvalue()) < 1000
    blobs: dict[bytes, bytes] = {}
    first.seek(0)
    second.seek(0)
    both = _worker.receive(first, blobs)
    assert both == [functions.BLOB] * 2
    assert _worker.receive(second, blobs)["again"] is both[0]


@pytest.mark.parametrize("cut", [0, 7, 8, 40, -1])
def test_a_message_that_breaks_off_is_the_end(cut: int) -> None:
    whole = io.BytesIO()
    _worker.send(whole, {"array": np.arange(10_000)}, set())
    with pytest.raises(_worker.EndOfPipeError):
        _worker.receive(io.BytesIO(whole.getvalue()[:cut]), {})


@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_the_first_item_in_order_is_raised_as_it_was(
    workers: int, started: list[subprocess.Popen[bytes]]
) -> None:
    results = map_hosts(functions.refuse, [0, 2, 3, 1, 4], workers=workers)
    assert [next(results), next(results)] == [0, 2]
    with pytest.raises(NotATraceError) as raised:
        next(results)
    error = raised.value
    assert (error.what, error.where, error.why, error.hint) == (
        "3 is odd.",
        "file 3",
        "Odd files happen.",
        "Even it out.",
    )
    assert all(process.poll() is not None for process in started)


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    with pytest.raises(RuntimeError, match=r"UnpicklableError: 5 and 2(.|\n)*fail_strangely"):
        list(map_hosts(functions.fail_strangely, [5, 5], workers=2))


def test_what_a_worker_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(map_hosts(functions.noisy, [1, 2, 3], workers=2)) == [1, 2, 3]
    out, err = capfd.readouterr()
    assert out == ""
    assert "a library prints what it likes" in err
    assert "even past Python" in err


@pytest.mark.parametrize(("function", "how"), [(functions.die, "by signal 9"), (functions.leave, "with exit code 7")])
def test_a_process_that_ends_early_is_an_error(
    function: Callable[[int], int], how: str, started: list[subprocess.Popen[bytes]]
) -> None:
    with pytest.raises(WorkerError) as raised:
        list(map_hosts(function, [1, 1, 0, 0], workers=2))
    assert str(raised.value) == (
        f"A process that read host files ended {how} before it was done. Most often memory ran out. "
        "Read with fewer processes (tpuprof.load with workers=1)."
    )
    assert raised.value.exit_code == 4
    assert all(process.poll() is not None for process in started)


def test_leaving_early_ends_the_processes(started: list[subprocess.Popen[bytes]]) -> None:
    results = map_hosts(functions.square, range(50), workers=2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


@pytest.mark.parametrize("workers", [0, -1])
def test_no_worker_is_a_usage_error(workers: int) -> None:
    with pytest.raises(UsageError) as raised:
        map_hosts(functions.square, [1], workers=workers)
    assert str(raised.value) == f"workers={workers} is no number of processes. Give 1 or more, or None."


def test_a_function_without_a_name_is_a_usage_error() -> None:
    def local(value: int) -> int:
        return value

    with pytest.raises(UsageError, match=r"local.*local cannot be found by name in another process\. Define it in a "):
        map_hosts(local, [1, 2], workers=2)
    assert list(map_hosts(local, [1, 2], workers=1)) == [1, 2]


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(WorkerError) as raised:
        list(map_hosts(functions.square, [1, 2], workers=2))
    assert str(raised.value) == (
        "/no/such/python: A process to read host files cannot be started: No such file or directory. The system allows "
        "no more processes, or this program has no Python interpreter of its own. Read in this process (tpuprof.load "
        "with workers=1)."
    )


def run_script(text: str, tmp_path: Path, **options: Any) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    text = "print('once')\nfrom math import sqrt\nfrom tpuprof.engine import map_hosts\n"
    process = run_script(text + "print(list(map_hosts(sqrt, [4, 9, 16], workers=2)))\n", tmp_path)
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("once\n[2.0, 3.0, 4.0]\n", "", 0)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    text = (
        "from tests.engine_functions import note_and_wait\nfrom tpuprof.engine import map_hosts\n"
        f"list(map_hosts(note_and_wait, [{str(marks)!r}] * 4, workers=2))\n"
    )
    process = run_script(text, tmp_path, start_new_session=True)
    until = time.monotonic() + 60
    while len(list(marks.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    workers = [int(mark.name) for mark in marks.iterdir()]
    assert len(workers) == 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    began = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 10
    assert len(re.findall("KeyboardInterrupt", err)) == 1  # the workers say nothing
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    text = (
        "import os\nfrom tpuprof.engine import _start\nfrom tpuprof._worker import send, receive\nimport math\n"
        "worker = _start()\nsend(worker.stdin, math.sqrt, set())\nsend(worker.stdin, 4, set())\n"
        "print(receive(worker.stdout, {}), worker.pid, flush=True)\nos._exit(0)\n"
    )
    process = run_script(text, tmp_path)
    out, _ = process.communicate(timeout=60)
    pid = int(out.split()[-1])
    until = time.monotonic() + 20
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(WorkerError("what", where="where", why="why", hint="hint")))
    assert type(error) is WorkerError
    assert (error.what, error.where, error.why, error.hint) == ("what", "where", "why", "hint")
