"""What the files of a run hold, as digests: the same content, and only that, is the same run.

A file is read and hashed once. After that its digest is known by what the file system says of it (which file, size,
time of change of content and of status), as long as that was said long enough after the last change for a further
change to show in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tpuprof.cache.container import NotKeptError
from tpuprof.cache.directory import CacheDir

SETTLED_NS = 2_000_000_000
"""Times of change are this coarse at worst (FAT); a file may change again within one tick unseen."""

_BLOCK = 1 << 20
_AT_ONCE = 4
_MAX_SEEN_BYTES = 4096


def content_digests(cache: CacheDir, paths: Iterable[str]) -> dict[str, str]:
    """The digest of each local file's content.

    Raises:
        NotKeptError: one is no regular file, or changes while it is read.
        OSError: one cannot be read.
    """
    wanted = list(dict.fromkeys(paths))
    if len(wanted) < 2:
        return {path: _digest(cache, path) for path in wanted}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(_digest, [cache] * len(wanted), wanted), strict=True))


def text_digest(value: Any) -> str:
    """The digest of plain data."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=20).hexdigest()


def _digest(cache: CacheDir, path: str) -> str:
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise NotKeptError(f"{path} is no regular file")
    name = f"{text_digest(os.path.abspath(path))}.seen"
    mark = _mark(info)
    known = _seen(cache, name)
    if known is not None and known["mark"] == mark:
        return known["digest"]
    digest = _read(path)
    now = time.time_ns()
    if _mark(os.stat(path)) != mark:
        raise NotKeptError(f"{path} is being written")
    if now - max(info.st_mtime_ns, info.st_ctime_ns) > SETTLED_NS:
        record = json.dumps({"mark": mark, "digest": digest}).encode()
        with suppress(OSError, NotKeptError):  # it is read once more then
            cache.write(name, lambda stream: stream.write(record))
    return digest


def _mark(info: os.stat_result) -> list[int]:
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def _seen(cache: CacheDir, name: str) -> dict[str, Any] | None:
    try:
        stream = cache.open(name)
        if stream is None:
            return None
        with stream:
            found: Any = json.loads(stream.read(_MAX_SEEN_BYTES))
        good = isinstance(found["mark"], list) and isinstance(found["digest"], str) and len(found["digest"]) == 40
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if good else None


def _read(path: str) -> str:
    digest = hashlib.blake2b(digest_size=20)
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
