"""Times and stat values as a test writes them, and how they are turned into what a trace file holds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from tpuprof.errors import UsageError
from tpuprof.units import PS_PER_US


class Ps(int):
    """A time in picoseconds, where a plain number means microseconds: ``line.event("op", 0, Ps(-5))``."""

    __slots__ = ()


Time = int | float | str | Decimal | Ps
"""Microseconds, or picoseconds if it is a ``Ps``. A float means the decimal that Python prints."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A text stat written as a reference into the stat names, as writers do for repeated text."""

    text: str


@dataclass(frozen=True, slots=True)
class Unsigned:
    """An integer stat written in the unsigned field, taken modulo 2^64."""

    value: int


Stat = int | float | str | bytes | Ref | Unsigned
"""The value of a stat. A plain int is written signed if it fits, else unsigned."""


def to_ps(time: Time) -> int:
    """The time in picoseconds.

    Raises:
        UsageError: the time is not a whole number of picoseconds, or no number.
    """
    if isinstance(time, Ps):
        return int(time)
    if isinstance(time, int):
        return time * PS_PER_US
    try:
        scaled = Decimal(str(time)) * PS_PER_US
    except InvalidOperation:
        raise UsageError(f"{time!r} is no time.", hint="Give microseconds as a number, or Ps(picoseconds).") from None
    if not scaled.is_finite() or scaled != scaled.to_integral_value():
        raise UsageError(
            f"{time!r} us is not a whole number of picoseconds.",
            hint="Give a Decimal or text with at most 6 decimals, or Ps(picoseconds).",
        )
    return int(scaled)


def as_bytes(text: str | bytes) -> bytes:
    """Text as UTF-8; bytes unchanged, so that a test can write names that are not valid UTF-8."""
    return text if isinstance(text, bytes) else text.encode("utf-8")


def as_text(name: str | bytes) -> str:
    """The name for reading and comparing; what is not UTF-8 becomes replacement marks."""
    return name if isinstance(name, str) else name.decode("utf-8", "replace")
