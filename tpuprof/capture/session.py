"""Where a capture is stored: the layout that XProf and TensorBoard know, and writes that lose nothing.

``<logdir>/plugins/profile/<session>/<host>.xplane.pb``. A file never replaces another one. Processes of one
distributed program share a session; programs of one process each, started in the same second, do not.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tpuprof.errors import CaptureError, UsageError

XPLANE_SUFFIX = ".xplane.pb"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]{0,199}\Z")
_FREE_SECONDS = 3600  # how many neighbouring seconds are tried for a name that is free


@dataclass(frozen=True)
class ProcessIdentity:
    """Which process of which program wrote a file."""

    host: str
    pid: int
    process_index: int = 0
    process_count: int = 1


def profile_root(logdir: Path) -> Path:
    """The directory of all sessions of a log directory."""
    return logdir / "plugins" / "profile"


def session_name(moment: datetime) -> str:
    """The name that jax would give a session that starts at this local time, e.g. ``2026_03_01_12_30_59``."""
    return moment.strftime("%Y_%m_%d_%H_%M_%S")


def check_name(name: str) -> str:
    """The name of a session given by the user.

    Raises:
        UsageError: it is no plain file name.
    """
    if _NAME.match(name) is None:
        raise UsageError(
            f"{name!r} cannot name a run.",
            hint="Use up to 200 letters, digits and _.+=@- and begin with a letter, digit or underscore.",
        )
    return name


def check_logdir(logdir: str | os.PathLike[str]) -> Path:
    """The absolute path of a log directory, which need not exist yet.

    Raises:
        UsageError: it is the address of an object store.
    """
    text = os.fsdecode(logdir)
    if "://" in text:
        raise UsageError(
            f"{text!r} is not a local directory.",
            hint="Capture to a local directory and copy the run afterwards.",
        )
    return Path(text).expanduser().absolute()


def host_name() -> str:
    """The name of this machine, made safe for a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", socket.gethostname()) or "localhost"


def open_logdir(logdir: Path) -> None:
    """Creates the directory of sessions and proves that files can be written into it.

    Raises:
        CaptureError: it cannot be created or written.
    """
    root = profile_root(logdir)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise CaptureError(
            "The log directory cannot be written.",
            where=str(logdir),
            why=f"{error.strerror or error}.",
            hint="Choose another log directory.",
        ) from error


def store(data: bytes, logdir: Path, identity: ProcessIdentity, *, started: datetime, name: str | None = None) -> Path:
    """Writes a trace into its session and returns the path of the file.

    Args:
        data: a serialised XSpace.
        logdir: the log directory.
        identity: the process that recorded the trace; names the file.
        started: local time of the start, which names the session unless `name` does.
        name: the session, kept even when this host already has a file there.

    Raises:
        CaptureError: the file cannot be written.
    """
    root = profile_root(logdir)
    directory = root
    try:
        for directory in _sessions(root, started, name):
            directory.mkdir(parents=True, exist_ok=True)
            shared = name is not None or identity.process_count > 1
            for stem in _stems(identity) if shared else (identity.host,):
                path = directory / f"{stem}{XPLANE_SUFFIX}"
                if write_new(path, data):
                    return path
    except OSError as error:
        with suppress(OSError):
            directory.rmdir()  # a session without a trace would be listed as a run; one with other files stays
        raise CaptureError(
            "The trace cannot be written.", where=str(root), why=f"{error.strerror or error}."
        ) from error
    raise CaptureError("No free file name is left for the trace.", where=str(root))


def write_new(path: Path, data: bytes) -> bool:
    """Writes a file that did not exist, atomically; False, and nothing changed, when the name is taken.

    Raises:
        OSError: the file cannot be written.
    """
    if path.exists():
        return False
    handle, temporary = tempfile.mkstemp(prefix=".tpuprof-", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp keeps others out; a trace is an ordinary file
        try:
            os.link(temporary, path)  # unlike a rename, it fails when the name is taken
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links: reserve the name, then replace the reservation
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            except FileExistsError:
                return False
            os.replace(temporary, path)
        return True
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _sessions(root: Path, started: datetime, name: str | None) -> Iterator[Path]:
    if name is not None:
        yield root / name
        return
    for seconds in range(_FREE_SECONDS):
        yield root / session_name(started + timedelta(seconds=seconds))


def _stems(identity: ProcessIdentity) -> Iterator[str]:
    # The index stands in every name of a distributed program: hosts may be called alike, and their files may be
    # gathered into one place later.
    if identity.process_count == 1:
        yield identity.host
    yield f"{identity.host}.p{identity.process_index}"
    yield f"{identity.host}.p{identity.process_index}.{identity.pid}"
    for n in range(2, 1000):
        yield f"{identity.host}.p{identity.process_index}.{identity.pid}.{n}"


def _umask() -> int:
    # The umask can only be read by setting it, which is not safe beside other threads; Linux shows it here.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return 0o022
