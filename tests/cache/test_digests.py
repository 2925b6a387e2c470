"""Digests of files: known by the file system's word only where that can be relied on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tpuprof.cache import CacheDir, digests
from tpuprof.cache.container import NotKeptError
from tpuprof.cache.digests import content_digests


@pytest.fixture
def cache(tmp_path: Path) -> CacheDir:
    return CacheDir(tmp_path / "cache")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read, as they are; files count as settled at once."""
    found: list[str] = []
    read: Any = digests._read

    def noted(path: str) -> str:
        found.append(path)
        return read(path)

    monkeypatch.setattr(digests, "_read", noted)
    monkeypatch.setattr(digests, "SETTLED_NS", -(10**12))
    return found


def digest(cache: CacheDir, path: Path) -> str:
    return content_digests(cache, [str(path)])[str(path)]


def test_equal_content_has_one_digest(cache: CacheDir, tmp_path: Path) -> None:
    for name, content in (("a", b"x" * 3_000_000), ("b", b"x" * 3_000_000), ("c", b"x" * 2_999_999 + b"y"), ("d", b"")):
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in "abcd"]
    found = content_digests(cache, [*paths, *paths])
    assert list(found) == paths
    assert found[paths[0]] == found[paths[1]]
    assert len(set(found.values())) == 3


def test_a_settled_file_is_read_once(cache: CacheDir, tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    first = digest(cache, path)
    assert digest(cache, path) == first
    assert reads == [str(path)]


def test_a_file_that_just_changed_is_read_each_time(
    cache: CacheDir, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_NS", 10**12)
    path = tmp_path / "a"
    path.write_bytes(b"one")
    digest(cache, path)
    digest(cache, path)
    assert len(reads) == 2
    assert cache.usage().files == 0


def test_every_change_is_seen(cache: CacheDir, tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before, times = digest(cache, path), path.stat()
    path.write_bytes(b"two")  # the same size, and then the same time of change
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest(cache, path) != before
    other = tmp_path / "b"
    other.write_bytes(b"six")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)
    assert digest(cache, path) not in (before, "")
    assert len(reads) == 3


def test_a_file_that_was_only_touched_has_its_digest(cache: CacheDir, tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = digest(cache, path)
    os.utime(path)
    assert digest(cache, path) == before
    assert len(reads) == 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b'{"mark": 1}', b'{"mark": [], "digest": 5}', b"\xff" * 9, b"[" * 9000]
)
def test_a_damaged_note_is_no_note(cache: CacheDir, tmp_path: Path, reads: list[str], content: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = digest(cache, path)
    (note,) = cache.path.iterdir()
    note.write_bytes(content)
    assert digest(cache, path) == before
    assert len(reads) == 2


def test_the_note_of_another_file_does_not_serve(cache: CacheDir, tmp_path: Path, reads: list[str]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    before = digest(cache, path)
    (note,) = cache.path.iterdir()
    found = json.loads(note.read_bytes())
    found["mark"][1] += 1
    found["digest"] = "0" * 40
    note.write_text(json.dumps(found))
    assert digest(cache, path) == before


def test_a_directory_that_cannot_be_written_costs_only_time(tmp_path: Path, reads: list[str]) -> None:
    (tmp_path / "file").write_text("x")
    path = tmp_path / "a"
    path.write_bytes(b"one")
    cache = CacheDir(tmp_path / "file" / "cache")
    assert digest(cache, path) == digest(cache, path)
    assert len(reads) == 2


def test_what_is_no_file_is_refused(cache: CacheDir, tmp_path: Path) -> None:
    with pytest.raises(NotKeptError, match="no regular file"):
        digest(cache, tmp_path)
    with pytest.raises(NotKeptError, match="no regular file"):
        content_digests(cache, ["/dev/null"])
    with pytest.raises(FileNotFoundError):
        digest(cache, tmp_path / "nothing")


def test_a_file_that_changes_while_it_is_read_is_refused(
    cache: CacheDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")

    def growing(name: str) -> str:
        with open(name, "ab") as stream:
            stream.write(b"more")
        return "0" * 40

    monkeypatch.setattr(digests, "_read", growing)
    with pytest.raises(NotKeptError, match="is being written"):
        digest(cache, path)
