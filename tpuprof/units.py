"""Quantities for people: numbers are kept raw everywhere else and scaled only when they are shown."""

from __future__ import annotations

import re

from tpuprof.errors import UsageError

PS_PER_S = 1_000_000_000_000
PS_PER_MS = 1_000_000_000
PS_PER_US = 1_000_000
PS_PER_NS = 1_000

_TIME_STEPS = ((PS_PER_S, "s"), (PS_PER_MS, "ms"), (PS_PER_US, "us"), (PS_PER_NS, "ns"), (1, "ps"))
_SI_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(ps|ns|us|µs|ms|s|min|m|h)?\s*\Z")
_DURATION_PS = {
    "ps": 1,
    "ns": PS_PER_NS,
    "us": PS_PER_US,
    "µs": PS_PER_US,
    "ms": PS_PER_MS,
    "s": PS_PER_S,
    "min": 60 * PS_PER_S,
    "m": 60 * PS_PER_S,
    "h": 3600 * PS_PER_S,
}
UNKNOWN = "n/a"


def format_ps(ps: float | None, digits: int = 4) -> str:
    """A duration in ps with the largest unit that keeps it at or above 1, e.g. ``784.2 ms``."""
    if ps is None or ps != ps:
        return UNKNOWN
    if ps == 0:
        return "0"
    for scale, unit in _TIME_STEPS:
        if abs(ps) >= scale:
            return f"{_significant(ps / scale, digits)} {unit}"
    return f"{_significant(ps, digits)} ps"


def format_si(value: float | None, unit: str, digits: int = 4) -> str:
    """A value with a decimal SI prefix, e.g. ``format_si(1.97e14, "FLOP/s")`` is ``197 TFLOP/s``."""
    if value is None or value != value:
        return UNKNOWN
    scale, prefix = si_step(value)
    return f"{_significant(value / scale, digits)} {prefix}{unit}"


def si_step(largest: float) -> tuple[float, str]:
    """What to divide values up to ``largest`` by, and the decimal SI prefix of their unit then: ``(1e9, "G")``."""
    return next((step for step in _SI_STEPS if abs(largest) >= step[0]), _SI_STEPS[-1])


def format_bytes(value: float | None, digits: int = 4) -> str:
    """A size in bytes with a decimal prefix, e.g. ``5.369 GB``."""
    return format_si(value, "B", digits)


def format_percent(fraction: float | None, digits: int = 2) -> str:
    """A fraction as a percentage with a fixed number of decimals, e.g. ``96.93 %``."""
    if fraction is None or fraction != fraction:
        return UNKNOWN
    return f"{100 * fraction:.{digits}f} %"


def parse_duration_ps(text: str) -> int:
    """Picoseconds of a text such as ``30s``, ``1.5 ms``, ``2m``; a bare number is in seconds.

    Raises:
        UsageError: the text is no duration.
    """
    match = _DURATION.match(text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration.", hint="Write a number with a unit, such as 500ms, 30s or 2m.")
    return round(float(match[1]) * _DURATION_PS[match[2] or "s"])


def _significant(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.0f}"
    return text
