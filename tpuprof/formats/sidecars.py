"""Reading the sidecars of a run: what its captures said of themselves, and what that means for the data.

Every process of a run has a sidecar (`tpuprof.sidecar`). The first one's content stands for the run; what differs
from process to process is kept beside it. Sidecars are untrusted input like everything else in a log directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from tpuprof.errors import InputError
from tpuprof.formats.capture_quality import Process, run_quality
from tpuprof.formats.files import base_name, join, open_bytes, parent
from tpuprof.formats.recording import HostFile, RunFiles
from tpuprof.quality import Quality
from tpuprof.sidecar import SIDECAR_NAME

MAX_SIDECAR_BYTES = 16 << 20
_MOST_PROCESSES = 4096
_MOST_INDEX = 1 << 31
_AT_ONCE = 16
_ENDINGS = (".xplane.pb", ".trace.json.gz", ".trace.json")
_PROCESS = re.compile(r"\.p([0-9]{1,7})(?:\.[0-9.]+)?\Z")
_PER_PROCESS = (
    "host",
    "pid",
    "process_index",
    "file",
    "file_bytes",
    "complete",
    "start_ns",
    "stop_ns",
    "seconds",
    "device_kinds",
    "devices",
    "step_time",
    "errors",
)


@dataclass(frozen=True)
class _Read:
    content: dict[str, Any] | None
    quality: Quality | None = None


def read_sidecars(files: RunFiles) -> tuple[dict[str, Any], list[Quality]]:
    """What the captures of a run wrote beside it; empty if nothing.

    Returns the content of the sidecar with the lowest process index, with ``processes`` added where there are
    several, and quality entries: sidecars that cannot be read, captures that ended early, missing processes, options
    that lose events, steps that were slower while they were recorded, compilations in the window, processes that
    differ.
    """
    places = _places(files.files)
    if len(places) > 2 and "://" in places[0]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = list(pool.map(_read, places))
    else:
        read = [_read(place) for place in places]
    unreadable = [one.quality for one in read if one.quality is not None]
    contents = _without_copies(one.content for one in read if one.content is not None)
    if not contents:
        return {}, unreadable
    if files.path.endswith((*_ENDINGS, ".pb", ".json", ".gz")):  # one file was asked for, not its neighbours
        names = {base_name(path) for file in files.files for path in (file.xplane, file.trace_json) if path}
        contents = [content for content in contents if _file(content) in names] or contents[:1]
        expected: frozenset[int] = frozenset()
    else:
        expected = _expected(contents)
    metadata = dict(contents[0])
    if len(contents) > 1:
        metadata["processes"] = [
            {key: content[key] for key in _PER_PROCESS if key in content} for content in contents[:_MOST_PROCESSES]
        ]
    missing = sorted(expected - _present(contents, files.files))
    processes = [Process(_label(content), content) for content in contents]
    return metadata, [*unreadable, *run_quality(processes, missing, len(expected))]


def _places(files: Sequence[HostFile]) -> list[str]:
    """Where sidecars may lie: one per directory, and one beside each file."""
    found: dict[str, None] = {}
    for file in files:
        path = file.xplane or file.trace_json or ""
        found[join(parent(path), SIDECAR_NAME)] = None
    for file in files[:_MOST_PROCESSES]:
        path = file.xplane or file.trace_json or ""
        found[join(parent(path), f"{_stem(base_name(path))}.{SIDECAR_NAME}")] = None
    return list(found)


def _stem(name: str) -> str:
    for ending in _ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def _read(place: str) -> _Read:
    try:
        data = bytes(open_bytes(place))
    except InputError:
        return _Read(None)
    try:
        if len(data) > MAX_SIDECAR_BYTES:
            raise ValueError("it is too large")
        loaded: Any = json.loads(data)
        if not isinstance(loaded, dict):
            raise ValueError("it is no JSON object")
    except (ValueError, RecursionError) as error:
        message = f"{place} cannot be read ({error}); versions and capture options are unknown."
        return _Read(None, Quality("sidecar_unreadable", "warning", message))
    return _Read(cast("dict[str, Any]", loaded))


def _without_copies(contents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of the processes; the first of those that describe the same file."""
    found: dict[Any, dict[str, Any]] = {}
    for number, content in enumerate(contents):
        found.setdefault(_file(content) or number, content)
    return sorted(found.values(), key=_order)


def _order(content: Mapping[str, Any]) -> tuple[bool, int]:
    index = index_of(content)
    return (index is None, index or 0)


def index_of(content: Mapping[str, Any]) -> int | None:
    """The index of the process that wrote the sidecar, null if it does not say."""
    index = content.get("process_index")
    return index if type(index) is int and 0 <= index < _MOST_INDEX else None


def _file(content: Mapping[str, Any]) -> str | None:
    file = content.get("file")
    return file if isinstance(file, str) else None


def _expected(contents: list[dict[str, Any]]) -> frozenset[int]:
    """The processes that were to record the run; none are missed in a part that was exported."""
    found: set[int] = set()
    for content in contents:
        run = content.get("run")
        listed = cast("dict[str, Any]", run).get("expected_processes") if isinstance(run, dict) else None
        if "exported" not in content and isinstance(listed, list):
            found.update(
                index for index in cast("list[Any]", listed)[:65_536] if type(index) is int and 0 <= index < _MOST_INDEX
            )
    return frozenset(found)


def _present(contents: list[dict[str, Any]], files: Sequence[HostFile]) -> set[int]:
    """The processes whose traces are there, by their sidecars, or by the names of files without one."""
    names = {base_name(path) for file in files for path in (file.xplane, file.trace_json) if path}
    found = {index for content in contents if (index := index_of(content)) is not None and _file(content) in names}
    described = {_file(content) for content in contents}
    for name in names - described:
        match = _PROCESS.search(_stem(name))
        if match is not None:
            found.add(int(match[1]))
    return found


def _label(content: Mapping[str, Any]) -> str:
    host, index = content.get("host"), index_of(content)
    name = str(host)[:200] if isinstance(host, str) else "a host"
    return name if index is None or content.get("process_count") in (None, 1) else f"{name} (process {index})"
