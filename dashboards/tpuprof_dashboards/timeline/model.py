"""A run as a timeline: groups of tracks of rows, and what their events are."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tpuprof_dashboards.timeline.items import Items
from tpuprof_dashboards.timeline.overview import busy_shares
from tpuprof_dashboards.timeline.rows import Row

SKETCHED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One line of a device or host.

    Args:
        name: as XProf names it.
        about: what it shows, for people.
        rows: disjoint events each, outermost first.
        deeper: events that are not drawn because they nest too deep.
        is_work: whether it holds the ops of a core.
    """

    name: str
    about: str
    rows: tuple[Row, ...]
    deeper: int = 0
    is_work: bool = False

    def __len__(self) -> int:
        return sum(len(row) for row in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The tracks of one device or of one host's threads.

    Args:
        name: the plane's name, with the host where there are several.
        device: the device's id as in the tables; empty for a host.
        note: what a reader must know, such as clocks that cannot be compared; empty if nothing.
        tracks: from top to bottom.
    """

    name: str
    device: str
    tracks: tuple[Track, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row belongs."""

    group: Group
    track: Track
    depth: int


@dataclass(frozen=True, eq=False)
class TimelineModel:
    """A run as a timeline; built once, never changed, and shared by all who look at the run.

    Rows are numbered through all groups and tracks from 0. Times are ps on the trace's clock.

    Args:
        name: the run.
        groups: devices first, then hosts.
        items: what events are.
        start: when the first event starts.
        end: when the last one ends; after ``start``.
        home: the stretch that is worth a first look: the steps, else the devices' work, else everything.
        notes: what is left out, in sentences.
    """

    name: str
    groups: tuple[Group, ...]
    items: Items
    start: int
    end: int
    home: tuple[int, int]
    notes: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All rows by number."""
        return tuple(row for group in self.groups for track in group.tracks for row in track.rows)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """For each row where it belongs."""
        return tuple(
            Place(group, track, depth)
            for group in self.groups
            for track in group.tracks
            for depth in range(len(track.rows))
        )

    @cached_property
    def token(self) -> str:
        """Tells runs apart: what a browser said of one must not be taken for another."""
        facts = (self.name, self.start, self.end, self.n_events, [group.name for group in self.groups])
        return f"{zlib.crc32(repr(facts).encode('utf-8', 'replace')):08x}"

    @cached_property
    def busy(self) -> npt.NDArray[np.float64]:
        """How busy the devices are along the whole run, as shares; the mean over at most ``SKETCHED`` devices."""
        work = [[t.rows[0] for t in group.tracks if t.is_work] for group in self.groups if group.device]
        return busy_shares(work[:SKETCHED], self.start, self.end)

    @cached_property
    def n_events(self) -> int:
        """How many events the rows hold."""
        return sum(len(row) for row in self.rows)
