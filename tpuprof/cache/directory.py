"""The directory of the cache: where it is, how large it may become, and files that appear whole or not at all.

Other processes may read, write and delete in it at any time. A file is written beside its place and moved there; one
that is deleted while it is mapped stays readable. Only files with the cache's own endings are ever deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tpuprof.cache.container import NotKeptError
from tpuprof.hardware.quantity import parse_quantity
from tpuprof.units import format_bytes

DIRECTORY_VARIABLE = "TPUPROF_CACHE_DIR"
SIZE_VARIABLE = "TPUPROF_CACHE_SIZE"
DEFAULT_MAX_BYTES = 5_000_000_000
MIN_INPUT_BYTES = 8_000_000
"""Runs whose files are smaller are read about as fast as they would be found: see tests/benchmarks/cache.py."""

ENDINGS = (".run", ".table", ".seen")
_TEMPORARY = ".tmp"
_ABANDONED_S = 3600.0  # no file takes longer to be written
_NAME = re.compile(r"[0-9a-f]{16,64}(?:-[a-z_]{1,32})?\.[a-z]+\Z")


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in the directory."""

    files: int
    bytes: int


@dataclass(frozen=True)
class CacheDir:
    """A directory for what was made of runs.

    Args:
        path: the directory; made when something is first written, for its owner alone.
        max_bytes: its size; what was not used for longest is deleted to keep it.
        min_input_bytes: runs whose files are smaller in all are not cached.
        tell: called with a sentence on what was found, written, or wrong; perhaps from another thread.
    """

    path: Path
    max_bytes: int = DEFAULT_MAX_BYTES
    min_input_bytes: int = MIN_INPUT_BYTES
    tell: Callable[[str], None] = field(default=_silent, compare=False, repr=False)

    def open(self, name: str) -> BinaryIO | None:
        """The file of that name, opened, and marked as used; null if there is none.

        Raises:
            NotKeptError: the directory belongs to somebody else, or others may write there.
            OSError: it cannot be read.
        """
        place = self._place(name)
        if not self._is_there():
            return None
        try:
            stream = open(place, "rb")  # noqa: SIM115  # the caller closes it
        except FileNotFoundError:
            return None
        with suppress(OSError):  # an old time only means that it may go early
            os.utime(place)
        return stream

    def write(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        """Makes the file of that name, replacing one that is there; returns its size.

        Args:
            name: its name.
            write: writes the content to a stream.

        Raises:
            NotKeptError: the file is larger than the cache may be, the directory is not its owner's alone, or somebody
                cleared it while the file was written.
            OSError: it cannot be written, as when the disk is full.
        """
        place = self._place(name)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_there()
        temporary = self.path / f"{name}.{secrets.token_hex(6)}{_TEMPORARY}"
        try:
            with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
                write(stream)
                size = stream.tell()
            if size > self.max_bytes:
                raise NotKeptError(f"it needs {format_bytes(size)}, the cache may hold {format_bytes(self.max_bytes)}")
            self.make_room(size)
            try:
                temporary.replace(place)
            except FileNotFoundError as error:
                raise NotKeptError("the cache was cleared meanwhile") from error
        finally:
            temporary.unlink(missing_ok=True)
        return size

    def remove(self, name: str) -> None:
        """Deletes the file of that name if it is there."""
        with suppress(OSError):
            self._place(name).unlink()

    def usage(self) -> Usage:
        """How many files the cache has, and their size in all.

        Raises:
            NotKeptError: the directory belongs to somebody else, or others may write there.
            OSError: it cannot be looked at.
        """
        self._is_there()
        found = self._files()
        return Usage(len(found), sum(info.st_size for _, info in found))

    def make_room(self, size: int) -> None:
        """Deletes what was not used for longest until so many more bytes fit, and what broken-off writers left."""
        found = sorted(self._files(), key=lambda one: one[1].st_mtime_ns)
        total = size + sum(info.st_size for place, info in found if place.suffix != _TEMPORARY)
        now = time.time()
        for place, info in found:
            with suppress(OSError):  # another process was faster
                if place.suffix == _TEMPORARY:
                    if now - info.st_mtime > _ABANDONED_S:
                        place.unlink()
                elif total > self.max_bytes:
                    total -= info.st_size
                    place.unlink()

    def clear(self) -> Usage:
        """Deletes all files of the cache; returns what went."""
        gone = 0
        size = 0
        for place, info in self._files():
            with suppress(OSError):
                place.unlink()
                gone += 1
                size += info.st_size
        return Usage(gone, size)

    def _place(self, name: str) -> Path:
        if not _NAME.match(name) or not name.endswith(ENDINGS):
            raise ValueError(name)
        return self.path / name

    def _is_there(self) -> bool:
        """Whether the directory exists. What others put there would be taken for the numbers of a run.

        Raises:
            NotKeptError: it is not the user's, or others may write there.
        """
        try:
            info = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if hasattr(os, "getuid") and (info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o022):
            raise NotKeptError(f"{self.path} is another user's, or others may write there (chmod 700 makes it yours)")
        return True

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found: list[tuple[Path, os.stat_result]] = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                stem = entry.name.rsplit(".", 2)[0] if entry.name.endswith(_TEMPORARY) else entry.name
                if _NAME.match(stem) and stem.endswith(ENDINGS):
                    with suppress(OSError):
                        if entry.is_file(follow_symlinks=False):
                            found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
        return found


def user_cache(tell: Callable[[str], None] = _silent) -> CacheDir | None:
    """The cache that the environment names; null if it is switched off or the user has no home.

    ``TPUPROF_CACHE_DIR``, else ``tpuprof/runs`` in the user's cache directory; ``TPUPROF_CACHE_SIZE`` bounds it
    (``5GB`` by default, ``0`` switches it off).

    Raises:
        UsageError: the size cannot be read.
    """
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    size = DEFAULT_MAX_BYTES if not text else 0 if text == "0" else int(parse_quantity(text, "B", SIZE_VARIABLE))
    path = user_cache_path()
    return None if size == 0 or path is None else CacheDir(path, size, tell=tell)


def user_cache_path() -> Path | None:
    """Where the user's cache is or would be: by ``TPUPROF_CACHE_DIR``, by the XDG rule, on macOS in Library/Caches.

    Null if the user has no home.
    """
    named = os.environ.get(DIRECTORY_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    if home and Path(home).is_absolute():  # a relative one is to be ignored
        return Path(home) / "tpuprof" / "runs"
    try:
        user = Path.home()
    except RuntimeError:
        return None
    return user / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "tpuprof" / "runs"


_writing: list[threading.Thread] = []
_registering = threading.Lock()


def in_background(work: Callable[[], None]) -> None:
    """Does it in a thread that the interpreter waits for when it ends; not at all where no thread can be had."""
    thread = threading.Thread(target=work, name="tpuprof-cache")
    with _registering, suppress(RuntimeError):
        thread.start()
        _writing[:] = [*(one for one in _writing if one.is_alive()), thread]


def finish_writing() -> None:
    """Waits until everything that was loaded before is in the cache."""
    with _registering:
        threads = list(_writing)
    for thread in threads:
        thread.join()
