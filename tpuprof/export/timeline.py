"""A run as tracks of slices, on the clock of the tables: what a timeline viewer draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tpuprof.errors import UsageError
from tpuprof.export.trim import trim
from tpuprof.formats.xspace import I64
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Core
from tpuprof.tables.frames import host_events_frame
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.windows import FORMS

if TYPE_CHECKING:
    from tpuprof.trace import Trace

LANES = {  # track → the parts of the partition on it
    "Exposed collectives": ("collective_exposed",),
    "Waits": ("host_transfer", "dma_wait", "barrier_wait"),
    "Idle causes": ("idle",),
}
EXPOSED, WAITS, IDLE = LANES
_HALVES = tuple(FORMS.index(form) for form in ("start_only", "done_only"))
Facts = dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Slices of one line, in order of (start, longer first); they are nested or apart.

    ``kind`` points for each slice into ``names`` and ``facts``.
    """

    name: str
    start: I64
    duration: I64
    kind: I64
    names: tuple[str, ...]
    facts: tuple[Facts, ...]

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Group:
    """The tracks of one device, or of one host's threads."""

    name: str
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """All tracks, devices first, and how many host events were left out to keep within the bound."""

    groups: tuple[Group, ...]
    left_out: int

    def __len__(self) -> int:
        return sum(len(track) for group in self.groups for track in group.tracks)


def timeline(trace: Trace, max_events: int) -> Timeline:
    """The tracks of the chosen devices and steps, named as XProf names them.

    Of every device: its steps, program executions, ops (loops around their bodies), asynchronous work, and from the
    partition exposed collectives, waits and idle time by cause. Then the hosts' threads. Device tracks are whole;
    of host events the longest are kept.

    Raises:
        UsageError: the device tracks alone have more than ``max_events`` slices.
    """
    several = len(trace.hosts) > 1
    segments = {str(device): rows for device, rows in trace.segments.groupby("device", observed=True)}
    groups = [_device(trace, core, segments.get(core.record.device.id), several) for core in trace.built.cores]
    used = sum(len(track) for group in groups for track in group.tracks)
    if used > max_events:
        raise UsageError(
            f"The devices alone have {used} events, more than --max-events {max_events}.",
            hint="Choose fewer steps with --steps or fewer cores with --devices, or allow more events.",
        )
    frame = host_events_frame(trim(trace), trace.origin_ns, trace.built.host_clocks.offset_ps)
    left_out = max(len(frame) - (max_events - used), 0)
    if left_out:
        length = frame["duration_ps"].array.to_numpy(np.int64, na_value=0)
        frame = frame.iloc[np.sort(np.argsort(-length, kind="stable")[: max_events - used])]
    return Timeline((*groups, *_hosts(frame, several)), left_out)


