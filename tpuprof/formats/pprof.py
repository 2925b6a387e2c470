"""Saved device memory profiles: what `jax.profiler.save_device_memory_profile` writes.

Such a file is a gzip-compressed pprof ``Profile`` message: samples with a count and bytes, labels (``kind`` is
``buffer`` or ``executable``, ``device`` names the device) and the Python stack that made them. The schema is written
from pprof's public description, and checked against files of jax 0.10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from tpuprof.errors import InputTooLargeError, NotATraceError
from tpuprof.formats.files import find, open_bytes
from tpuprof.formats.trace_json_gzip import GZIP_MAGIC, plain_text
from tpuprof.protos import ProtoSpec, build_messages

MAX_PROFILE_BYTES = 512 << 20
MAX_FRAMES = 500
_SUFFIXES = (".prof", ".pprof", ".pb.gz")
_OTHER_GZIP = (".json.gz", ".txt.gz", ".hlo.gz")
_SPEC: ProtoSpec = {
    "Profile": {
        1: ("sample_type", "repeated ValueType"),
        2: ("sample", "repeated Sample"),
        4: ("location", "repeated Location"),
        5: ("function", "repeated Function"),
        6: ("string_table", "repeated bytes"),
        9: ("time_nanos", "int64"),
    },
    "ValueType": {1: ("type", "int64"), 2: ("unit", "int64")},
    "Sample": {
        1: ("location_id", "repeated packed uint64"),
        2: ("value", "repeated packed int64"),
        3: ("label", "repeated Label"),
    },
    "Label": {1: ("key", "int64"), 2: ("str", "int64"), 3: ("num", "int64")},
    "Location": {1: ("id", "uint64"), 4: ("line", "repeated Line")},
    "Line": {1: ("function_id", "uint64"), 2: ("line", "int64")},
    "Function": {1: ("id", "uint64"), 2: ("name", "int64"), 4: ("filename", "int64")},
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else self.function

    @property
    def in_library(self) -> bool:
        """Whether jax itself or another installed package made it."""
        return any(part in self.file for part in ("/site-packages/", "/dist-packages/", "/jax/_src/"))


@dataclass(frozen=True, slots=True)
class LiveAllocation:
    """Memory in use when the profile was saved, of one kind, on one device, from one stack.

    Args:
        kind: ``buffer`` (arrays) or ``executable`` (programs); null if the file does not say.
        device: the device; null if the file does not say, as for executables.
        count: how many allocations.
        bytes: their size together.
        stack: the Python frames that made them, innermost first.
    """

    kind: str | None
    device: str | None
    count: int
    bytes: int
    stack: tuple[Frame, ...]

    @property
    def place(self) -> Frame | None:
        """The innermost frame outside of installed packages, else the outermost one; null without a stack."""
        return next((frame for frame in self.stack if not frame.in_library), self.stack[-1] if self.stack else None)


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """A saved device memory profile, largest allocations first; ``time_ns`` is 0 if the file does not say."""

    path: str
    allocations: tuple[LiveAllocation, ...]
    time_ns: int = 0

    @property
    def total_bytes(self) -> int:
        """The bytes of all allocations."""
        return sum(each.bytes for each in self.allocations)


def looks_like_profile(path: str) -> bool:
    """Whether the path names a file that is to be read as a memory profile: by its suffix, or gzip that is no JSON.

    Only local files are looked into; remote ones would be transferred for it.
    """
    entry = find(path)
    if entry is None or entry.is_dir:
        return False
    name = path.lower()
    if name.endswith(_SUFFIXES):
        return True
    if name.endswith(_OTHER_GZIP) or "://" in path:
        return False
    return bytes(open_bytes(path)[:2]) == GZIP_MAGIC


def read_memory_profile(path: str, max_bytes: int = MAX_PROFILE_BYTES) -> MemoryProfile:
    """The profile in a file.

    Args:
        path: a local path or any fsspec URL.
        max_bytes: refuse files that are larger when decompressed.

    Raises:
        TraceNotFoundError: there is no such file.
        InputTooLargeError: it passes the limit, or expands like a decompression bomb.
        NotATraceError: it is cut, damaged, or no memory profile.
    """
    data = open_bytes(path)
    if bytes(data[:2]) != GZIP_MAGIC and len(data) > max_bytes:
        raise InputTooLargeError(
            f"The memory profile has {len(data)} bytes; the limit is {max_bytes}.",
            where=path,
            hint="Save a profile of a smaller program.",
        )
    text = plain_text(data, where=path, max_bytes=max_bytes)
    if text.cut:
        raise _no_profile(path, "Its gzip data ends early or is damaged.")
    return _decode(bytes(text.data), path)


@cache
def messages() -> Any:
    """The message classes by name."""
    return SimpleNamespace(**build_messages("tpuprof.pprof", _SPEC))


def _decode(data: bytes, path: str) -> MemoryProfile:
    from google.protobuf.message import DecodeError

    try:
        profile = messages().Profile.FromString(data)
    except DecodeError as error:
        raise _no_profile(path, "It is no valid protobuf.") from error
    texts = [text.decode("utf-8", "replace") for text in profile.string_table]
    units = [_text(texts, each.unit) for each in profile.sample_type]
    if not texts or "bytes" not in units or "count" not in units:
        raise _no_profile(path, "It does not hold counts and bytes of allocations.")
    size, count = units.index("bytes"), units.index("count")
    functions = {each.id: (_text(texts, each.name), _text(texts, each.filename)) for each in profile.function}
    frames = {
        each.id: tuple(Frame(*functions.get(line.function_id, ("", "")), line.line) for line in each.line)
        for each in profile.location
    }
    found: list[LiveAllocation] = []
    for sample in profile.sample:
        if len(sample.value) != len(units) or min(sample.value) < 0:
            raise _no_profile(path, "A sample has no count and size, or a negative one.")
        labels = {_text(texts, label.key): _text(texts, label.str) for label in sample.label}
        stack = _stack(sample.location_id, frames)
        kind, device = labels.get("kind") or None, labels.get("device") or None
        found.append(LiveAllocation(kind, device, sample.value[count], sample.value[size], stack))
    found.sort(key=lambda each: (-each.bytes, -each.count))
    return MemoryProfile(path, tuple(found), profile.time_nanos)


def _stack(ids: Sequence[int], frames: Mapping[int, tuple[Frame, ...]]) -> tuple[Frame, ...]:
    result: list[Frame] = []
    for number in ids[:MAX_FRAMES]:
        result.extend(frames.get(number, ())[: MAX_FRAMES - len(result)])
    return tuple(result)


def _text(texts: list[str], index: int) -> str:
    return texts[index] if 0 <= index < len(texts) else ""


def _no_profile(path: str, why: str) -> NotATraceError:
    return NotATraceError(
        "This is no device memory profile.",
        where=path,
        why=why,
        hint="jax.profiler.save_device_memory_profile(FILE) writes one.",
    )
