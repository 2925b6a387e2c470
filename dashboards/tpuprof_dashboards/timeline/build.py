"""From a trace to its timeline: tracks per device as XProf names them, the partition's lanes, host threads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tpuprof.export.timeline import EXPOSED, IDLE, LANES, WAITS
from tpuprof.palette import LOOKS
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Core
from tpuprof.tables.frames import host_events_frame
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS
from tpuprof.tables.windows import FORMS
from tpuprof_dashboards.timeline.items import Item, Items, ItemTable
from tpuprof_dashboards.timeline.looks import colour_of_cause, colour_of_kind, colour_of_part, tone, tone_of
from tpuprof_dashboards.timeline.model import Group, TimelineModel, Track
from tpuprof_dashboards.timeline.rows import I32, MAX_DEPTH, Events, make_rows

if TYPE_CHECKING:
    from tpuprof.trace import Trace

HOSTS_READ = 8
"""Of larger runs the hosts' threads are left out: their files would all have to be read again."""

STEPS, MODULES, ASYNC = "Steps", "XLA Modules", "Async XLA Ops"
ABOUT = {
    STEPS: "Steps as they enter the statistics: each from its start to the start of the next one.",
    MODULES: "Executions of programs on this core.",
    ASYNC: "Copies and collectives in flight: from the begin of the start half to the end of the done half.",
    EXPOSED: "Time in which a collective runs or is waited for while the core computes nothing.",
    WAITS: "Time in which the core waits for a transfer from or to the host, for a copy, or for its peers.",
    IDLE: "Time in which nothing runs on the core and nothing is waited for, by what held it up.",
}
_ABOUT_OPS = "Ops on this line of the core; loops, branches and calls enclose what they run."
_ABOUT_THREAD = "Events of a thread of the host that take time."
_HALVES = tuple(FORMS.index(form) for form in ("start_only", "done_only"))
_Part = tuple[str, str, Events]  # name, about, events


def build_timeline(trace: Trace) -> TimelineModel:
    """The timeline of a run, of all its steps; a selection of steps only says where to look first.

    Of every chosen device: its steps, program executions, ops (loops around their bodies), asynchronous work, exposed
    collectives, waits and idle time by cause. Then the threads of the hosts, if they are few enough.
    """
    whole = trace if trace.selected_steps is None else replace(trace, selected_steps=None)
    items = ItemTable()
    several = len(whole.hosts) > 1
    infos = whole.built.infos
    item_of_info = np.array([items.add(_op_item(info)) for info in infos] or [0], np.int32)
    segments = {str(device): rows for device, rows in whole.segments.groupby("device", observed=True)}
    drafts: list[tuple[str, str, list[_Part], str]] = []
    for core in whole.built.cores:
        tracks = _device_tracks(whole, core, segments.get(core.record.device.id), items, item_of_info)
        device = core.record.device
        plane = f"/device:{device.id.rpartition('/')[2]}"
        drafts.append((f"{plane} ({device.host})" if several else plane, device.id, tracks, _note(whole, core)))
    notes: list[str] = []
    hosts = {core.record.device.host for core in whole.built.cores} or set(whole.hosts)
    if whole.recordings.held or len(hosts) <= HOSTS_READ:
        drafts += [
            (f"/host:CPU ({host})" if several else "/host:CPU", "", tracks, "")
            for host, tracks in _host_tracks(_host_events(whole, hosts), items)
        ]
    else:
        notes.append(f"The threads of {len(hosts)} hosts are left out; choose devices of at most {HOSTS_READ}.")
    return _model(trace, items.done(), drafts, notes)


def _model(
    trace: Trace,
    items: Items,
    drafts: Sequence[tuple[str, str, list[_Part], str]],
    notes: Sequence[str],
) -> TimelineModel:
    groups: list[Group] = []
    told = list(notes)
    for name, device, parts, note in drafts:
        tracks: list[Track] = []
        for title, about, events in parts:
            rows, deeper = make_rows(events, items.colours)
            if rows:
                tracks.append(Track(title, about, rows, deeper, about == _ABOUT_OPS))
            if deeper:
                told.append(f"{deeper} events of {title} on {name} nest deeper than {MAX_DEPTH} and are not drawn.")
        if tracks:
            groups.append(Group(name, device, tuple(tracks), note))
    rows = [row.events for group in groups for track in group.tracks for row in track.rows]
    start = min((int(events.start[0]) for events in rows), default=0)
    end = max((int(events.end[-1]) for events in rows), default=0)
    end = max(end, start + 1)
    return TimelineModel(trace.name, tuple(groups), items, start, end, _home(trace, start, end), tuple(told))


