"""Rows of the host's threads: step annotations and host events."""

from __future__ import annotations

import numpy as np

from tpuprof.formats.recording import Recording
from tpuprof.formats.xspace import I64, Line, Plane
from tpuprof.tables.arrays import ints
from tpuprof.tables.clock import line_base_ps, session_start_ns
from tpuprof.tables.rows import MAX_PS, StepMarks


def host_lines(recording: Recording) -> list[tuple[Plane, Line]]:
    """The lines of host threads: planes ``/host:*`` but the metadata plane."""
    return [
        (plane, line)
        for plane, line in recording.space.lines()
        if plane.name.startswith("/host:") and plane.name != "/host:metadata" and len(line.events)
    ]


def step_annotations(recording: Recording, origin: int) -> StepMarks | None:
    """StepTraceAnnotations of one host: events with a stat ``step_num``; null if there are none.

    Several threads may annotate the same step, and a trainer's annotation may hold the user's own: of annotations with
    one number that overlap in time only the first counts.
    """
    start_ns = session_start_ns(recording.space)
    numbers: list[I64] = []
    starts: list[I64] = []
    ends: list[I64] = []
    for plane, line in host_lines(recording):
        number, present = line.events.int_stat(plane.stat_row("step_num"))
        rows = np.flatnonzero(present & (line.events.duration_ps >= 0) & (line.events.duration_ps < MAX_PS))
        if len(rows):
            start = line.events.offset_ps[rows] + line_base_ps(line, start_ns, origin)
            numbers.append(number[rows])
            starts.append(start)
            ends.append(start + line.events.duration_ps[rows])
    if not numbers:
        return None
    number, start, end = np.concatenate(numbers), np.concatenate(starts), np.concatenate(ends)
    order = np.argsort(start, kind="stable")
    until: dict[int, int] = {}
    kept: list[int] = []
    columns = (ints(column[order]) for column in (number, start, end))
    for row, step, begin, stop in zip(ints(order), *columns, strict=True):
        if begin >= until.get(step, begin):
            kept.append(row)
        until[step] = max(stop, until.get(step, stop))
    order = np.array(kept, np.intp)
    return StepMarks(number[order], start[order], end[order])
