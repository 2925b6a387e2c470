"""Trace-event JSON, which Perfetto and chrome://tracing open, exact to the picosecond.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes the format: names of
processes and threads as events of phase ``M``, slices as events of phase ``X`` with times in microseconds.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof._version import __version__
from tpuprof.export.timeline import Group, Timeline, Track
from tpuprof.redact import Redactor
from tpuprof.tables.arrays import ints

if TYPE_CHECKING:
    from tpuprof.trace import Trace

MAX_EVENTS = 1_000_000
_FIRST_HOST = 1001
_US = 1_000_000


def perfetto_json(trace: Trace, tracks: Timeline, redactor: Redactor | None = None) -> Iterator[str]:
    """The JSON in pieces; joined they are one text in ASCII.

    A process is a device or a host, a thread a track. Times are those of the tables: relative to the trace's origin,
    which ``otherData`` states in ns since the epoch. If anything lies before the origin, all is moved by whole
    microseconds, as stated there too.
    """
    earliest = min((int(t.start.min()) for g in tracks.groups for t in g.tracks if len(t)), default=0)
    moved_us = -(min(earliest, 0) // _US)
    show = _Show(redactor)
    about: dict[str, Any] = {
        "tool": f"tpuprof {__version__}",
        "run": show("run", trace.name),
        "origin_ns": str(trace.origin_ns),
        "moved_us": str(moved_us),
        "host_events_left_out": str(tracks.left_out),
    }
    yield f'{{"displayTimeUnit":"ns","otherData":{_dump(about)},"traceEvents":['
    tid = 0
    for number, group in enumerate(tracks.groups):
        pid = number + 1 if group.name.startswith("/device:") else _FIRST_HOST + number
        yield _names(group, pid, tid, show)
        for track in group.tracks:
            tid += 1
            yield from _slices(track, pid, tid, moved_us * _US, show)
    yield "{}]}\n"


def compressed(pieces: Iterator[str]) -> bytes:
    """The text as gzip, the same bytes for the same text."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=6, mtime=0) as stream:
        for piece in pieces:
            stream.write(piece.encode("ascii"))
    return out.getvalue()


class _Show:
    """Texts as they are shown: redacted if that was asked for."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor

    def __call__(self, key: str, text: str) -> str:
        return text if self._redactor is None else self._redactor.value(key, text)


def _names(group: Group, pid: int, before: int, show: _Show) -> str:
    # A plane's name is structure; a host within it is not.
    records: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": show("name", group.name)}},
        {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}},
    ]
    for tid, track in enumerate(group.tracks, before + 1):
        thread = {"ph": "M", "pid": pid, "tid": tid}
        records.append({**thread, "name": "thread_name", "args": {"name": show("name", track.name)}})
        records.append({**thread, "name": "thread_sort_index", "args": {"sort_index": tid}})
    return "".join(f"{_dump(record)},\n" for record in records)


def _slices(track: Track, pid: int, tid: int, moved_ps: int, show: _Show) -> Iterator[str]:
    tails: list[str] = []
    for name, facts in zip(track.names, track.facts, strict=True):
        arguments = {key: show(key, value) for key, value in facts.items()}
        tail = f',"args":{_dump(arguments)}' if arguments else ""
        tails.append(f',"name":{_dump(show("name", name))}{tail}}},\n')
    head = f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":'
    for begin in range(0, len(track), 10_000):
        rows = slice(begin, begin + 10_000)
        starts = _microseconds(track.start[rows] + moved_ps)
        durations = _microseconds(track.duration[rows])
        yield "".join(
            [
                f'{head}{start},"dur":{duration}{tails[kind]}'
                for start, duration, kind in zip(starts, durations, ints(track.kind[rows]), strict=True)
            ]
        )


def _microseconds(ps: np.ndarray[Any, Any]) -> list[str]:
    """Decimal microseconds from integers: a float would lose digits late in a long session."""
    whole, rest = np.divmod(ps, _US)
    return [f"{w}.{r:06d}" if r else str(w) for w, r in zip(ints(whole), ints(rest), strict=True)]


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
