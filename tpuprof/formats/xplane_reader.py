"""Read an XPlane file, fast and without trusting it.

The top level is walked by hand, plane by plane, so that a file that is cut or damaged gives what is whole in it.
protobuf parses the irregular parts (metadata, plane stats); a compiled loop decodes lines. What was repaired or lost
becomes a quality entry.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tpuprof.errors import NotATraceError
from tpuprof.formats.recording import ReadResult
from tpuprof.formats.xplane_chunks import Chunk, Notes, read_chunk
from tpuprof.formats.xplane_lines import read_lines
from tpuprof.formats.xplane_metadata import Metadata
from tpuprof.formats.xplane_sniff import looks_like, not_a_trace, reject_foreign
from tpuprof.formats.xplane_wire import BAD, CUT, DONE, Data, Pages, ScanEnd, as_buffer, read_varint, scan
from tpuprof.formats.xspace import U8, Plane, Space
from tpuprof.quality import Quality

_LENGTH = 2
_SHOWN_TEXTS = 3
_SHOWN_CHARACTERS = 300


def read_xplane(data: Data, *, where: str = "") -> ReadResult:
    """Decode a serialised ``XSpace``.

    Planes and lines written in chunks are merged, ids become rows, text is decoded with replacement marks. Events
    whose metadata is missing get the name ``event#<id>``, stats the name ``stat#<id>``. A file that ends early or is
    damaged gives its whole planes, and of a plane that is cut the lines whose metadata was read.

    Args:
        data: the file's bytes or a memory map of it. Nothing of the result refers to it.
        where: the file's name, for errors.

    Returns:
        The space, with quality entries ``truncated``, ``damaged``, ``bad_utf8``, ``metadata_missing``,
        ``unknown_stat_kind``, ``collector_error``, ``collector_warning``.

    Raises:
        NotATraceError: the file is empty, of another kind, or holds no plane at all.
        InputTooLargeError: it asks for more objects than any real trace has.
    """
    buffer = as_buffer(data)
    if len(buffer) == 0:
        raise NotATraceError(
            "The XPlane file is empty (0 bytes).",
            where=where,
            why="The usual cause is a profile larger than 2 GB, the limit of protobuf, which then fails to be written.",
            hint="Profile fewer steps, or read the .trace.json.gz of the same session.",
        )
    head = buffer[:65536].tobytes()
    reject_foreign(head, where)
    pages = Pages(data)
    notes = Notes()
    top = _walk(buffer, notes, where)
    with _no_collection():
        found = [_read_plane(buffer, pages, chunks, notes, where) for chunks in _grouped(top.chunks)]
    planes = tuple(plane for plane in found if plane is not None)
    space = Space(
        planes=planes,
        errors=tuple(map(notes.text, top.errors)),
        warnings=tuple(map(notes.text, top.warnings)),
        hostnames=tuple(map(notes.text, top.hostnames)),
    )
    if not planes:
        raise _no_planes(top, space, head, len(buffer), where)
    quality = tuple(_quality(top, space, notes, len(buffer)))
    return ReadResult(space, quality, partial=top.end.why != DONE or notes.damaged > 0)


@contextmanager
def _no_collection() -> Generator[None]:
    """Tens of thousands of dicts that all live on: looking for garbage among them takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True, eq=False)
class _Top:
    """The top level of a file."""

    chunks: list[Chunk] = field(default_factory=list[Chunk])
    errors: list[bytes] = field(default_factory=list[bytes])
    warnings: list[bytes] = field(default_factory=list[bytes])
    hostnames: list[bytes] = field(default_factory=list[bytes])
    end: ScanEnd = field(default_factory=ScanEnd)
    cut_bytes: int = 0  # how many bytes the field at which the file ends lacks


def _walk(buffer: U8, notes: Notes, where: str) -> _Top:
    top = _Top()
    texts = {2: top.errors, 3: top.warnings, 4: top.hostnames}
    for rows in scan(buffer, 0, len(buffer), top.end):
        for number, wire, start, end in rows.tolist():
            if wire != _LENGTH:
                continue
            if number == 1:
                notes.admit(where, planes=1)
                top.chunks.append(read_chunk(buffer, start, end, notes, where))
            elif number in texts:
                texts[number].append(buffer[start:end].tobytes())
    if top.end.why == CUT and buffer[top.end.position] == (1 << 3 | _LENGTH):
        start = top.end.position + 1
        while start < len(buffer) and buffer[start] >= 0x80:
            start += 1
        start += 1
        if start <= len(buffer):
            size = read_varint(buffer, top.end.position + 1, start) & 0xFFFF_FFFF_FFFF_FFFF
            top.cut_bytes = start + size - len(buffer)
            top.chunks.append(read_chunk(buffer, start, len(buffer), notes, where, cut=True))
    return top


