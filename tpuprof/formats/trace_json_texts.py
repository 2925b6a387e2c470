"""Tokens of a scanned JSON text as Python values: unescaped text, ids, floats."""

from __future__ import annotations

import json
import re

import numpy as np

from tpuprof.formats.trace_json_scan import Tokens
from tpuprof.formats.xspace import I64

_INTEGER = re.compile(rb"-?[0-9]{1,25}\Z")
_LONE_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)"')


class Texts:
    """The texts of tokens, decoded once each and only when asked for.

    Attributes:
        bad: the tokens that were not UTF-8 and hold replacement marks.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.bad: set[int] = set()
        self._known: dict[int, str] = {-1: ""}

    def __getitem__(self, token: int) -> str:
        text = self._known.get(token)
        if text is None:
            text = self._known[token] = self._decode(token)
        return text

    def integer(self, token: int, missing: int = 0) -> int | None:
        """An id; ``missing`` for an absent one, None for one that is no integer."""
        if token < 0:
            return missing
        raw = self.tokens[token]
        return int(raw) if _INTEGER.match(raw) else None

    def float_bits(self, tokens: I64) -> I64:
        """The IEEE bits of numbers."""
        unique, inverse = np.unique(tokens, return_inverse=True)
        values = np.array([float(self.tokens[token]) for token in unique.tolist()], np.float64)
        return values.view(np.int64)[inverse]

    def _decode(self, token: int) -> str:
        raw = self.tokens[token]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.bad.add(token)
            text = raw.decode("utf-8", "replace")
        return unescape(text) if "\\" in text else text


def unescape(text: str) -> str:
    """The text of a JSON string without its quotes.

    Escapes that JSON does not know leave the text as it is; halves of surrogate pairs become replacement
    marks.
    """
    try:
        plain: str = json.loads('"' + _LONE_QUOTE.sub(r'\1\\"', text) + '"', strict=False)
    except ValueError:
        return text
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
