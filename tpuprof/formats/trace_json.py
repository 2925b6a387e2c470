"""Read a ``trace.json(.gz)``: the marked fallback for sessions whose XPlane file is missing or lost.

The file is trace-event JSON with phases ``M`` (names) and ``X`` (events with ``ts`` and ``dur`` in decimal
microseconds). Its converter leaves out much of what was recorded and stops silently at a number of events;
both are said in quality entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap

import numpy as np

from tpuprof.errors import NotATraceError
from tpuprof.formats.recording import EVENT_CAP, ReadResult
from tpuprof.formats.trace_json_gzip import MAX_TEXT_BYTES, plain_text
from tpuprof.formats.trace_json_kernel import PHASE_SPAN
from tpuprof.formats.trace_json_scan import Scanned, scan_events
from tpuprof.formats.trace_json_space import build_space
from tpuprof.formats.xspace import Space
from tpuprof.quality import Quality
from tpuprof.units import format_percent, format_ps

COUNTER_LINE = "_counters_"

_REPAIRS = {
    "control_byte": "control bytes within names",
    "bare_word": "bare words as values",
    "unescaped_quote": "unescaped quotes",
    "broken_event": "events that could not be read and were left out",
    "event_without_time": "events without a usable start, which were left out",
    "invalid_utf8": "texts that are not UTF-8",
}


def read_trace_json(
    data: bytes | mmap, *, where: str = "", event_cap: int = EVENT_CAP, max_bytes: int = MAX_TEXT_BYTES
) -> ReadResult:
    """Decode trace-event JSON, compressed or not.

    The space has the same form as that of an XPlane: a process is a plane, a thread a line. For op rows of
    TPUs the metadata's name is the instruction text (``long_name``) and its stats are the facts about the op;
    what belongs to one execution (``device_offset_ps``, ``run_id`` …) stays with the event. Text that is an
    integer becomes one, as every argument is written as text. Times are exact to the ps. A duration that is
    missing, no number or absurd becomes -1 ps, so that it counts as bad like any negative one.

    Args:
        data: the file's bytes or a memory map of it. Nothing of the result refers to it.
        where: the file's name, for errors.
        event_cap: the number of events at which the converter stops.
        max_bytes: how much text a compressed file may expand to.

    Returns:
        The space, with quality entries ``json_source`` (always), ``events_capped``, and one of ``truncated``
        and ``json_repaired`` where the file is damaged.

    Raises:
        NotATraceError: the file is empty or holds no trace events.
        InputTooLargeError: the text is larger than ``max_bytes``, or expands like a decompression bomb.
    """
    if len(data) == 0:
        raise NotATraceError("The file is empty (0 bytes).", where=where, hint="Capture the session again.")
    text = plain_text(data, where=where, max_bytes=max_bytes)
    scanned = scan_events(text.data)
    if scanned is None:
        raise _not_a_trace(where, text.cut)
    built = build_space(scanned)
    if not built.space.planes:
        raise _not_a_trace(where, text.cut or scanned.cut)
    cut = text.cut or scanned.cut
    repairs = dict(scanned.issues)
    if built.untimed:
        repairs["event_without_time"] = built.untimed
    if built.bad_texts:
        repairs["invalid_utf8"] = built.bad_texts
    capped = int((scanned.phase == PHASE_SPAN).sum()) == event_cap
    quality = [_source_entry(scanned)]
    if capped:
        quality.append(_capped_entry(built.space, event_cap))
    quality.extend(_damage_entry(cut, repairs, built.space.count_events(), len(data)))
    return ReadResult(built.space, tuple(quality), partial=cut or capped or _lost(repairs) > 0)


def _source_entry(scanned: Scanned) -> Quality:
    others = scanned.other_phases
    return Quality(
        "json_source",
        "info",
        "This host was read from trace.json, which lacks what the XPlane file has: FLOPs, program ids, the "
        "kind and the peaks of the chip, the HLO programs, and all asynchronous rows."
        + (f" {others} events that are neither spans nor names were left out." if others else "")
        + " Use the .xplane.pb of the session if there is one.",
        scope={
            "lost": ["flops", "program_id", "device_kind", "peaks", "hlo", "async_rows"],
            "other_phases": others,
        },
    )


def _capped_entry(space: Space, event_cap: int) -> Quality:
    window_ps, device_ps = _extent_ps(space, devices_only=False), _extent_ps(space, devices_only=True)
    fraction = device_ps / window_ps if window_ps else None
    return Quality(
        "events_capped",
        "warning",
        f"The file holds exactly {event_cap} events, at which the converter stops; the rest of the session "
        f"is missing. Device rows cover {format_ps(device_ps)} of {format_ps(window_ps)} "
        f"({format_percent(fraction, 0)} of the window). Read the .xplane.pb, which is complete, or profile "
        "fewer steps without Python tracing.",
        event_cap,
        {"window_ps": window_ps, "device_ps": device_ps, "device_fraction": fraction},
    )


def _extent_ps(space: Space, *, devices_only: bool) -> int:
    """From the first start to the last end, without counters: one may lie far before the first program."""
    starts: list[int] = []
    ends: list[int] = []
    for plane, line in space.lines():
        events = line.events
        if line.name == COUNTER_LINE or not len(events) or (devices_only and "/device:" not in plane.name):
            continue
        base = line.timestamp_ns * 1000
        starts.append(base + int(events.offset_ps.min()))
        ends.append(base + int((events.offset_ps + np.maximum(events.duration_ps, 0)).max()))
    return max(ends) - min(starts) if starts else 0


def _damage_entry(cut: bool, repairs: dict[str, int], n_events: int, n_bytes: int) -> Iterator[Quality]:
    listed = ", ".join(f"{count} {_REPAIRS[kind]}" for kind, count in repairs.items())
    scope = {"kind": "+".join(repairs), "n": sum(repairs.values()), "kinds": repairs}
    if cut:
        also = f" Also found: {listed}." if listed else ""
        yield Quality(
            "truncated",
            "error",
            f"The file ends early, after {n_bytes} bytes; its {n_events} complete events were read.{also} "
            "It was still being written or not copied whole: copy it again.",
            n_bytes,
            {"bytes": n_bytes, "events": n_events, **(scope if repairs else {})},
        )
    elif repairs:
        yield Quality(
            "json_repaired",
            "warning",
            f"The file breaks the rules of JSON and was repaired: {listed}. {n_events} events were read.",
            sum(repairs.values()),
            scope,
        )


def _lost(repairs: dict[str, int]) -> int:
    return repairs.get("broken_event", 0) + repairs.get("event_without_time", 0)


def _not_a_trace(where: str, cut: bool) -> NotATraceError:
    if cut:
        return NotATraceError(
            "The file holds no complete trace event.",
            where=where,
            why="It ends before the first one.",
            hint="Copy it again, or capture again.",
        )
    return NotATraceError(
        "The file holds no trace events.",
        where=where,
        why='A trace has a list "traceEvents" whose objects name a process or describe a span.',
        hint="Give a .trace.json.gz that the JAX profiler wrote.",
    )
