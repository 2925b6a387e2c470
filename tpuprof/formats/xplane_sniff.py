"""What a file that is not an XPlane looks like, so that the error can say it."""

from __future__ import annotations

import re

from tpuprof.errors import NotATraceError

_HEAD_BYTES = 65536
_REPLACEMENT = b"\xef\xbf\xbd"
_JSON = re.compile(rb'[\[{]\s*["\[{]')
_MAGIC = (
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\x7fELF", "an ELF binary"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"HloModule", "HLO text"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
)


def reject_foreign(head: bytes, where: str = "") -> None:
    """Raise if the first bytes (at most 64 KiB are looked at) are of another well-known kind.

    Raises:
        NotATraceError: with what the file looks like; a text-mode copy of a trace is named as such.
    """
    head = head[:_HEAD_BYTES]
    if is_text_mode_copy(head):
        raise NotATraceError(
            "This is a trace that was copied in text mode and is damaged beyond repair.",
            where=where,
            why="It is valid UTF-8 full of the replacement character U+FFFD: every byte that was not text is lost.",
            hint="Copy the original again in binary mode.",
        )
    kind = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    if kind is None and _JSON.match(head):
        kind = "JSON"
    if kind is not None:
        raise not_a_trace(kind, where)


def not_a_trace(kind: str, where: str = "") -> NotATraceError:
    """The error for a file of a known other kind."""
    hints = {
        "gzip-compressed data": "If it is a .trace.json.gz, give it that name; an XPlane file must be decompressed.",
        "JSON": "If it is a trace in JSON, give it a name that ends in .trace.json or .trace.json.gz.",
    }
    return NotATraceError(
        f"This is not an XPlane file; it looks like {kind}.",
        where=where,
        hint=hints.get(kind, "Expected the <host>.xplane.pb that the JAX profiler writes."),
    )


def looks_like(head: bytes) -> str:
    """A few words on what the bytes look like, for a file without any plane."""
    head = head[:_HEAD_BYTES]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return "binary data of an unknown kind"
        text = head[: error.start].decode()
    printable = sum(character.isprintable() or character in "\r\n\t" for character in text)
    return "text" if printable > 0.95 * len(text) else "binary data of an unknown kind"


def is_text_mode_copy(head: bytes) -> bool:
    """Whether the bytes are UTF-8 in which invalid bytes were replaced: no binary file is like that by chance."""
    marks = head.count(_REPLACEMENT)
    if marks < 3 or marks * 256 < len(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and error.reason == "unexpected end of data"
    return True
