"""The files of a run as recordings, one per host: the XPlane where it can be read, else the JSON, and which it was."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from mmap import mmap

from tpuprof.errors import InputError, NotATraceError
from tpuprof.formats.discover import natural_key
from tpuprof.formats.files import base_name, open_bytes
from tpuprof.formats.recording import EVENT_CAP, HostFile, ReadResult, Recording, RunFiles, Source, SourceFormat
from tpuprof.quality import Quality

_PROCESS = re.compile(r"\.(p[0-9]{1,7})(?:\.[0-9.]+)?\.xplane\.pb\Z")
_SPAN = re.compile(rb'"ph"\s*:\s*"X"')


def read_run(files: RunFiles) -> tuple[Recording, ...]:
    """What every host of the run recorded, in natural order of the hosts' names.

    A host whose files cannot be read is left out, with an entry ``host_unreadable`` in the first recording. Where
    two files claim one host, as two processes on one machine do, the second is called ``NAME.p1``, by the index that a
    capture put into the name of its file, or else ``NAME#2``, and so on. Every
    quality entry names its host in its scope.

    Raises:
        InputError: no host can be read; the error is that of the first one.
    """
    outcomes: list[Recording | InputError] = []
    for file in in_order(files):
        try:
            outcomes.append(read_host(file))
        except InputError as error:
            outcomes.append(error)
    return as_run(files, outcomes)


COMPARED_JSON_BYTES = 2 << 20
"""JSON files up to this size are compared with the XPlane beside them whenever that is read."""

CAPPED_JSON_BYTES = 64 << 20
"""The same where the XPlane holds more events than the converter of the JSON writes: unpacking the JSON then costs a
small part of reading the XPlane."""


def in_order(files: RunFiles) -> list[HostFile]:
    """The run's files in natural order of the hosts' names."""
    return sorted(files.files, key=lambda one: natural_key(one.host))


def as_run(files: RunFiles, outcomes: Sequence[Recording | InputError]) -> tuple[Recording, ...]:
    """What ``read_run`` gives, from what each file of ``in_order(files)`` gave.

    Raises:
        InputError: no host could be read; the error is that of the first one.
    """
    recordings = [one for one in outcomes if isinstance(one, Recording)]
    failures = [(f, one) for f, one in zip(in_order(files), outcomes, strict=True) if isinstance(one, InputError)]
    if not recordings:
        if failures:
            raise failures[0][1]
        raise NotATraceError("The run has no files.", where=files.path)
    recordings = _with_distinct_hosts(recordings)
    unreadable = tuple(_host_unreadable(file, error) for file, error in failures)
    if unreadable:
        first = recordings[0]
        recordings[0] = replace(first, quality=first.quality + unreadable, partial=True)
    return tuple(recordings)


def read_host(file: HostFile) -> Recording:
    """What one host recorded, from its XPlane, or from its JSON if the XPlane is missing, empty or unreadable.

    Raises:
        NotATraceError: the file is no trace, or is empty and has no JSON beside it.
        InputError: it cannot be read.
    """
    if file.xplane is None:
        return _from_json(file)
    size = -1
    try:
        data = open_bytes(file.xplane)
        size = len(data)
        recording = _recording(file, file.xplane, "xplane", data, _read_xplane)
        return replace(recording, quality=(*recording.quality, *_compared(recording, file)))
    except InputError as error:
        if file.trace_json is None:
            raise
        try:
            recording = _from_json(file)
        except InputError:
            raise error from None  # the XPlane is what should have been there
        entry = _xplane_lost(recording.host, file.xplane, error, empty=size == 0)
        return replace(recording, quality=(entry, *recording.quality), partial=True)


def _compared(recording: Recording, file: HostFile) -> tuple[Quality, ...]:
    """What a comparison with the JSON beside the XPlane tells, where it costs next to nothing."""
    many = recording.space.count_events() > EVENT_CAP
    if not 0 < file.trace_json_size <= (CAPPED_JSON_BYTES if many else COMPARED_JSON_BYTES):
        return ()
    try:
        return compare_with_json(recording, file)
    except InputError:
        return ()  # the JSON is not needed


def compare_with_json(recording: Recording, file: HostFile) -> tuple[Quality, ...]:
    """``json_truncated`` if the JSON beside an XPlane lacks events because its converter stopped early.

    It did if it holds exactly as many as the converter writes at most, or over 1 % fewer than the XPlane (it leaves
    some out by design).

    Costs reading and unpacking the JSON, which is why ``read_host`` does it by itself for small ones only. Empty if
    there is no JSON, or if the recording was read from it.

    Raises:
        InputError: the JSON cannot be read.
    """
    if recording.source.format != "xplane" or file.trace_json is None:
        return ()
    from tpuprof.formats.trace_json_gzip import plain_text

    text = plain_text(open_bytes(file.trace_json), where=file.trace_json)
    in_json = sum(1 for _ in _SPAN.finditer(text.data))
    in_xplane = recording.space.count_events()
    if in_json >= 0.99 * in_xplane and not in_json == EVENT_CAP < in_xplane:
        return ()
    return (
        Quality(
            "json_truncated",
            "info",
            f"{base_name(file.trace_json)} holds {in_json} of the {in_xplane} events of the XPlane. All numbers are "
            "from the XPlane; viewers that open the JSON show less.",
            in_json,
            {"host": recording.host, "json_events": in_json, "xplane_events": in_xplane},
        ),
    )


def _from_json(file: HostFile) -> Recording:
    path = file.trace_json
    if path is None:
        raise NotATraceError("There is no file to read for this host.", where=file.host)
    return _recording(file, path, "trace_json", open_bytes(path), _read_json)


def _recording(
    file: HostFile,
    path: str,
    kind: SourceFormat,
    data: bytes | mmap,
    read: Callable[[bytes | mmap, str], ReadResult],
) -> Recording:
    result = read(data, path)
    host = next(iter(result.space.hostnames), "") or file.host
    quality = tuple(replace(entry, scope={"host": host, **entry.scope}) for entry in result.quality)
    return Recording(host, result.space, Source(path, kind, len(data)), quality, result.partial)


# The readers bring numba and protobuf: they are imported when there is something to read.


def _read_xplane(data: bytes | mmap, where: str) -> ReadResult:
    from tpuprof.formats.xplane_reader import read_xplane

    return read_xplane(data, where=where)


def _read_json(data: bytes | mmap, where: str) -> ReadResult:
    from tpuprof.formats.trace_json import read_trace_json

    return read_trace_json(data, where=where)


def _with_distinct_hosts(recordings: list[Recording]) -> list[Recording]:
    """The same recordings with an index or a number behind host names that have come before."""
    seen: Counter[str] = Counter()
    taken = {recording.host for recording in recordings}
    distinct: list[Recording] = []
    for recording in recordings:
        host = recording.host
        seen[host] += 1
        if seen[host] > 1:
            name = _of_process(recording)
            while name in taken:
                name = f"{host}#{seen[host]}"
                seen[host] += name in taken
            taken.add(name)
            quality = tuple(replace(entry, scope={**entry.scope, "host": name}) for entry in recording.quality)
            note = _host_renamed(recording, name)
            recording = replace(recording, host=name, quality=(*quality, note))
        distinct.append(recording)
    return sorted(distinct, key=lambda one: natural_key(one.host))


def _of_process(recording: Recording) -> str:
    """The host's name with the index of the process, which captures put into the names of their files."""
    match = _PROCESS.search(base_name(recording.source.path))
    return recording.host if match is None else f"{recording.host}.{match[1]}"


def _xplane_lost(host: str, path: str, error: InputError, *, empty: bool) -> Quality:
    how = "is empty (0 bytes)" if empty else "cannot be read"
    reason = f"{error.why} Profile fewer steps or fewer chips." if empty else f"{error.what} {error.why}"
    return Quality(
        "xplane_empty" if empty else "xplane_unreadable",
        "error",
        f"{base_name(path)} {how}, so this host was read from the JSON beside it. {reason}".rstrip(),
        scope={"host": host, "file": path},
    )


def _host_unreadable(file: HostFile, error: InputError) -> Quality:
    path = file.xplane or file.trace_json or ""
    return Quality(
        "host_unreadable",
        "error",
        f"Host {file.host} is missing from this run: {base_name(path)} cannot be read. {error.what} "
        f"{error.why}".rstrip(),
        scope={"host": file.host, "file": path},
    )


def _host_renamed(recording: Recording, name: str) -> Quality:
    return Quality(
        "host_renamed",
        "info",
        f"{base_name(recording.source.path)} names the same host as another file of the run, {recording.host}, as "
        f"two processes on one machine do. It is called {name} here.",
        scope={"host": name, "file": recording.source.path},
    )
