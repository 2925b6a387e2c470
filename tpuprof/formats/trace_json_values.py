"""Compiled readers of single JSON values in a text of bytes: strings, numbers, times.

Every function takes positions in the text and never reads at or beyond its end. Nesting is counted, not
recursed into. A status comes first; where it is not ``OK``, the position returned is the place of the
failure. Functions call only functions above them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numba.extending import intrinsic

from tpuprof.formats.xspace import I64, U8, StatKind

OK, LIST_END, CUT, BROKEN, TOKENS_FULL, STATS_FULL = range(6)
CONTROL, WORD, QUOTE, OTHER_PHASE, N_ISSUES = range(5)
DOUBLE, UINT64 = int(StatKind.DOUBLE), int(StatKind.UINT64)
INT64, REF = int(StatKind.INT64), int(StatKind.REF)
NULL, TEXT = 0, 1  # kinds of values before their text is looked at; never stored
AFTER_KEY, AFTER_VALUE, AFTER_ANY = range(3)
QUOTATION, COMMA, CLOSE_LIST, OPEN, CLOSE = 34, 44, 93, 123, 125

_TAB, _LF, _CR, _SPACE, _PLUS, _MINUS, _POINT = 9, 10, 13, 32, 43, 45, 46
_ZERO, _NINE, _COLON, _OPEN_LIST, _BACKSLASH, _E_SMALL, _E_LARGE = 48, 57, 58, 91, 92, 101, 69
_SPECIAL = np.zeros(256, np.bool_)  # bytes at which the walk through a string stops
_SPECIAL[:32] = _SPECIAL[QUOTATION] = _SPECIAL[_BACKSLASH] = True
_SEED, _PRIME, _HIGH = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(32)
_PRIME2, _PRIME3, _PRIME4 = (np.uint64(pow(0x100000001B3, power, 1 << 64)) for power in (2, 3, 4))
_MIX = np.uint64(0x9E3779B97F4A7C15)
_U10, _U64_TAIL = np.uint64(10), np.uint64(8_446_744_073_709_551_615)
_I64_MAX = np.uint64(0x7FFFFFFFFFFFFFFF)

FIELD_PH, FIELD_TS, FIELD_PID, FIELD_TID, FIELD_DUR, FIELD_NAME, FIELD_ARGS = _FIELDS = tuple(
    int.from_bytes(word, "big") for word in (b"ph", b"ts", b"pid", b"tid", b"dur", b"name", b"args")
)
_WORD_NULL, _WORD_TRUE, _WORD_FALSE = (int.from_bytes(word, "big") for word in (b"null", b"true", b"false"))

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with numba when first called, without the interpreter lock; the signature stays visible.

    The result is cached on disk where a place for it can be written to. numba notices changes of the file that holds
    a function, not of the files whose helpers it calls: delete ``__pycache__/trace_json*.nb?`` after editing these.
    """
    njit: Any = numba.njit  # pyright: ignore[reportUnknownMemberType]
    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):
        compiled = njit(nogil=True)(function)
    return compiled


