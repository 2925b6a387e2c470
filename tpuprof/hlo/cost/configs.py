"""Values out of backend configurations: JSON that others wrote, so nothing of it is taken for granted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

_MAX_TEXT = 100_000


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, empty if the value is none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def parsed(text: object) -> Mapping[str, Any]:
    """The JSON object that a text holds, or that is given already; empty if it is none."""
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return mapping(text)
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def count(value: object) -> int | None:
    """A whole number that is not negative and below 2^63, from a number or a text; null if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    text = str(value) if isinstance(value, str) or abs(value) < 1 << 63 else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 1 << 63 else None


def axes(value: object) -> list[int]:
    """The dimension numbers of a JSON list of numbers or texts; what is none is left out."""
    found = [count(each) for each in cast("list[object]", value)] if isinstance(value, list) else []
    return [axis for axis in found if axis is not None]


def amount(value: object) -> float | None:
    """A finite number that is not negative, from a number or a text; null if it is none."""
    whole = count(value)
    if whole is not None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return whole
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) and number >= 0 else None