def _grouped(chunks: list[Chunk]) -> list[list[Chunk]]:
    groups: dict[tuple[int, bytes], list[Chunk]] = {}
    for chunk in chunks:
        groups.setdefault((chunk.id, chunk.name), []).append(chunk)
    return list(groups.values())


def _read_plane(buffer: U8, pages: Pages, chunks: list[Chunk], notes: Notes, where: str) -> Plane | None:
    if all(chunk.is_blank for chunk in chunks):
        return None
    metadata = Metadata(buffer, chunks, notes)
    lines, blobs = read_lines(buffer, pages, chunks, metadata, notes, where)
    if not lines and all(chunk.cut for chunk in chunks):
        return None
    return Plane(
        id=chunks[0].id,
        name=notes.text(chunks[0].name),
        lines=lines,
        event_meta=tuple(metadata.events),
        stat_names=tuple(metadata.names),
        stats=metadata.plane_stats(chunks),
        blobs=blobs,
    )


def _no_planes(top: _Top, space: Space, head: bytes, size: int, where: str) -> NotATraceError:
    if space.errors:
        return NotATraceError(
            "The profile holds no planes, only a message of the profiler.",
            where=where,
            why=f"It says: {_shown(space.errors)}.",
            hint="Capture again once the cause is removed.",
        )
    cut = next((chunk for chunk in top.chunks if chunk.cut), None)
    if cut is not None and (cut.name or len(cut.lines)):
        name = cut.name.decode("utf-8", "replace")
        return NotATraceError(
            f"No plane of the file is whole: {size} bytes are present, plane {name!r} needs {top.cut_bytes} more.",
            where=where,
            why="The file was cut while it was written or copied.",
            hint="Copy it again, or capture again.",
        )
    if top.end.why == DONE and not top.chunks:
        return NotATraceError(
            "The profile holds no planes.",
            where=where,
            why="The profiler recorded nothing: the session may have been stopped before any device was in use.",
            hint="Initialise the backend and run steps between start and stop of the profiler.",
        )
    if top.end.why == DONE:
        return not_a_trace("another kind of protobuf message", where)
    return not_a_trace(looks_like(head), where)


def _quality(top: _Top, space: Space, notes: Notes, size: int) -> list[Quality]:
    found: list[Quality] = []
    if top.end.why == CUT:
        found.append(_truncated(top, notes, size))
    damaged = notes.damaged + (top.end.why == BAD)
    if damaged:
        message = f"{damaged} pieces of the file could not be decoded and were left out."
        if top.end.why == BAD:
            message += f" Nothing after byte {top.end.position} of {size} could be read."
        found.append(Quality("damaged", "error", message + " Copy the file again.", damaged))
    if notes.bad_utf8:
        found.append(
            Quality(
                "bad_utf8",
                "warning",
                f"{notes.bad_utf8} names hold bytes that are not UTF-8; these are shown as replacement marks.",
                notes.bad_utf8,
            )
        )
    if notes.missing_metadata:
        found.append(
            Quality(
                "metadata_missing",
                "warning",
                f"{notes.missing_metadata} ids of events or stats are defined nowhere in the file; they are shown as "
                "event#<id> and stat#<id>.",
                notes.missing_metadata,
            )
        )
    if notes.unknown_stats:
        found.append(
            Quality(
                "unknown_stat_kind",
                "info",
                f"{notes.unknown_stats} stats have no value of a known kind and were left out; the file may come from "
                "a newer profiler.",
                notes.unknown_stats,
            )
        )
    if space.errors:
        message = f"The profiler reported: {_shown(space.errors)}"
        found.append(Quality("collector_error", "error", message, len(space.errors), {"texts": list(space.errors)}))
    if space.warnings:
        message = f"The profiler warned: {_shown(space.warnings)}"
        found.append(
            Quality("collector_warning", "warning", message, len(space.warnings), {"texts": list(space.warnings)})
        )
    return found


def _truncated(top: _Top, notes: Notes, size: int) -> Quality:
    message = f"The file ends too early: {size} bytes are present"
    scope: dict[str, object] = {"bytes_present": size}
    cut = next((chunk for chunk in top.chunks if chunk.cut), None)
    if cut is not None:
        name = cut.name.decode("utf-8", "replace")
        kept = len(cut.lines) - notes.dropped_lines
        message += (
            f", at least {top.cut_bytes} are missing. Of the plane {name!r}, {kept} lines were kept and "
            f"{notes.dropped_lines} whole lines were left out because their metadata is missing"
        )
        scope |= {"bytes_missing": top.cut_bytes, "plane": name}
    return Quality("truncated", "error", message + ". Copy the file again, or capture again.", size, scope)


def _shown(texts: tuple[str, ...]) -> str:
    shown = "; ".join(text[:_SHOWN_CHARACTERS] for text in texts[:_SHOWN_TEXTS])
    return shown + (f"; and {len(texts) - _SHOWN_TEXTS} more" if len(texts) > _SHOWN_TEXTS else "")
