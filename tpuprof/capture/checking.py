"""Arguments of the capture API, checked before anything starts; every message names the argument."""

from __future__ import annotations

import math
from typing import Any

from tpuprof.errors import UsageError


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number of at least `least`. 0 is a number like any other; True is none.

    Raises:
        UsageError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}={value!r} is not a whole number of at least {least}.")
    return value


def positive(name: str, value: Any) -> float:
    """A finite number above 0.

    Raises:
        UsageError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name}={value!r} is not a number above 0.")
    return float(value)


def instance(name: str, value: Any, kind: type, hint: str = "") -> None:
    """Nothing, if the value is of that type.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{name}={value!r} is not of type {kind.__name__}.", hint=hint)
