"""Scanned trace-event JSON to the form that all readers produce: processes to planes, threads to lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.formats import trace_json_kernel as kernel
from tpuprof.formats.trace_json_group import group_events
from tpuprof.formats.trace_json_scan import Scanned
from tpuprof.formats.trace_json_texts import Texts
from tpuprof.formats.xspace import I32, I64, U8, EventMeta, Events, Line, Plane, Space, StatKind, StatValue

# What a TPU's op rows say about the op rather than about one execution; in an XPlane it is on the metadata.
OP_MARKS = ("long_name", "hlo_category")
OP_FACTS = (
    *OP_MARKS,
    *("tf_op", "source", "source_stack", "shape_with_layout", "deduplicated_name", "program_id", "symbol_id"),
    *("flops", "model_flops", "bytes_accessed", "raw_bytes_accessed", "memory_access_breakdown"),
)
OPAQUE = "<opaque bytes>"  # what the writer puts where the XPlane has bytes
_REF, _INT64 = int(StatKind.REF), int(StatKind.INT64)
_MAX_EPOCH_US = 9_000_000_000_000_000  # as ns this still fits into int64

Rows = npt.NDArray[np.intp]
Thread = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """The space; how many events had no usable start; how many texts were not UTF-8."""

    space: Space
    untimed: int
    bad_texts: int


def build_space(scanned: Scanned) -> Built:
    """Planes and lines of the scanned events.

    A process becomes a plane with its id and ``process_name``, a thread a line with its id and
    ``thread_name``. Times that fit are kept as they are, relative to 0; times since the epoch get an origin
    of their own, so that offsets fit into 64 bits. Both are exact. Events keep the order of the file within
    their line.
    """
    texts = Texts(scanned.tokens)
    spans = np.flatnonzero(scanned.phase == kernel.PHASE_SPAN)
    origin_us, usable = _origin(scanned.us[spans], scanned.has_time[spans])
    untimed = len(spans) - int(usable.sum())
    spans = spans[usable]
    names = _Names(scanned, texts)
    threads, line = _threads(scanned, names, spans)
    order = np.argsort(line, kind="stable")
    spans, line = spans[order], line[order]
    processes = sorted({pid for pid, _ in threads} | names.processes.keys())
    place = {pid: row for row, pid in enumerate(processes)}
    plane_of_line = np.array([place[pid] for pid, _ in threads], np.int32)
    events = _Rows.take(scanned, texts, spans)
    offset_ps = (scanned.us[spans] - origin_us) * 1_000_000 + scanned.sub_ps[spans]
    duration_ps = scanned.dur_ps[spans]
    line_bounds = np.searchsorted(line, np.arange(len(threads) + 1)).tolist()
    plane_bounds = np.searchsorted(plane_of_line, np.arange(len(processes) + 1)).tolist()
    planes: list[Plane] = []
    for row, pid in enumerate(processes):
        lines = range(plane_bounds[row], plane_bounds[row + 1])
        begin = line_bounds[lines.start]
        part = events.plane(begin, line_bounds[lines.stop])
        planes.append(
            Plane(
                id=pid,
                name=names.processes.get(pid, f"process {pid}"),
                lines=tuple(
                    Line(
                        id=threads[at][1],
                        name=names.threads.get(threads[at], ""),
                        timestamp_ns=origin_us * 1000,
                        events=part.events(
                            slice(line_bounds[at] - begin, line_bounds[at + 1] - begin),
                            offset_ps[line_bounds[at] : line_bounds[at + 1]],
                            duration_ps[line_bounds[at] : line_bounds[at + 1]],
                        ),
                    )
                    for at in lines
                ),
                event_meta=part.event_meta,
                stat_names=part.stat_names,
            )
        )
    return Built(Space(tuple(planes)), untimed, len(texts.bad))


def _origin(us: I64, has_time: npt.NDArray[np.bool_]) -> tuple[int, npt.NDArray[np.bool_]]:
    """The time in whole us from which offsets count, and which events lie near enough to it."""
    usable = has_time & (np.abs(us) < _MAX_EPOCH_US)
    known = us[usable]
    if not len(known) or np.abs(known).max() < kernel.TIME_LIMIT_US:
        return 0, usable
    middle = int(np.sort(known)[len(known) // 2])
    usable &= np.abs(us - middle) < kernel.TIME_LIMIT_US // 2
    return int(us[usable].min()), usable


class _Names:
    """The names that ``M`` events give to processes and threads, and integer ids for all of both."""

    def __init__(self, scanned: Scanned, texts: Texts) -> None:
        self._texts = texts
        self._other_ids: dict[str, int] = {}
        self.processes: dict[int, str] = {}
        self.threads: dict[Thread, str] = {}
        for event in np.flatnonzero(scanned.phase == kernel.PHASE_META).tolist():
            what = texts[int(scanned.name[event])]
            pid, tid = self.id(int(scanned.pid[event])), self.id(int(scanned.tid[event]))
            if what == "process_name":
                self.processes[pid] = self._argument(scanned, event)
            elif what == "thread_name":
                self.threads[pid, tid] = self._argument(scanned, event)
            elif what == "thread_sort_index":
                self.threads.setdefault((pid, tid), "")

    def id(self, token: int) -> int:
        """A process or thread id. Other programs write names there; those get negative ids, in order."""
        found = self._texts.integer(token)
        return found if found is not None else self._other_ids.setdefault(self._texts[token], ~len(self._other_ids))

    def _argument(self, scanned: Scanned, event: int) -> str:
        for row in range(int(scanned.ptr[event]), int(scanned.ptr[event + 1])):
            if self._texts[int(scanned.key[row])] == "name":
                bits = int(scanned.bits[row])
                return self._texts[bits] if scanned.kind[row] == StatKind.REF else str(bits)
        return ""


def _threads(scanned: Scanned, names: _Names, spans: Rows) -> tuple[list[Thread], I64]:
    """All threads in order of their ids, and the row of each event's thread."""
    base = len(scanned.tokens) + 1
    pairs = (scanned.pid[spans].astype(np.int64) + 1) * base + scanned.tid[spans] + 1
    unique, inverse = np.unique(pairs, return_inverse=True)
    used = [(names.id(pair // base - 1), names.id(pair % base - 1)) for pair in unique.tolist()]
    threads = sorted({*used, *names.threads})
    row = {thread: at for at, thread in enumerate(threads)}
    return threads, np.array([row[thread] for thread in used], np.int64)[inverse]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Events in the order of their lines, their stats without the facts that went to the metadata."""

    texts: Texts
    metas: list[EventMeta]
    group: I32  # of each event, a row of ``metas``
    ptr: I64
    key: I32
    kind: U8
    bits: I64

    @staticmethod
    def take(scanned: Scanned, texts: Texts, spans: Rows) -> _Rows:
        """Order all stats, find the metadata that events share, and move its facts there."""
        rows, ptr = _gather(scanned.ptr, spans)
        key, kind, bits = scanned.key[rows], scanned.kind[rows], scanned.bits[rows]
        del rows
        n_tokens = len(scanned.tokens)
        used = np.flatnonzero(np.bincount(key, minlength=n_tokens)).tolist()
        facts = {token: texts[token] for token in used if texts[token] in OP_FACTS}
        is_fact, is_mark = np.zeros(n_tokens, np.uint8), np.zeros(n_tokens, np.bool_)
        is_fact[list(facts)] = 1
        is_mark[[token for token, fact in facts.items() if fact in OP_MARKS]] = True
        marks = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_mark[key], dtype=np.int64)])
        is_op = marks[ptr[1:]] > marks[ptr[:-1]]
        slots = np.full(1 << max(2 * len(spans), 2).bit_length(), -1, np.int32)
        group, first = group_events(scanned.name[spans], ptr, key, kind, bits, is_op.astype(np.uint8), is_fact, slots)
        keep = ~(np.repeat(is_op, np.diff(ptr)) & (is_fact[key] != 0))
        kept = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)])
        metas = _event_metas(scanned, texts, spans[first], is_op[first], facts)
        return _Rows(texts, metas, group, kept[ptr], key[keep], kind[keep], bits[keep])

    def plane(self, begin: int, end: int) -> _PlaneRows:
        """The events of one plane, with its own tables of metadata and names."""
        groups, meta = np.unique(self.group[begin:end], return_inverse=True)
        stats = slice(int(self.ptr[begin]), int(self.ptr[end]))
        key, kind, bits = self.key[stats], self.kind[stats], self.bits[stats].copy()
        is_text = kind == StatKind.REF
        tokens, rows = np.unique(np.concatenate([key, bits[is_text]]), return_inverse=True)
        stat_names: dict[str, int] = {}
        for token in tokens.tolist():
            stat_names.setdefault(self.texts[token], len(stat_names))
        rows = np.array([stat_names[self.texts[token]] for token in tokens.tolist()], np.int64)[rows]
        bits[is_text] = rows[len(key) :]
        is_float = kind == StatKind.DOUBLE
        if is_float.any():
            bits[is_float] = self.texts.float_bits(bits[is_float])
        used: list[int] = groups.tolist()
        return _PlaneRows(
            event_meta=tuple(self.metas[group] for group in used),
            stat_names=tuple(stat_names),
            meta=meta.astype(np.int32),
            ptr=self.ptr[begin : end + 1] - self.ptr[begin],
            key=rows[: len(key)].astype(np.int32),
            kind=kind,
            bits=bits,
        )


def _event_metas(
    scanned: Scanned, texts: Texts, events: Rows, is_op: npt.NDArray[np.bool_], facts: dict[int, str]
) -> list[EventMeta]:
    """Event metadata by group, from one event of every group; planes share it.

    For op rows the name is the instruction, as in an XPlane; the stats are facts about the op, whose names ``facts``
    gives by token.
    """
    rows, bounds = _gather(scanned.ptr, events)
    fact_names = [facts.get(key) for key in scanned.key[rows].tolist()]
    kinds, all_bits = scanned.kind[rows].tolist(), scanned.bits[rows].tolist()
    ends = bounds.tolist()
    metas: list[EventMeta] = []
    for group, (token, op) in enumerate(zip(scanned.name[events].tolist(), is_op.tolist(), strict=True)):
        name = texts[token]
        bad = token in texts.bad
        if not op:
            metas.append(EventMeta(group + 1, name, "", {}, bad_utf8=bad))
            continue
        stats: dict[str, StatValue] = {}
        for row in range(ends[group], ends[group + 1]):
            fact = fact_names[row]
            if fact is not None:
                kind, bits = kinds[row], all_bits[row]
                stats[fact] = texts[bits] if kind == _REF else bits if kind == _INT64 else _number(texts, kind, bits)
        if stats.get("memory_access_breakdown") == OPAQUE:
            del stats["memory_access_breakdown"]
        long_name = stats.pop("long_name", name)
        metas.append(EventMeta(group + 1, str(long_name), name, stats, bad_utf8=bad))
    return metas


def _number(texts: Texts, kind: int, bits: int) -> StatValue:
    return float(texts[bits]) if kind == StatKind.DOUBLE else bits & 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True, eq=False)
class _PlaneRows:
    """One plane's events before they are cut into lines."""

    event_meta: tuple[EventMeta, ...]
    stat_names: tuple[str, ...]
    meta: I32
    ptr: I64
    key: I32
    kind: U8
    bits: I64

    def events(self, rows: slice, offset_ps: I64, duration_ps: I64) -> Events:
        """The events of one line."""
        ptr = self.ptr[rows.start : rows.stop + 1]
        stats = slice(int(ptr[0]), int(ptr[-1]))
        return Events(
            meta=self.meta[rows],
            offset_ps=offset_ps,
            duration_ps=duration_ps,
            occurrences=None,
            stat_ptr=ptr - ptr[0],
            stat_key=self.key[stats],
            stat_kind=self.kind[stats],
            stat_bits=self.bits[stats],
        )


def _gather(ptr: I64, spans: Rows) -> tuple[I64, I64]:
    """The stat rows of the selected events in their order, and the bounds of each event's rows."""
    sizes = ptr[spans + 1] - ptr[spans]
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    rows = np.repeat(ptr[spans] - bounds[:-1], sizes) + np.arange(int(bounds[-1]), dtype=np.int64)
    return rows, bounds
