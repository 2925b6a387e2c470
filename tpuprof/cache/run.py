"""What the cache holds of a run: the arrays behind its tables, what the trace says of its ops, its serialised HLO.

That is what reading and building cost most of their time for, and every table and report comes out of it unchanged.
Sidecars and HLO are not kept as they were understood: sidecars are small and are read anew, and ops are joined to the
HLO anew, as when the run is read. Events are read from the files when they are asked for, as of any large run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache as once
from typing import TYPE_CHECKING, Any, TypeVar

from tpuprof.cache.code import code_mark
from tpuprof.cache.codec import Codec
from tpuprof.cache.container import NotKeptError, Part, read_container, write_container
from tpuprof.cache.digests import content_digests, text_digest
from tpuprof.cache.directory import CacheDir, in_background
from tpuprof.cache.frame import frame_of, frame_parts
from tpuprof.cache.sound import must_be_sound
from tpuprof.errors import HloError
from tpuprof.formats.recording import HostFile, RunFiles, Source
from tpuprof.formats.recordings import NO_EVENTS, Recording
from tpuprof.hlo.load import hlo_files
from tpuprof.quality import Quality
from tpuprof.reading import bytes_to_read
from tpuprof.schema import Schema
from tpuprof.tables.build import Built, Core
from tpuprof.tables.host_clocks import HostClocks
from tpuprof.tables.hostwork import Comparison
from tpuprof.tables.nesting import Nesting
from tpuprof.tables.partition import CorePartition, Gaps
from tpuprof.tables.rows import CoreRecord, Device, ModuleRows, OpFacts, Rows, Shift, StepMarks
from tpuprof.tables.runs import Runs
from tpuprof.tables.stated import StatedCost
from tpuprof.tables.steps import CoreSteps, Steps
from tpuprof.tables.sweep import Spans
from tpuprof.tables.waits import CoreWaits
from tpuprof.tables.windows import Windows
from tpuprof.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd

Content = TypeVar("Content")

FORMAT = 1
"""Changes with what is written; files of another number are never looked at."""


@dataclass(frozen=True, eq=False)
class Head:
    """A host's recording without its events."""

    host: str
    source: Source
    quality: tuple[Quality, ...]
    partial: bool

    def recording(self) -> Recording:
        """The recording, with no events in it."""
        return Recording(self.host, NO_EVENTS, self.source, self.quality, self.partial)


@dataclass(frozen=True, eq=False)
class Kept:
    """A run as the cache holds it.

    Args:
        heads: the recordings, in order of the hosts.
        ops: what the trace says of each op.
        programs: serialised HLO by program id.
        built: what the tables are made of; without ``infos``, which come of ``ops`` and the HLO.
    """

    heads: tuple[Head, ...]
    ops: tuple[OpFacts, ...]
    programs: dict[int, bytes]
    built: Built

    @staticmethod
    def of(heads: Iterable[Recording], ops: tuple[OpFacts, ...], programs: dict[int, bytes], built: Built) -> Kept:
        """What to keep of a run that was read."""
        kept = tuple(Head(head.host, head.source, head.quality, head.partial) for head in heads)
        return Kept(kept, ops, programs, replace(built, infos=()))


