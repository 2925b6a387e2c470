"""One host's contribution to a run: the decoded space and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tpuprof.formats.xspace import Space
from tpuprof.quality import Quality

SourceFormat = Literal["xplane", "trace_json"]

EVENT_CAP = 1_000_000
"""How many events the converter of ``trace.json`` writes at most, by default."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadResult:
    """A decoded file, what was noticed while reading it, and whether something of it is known to be missing."""

    space: Space
    quality: tuple[Quality, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file that was read."""

    path: str  # path or fsspec URL
    format: SourceFormat
    size_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What one host recorded.

    Args:
        host: the host's name, from the file's ``hostnames``, else from the file name.
        space: the decoded planes.
        source: the file.
        quality: what the reader noticed (``truncated``, ``bad_utf8``, ``events_capped`` …).
        partial: true when the data is known to be incomplete.
    """

    host: str
    space: Space
    source: Source
    quality: tuple[Quality, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True)
class HostFile:
    """One host's files in a session, before reading; at least one of the two paths is set."""

    host: str
    xplane: str | None = None
    trace_json: str | None = None
    xplane_size: int = 0
    trace_json_size: int = 0


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run found on disk or on a remote file system.

    Args:
        name: the session's name, normally the directory's (``2026_01_01_00_00_00``).
        path: the directory or file that was found, as a path or fsspec URL.
        files: the hosts' files.
        others: names of other runs under the same root, newest first.
    """

    name: str
    path: str
    files: tuple[HostFile, ...]
    others: tuple[str, ...] = field(default=())

    @property
    def size_bytes(self) -> int:
        """All files of the run together."""
        return sum(file.xplane_size + file.trace_json_size for file in self.files)
