"""Finding the ends of things in HLO text: balanced brackets, quoted strings, comments, lists.

Everything here walks the text once, from one interesting character to the next, so that hostile text costs no
more time than its length and no recursion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpuprof.errors import HloError

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"|/\*'
_TOKEN = re.compile(_STRING + r'|["(){}\[\]\n,]', re.DOTALL)
_BRACKET = re.compile(_STRING + r'|["(){}\[\]]', re.DOTALL)
_OPEN = {"(": ")", "{": "}", "[": "]"}
_CLOSE = frozenset(")}]")
_ESCAPE = re.compile(r'\\(?:([abfnrtv\\\'"?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3}))')
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
MAX_DEPTH = 100


def fail(text: str, position: int, reason: str, where: str = "HLO text") -> HloError:
    """An error that names the line and column (both from 1) of a position in the text."""
    position = min(max(position, 0), len(text))
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return HloError(f"Line {line}, column {column}: {reason}.", where=where)


def closing(text: str, start: int) -> int:
    """The position of the bracket that closes the one at ``start``.

    Raises:
        HloError: brackets or quotes are unbalanced, or nested deeper than 100.
    """
    stack: list[str] = []
    position = start
    while True:
        match = _BRACKET.search(text, position)
        if match is None:
            raise fail(text, start, f"{text[start]!r} is never closed")
        token = match[0]
        position = match.end()
        if token in _OPEN:
            if len(stack) >= MAX_DEPTH:
                raise fail(text, match.start(), f"brackets are nested deeper than {MAX_DEPTH}")
            stack.append(_OPEN[token])
        elif token in _CLOSE:
            if token != stack.pop():
                raise fail(text, match.start(), f"{token!r} closes nothing that is open")
            if not stack:
                return match.start()
        elif token == "/*":
            position = _comment_end(text, match.start())
        elif token == '"':
            raise fail(text, match.start(), "a quoted string does not end")


def end_of_item(text: str, start: int, end: int) -> int:
    """The position of the first comma or line end outside brackets from ``start`` on, at most ``end``."""
    position = start
    while position < end:
        match = _TOKEN.search(text, position, end)
        if match is None:
            return end
        token = match[0]
        if token in (",", "\n"):
            return match.start()
        if token in _OPEN:
            position = closing(text, match.start()) + 1
        elif token in _CLOSE:
            return match.start()
        elif token == "/*":
            position = _comment_end(text, match.start())
        elif token == '"':
            raise fail(text, match.start(), "a quoted string does not end")
        else:
            position = match.end()
    return end


def split_top_level(text: str) -> list[str]:
    """The items of a comma-separated list, stripped; commas inside brackets and quotes do not separate."""
    if "," not in text:
        item = text.strip()
        return [item] if item else []
    items: list[str] = []
    position = 0
    while position <= len(text):
        end = end_of_item(text, position, len(text))
        while end < len(text) and text[end] == "\n":
            end = end_of_item(text, end + 1, len(text))
        if end < len(text) and text[end] != ",":
            raise fail(text, end, f"unexpected {text[end]!r}")
        items.append(text[position:end].strip())
        position = end + 1
    return items if len(items) > 1 or items[0] else []


def key_values(text: str) -> Iterator[tuple[str, str]]:
    """``key=value`` pairs of a brace body in which spaces or commas separate them, such as metadata."""
    position, end = 0, len(text)
    while position < end:
        while position < end and text[position] in " ,\n\t":
            position += 1
        if position >= end:
            return
        equals = text.find("=", position)
        if equals < 0:
            raise fail(text, position, f"expected key=value, found {text[position : position + 30]!r}")
        start = equals + 1
        stop = _end_of_word(text, start)
        yield text[position:equals].strip(), text[start:stop]
        position = stop


def without_comments(text: str) -> str:
    """The text without ``/*index=5*/`` marks."""
    start = text.find("/*")
    if start < 0:
        return text
    parts: list[str] = []
    position = 0
    while start >= 0:
        parts.append(text[position:start])
        position = _comment_end(text, start)
        start = text.find("/*", position)
    parts.append(text[position:])
    return "".join(parts)


def unquote(text: str) -> str:
    """The string behind a C-escaped, double-quoted text; other text comes back unchanged."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    return unescape(inner).decode("utf-8", "replace")


def unescape(text: str) -> bytes:
    """The bytes behind C escapes (octal, hexadecimal, and the letters)."""
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(text):
        out += text[position : match.start()].encode("utf-8", "surrogateescape")
        if match[1]:
            out.append(_SIMPLE[match[1]])
        else:
            out.append((int(match[2], 16) if match[2] else int(match[3], 8)) & 0xFF)
        position = match.end()
    out += text[position:].encode("utf-8", "surrogateescape")
    return bytes(out)


def quote(text: str) -> str:
    """The text in double quotes with C escapes, non-ASCII bytes in octal."""
    out: list[str] = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "'":
            out.append("\\'")
        elif char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif char == "\r":
            out.append("\\r")
        else:
            out.append(char if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def integers(text: str, what: str) -> tuple[int, ...]:
    """The integers of ``{1,2,3}``, ``[1,2]`` or ``1,2``; empty for empty braces.

    Raises:
        HloError: something in it is no integer of at most 19 digits.
    """
    body = without_comments(text).strip()
    if body[:1] in "{[(" and body[-1:] in "}])" and len(body) >= 2:
        body = body[1:-1]
    if not body.strip():
        return ()
    return tuple(integer(part, what) for part in body.split(","))


def integer(text: str, what: str) -> int:
    """The integer that the text is.

    Raises:
        HloError: it is none, or passes 20 characters.
    """
    text = text.strip()
    if len(text) > 20 or not text.removeprefix("-").isdecimal() or not text.isascii():
        raise HloError(f"{what}: {text[:40]!r} is not an integer.")
    return int(text)


def _comment_end(text: str, start: int) -> int:
    end = text.find("*/", start + 2)
    if end < 0:
        raise fail(text, start, "a comment does not end")
    return end + 2


def _end_of_word(text: str, start: int) -> int:
    position, end = start, len(text)
    while position < end:
        char = text[position]
        if char in " ,\n\t":
            return position
        if char in _OPEN:
            position = closing(text, position) + 1
        elif char == '"':
            match = _TOKEN.match(text, position)
            if match is None or match[0] == '"':
                raise fail(text, position, "a quoted string does not end")
            position = match.end()
        else:
            position += 1
    return end