def _home(trace: Trace, start: int, end: int) -> tuple[int, int]:
    """Where to look first: the chosen steps, else all steps, else the devices' work."""
    steps = trace.steps
    if trace.step_source != "none" and len(steps):
        begin = int(steps["start_ps"].min())
        stop = int((steps["start_ps"] + steps["duration_ps"]).max())
    elif trace.window_ps is not None:
        begin, stop = trace.window_ps
    else:
        return start, end
    margin = max((stop - begin) // 100, 1)
    return max(begin - margin, start), min(stop + margin, end) if stop > begin else end


def _note(trace: Trace, core: Core) -> str:
    notes: list[str] = []
    if not trace.built.host_clocks.comparable:
        notes.append("This host's clock cannot be compared with those of the other hosts.")
    if core.clocks.reason is not None:
        notes.append(f"The clocks of device and host cannot be compared ({core.clocks.reason}).")
    return " ".join(notes)


def _device_tracks(
    trace: Trace, core: Core, segments: pd.DataFrame | None, items: ItemTable, item_of_info: I32
) -> list[_Part]:
    tracks: list[_Part] = []
    steps = core.steps
    if trace.step_source != "none":
        numbers = [items.add(Item(f"step {n}", tone(4 * (n % 2)), "step")) for n in ints(steps.number)]
        tracks.append((STEPS, ABOUT[STEPS], Events(steps.start, steps.end, np.array(numbers, np.int32))))
    modules = core.runs.modules
    labels = [modules.label(row) for row in range(len(modules))]
    programs = [items.add(Item(label, tone_of(label), "program")) for label in labels]
    tracks.append((MODULES, ABOUT[MODULES], Events(modules.start, modules.end, np.array(programs, np.int32))))
    ops = core.record.ops
    for lane, label in enumerate(core.record.lanes):
        every = len(core.record.lanes) == 1
        rows = slice(None) if every else np.flatnonzero(ops.lane == lane)
        start = ops.start[rows]
        events = Events(
            start, start + ops.duration[rows], item_of_info[ops.info[rows]], core.nesting.self_ps[rows], ops.valid[rows]
        )
        tracks.append((label, _ABOUT_OPS, events))
    windows = core.windows
    rows = np.flatnonzero(windows.asynchronous & ~np.isin(windows.form, _HALVES))
    flights = Events(windows.start[rows], windows.end[rows], item_of_info[windows.info[rows]])
    tracks.append((ASYNC, ABOUT[ASYNC], flights))
    if segments is not None:
        tracks += [(lane, ABOUT[lane], _lane(segments, lane, items)) for lane in LANES]
    return tracks


def _lane(segments: pd.DataFrame, lane: str, items: ItemTable) -> Events:
    """The stretches of the partition that a lane shows; idle ones are told apart by their causes."""
    if lane == IDLE:
        causes = [*IDLE_CAUSES, "unknown"]  # the last one is that of code -1
        item = np.array(
            [items.add(Item(c.replace("_", " "), colour_of_cause(c), "idle, by cause")) for c in causes], np.int32
        )
        codes = segments["cause"].cat.set_categories(list(IDLE_CAUSES)).cat.codes.to_numpy()
    else:
        labels = [LOOKS[part].label for part in PARTS]
        item = np.array(
            [items.add(Item(label, colour_of_part(p), label)) for p, label in zip(PARTS, labels, strict=True)], np.int32
        )
        codes = segments["part"].cat.set_categories(list(PARTS)).cat.codes.to_numpy()
    part = segments["part"].cat.set_categories(list(PARTS)).cat.codes.to_numpy()
    rows = np.flatnonzero(np.isin(part, [PARTS.index(p) for p in LANES[lane]]))
    start = segments["start_ps"].to_numpy(np.int64)[rows]
    return Events(start, start + segments["duration_ps"].to_numpy(np.int64)[rows], item[codes[rows]])


def _host_events(trace: Trace, hosts: Collection[str]) -> pd.DataFrame:
    """Table ``host_events`` of some hosts; no file of another one is read."""
    if len(hosts) == len(trace.hosts):
        return trace.host_events
    wanted = [number for number, host in enumerate(trace.hosts) if host in hosts]
    recordings = (trace.recordings[number] for number in wanted)
    return host_events_frame(recordings, trace.origin_ns, trace.built.host_clocks.offset_ps)


def _host_tracks(frame: pd.DataFrame, items: ItemTable) -> list[tuple[str, list[_Part]]]:
    names = [str(name) for name in frame["name"].cat.categories]
    item = np.array([items.add(Item(name, tone_of(name), "host")) for name in names] or [0], np.int32)
    codes = frame["name"].cat.codes.to_numpy()
    start = frame["start_ps"].to_numpy(np.int64)
    length = frame["duration_ps"].array
    bad = np.asarray(frame["duration_ps"].isna())
    end = start + length.to_numpy(np.int64, na_value=0)
    groups: list[tuple[str, list[_Part]]] = []
    of_frame = frame.assign(row=np.arange(len(frame)))[["host", "thread", "row"]]
    for host, of_host in of_frame.groupby("host", observed=True, sort=True):
        tracks: list[_Part] = []
        for thread, of_thread in of_host.groupby("thread", observed=True, sort=False):
            rows = of_thread["row"].to_numpy(np.int64)
            tracks.append(
                (str(thread), _ABOUT_THREAD, Events(start[rows], end[rows], item[codes[rows]], None, ~bad[rows]))
            )
        groups.append((str(host), tracks))
    return groups


def _op_item(info: OpInfo) -> Item:
    kind = info.cls.kind
    return Item(
        info.name,
        colour_of_kind(kind),
        kind,
        info.scope or "",
        info.source or "",
        info.module or "",
        info.category or "",
    )
