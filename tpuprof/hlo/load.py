"""HLO files and dump directories.

A directory that XLA dumped holds many files per module: several stages as text and protobuf, and reports that
are no HLO. Of each module the program that ran is loaded: the one after optimizations.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, cast

from tpuprof.errors import HloError, InputTooLargeError
from tpuprof.hlo.module import HloModule
from tpuprof.hlo.proto import parse_proto
from tpuprof.hlo.text import parse_text

MAX_BYTES = 512 << 20  # of one file, expanded: a small compressed file must not fill the memory
_SUFFIX = re.compile(r"(\.hlo)?\.(txt|pb|hlo)(\.gz)?\Z")
_DUMP = re.compile(r"(module_\d+)\.(.+)\Z")
_REPORT = re.compile(
    r"buffer-assignment|memory-usage|live-range|thunk|debug_options|heap|spmd_partitioner|cycle_analysis|\.metadata\b"
)
_GZIP = b"\x1f\x8b"


def load_hlo(path: str, max_bytes: int = MAX_BYTES) -> list[HloModule]:
    """The modules in a file or a dump directory.

    Args:
        path: a ``.txt``, ``.hlo`` or ``.pb`` file (``.gz`` too), or a directory; any location fsspec can
            open. Text or protobuf is told by the content. Of a directory: of each dumped module the stage
            after optimizations, protobuf before text since it carries ids and buffers; else the last stage
            that was dumped.
        max_bytes: refuse files that are larger when expanded.

    Raises:
        HloError: nothing at the path is HLO, or a file is damaged; names the file.
        InputTooLargeError: a file passes the limit.
    """
    filesystem, names = _files(path)
    return [_load_file(filesystem, name, max_bytes) for name in names]


def hlo_files(path: str) -> list[str]:
    """The files that ``load_hlo`` reads for a path, as their file system names them.

    Raises:
        HloError: there is none.
    """
    return _files(path)[1]


def _files(path: str) -> tuple[Any, list[str]]:
    import fsspec  # pyright: ignore[reportMissingTypeStubs]

    opened: tuple[Any, str] = cast("Any", fsspec).core.url_to_fs(str(path))
    filesystem, root = opened
    if filesystem.isdir(root):
        names = [str(each["name"]) for each in filesystem.ls(root, detail=True) if each["type"] == "file"]
        chosen = choose_files(names)
        if not chosen:
            raise HloError(
                "There is no HLO file in this directory.",
                where=str(path),
                hint="Files end in .txt, .hlo or .pb; dump some with XLA_FLAGS=--xla_dump_to=DIR.",
            )
        return filesystem, chosen
    if not filesystem.exists(root):
        raise HloError("There is no such file or directory.", where=str(path))
    return filesystem, [root]


def parse_hlo(data: bytes, where: str = "") -> HloModule:
    """The module in the bytes of a file, text or protobuf.

    Raises:
        HloError: they are neither; names the file.
    """
    try:
        if data.lstrip(b" \t\r\n")[:9] in (b"HloModule", b"//") or data.lstrip()[:2] == b"//":
            return parse_text(data.decode("utf-8", "replace"))
        return parse_proto(data)
    except HloError as error:
        place = f"{where}: {error.where}" if where and error.where else where or error.where
        raise HloError(error.what, where=place, why=error.why, hint=error.hint) from error


def choose_files(paths: list[str]) -> list[str]:
    """Of the files of a dump, those to read: one per module."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(paths):
        name = path.rsplit("/", 1)[-1]
        if not _SUFFIX.search(name) or _REPORT.search(name):
            continue
        match = _DUMP.match(name)
        groups.setdefault(match[1] if match else name, []).append((_rank(name), path))
    return [max(files)[1] for _, files in sorted(groups.items())]


def _rank(name: str) -> int:
    stage = 2 if "after_optimizations" in name else 0 if "before_optimizations" in name else 1
    return 2 * stage + (".pb" in name)


def _load_file(filesystem: Any, path: str, max_bytes: int) -> HloModule:
    with filesystem.open(path, "rb") as file:
        data: bytes = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes)
    if data[:2] == _GZIP:
        data = _expand(data, path, max_bytes)
    return parse_hlo(data, path)


def _expand(data: bytes, path: str, max_bytes: int) -> bytes:
    expander = zlib.decompressobj(wbits=31)
    try:
        expanded = expander.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise HloError("The gzip data is damaged.", where=path, why=f"{error}.") from error
    if len(expanded) > max_bytes:
        raise _too_large(path, max_bytes)
    if not expander.eof:
        raise HloError("The gzip data ends early.", where=path, why="The file was cut.")
    return expanded


def _too_large(path: str, limit: int) -> InputTooLargeError:
    return InputTooLargeError(
        f"The file holds more than {limit} bytes when expanded.",
        where=path,
        hint="Raise max_bytes if you trust the file.",
    )
