"""The recordings of a run whose events are held, or read again when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from tpuprof.formats.load import read_host
from tpuprof.formats.recording import HostFile, Recording
from tpuprof.formats.xspace import Space

NO_EVENTS = Space(())


class Recordings(Sequence[Recording]):
    """What every host recorded, in order of the hosts.

    Events of a large run are not held: each access reads that host's file again, and iterating holds one host's
    events at a time.

    Args:
        heads: the recordings; without their events if ``files`` is given.
        files: the files to read again, one per recording; empty if the events are held.
        read: how a file is read again.
        hold: keep the events of a file that was read again.
    """

    def __init__(
        self,
        heads: Sequence[Recording],
        files: Sequence[HostFile] = (),
        read: Callable[[HostFile], Recording] = read_host,
        *,
        hold: bool = False,
    ) -> None:
        self.heads = tuple(heads)
        self._files = tuple(files)
        self._read = read
        self._again: dict[HostFile, Space] | None = {} if hold else None

    @property
    def held(self) -> bool:
        """Whether the events are in memory."""
        return not self._files

    def __len__(self) -> int:
        return len(self.heads)

    @overload
    def __getitem__(self, index: int) -> Recording: ...

    @overload
    def __getitem__(self, index: slice) -> Recordings: ...

    def __getitem__(self, index: int | slice) -> Recording | Recordings:
        if isinstance(index, slice):
            part = Recordings(self.heads[index], self._files[index], self._read)
            part._again = self._again
            return part
        head = self.heads[index]
        if self.held:
            return head
        file = self._files[index]
        space = None if self._again is None else self._again.get(file)
        if space is None:
            # The file has been read before: what is wrong with it was said then, and stands in the head.
            space = self._read(file).space
            if self._again is not None:
                self._again[file] = space
        return replace(head, space=space)
