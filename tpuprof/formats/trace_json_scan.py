"""Trace-event JSON to arrays in one pass over the bytes.

A compiled scanner walks the list of events without building objects. It reads times digit by digit into
integer picoseconds (binary floats cannot hold microseconds since the epoch with picosecond digits), and
replaces every other text by a *token*: the first place in the file with these bytes. Valid JSON is read
exactly. Where bytes break the rules, it takes the readings that real writers' faults call for, and counts
them: control bytes within strings, bare words as values, unescaped quotes. What cannot be read even so is
skipped up to the next event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from tpuprof.formats import trace_json_kernel as kernel
from tpuprof.formats import trace_json_values as values
from tpuprof.formats.xspace import I32, I64, U8

_EVENTS_PER_CALL = 1 << 15
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[(?=\s*[\{\]])")
# An event starts after a comma; the same key inside "args" follows a colon.
_RESUME = re.compile(rb',\s*(?=\{\s*"(?:ph|pid|tid|ts|dur|name|cat|args|id|s|cname)")')
_CLOSED = re.compile(rb"\}\s*\Z|\]\s*\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Scanned:
    """All complete ``X`` and ``M`` events of a text, in file order, and what was wrong with it.

    Per event: ``phase``; tokens ``pid``, ``tid``, ``name`` (-1 where absent); start as ``us`` microseconds
    plus ``sub_ps``, both with the sign of the time, valid where ``has_time``; ``dur_ps``. The args of event
    ``i`` are rows ``ptr[i]:ptr[i + 1]`` of ``key`` (token), ``kind`` (as in ``StatKind``), ``bits`` (the
    integer, or a token for ``DOUBLE`` and ``REF``). Token ``t`` is ``tokens[t]``, raw bytes with JSON
    escapes.
    """

    phase: U8
    pid: I32
    tid: I32
    name: I32
    us: I64
    sub_ps: I32
    has_time: npt.NDArray[np.bool_]
    dur_ps: I64
    ptr: I64
    key: I32
    kind: U8
    bits: I64
    tokens: Tokens
    issues: dict[str, int]  # control_byte, bare_word, unescaped_quote, broken_event
    other_phases: int
    cut: bool  # the list of events is not closed

    def __len__(self) -> int:
        return len(self.phase)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """Distinct byte strings as spans of the text."""

    data: bytes | bytearray | mmap
    start: I64
    length: I64

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, token: int) -> bytes:
        start = int(self.start[token])
        return bytes(self.data[start : start + int(self.length[token])])


def scan_events(data: bytes | bytearray | mmap) -> Scanned | None:
    """Every complete event of the text, or None if it holds no list of trace events.

    Memory: about 60 bytes per event and 13 per argument beside the text. Time is linear in the text, also for
    hostile input: a text that makes the scanner give up and resume too often is read up to there.
    """
    found = _BARE_LIST.match(data) or _LIST.search(data)
    if found is None:
        return None
    run = _Run(data)
    position = found.end()
    wasted, broken, cut = 0, 0, True
    while True:
        status, position, failed_at = run.advance(position)
        if status == values.LIST_END:
            cut = _CLOSED.search(data, max(position - 1, len(data) - 4096)) is None
            break
        if status in (values.CUT, values.BROKEN):
            resume = _RESUME.search(data, position + 1)
            if resume is None:
                # The last event: cut off if the text ends within it, else damaged within a closed list.
                tail = _CLOSED.search(data, max(position, len(data) - 4096))
                cut = status == values.CUT or tail is None
                broken += status == values.BROKEN
                break
            broken += 1
            wasted += max(failed_at - resume.start(), 0)
            if wasted > 4 * len(data) + (64 << 20):
                break
            position = resume.end()
    return run.result(broken, cut)


class _Run:
    """The scanner's buffers between calls: it stops where one is full, and they are emptied or enlarged."""

    def __init__(self, data: bytes | bytearray | mmap) -> None:
        self.data = data
        self.text: U8 = np.frombuffer(data, np.uint8)
        self.tokens: I64 = np.empty((1 << 12, kernel.N_TOKEN_COLUMNS), np.int64)
        self.table: I32 = np.full(2 * len(self.tokens), -1, np.int32)
        self.events: I64 = np.empty((_EVENTS_PER_CALL, kernel.N_EVENT_COLUMNS), np.int64)
        self.stats: I64 = np.empty((4 * _EVENTS_PER_CALL, kernel.N_STAT_COLUMNS), np.int64)
        self.state: I64 = np.zeros(values.N_ISSUES + 1, np.int64)
        self.digits: U8 = np.zeros(32, np.uint8)
        self.parts: list[tuple[npt.NDArray[Any], ...]] = []

    def advance(self, position: int) -> tuple[int, int, int]:
        """Scan from ``position``: (status, where to go on, where it failed)."""
        issues = np.zeros(values.N_ISSUES, np.int64)
        status, position, failed_at, count = kernel.scan(
            self.text,
            position,
            self.table,
            self.tokens,
            self.events,
            self.stats,
            self.state,
            issues,
            self.digits,
        )
        if count or not self.parts:
            self._keep(count)
        if status == values.TOKENS_FULL:
            self._grow_tokens()
        if status == values.STATS_FULL and count == 0:
            self.stats = np.empty((2 * len(self.stats), kernel.N_STAT_COLUMNS), np.int64)
        return status, position, failed_at

    def _keep(self, count: int) -> None:
        """Copy the buffers into compact columns, in the order of ``Scanned``'s fields."""
        events = self.events[:count]
        sizes = np.diff(events[:, kernel.STAT_END], prepend=0)
        stats = self.stats[: int(sizes.sum())]
        self.parts.append(
            (
                events[:, kernel.PHASE].astype(np.uint8),
                events[:, kernel.PID].astype(np.int32),
                events[:, kernel.TID].astype(np.int32),
                events[:, kernel.NAME].astype(np.int32),
                events[:, kernel.US].copy(),
                events[:, kernel.SUB_PS].astype(np.int32),
                events[:, kernel.HAS_TIME] != 0,
                events[:, kernel.DUR_PS].copy(),
                sizes,
                stats[:, kernel.KEY].astype(np.int32),
                stats[:, kernel.KIND].astype(np.uint8),
                stats[:, kernel.BITS].copy(),
            )
        )

    def _grow_tokens(self) -> None:
        used = int(self.state[kernel.N_TOKENS])
        grown = np.empty((2 * len(self.tokens), kernel.N_TOKEN_COLUMNS), np.int64)
        grown[:used] = self.tokens[:used]
        self.tokens = grown
        self.table = np.full(2 * len(grown), -1, np.int32)
        kernel.rehash(self.table, self.tokens, used)

    def result(self, broken: int, cut: bool) -> Scanned:
        """Everything that was scanned, joined."""
        columns: list[npt.NDArray[Any]] = [
            np.concatenate([part[column] for part in self.parts]) for column in range(len(self.parts[0]))
        ]
        self.parts.clear()
        phase, pid, tid, name, us, sub_ps, has_time, dur_ps, sizes, key, kind, bits = columns
        used = int(self.state[kernel.N_TOKENS])
        issues = {
            "control_byte": int(self.state[values.CONTROL]),
            "bare_word": int(self.state[values.WORD]),
            "unescaped_quote": int(self.state[values.QUOTE]),
            "broken_event": broken,
        }
        return Scanned(
            phase=phase,
            pid=pid,
            tid=tid,
            name=name,
            us=us,
            sub_ps=sub_ps,
            has_time=has_time,
            dur_ps=dur_ps,
            ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
            key=key,
            kind=kind,
            bits=bits,
            tokens=Tokens(self.data, self.tokens[:used, kernel.START], self.tokens[:used, kernel.LENGTH]),
            issues={issue: count for issue, count in issues.items() if count},
            other_phases=int(self.state[values.OTHER_PHASE]),
            cut=cut,
        )
