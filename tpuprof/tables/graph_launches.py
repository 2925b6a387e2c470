"""Graph launches of one host's GPUs: many kernels handed over in one call, of which a trace may show little.

A launch of a CUDA or HIP graph can appear on the device as its kernels, as one row that stands for all of them, or
not at all. Kernels of a graph often lack the name of the op that they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64
from tpuprof.quality import Quality
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.gpu import GPU_PLANE, STREAM
from tpuprof.tables.rows import MAX_PS
from tpuprof.units import format_ps

_CALL = re.compile(r"(?:cu|cuda|hip)GraphLaunch(?:_\w+)?\Z")
_ROW = re.compile(r"(?:cuda|cu|hip)[ _]?graph(?:[ _]?(?:exec|launch|trace|replay))?(?:[:# ].*)?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GraphLaunches:
    """What is seen of graph launches.

    Args:
        calls: host calls that launched a graph.
        unseen: those of them for which no device shows any row, though it was recorded then.
        opaque_rows: device rows that stand for a whole graph, and their time.
        unnamed_rows: kernels that a graph launched and that do not name their op, and their time.
    """

    calls: int = 0
    unseen: int = 0
    opaque_rows: int = 0
    opaque_ps: int = 0
    unnamed_rows: int = 0
    unnamed_ps: int = 0


NO_GRAPHS = GraphLaunches()


def graph_launches(recording: Recording) -> GraphLaunches:
    """The graph launches of one host; zeros where it has none."""
    start_ns = session_start_ns(recording.space)
    ids, times = _calls(recording, start_ns)
    linked: list[I64] = []
    opaque: list[I64] = []
    unnamed: list[I64] = []
    last = None
    for plane in recording.space.planes:
        if not GPU_PLANE.match(plane.name):
            continue
        graphs = [row for row, meta in enumerate(plane.event_meta) if _ROW.match(meta.label)]
        for line in plane.lines:
            events = line.events
            if not STREAM.match(line.label) or not len(events):
                continue
            valid = (events.duration_ps >= 0) & (events.duration_ps < MAX_PS)
            duration = np.where(valid, events.duration_ps, 0)
            end = int((events.offset_ps + duration).max()) + line_base_ps(line, start_ns, 0)
            last = end if last is None else max(last, end)
            whole = np.isin(events.meta, graphs)
            opaque.append(duration[whole])
            correlation, present = events.int_stat(plane.stat_row("correlation_id"), missing=-1)
            mine = present & np.isin(correlation, ids)
            linked.append(np.unique(correlation[mine]))
            unnamed.append(duration[mine & ~whole & (plane.text_codes(events, "hlo_op") < 0)])
    if last is None:
        return NO_GRAPHS  # no device was recorded, which is told elsewhere
    seen = np.isin(ids, np.concatenate(linked))
    rows, bare = np.concatenate(opaque), np.concatenate(unnamed)
    return GraphLaunches(
        calls=len(ids),
        unseen=int((~seen & (times < last)).sum()),
        opaque_rows=len(rows),
        opaque_ps=int(rows.sum()),
        unnamed_rows=len(bare),
        unnamed_ps=int(bare.sum()),
    )


def graph_quality(graphs: Mapping[str, GraphLaunches]) -> list[Quality]:
    """A quality entry if there are graph launches, by host, whose work the trace does not resolve, else none."""
    seen = list(graphs.values())
    calls, unseen = sum(g.calls for g in seen), sum(g.unseen for g in seen)
    opaque, opaque_ps = sum(g.opaque_rows for g in seen), sum(g.opaque_ps for g in seen)
    unnamed, unnamed_ps = sum(g.unnamed_rows for g in seen), sum(g.unnamed_ps for g in seen)
    told: list[str] = []
    if unseen:
        told.append(f"Of {unseen} of {calls} graph launches the device shows nothing: their work looks like idle time.")
    if opaque:
        told.append(
            f"{opaque} device row(s) stand for a whole graph each, {format_ps(opaque_ps)} in all: what ran inside is "
            "not known, and the time is other_compute."
        )
    if unnamed:
        told.append(
            f"{unnamed} kernel(s) of graphs, {format_ps(unnamed_ps)} in all, do not name their op: they are counted by "
            "the kernel's name, without scope and cost."
        )
    if not told:
        return []
    hint = "Turn command buffers off while you capture: XLA_FLAGS=--xla_gpu_enable_command_buffer="
    scope = {
        "calls": calls,
        "unseen": unseen,
        "opaque_rows": opaque,
        "opaque_ps": opaque_ps,
        "unnamed_rows": unnamed,
        "unnamed_ps": unnamed_ps,
        "hosts": [host for host, found in graphs.items() if found != NO_GRAPHS],
    }
    severity = "warning" if unseen or opaque else "info"
    return [Quality("opaque_launch", severity, f"{' '.join(told)} {hint}", unseen + opaque or unnamed, scope)]


def _calls(recording: Recording, start_ns: int | None) -> tuple[I64, I64]:
    """Correlation ids and start times of the host calls that launch graphs."""
    ids, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for plane, line in recording.space.lines():
        key = plane.stat_row("correlation_id")
        if not plane.name.startswith("/host:") or key < 0:
            continue
        calls = [row for row, meta in enumerate(plane.event_meta) if _CALL.match(meta.label)]
        if not calls:
            continue
        correlation, present = line.events.int_stat(key)
        rows = np.flatnonzero(present & np.isin(line.events.meta, calls))
        ids.append(correlation[rows])
        times.append(line.events.offset_ps[rows] + line_base_ps(line, start_ns, 0))
    return np.concatenate(ids), np.concatenate(times)