@dataclass(frozen=True)
class Entry:
    """The place of one run in the cache."""

    cache: CacheDir
    files: RunFiles
    step_program: str | None
    hlo: str | None
    key: str

    def read(self) -> Kept | None:
        """The run, if the cache has it undamaged."""
        kept = self._read(f"{self.key}.run", self._kept)
        if kept is None:
            self.cache.tell("cache: this run is read from its files")
        return kept

    def write(self, kept: Kept) -> None:
        """Puts the run into the cache, in the background. What goes wrong is told, never raised."""
        in_background(lambda: self._write(f"{self.key}.run", lambda: _codec().encode(kept)))

    def frame(self, schema: Schema, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """A table of the whole run: from the cache, or made, and put into the cache in the background."""
        name = f"{self.key}-{schema.name}.table"
        found = self._read(name, lambda tree, parts: frame_of(tree, parts, schema))
        if found is None:
            found = made = make()
            in_background(lambda: self._write(name, lambda: frame_parts(made, schema)))
        return found

    def _kept(self, tree: Any, parts: list[Part]) -> Kept:
        kept = _codec().decode(tree, parts)
        if not isinstance(kept, Kept):
            raise NotKeptError("its content is no run")
        own = {path for file in self.files.files for path in _paths(file)}
        if not kept.heads or not own.issuperset(head.source.path for head in kept.heads):
            raise NotKeptError("it names other files")
        must_be_sound(kept.built, len(kept.ops))
        return kept

    def _read(self, name: str, of: Callable[[Any, list[Part]], Content]) -> Content | None:
        place, tell = self.cache.path / name, self.cache.tell
        try:
            stream = self.cache.open(name)
            if stream is None:
                tell(f"cache: {place} is not there yet")
                return None
            with stream:
                found = of(*read_container(stream))
        except NotKeptError as error:
            tell(f"cache: {place} cannot be used: {error}")
        except OSError as error:
            tell(f"cache: {place} cannot be read: {error.strerror}")
        else:
            tell(f"cache: taken from {place}")
            return found
        return None

    def _write(self, name: str, content: Callable[[], tuple[Any, list[Part]]]) -> None:
        place, tell = self.cache.path / name, self.cache.tell
        try:
            if _key(self.cache, self.files, self.step_program, self.hlo) != self.key:
                raise NotKeptError("its files changed while they were read")
            tree, parts = content()
            size = self.cache.write(name, lambda stream: write_container(stream, tree, parts))
        except NotKeptError as error:
            tell(f"cache: this run is not kept: {error}")
        except OSError as error:
            tell(f"cache: this run is not kept: {error.strerror}: {self.cache.path}")
        except Exception as error:  # nobody waits for this thread: what would end it is told as well
            tell(f"cache: this run is not kept: {type(error).__name__}: {error}")
        else:
            tell(f"cache: {format_bytes(size)} written to {place}")


def entry_of(cache: CacheDir, files: RunFiles, step_program: str | None, hlo: str | None) -> Entry | None:
    """The place of a run in the cache, by the content of all files that what is kept depends on.

    Null if it has none: the run is small, or on a remote file system, where it would have to be fetched whole to know
    whether it is the same; or a file cannot be read, which reading the run will tell.
    """
    if sum(map(bytes_to_read, files.files)) < cache.min_input_bytes:
        return None
    try:
        return Entry(cache, files, step_program, hlo, _key(cache, files, step_program, hlo))
    except (NotKeptError, HloError) as error:
        cache.tell(f"cache: not used: {error}")
    except OSError as error:
        cache.tell(f"cache: not used: {error.strerror}: {error.filename}")
    return None


def _key(cache: CacheDir, files: RunFiles, step_program: str | None, hlo: str | None) -> str:
    paths = [path for file in files.files for path in _paths(file)]
    remote = next((path for path in (*paths, hlo or "") if "://" in path or "::" in path), None)
    if remote is not None:
        raise NotKeptError(f"{remote} is not on a local file system")
    outside = [] if hlo is None else hlo_files(hlo)
    digests = content_digests(cache, (*paths, *outside))
    identity = [
        FORMAT,
        code_mark(),
        step_program,
        [[file.host, *([path, digests[path]] for path in _paths(file))] for file in files.files],
        None if hlo is None else [hlo, *([path, digests[path]] for path in outside)],
    ]
    return text_digest(identity)


def _paths(file: HostFile) -> Iterator[str]:
    """The file that is read, and the one that may be read instead or beside it."""
    if file.xplane is not None:
        yield file.xplane
    if file.trace_json is not None:
        yield file.trace_json


@once
def _codec() -> Codec:
    return Codec(
        (
            Kept, Head, Source, Quality, Built, Core, CoreRecord, Device, Rows, ModuleRows, StepMarks, Shift, Nesting,
            Runs, Windows, CoreSteps, Steps, CorePartition, Gaps, Spans, Comparison, CoreWaits, HostClocks, StatedCost,
        ),
        rows=(OpFacts,),
    )  # fmt: skip
