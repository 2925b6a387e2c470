"""Times, shares and sizes as people write them in options and in TOML."""

from __future__ import annotations

import math
import re

from tpuprof.errors import UsageError
from tpuprof.hardware.quantity import parse_quantity
from tpuprof.units import parse_duration_ps

_SHARE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*\Z")


def parse_share(value: object, name: str, *, where: str = "") -> float:
    """A share from ``"5 %"`` or a number such as 0.05.

    Raises:
        UsageError: it is none, or not between 0 and 1.
    """
    share = math.nan
    if isinstance(value, str):
        match = _SHARE.match(value)
        if match is not None:
            share = float(match[1]) / 100
        else:
            value = _number(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        share = float(value)
    if not 0 <= share <= 1:
        hint = "Write a share of the step, such as '5 %' or 0.05."
        raise UsageError(f"{value!r} is no share for {name}.", where=where, hint=hint)
    return share


def parse_time_ps(value: object, name: str, *, where: str = "") -> float:
    """A time in ps from a text such as ``"120 ms"``; a bare number is refused, since its unit would be a guess.

    Raises:
        UsageError: it is none.
    """
    hint = "Write a time with its unit, such as '120 ms' or '350 us'."
    if not isinstance(value, str) or _number(value) is not None:
        raise UsageError(f"{value!r} is no time for {name}.", where=where, hint=hint)
    try:
        return float(parse_duration_ps(value))
    except UsageError as error:
        raise UsageError(f"{value!r} is no time for {name}.", where=where, hint=hint) from error


def parse_bytes(value: object, name: str, *, where: str = "") -> float:
    """A size in bytes from a number of bytes or a text such as ``"14 GiB"``.

    Raises:
        UsageError: it is none.
    """
    return parse_quantity(value, "B", name, where=where)


def parse_count(value: object, name: str, *, where: str = "") -> float:
    """A whole number, at least 0.

    Raises:
        UsageError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 53:
        raise UsageError(f"{value!r} is no count for {name}.", where=where, hint="Write a whole number, at least 0.")
    return float(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
