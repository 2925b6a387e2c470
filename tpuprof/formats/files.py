"""Files wherever they are: local paths, mapped into memory, and URLs of every fsspec file system."""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, TypeVar

from tpuprof.errors import (
    InputError,
    InputTooLargeError,
    MissingDependencyError,
    TraceNotFoundError,
    UsageError,
)

MAX_FILE_BYTES = 64 << 30
MAX_ENTRIES = 50_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory: its name, its path or URL, its size (0 for directories), its time of change.

    ``modified`` is in seconds since the epoch, null where the file system does not say.
    """

    name: str
    path: str
    is_dir: bool
    size: int
    modified: float | None


def as_location(path: str | os.PathLike[str]) -> str:
    """A path as text: absolute for local files, as it is for URLs, without a slash at the end.

    Raises:
        UsageError: the path is empty (an unset variable, as a rule), which would mean the working directory, or holds
            a null character.
    """
    text = os.fspath(path)
    if not text or "\0" in text:
        raise UsageError(
            "The path is empty." if not text else "The path holds a null character.",
            hint="Give a trace, a session or a log directory; the working directory is called '.'.",
        )
    if _is_url(text):
        return text.rstrip("/") if not text.rstrip("/").endswith(":") else text
    return os.path.abspath(Path(text.removeprefix("file://")).expanduser())


def join(location: str, *names: str) -> str:
    """The location of something within a directory."""
    if not _is_url(location):
        return os.path.join(location, *names)
    return location + ("" if location.endswith("/") else "/") + "/".join(names)


def parent(location: str) -> str:
    """The directory that holds the location."""
    return location.rsplit("/", 1)[0] if _is_url(location) else os.path.dirname(location)


def base_name(location: str) -> str:
    """The last part of the location."""
    return location.rstrip("/").rsplit("/", 1)[-1] if _is_url(location) else os.path.basename(location)


def find(location: str) -> Entry | None:
    """What is at the location, or null if nothing is. Links given by the user are followed.

    Raises:
        InputError: it cannot be looked at.
        MissingDependencyError: the package that reads this kind of URL is not installed.
        UsageError: there is no such kind of URL.
    """
    with suppress(TraceNotFoundError):
        if not _is_url(location):
            return _local_entry(location, _guarded(location, lambda: os.stat(location)))
        fs, path = _file_system(location)
        fs.invalidate_cache()  # some file systems remember what they listed earlier
        return _remote_entry(location, _guarded(location, lambda: fs.info(path)))
    return None


def list_directory(location: str, *, root: str | None = None) -> tuple[Entry, ...]:
    """The files and directories in a directory, by name.

    Links are followed to files within ``root`` (by default the directory itself) and to nothing else.

    Raises:
        TraceNotFoundError: there is no such directory.
        InputError: it cannot be read, or holds more than ``MAX_ENTRIES``.
    """
    if _is_url(location):
        fs, path = _file_system(location)
        infos: list[dict[str, Any]] = _guarded(location, lambda: fs.ls(path, detail=True))
        found = [_remote_entry(join(location, _last(str(info["name"]))), info) for info in infos]
        # Some stores list the directory itself as an empty object.
        found = [entry for entry in found if entry.name and entry.name != base_name(location)]
    else:
        inside = os.path.realpath(root or location)
        found = _guarded(location, lambda: _local_entries(location, inside))
    if len(found) > MAX_ENTRIES:
        raise InputTooLargeError(
            f"The directory holds more than {MAX_ENTRIES} entries.",
            where=location,
            hint="Give the directory of one run.",
        )
    return tuple(sorted(found, key=lambda entry: entry.name))


def open_bytes(location: str) -> bytes | mmap:
    """The bytes of a file: a memory map of a local one, the content of a remote one.

    Raises:
        TraceNotFoundError: there is no such file.
        InputTooLargeError: it is larger than ``MAX_FILE_BYTES``.
        InputError: it is not a regular file or cannot be read.
        MissingDependencyError: the package that reads this kind of URL is not installed.
    """
    if not _is_url(location):
        return _guarded(location, lambda: _map_file(location))
    fs, path = _file_system(location)
    size: int | None = _guarded(location, lambda: fs.size(path))
    _check_size(location, size or 0)
    return _guarded(location, lambda: bytes(fs.cat_file(path)))


def _is_url(text: str) -> bool:
    return ("://" in text or "::" in text) and not text.startswith("file://")


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]


def _map_file(path: str) -> bytes | mmap:
    with open(path, "rb", opener=_open_without_waiting) as file:
        info = os.fstat(file.fileno())
        if not stat_module.S_ISREG(info.st_mode):
            raise InputError("This is not a regular file.", where=path, hint="Give a trace file or a directory.")
        _check_size(path, info.st_size)
        return mmap(file.fileno(), 0, access=ACCESS_READ) if info.st_size else b""


def _open_without_waiting(path: str, flags: int) -> int:
    # A pipe without a writer would block for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_size(location: str, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise InputTooLargeError(
            f"The file has {size} bytes; the limit is {MAX_FILE_BYTES}.",
            where=location,
            hint="Capture fewer steps.",
        )


def _local_entry(path: str, info: os.stat_result) -> Entry:
    is_dir = stat_module.S_ISDIR(info.st_mode)
    return Entry(os.path.basename(path), path, is_dir, 0 if is_dir else info.st_size, info.st_mtime)


def _local_entries(path: str, inside: str) -> list[Entry]:
    found: list[Entry] = []
    with os.scandir(path) as entries:
        for entry in islice(entries, MAX_ENTRIES + 1):
            with suppress(OSError):  # it may be gone by now, or be a link to nothing
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if entry.is_dir() or os.path.commonpath([inside, target]) != inside:
                        continue
                found.append(_local_entry(entry.path, entry.stat()))
    return found


def _remote_entry(location: str, info: dict[str, Any]) -> Entry:
    is_dir = info.get("type") == "directory"
    return Entry(base_name(location), location, is_dir, 0 if is_dir else int(info.get("size") or 0), _modified(info))


def _modified(info: dict[str, Any]) -> float | None:
    """The time of change, under whatever name and type the file system gives it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        with suppress(ValueError):
            if isinstance(value, str):
                value = datetime.fromisoformat(value)
            if isinstance(value, datetime):
                return value.timestamp()
            if isinstance(value, int | float):
                return float(value)
    return None


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path within it."""
    import fsspec.core  # pyright: ignore[reportMissingTypeStubs]

    split: Any = fsspec.core.url_to_fs  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    protocol = url.split("://", 1)[0].split("::", 1)[0]
    try:
        fs, path = split(url)
    except ImportError as error:
        package = _package(protocol, error)
        raise MissingDependencyError(
            f"Reading {protocol}:// needs the package {package}, which is not installed.",
            where=url,
            hint=f"Install it: pip install {package}",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{protocol!r} is not a kind of URL that can be read.",
            where=url,
            hint="Use a local path or a URL such as gs://, s3://, https:// or memory://.",
        ) from error
    except Exception as error:
        raise _failure(url, error) from error
    return fs, str(path)


def _package(protocol: str, error: ImportError) -> str:
    from fsspec.registry import known_implementations  # pyright: ignore[reportMissingTypeStubs]

    known: Any = known_implementations
    package = str(known.get(protocol, {}).get("class", protocol)).split(".", 1)[0]
    if package == "fsspec":  # the driver is there, what it needs is not
        cause = error.__cause__ or error
        package = getattr(cause, "name", None) or protocol
    return package


def _guarded(location: str, action: Callable[[], T]) -> T:
    """The action's result; what file systems raise, and drivers raise anything, becomes an error of ours."""
    try:
        return action()
    except InputError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TraceNotFoundError(
            "There is no such file or directory.",
            where=location,
            hint="Check the path; `tpuprof runs LOGDIR` lists the runs of a log directory.",
        ) from error
    except PermissionError as error:
        raise InputError(
            "It may not be read: permission denied.",
            where=location,
            hint="Ask its owner for access, or copy it to a place of yours.",
        ) from error
    except Exception as error:
        raise _failure(location, error) from error


def _failure(location: str, error: Exception) -> InputError:
    return InputError("It cannot be read.", where=location, why=f"{type(error).__name__}: {error}.")
