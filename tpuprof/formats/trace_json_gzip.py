"""The text of a trace.json file: gzip opened within limits, and as far as a damaged stream goes."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass
from mmap import mmap

from tpuprof.errors import InputTooLargeError

GZIP_MAGIC = b"\x1f\x8b"
MAX_TEXT_BYTES = 4 << 30
# Deflate reaches 1032:1 at best; real traces stay between 5 and 40. Small files may do what they like.
MAX_RATIO = 300
RATIO_FREE_BYTES = 64 << 20
_PIECE = 1 << 16
_GZIP = zlib.MAX_WBITS | 16


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """The bytes of a JSON text and whether the compressed stream broke off before its end."""

    data: bytes | bytearray | mmap
    cut: bool


def plain_text(
    data: bytes | mmap,
    *,
    where: str = "",
    max_bytes: int = MAX_TEXT_BYTES,
    max_ratio: int = MAX_RATIO,
    ratio_free_bytes: int = RATIO_FREE_BYTES,
) -> Text:
    """The text of a file that may be gzip-compressed, whatever its name says.

    A stream that ends too early or is damaged yields everything before that place, with ``cut`` set. Files of
    several gzip members are read to the end; zero bytes after a member are padding.

    Raises:
        InputTooLargeError: the text would exceed ``max_bytes``, or, beyond ``ratio_free_bytes``,
        ``max_ratio``
            times the compressed bytes it was made from.
    """
    if data[:2] != GZIP_MAGIC:
        if len(data) > max_bytes:
            raise _too_large(where, f"The JSON text has {len(data)} bytes; the limit is {max_bytes}.")
        return Text(data, cut=False)
    text = bytearray()
    view = memoryview(data)
    try:
        cut = _inflate(view, text, where, max_bytes, max_ratio, ratio_free_bytes)
    finally:
        view.release()
    return Text(text, cut)


def _inflate(
    view: memoryview, text: bytearray, where: str, max_bytes: int, max_ratio: int, ratio_free_bytes: int
) -> bool:
    """Append the text of all members to ``text``; true if the stream is incomplete or damaged."""
    position = 0
    member = zlib.decompressobj(_GZIP)
    while position < len(view):
        piece = view[position : position + _PIECE]  # at most 64 MiB of text, so no limit is needed per call
        before = member.copy()
        try:
            text += member.decompress(piece)
        except zlib.error:
            # An error loses the output of its whole call: repeat the piece in single bytes up to the damage.
            with suppress(zlib.error):
                for at in range(len(piece)):
                    text += before.decompress(piece[at : at + 1])
            return True
        consumed = position + len(piece) - len(member.unused_data)
        if len(text) > max_bytes or len(text) > max(ratio_free_bytes, max_ratio * consumed):
            raise _too_large(where, f"{consumed} compressed bytes expand to more than {len(text)}.")
        position = consumed
        if member.eof:
            while position < len(view) and view[position] == 0:
                position += 1
            if bytes(view[position : position + 2]) != GZIP_MAGIC:
                return False
            member = zlib.decompressobj(_GZIP)
    return not member.eof


def _too_large(where: str, what: str) -> InputTooLargeError:
    return InputTooLargeError(
        what,
        where=where,
        why="A trace is never that large or that repetitive, so this looks like a decompression bomb.",
        hint="If the file is trustworthy, decompress it yourself or capture fewer steps.",
    )