def _device(trace: Trace, core: Core, segments: pd.DataFrame | None, several: bool) -> Group:
    device = core.record.device
    plane = f"/device:{device.id.rpartition('/')[2]}"
    chosen = np.ones(len(core.steps), np.bool_)
    if trace.selected_steps is not None:
        chosen = np.isin(core.steps.number, list(trace.selected_steps))
    start, end = core.steps.start[chosen], core.steps.end[chosen]

    def inside(times: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if trace.selected_steps is None:
            return np.ones(len(times), np.bool_)
        at = np.searchsorted(start, times, side="right") - 1
        return (at >= 0) & (times < end[np.maximum(at, 0)]) if len(start) else np.zeros(len(times), np.bool_)

    tracks: list[Track] = []
    if trace.step_source != "none":
        tracks.append(_named("Steps", start, end - start, [str(n) for n in ints(core.steps.number[chosen])]))
    modules = core.runs.modules
    rows = np.flatnonzero(inside(modules.start))
    labels = [modules.label(row) for row in ints(rows)]
    tracks += _apart("XLA Modules", _named("", modules.start[rows], (modules.end - modules.start)[rows], labels))
    tracks += _op_tracks(core, trace.built.infos, inside)
    windows = core.windows
    rows = np.flatnonzero(windows.asynchronous & ~np.isin(windows.form, _HALVES) & inside(windows.start))
    facts = _Facts(trace.built.infos, windows.info[rows])
    flights = Track("", windows.start[rows], (windows.end - windows.start)[rows], facts.kind, facts.names, facts.facts)
    tracks += _apart("Async XLA Ops", flights)
    if segments is not None:
        tracks += _partition_tracks(segments)
    return Group(f"{plane} ({device.host})" if several else plane, tuple(track for track in tracks if len(track)))


def _op_tracks(core: Core, infos: Sequence[OpInfo], inside: Callable[[I64], np.ndarray[Any, Any]]) -> list[Track]:
    ops = core.record.ops
    tracks: list[Track] = []
    keep = inside(ops.start)
    for lane, label in enumerate(core.record.lanes):
        rows = np.flatnonzero(keep & (ops.lane == lane))
        if len(rows):
            facts = _Facts(infos, ops.info[rows])
            tracks += _apart(
                label, Track("", ops.start[rows], ops.duration[rows], facts.kind, facts.names, facts.facts)
            )
    return tracks


def _partition_tracks(segments: pd.DataFrame) -> list[Track]:
    tracks: list[Track] = []
    part = segments["part"].astype("str").to_numpy()
    cause = segments["cause"].astype("object").where(segments["cause"].notna(), "cause unknown").to_numpy()
    for track, parts in LANES.items():
        rows = np.flatnonzero(np.isin(part.astype(str), parts))
        names = [str(cause[row]) if track == IDLE else str(part[row]) for row in ints(rows)]
        start = segments["start_ps"].to_numpy(np.int64)[rows]
        tracks.append(_named(track, start, segments["duration_ps"].to_numpy(np.int64)[rows], names))
    return tracks


def _hosts(frame: pd.DataFrame, several: bool) -> list[Group]:
    groups: list[Group] = []
    for host, of_host in frame.groupby("host", observed=True, sort=True):
        tracks: list[Track] = []
        for thread, rows in of_host.groupby("thread", observed=True, sort=False):
            names = rows["name"].cat
            start = rows["start_ps"].to_numpy(np.int64)
            length = rows["duration_ps"].array.to_numpy(np.int64, na_value=0)
            codes, kind = np.unique(names.codes.to_numpy(), return_inverse=True)
            texts = tuple(str(names.categories[code]) for code in ints(codes))
            facts: tuple[Facts, ...] = tuple({} for _ in texts)
            tracks += _apart(str(thread), Track("", start, length, kind.reshape(-1).astype(np.int64), texts, facts))
        groups.append(Group(f"/host:CPU ({host})" if several else "/host:CPU", tuple(tracks)))
    return groups


class _Facts:
    """Names and facts of ops, one per op, and for each row which."""

    def __init__(self, infos: Sequence[OpInfo], info: np.ndarray[Any, Any]) -> None:
        used, kind = np.unique(info, return_inverse=True)
        self.kind: I64 = kind.reshape(-1).astype(np.int64)
        chosen = [infos[row] for row in ints(used)]
        self.names = tuple(one.name for one in chosen)
        self.facts = tuple(_facts(one) for one in chosen)


def _facts(info: OpInfo) -> Facts:
    found = {
        "hlo_category": info.category or info.cls.kind.replace("_", " "),
        "kind": info.cls.kind,
        "tf_op": info.scope,
        "source": info.source,
        "hlo_module": info.module,
        "program_id": None if info.program_id is None else str(info.program_id),
    }
    return {key: value for key, value in found.items() if value}


def _named(name: str, start: I64, duration: I64, labels: Sequence[str]) -> Track:
    """A track whose slices are told by their names alone."""
    rows: dict[str, int] = {}
    kind = np.array([rows.setdefault(label, len(rows)) for label in labels], np.int64)
    return Track(name, start, duration, kind, tuple(rows), tuple({} for _ in rows))


def _apart(name: str, track: Track) -> list[Track]:
    """Tracks on which slices are nested or apart, as many as that takes: ``NAME``, ``NAME (2)`` …"""
    order = np.lexsort((-track.duration, track.start))
    start, duration, kind = track.start[order], track.duration[order], track.kind[order]
    lane = nested_lanes(start, start + duration)
    found: list[Track] = []
    for number in range(int(lane.max()) + 1 if len(lane) else 1):
        rows = np.flatnonzero(lane == number)
        label = name if not number else f"{name} ({number + 1})"
        found.append(Track(label, start[rows], duration[rows], kind[rows], track.names, track.facts))
    return found


def nested_lanes(start: I64, end: I64) -> I64:
    """For slices in order of (start, longer first) the first lane on which each is inside or after all others."""
    open_ends: list[list[int]] = []
    lanes: list[int] = []
    for begin, stop in zip(ints(start), ints(end), strict=True):
        for stack in open_ends:
            while stack and stack[-1] <= begin:
                stack.pop()
        fits = (lane for lane, stack in enumerate(open_ends) if not stack or stop <= stack[-1])
        lane = next(fits, len(open_ends))
        if lane == len(open_ends):
            open_ends.append([])
        open_ends[lane].append(stop)
        lanes.append(lane)
    return np.array(lanes, np.int64)
