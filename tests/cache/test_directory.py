"""The cache's directory: where it is, who may use it, and how large it becomes."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from tpuprof.cache import CacheDir, user_cache
from tpuprof.cache.container import NotKeptError
from tpuprof.cache.directory import DEFAULT_MAX_BYTES, finish_writing, in_background, user_cache_path
from tpuprof.errors import UsageError


def name(number: int, ending: str = "run") -> str:
    return f"{number:040x}.{ending}"


def put(cache: CacheDir, number: int, size: int) -> Path:
    assert cache.write(name(number), lambda stream: stream.write(bytes(size))) == size
    return cache.path / name(number)


def content(cache: CacheDir, of: str) -> bytes | None:
    stream = cache.open(of)
    if stream is None:
        return None
    with stream:
        return stream.read()


@pytest.fixture
def cache(tmp_path: Path) -> CacheDir:
    return CacheDir(tmp_path / "deep" / "cache", max_bytes=1000)


def test_a_file_is_found_again(cache: CacheDir) -> None:
    assert content(cache, name(1)) is None
    cache.write(name(1), lambda stream: stream.write(b"one"))
    assert content(cache, name(1)) == b"one"
    cache.write(name(1), lambda stream: stream.write(b"other"))
    assert content(cache, name(1)) == b"other"
    cache.remove(name(1))
    cache.remove(name(1))
    assert content(cache, name(1)) is None


def test_only_the_owner_can_look_into_it(cache: CacheDir) -> None:
    path = put(cache, 1, 10)
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_directory_that_others_may_write_is_not_used(cache: CacheDir, mode: int) -> None:
    put(cache, 1, 10)
    cache.path.chmod(mode)
    for use in (lambda: cache.open(name(1)), lambda: put(cache, 2, 10), cache.usage):
        with pytest.raises(NotKeptError, match="others may write there"):
            use()
    assert not (cache.path / name(2)).exists()


def test_a_directory_of_another_user_is_not_used(cache: CacheDir, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache, 1, 10)
    monkeypatch.setattr(os, "getuid", lambda: cache.path.stat().st_uid + 1)
    with pytest.raises(NotKeptError, match="another user's"):
        cache.open(name(1))


@pytest.mark.parametrize(
    "bad", ["../x.run", "x.run", f"{'a' * 40}.py", f"{'a' * 40}", "/etc/passwd", f"{'a' * 40}.run/x"]
)
def test_other_names_are_refused(cache: CacheDir, bad: str) -> None:
    for use in (cache.open, cache.remove, lambda bad: cache.write(bad, lambda stream: None)):
        with pytest.raises(ValueError):
            use(bad)


def test_what_was_not_used_for_longest_goes_first(cache: CacheDir) -> None:
    paths = [put(cache, number, 300) for number in range(3)]
    for age, path in zip((300, 200, 100), paths, strict=True):
        os.utime(path, (time.time() - age,) * 2)
    assert content(cache, name(0)) is not None  # which is a use
    put(cache, 3, 300)
    assert [number for number in range(4) if (cache.path / name(number)).exists()] == [0, 2, 3]
    assert cache.usage().bytes == 900


@pytest.mark.parametrize("sizes", [(1000,), (400, 400, 400, 400), (1, 999, 1), (600, 600), (10,) * 150])
def test_it_never_holds_more_than_it_may(cache: CacheDir, sizes: tuple[int, ...]) -> None:
    for number, size in enumerate(sizes):
        path = put(cache, number, size)
        os.utime(path, (1_000_000 + number,) * 2)
        assert cache.usage().bytes <= 1000
        assert path.exists()


def test_what_is_too_large_is_not_kept_and_drives_nothing_out(cache: CacheDir) -> None:
    put(cache, 1, 500)
    with pytest.raises(NotKeptError, match=r"needs 1\.001 kB, the cache may hold 1 kB"):
        put(cache, 2, 1001)
    assert os.listdir(cache.path) == [name(1)]


def test_nothing_is_left_of_a_file_that_could_not_be_written(cache: CacheDir) -> None:
    put(cache, 1, 10)

    def full(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        cache.write(name(1), full)
    assert os.listdir(cache.path) == [name(1)]
    assert content(cache, name(1)) == bytes(10)


def test_what_broken_off_writers_left_is_deleted_after_an_hour(cache: CacheDir) -> None:
    put(cache, 1, 10)
    old, new = (cache.path / f"{name(number)}.0123456789ab.tmp" for number in (2, 3))
    for path in (old, new):
        path.write_bytes(bytes(50))
    os.utime(old, (time.time() - 4000,) * 2)
    put(cache, 4, 10)
    assert (old.exists(), new.exists()) == (False, True)


def test_clearing_deletes_the_cache_and_nothing_else(cache: CacheDir) -> None:
    assert cache.clear().files == 0
    put(cache, 1, 10)
    cache.write(name(2, "seen"), lambda stream: stream.write(b"abc"))
    (cache.path / f"{name(3)}.0123456789ab.tmp").write_bytes(b"x")
    kept = [cache.path / other for other in ("notes.txt", "thesis.run", f"{'a' * 40}.bak", f"{'a' * 40}.run.bak")]
    for path in kept:
        path.write_text("mine")
    (cache.path / f"{'b' * 40}.run").mkdir()
    gone = cache.clear()
    assert (gone.files, gone.bytes) == (3, 14)
    assert sorted(os.listdir(cache.path)) == sorted([*(path.name for path in kept), f"{'b' * 40}.run"])


def test_many_may_write_and_clear_at_once(tmp_path: Path) -> None:
    cache = CacheDir(tmp_path / "c", max_bytes=2000)
    problems: list[Exception] = []

    def work(seed: int) -> None:
        try:
            for number in range(30):
                with suppress(NotKeptError):  # cleared meanwhile
                    put(cache, (seed + number) % 7, 400)
                found = content(cache, name(number % 7))
                assert found in (None, bytes(400))
                if number % 10 == seed:
                    cache.clear()
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert cache.usage().bytes <= 2000


def test_a_file_that_is_cleared_while_it_is_written_is_not_kept(cache: CacheDir) -> None:
    with pytest.raises(NotKeptError, match="cleared meanwhile"):
        cache.write(name(1), lambda stream: cache.clear())
    assert os.listdir(cache.path) == []


def test_without_threads_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[int] = []
    in_background(lambda: done.append(1))
    finish_writing()
    monkeypatch.setattr(threading.Thread, "start", refused)
    in_background(lambda: done.append(2))
    finish_writing()
    assert done == [1]


def test_the_environment_names_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TPUPROF_CACHE_DIR", "TPUPROF_CACHE_SIZE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert user_cache() == CacheDir(tmp_path / ".cache" / "tpuprof" / "runs", DEFAULT_MAX_BYTES)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_cache_path() == tmp_path / "Library" / "Caches" / "tpuprof" / "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the rule
    assert user_cache_path() == tmp_path / "Library" / "Caches" / "tpuprof" / "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert user_cache_path() == tmp_path / "xdg" / "tpuprof" / "runs"
    monkeypatch.setenv("TPUPROF_CACHE_DIR", "~/mine")
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", " 2 GB ")
    assert user_cache() == CacheDir(tmp_path / "mine", 2_000_000_000)
    assert not (tmp_path / "mine").exists()  # nothing is made before something is written


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("1GiB", 1 << 30), ("12345", 12345), ("", 5 * 10**9)]
)
def test_sizes(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", text)
    cache = user_cache()
    assert cache is not None
    assert cache.max_bytes == size


def test_a_size_of_zero_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", "0")
    assert user_cache() is None


@pytest.mark.parametrize("text", ["much", "-1", "5 apples", "nan", "1e999"])
def test_a_size_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TPUPROF_CACHE_SIZE", text)
    with pytest.raises(UsageError, match="TPUPROF_CACHE_SIZE"):
        user_cache()
