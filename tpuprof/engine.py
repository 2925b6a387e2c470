"""One function over the files of many hosts: in this process, or in several at once."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tpuprof.errors import UsageError, WorkerError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]

MAX_WORKERS = 8
"""More processes do not pay: what they find is put together by one."""

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tpuprof._worker import serve; serve()"
_PIPE_BYTES = 1 << 20


def map_hosts(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """The function's results in the order of the items.

    With more than one worker, each is a fresh Python process that imports the function by name; nothing of the
    calling program runs in it, so that scripts need no ``if __name__ == "__main__"``. Large byte strings that many
    results share are sent once and kept once. The processes end with the iterator, however it ends.

    Args:
        function: a function of a module; one of ``__main__`` or within another function cannot be found by name.
        items: what to apply it to.
        workers: the number of processes; 1 works in this process. Default: the cores that this process may use, at
            most ``MAX_WORKERS``.
        progress: called with (done, all) after each item.

    Raises:
        UsageError: ``workers`` is less than 1, or the function cannot be found by name.
        WorkerError: a process could not be started, or ended before its work was done.
        Exception: what the function raised, for the first item in order for which it did.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers={workers} is no number of processes.", hint="Give 1 or more, or None.")
    count = min(len(items), usable_cores() if workers is None else workers)
    if count > 1:
        _must_be_importable(function)
        return _in_processes(function, items, count, progress or _silent)
    return _here(function, items, progress or _silent)


def usable_cores() -> int:
    """The cores that this process may use, at most ``MAX_WORKERS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(min(cores, MAX_WORKERS), 1)


def _silent(done: int, total: int) -> None:
    pass


def _here(function: Callable[[Item], Result], items: Sequence[Item], progress: Progress) -> Iterator[Result]:
    for done, item in enumerate(items, 1):
        result = function(item)
        progress(done, len(items))
        yield result


def _in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], count: int, progress: Progress
) -> Iterator[Result]:
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(items)):
        todo.put(index)
    answers: queue.SimpleQueue[tuple[int, bool, Any]] = queue.SimpleQueue()
    blobs: dict[bytes, bytes] = {}
    workers: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []
    try:
        for _ in range(count):
            worker = _start()
            workers.append(worker)
            thread = threading.Thread(target=_drive, args=(worker, function, items, todo, answers, blobs), daemon=True)
            threads.append(thread)
            thread.start()
        waiting: dict[int, tuple[bool, Any]] = {}
        done = 0
        for index in range(len(items)):
            while index not in waiting:
                at, good, value = answers.get()
                waiting[at] = (good, value)
                done += 1
                progress(done, len(items))
            good, value = waiting.pop(index)
            if not good:
                raise value
            yield value
            del value
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        for thread in threads:
            thread.join()
        for worker in workers:
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def _start() -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=_PIPE_BYTES,
        )
    except OSError as error:
        raise WorkerError(
            f"A process to read host files cannot be started: {error.strerror}.",
            where=sys.executable,
            why="The system allows no more processes, or this program has no Python interpreter of its own.",
            hint="Read in this process (tpuprof.load with workers=1).",
        ) from error


def _drive(
    worker: subprocess.Popen[bytes],
    function: Callable[[Any], Any],
    items: Sequence[Any],
    todo: queue.SimpleQueue[int],
    answers: queue.SimpleQueue[tuple[int, bool, Any]],
    blobs: dict[bytes, bytes],
) -> None:
    """Feeds one process with items until there are none; runs in a thread of its own."""
    from tpuprof._worker import EndOfPipeError, receive, send

    stdin: Any = worker.stdin
    stdout: Any = worker.stdout
    greeted = False
    while True:
        try:
            index = todo.get_nowait()
        except queue.Empty:
            with suppress(OSError):
                stdin.close()  # the process ends by itself and frees its memory
            return
        try:
            if not greeted:
                send(stdin, function, set())
                greeted = True
            send(stdin, items[index], set())
            good, value = receive(stdout, blobs)
        except (EndOfPipeError, OSError):
            answers.put((index, False, _ended(worker, items[index])))
        except Exception as error:
            answers.put((index, False, error))
        else:
            answers.put((index, good, value))


def _ended(worker: subprocess.Popen[bytes], item: object) -> WorkerError:
    code = worker.wait()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return WorkerError(
        f"A process that read host files ended {how} before it was done.",
        where=str(getattr(item, "host", "")),
        why="Most often memory ran out.",
        hint="Read with fewer processes (tpuprof.load with workers=1).",
    )


def _must_be_importable(function: Callable[..., Any]) -> None:
    name = f"{function.__module__}.{function.__qualname__}"
    if function.__module__ == "__main__" or "<" in function.__qualname__:
        raise UsageError(
            f"{name} cannot be found by name in another process.", hint="Define it in a module, or give workers=1."
        )