def _borrowed(_typing: Any, array: Any) -> Any:
    """The same array without its owner: passing it on costs no reference counting, which is half of the time.

    The caller must keep the array alive.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = context.make_array(signature.return_type)(context, builder, value=values[0])
        view.meminfo = view.meminfo.type(None)
        return view._getvalue()

    return array(array), generate


borrowed: Any = intrinsic(_borrowed)


@kernel
def skip_space(text: U8, i: int, n: int) -> int:
    """The first position from i on that holds no JSON white space."""
    while i < n and (text[i] == _SPACE or text[i] == _LF or text[i] == _CR or text[i] == _TAB):
        i += 1
    return i


@kernel
def hash_bytes(text: U8, i: int, end: int) -> int:
    """A polynomial hash of the bytes from i to end."""
    h = _SEED
    while i + 4 <= end:  # four bytes per turn: a multiplication waits for the one before
        head = np.uint64(text[i]) * _PRIME3 + np.uint64(text[i + 1]) * _PRIME2
        h = h * _PRIME4 + head + np.uint64(text[i + 2]) * _PRIME + np.uint64(text[i + 3])
        i += 4
    while i < end:
        h = h * _PRIME + np.uint64(text[i])
        i += 1
    h = (h ^ (h >> _HIGH)) * _MIX
    return int(np.int64(h ^ (h >> _HIGH)))


@kernel
def packed(text: U8, start: int, end: int) -> int:
    """The bytes from start to end as one number, to compare with words; -1 for more than 7 bytes."""
    if end - start > 7:
        return -1
    value = 0
    for i in range(start, end):
        value = (value << 8) | int(text[i])
    return value


@kernel
def _starts_field(text: U8, i: int, n: int) -> bool:
    end = i + 1
    while end < n and end < i + 6 and text[end] != QUOTATION:
        end += 1
    return end + 1 < n and text[end + 1] == _COLON and packed(text, i + 1, end) in _FIELDS


@kernel
def string(text: U8, i: int, n: int, after: int, issues: I64) -> tuple[int, int]:
    """From behind the opening quote: (status, position of the closing quote).

    A quote closes the string only if what JSON allows there follows it; any other is taken for an unescaped one,
    unless a field of an event starts with it: then the closing quote is missing. Valid text has no such quotes.
    """
    while True:
        while i < n and not _SPECIAL[text[i]]:
            i += 1
        if i >= n:
            return CUT, n
        if text[i] == QUOTATION:
            j = skip_space(text, i + 1, n)
            follower = text[j] if j < n else np.uint8(0)
            closes = j >= n
            if after != AFTER_VALUE:
                closes = closes or follower == _COLON
            if after != AFTER_KEY:
                closes = closes or follower in (COMMA, CLOSE, CLOSE_LIST)
            if closes:
                return OK, i
            if _starts_field(text, i, n):
                return BROKEN, i
            issues[QUOTE] += 1
        elif text[i] == _BACKSLASH:
            i += 1
        else:
            issues[CONTROL] += 1
        i += 1


@kernel
def nested(text: U8, i: int, n: int, issues: I64) -> tuple[int, int]:
    """From an opening bracket: (status, position behind its closing bracket)."""
    depth = 0
    while i < n:
        c = text[i]
        if c == QUOTATION:
            status, i = string(text, i + 1, n, AFTER_ANY, issues)
            if status != OK:
                return status, i
        elif c in (OPEN, _OPEN_LIST):
            depth += 1
        elif c in (CLOSE, CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return OK, i + 1
        i += 1
    return CUT, n


@kernel
def any_value(text: U8, i: int, n: int, issues: I64) -> tuple[int, int, int, int, int]:
    """Any value: (status, position behind it, kind, start and end of its text).

    The kind is ``TEXT`` for strings and nested values, ``DOUBLE`` for bare numbers, ``NULL``, or ``REF``
    for other bare words.
    """
    if i >= n:
        return CUT, n, NULL, i, i
    c = text[i]
    if c == QUOTATION:
        status, end = string(text, i + 1, n, AFTER_VALUE, issues)
        return status, end + 1 if status == OK else end, TEXT, i + 1, end
    if c in (OPEN, _OPEN_LIST):
        status, end = nested(text, i, n, issues)
        return status, end, TEXT, i, end
    start = i
    while i < n and text[i] not in (COMMA, CLOSE, CLOSE_LIST):
        if text[i] in (QUOTATION, OPEN, _OPEN_LIST, _COLON):
            return BROKEN, i, NULL, start, i
        i += 1
    if i >= n:
        return CUT, n, NULL, start, i
    end = i
    while end > start and text[end - 1] <= _SPACE:
        end -= 1
    if end == start:
        return BROKEN, i, NULL, start, end
    kind = REF
    if _is_number(text, start, end):
        kind = DOUBLE
    else:
        word = packed(text, start, end)
        if word == _WORD_NULL:
            kind = NULL
        elif word not in (_WORD_TRUE, _WORD_FALSE):
            issues[WORD] += 1
    return OK, i, kind, start, end


@kernel
def _digits(text: U8, i: int, end: int) -> int:
    while i < end and _ZERO <= text[i] <= _NINE:
        i += 1
    return i


@kernel
def _is_number(text: U8, i: int, end: int) -> bool:
    if i < end and text[i] == _MINUS:
        i += 1
    j = _digits(text, i, end)
    if j == i:
        return False
    if j < end and text[j] == _POINT:
        i = j + 1
        j = _digits(text, i, end)
        if j == i:
            return False
    if j < end and (text[j] == _E_SMALL or text[j] == _E_LARGE):
        i = j + 1
        if i < end and (text[i] == _PLUS or text[i] == _MINUS):
            i += 1
        j = _digits(text, i, end)
        if j == i:
            return False
    return j == end


@kernel
def integer(text: U8, start: int, end: int) -> tuple[int, int]:
    """(kind, bits) of text that is an integer as programs write it, within 64 bits; else kind 0."""
    negative = start < end and text[start] == _MINUS
    i = start + 1 if negative else start
    n = end - i
    if n < 1 or n > 20 or (text[i] == _ZERO and (n > 1 or negative)) or _digits(text, i, end) != end:
        return 0, 0
    value = np.uint64(0)
    for k in range(i + 1 if n == 20 else i, end):
        value = value * _U10 + np.uint64(text[k] - _ZERO)
    if n == 20:
        if negative or text[i] != _ZERO + 1 or value > _U64_TAIL:
            return 0, 0
        value += np.uint64(10_000_000_000_000_000_000)
    if negative:
        if value > _I64_MAX + np.uint64(1):
            return 0, 0
        return INT64, -int(np.int64(value))
    return INT64 if value <= _I64_MAX else UINT64, int(np.int64(value))


@kernel
def decimal_us(text: U8, start: int, end: int, digits: U8) -> tuple[bool, int, int]:
    """A decimal number of microseconds as (valid, whole microseconds, remaining ps), both with its sign.

    Exact to the ps, halves away from zero; writers print doubles with 17 digits, whose nearest ps is what
    they meant. Invalid if it is no number or 10^16 us or more. ``digits`` is scratch space of 32 bytes.
    """
    i = start
    negative = i < end and text[i] == _MINUS
    if i < end and (text[i] == _MINUS or text[i] == _PLUS):
        i += 1
    count, exponent, seen, fraction = 0, 0, False, False  # value = 0.d0 d1 d2 … * 10^exponent
    while i < end:
        c = text[i]
        if _ZERO <= c <= _NINE:
            seen = True
            if count > 0 or c != _ZERO:
                if count < len(digits):
                    digits[count] = c - _ZERO
                count += 1
                exponent += 0 if fraction else 1
            elif fraction:
                exponent -= 1
        elif c == _POINT and not fraction:
            fraction = True
        else:
            break
        i += 1
    if not seen:
        return False, 0, 0
    if i < end:
        if text[i] != _E_SMALL and text[i] != _E_LARGE:
            return False, 0, 0
        i += 1
        down = i < end and text[i] == _MINUS
        if i < end and (text[i] == _MINUS or text[i] == _PLUS):
            i += 1
        if i >= end or _digits(text, i, end) != end:
            return False, 0, 0
        power = 0
        while i < end:
            power = min(power * 10 + (text[i] - _ZERO), 1_000_000)
            i += 1
        exponent += -power if down else power
    count = min(count, len(digits))
    if count == 0:
        return True, 0, 0
    if exponent > 16:
        return False, 0, 0
    us, ps = 0, 0
    for k in range(exponent):
        us = us * 10 + (int(digits[k]) if k < count else 0)
    for k in range(exponent, exponent + 6):
        ps = ps * 10 + (int(digits[k]) if 0 <= k < count else 0)
    k = exponent + 6
    if 0 <= k < count and digits[k] >= 5:
        ps += 1
        if ps == 1_000_000:
            us, ps = us + 1, 0
    return (True, -us, -ps) if negative else (True, us, ps)
