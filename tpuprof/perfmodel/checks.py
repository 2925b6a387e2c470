"""Inputs that a formula can take: what is negative, infinite or no number is refused with its name."""

from __future__ import annotations

import math

from tpuprof.errors import UsageError


def positive(name: str, value: float) -> float:
    """The value, if it is finite and above zero.

    Raises:
        UsageError: it is not.
    """
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value}; it must be above zero and finite.")
    return value


def not_negative(name: str, value: float) -> float:
    """The value, if it is finite and not below zero.

    Raises:
        UsageError: it is not.
    """
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{name} is {value}; it must be zero or more, and finite.")
    return value


def counted(name: str, value: int) -> int:
    """The value, if it is at least 1.

    Raises:
        UsageError: it is not.
    """
    if value < 1:
        raise UsageError(f"{name} is {value}; it must be at least 1.")
    return value
