"""Texts for people: names without control characters, the plural, ranges of numbers.

Names in a trace come from whoever made it. Shown as they are they could move the cursor, recolour the terminal or
forge lines of output, so every view passes them through :func:`clean`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REPLACEMENT = "\ufffd"

# Whole escape sequences: CSI, OSC and the other strings with a terminator, two-byte ones, and the one-byte CSI.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_FORMULA = ("=", "+", "-", "@")
_SPACES = re.compile("[\t\n\x0b\x0c\r\x85\u2028\u2029]+")
# C0, C1, zero-width and direction marks, lone surrogates and noncharacters (which XML forbids).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def clean(text: object) -> str:
    """The text on one line without escape sequences; other control characters become U+FFFD."""
    one = _ESCAPES.sub("", str(text))
    return _UNSAFE.sub(REPLACEMENT, _SPACES.sub(" ", one))


def csv_text(text: object) -> str:
    """Clean text for a cell of a CSV file.

    Spreadsheets run a text that begins with ``=``, ``+``, ``-`` or ``@`` as a formula. Names come from whoever made the
    trace, so such a one gets an apostrophe before it, which keeps it a text. Numbers do not pass through here.
    """
    shown = clean(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


def plural(count: int, noun: str) -> str:
    """``1 core``, ``1,200 cores``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural_noun(noun)}"


def plural_noun(noun: str) -> str:
    """``cores``, ``entries``."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def number_ranges(numbers: Sequence[int], shown: int = 6) -> str:
    """``0 to 6, 9`` for ascending numbers; the rest of a long list is left out."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ends[:shown]]
    return ", ".join(texts) + (" …" if len(ends) > shown else "")
