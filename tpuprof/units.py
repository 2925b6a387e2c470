"""Quantities for people: numbers are kept raw everywhere else and scaled only when they are shown."""

from __future__ import annotations

import math
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
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9].*)?\Z")
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY_PREFIXES = {f"{name}i": 1024.0**power for power, name in enumerate("KMGTPE", 1)}
_UNIT_NAMES: dict[str, tuple[tuple[str, float], ...]] = {
    "B": (("B", 1), ("bytes", 1), ("byte", 1), ("bit", 1 / 8)),
    "B/s": (("B/s", 1), ("bit/s", 1 / 8), ("bps", 1 / 8), ("Bps", 1)),
    "FLOP": (("FLOPs", 1), ("FLOP", 1), ("OPs", 1), ("OP", 1)),
    "FLOP/s": (("FLOP/s", 1), ("FLOPs/s", 1), ("FLOPS", 1), ("OP/s", 1), ("OPS", 1), ("FLOPs", 1)),
    "Hz": (("Hz", 1), ("hz", 1)),
    "": (("", 1),),
}
_EXAMPLES = {
    "B": "16GB or 128MiB",
    "B/s": "820GB/s or 400Gbit/s",
    "FLOP": "1T or 2.7e11",
    "FLOP/s": "197T or 197TFLOP/s",
    "Hz": "1.5GHz",
    "s": "1us or 0.3ms",
    "": "240",
}


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
    for scale, prefix in _SI_STEPS:
        if abs(value) >= scale:
            return f"{_significant(value / scale, digits)} {prefix}{unit}"
    return f"{_significant(value, digits)} {unit}"


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


def parse_quantity(text: str, unit: str) -> float:
    """A number with an SI prefix and a unit, in that unit: ``45GB/s`` is 4.5e10 for the unit ``B/s``.

    The unit itself may be left out (``197T``); a bare number is in the unit. Sizes also take binary prefixes
    (``128MiB``), and rates of a network bits (``400Gbit/s``).

    Args:
        unit: one of ``B``, ``B/s``, ``FLOP``, ``FLOP/s``, ``Hz``, ``s``, or empty for a bare number.

    Raises:
        UsageError: the text is no such quantity.
    """
    match = _QUANTITY.match(text)
    if match is not None:
        factor = _factor((match[2] or "").strip(), unit)
        if factor is not None and math.isfinite(float(match[1]) * factor):
            return float(match[1]) * factor
    wanted = f"a quantity in {unit}" if unit else "a number"
    raise UsageError(f"{text!r} is not {wanted}.", hint=f"Write it like {_EXAMPLES[unit]}.")


def _factor(suffix: str, unit: str) -> float | None:
    if unit == "s":
        return _DURATION_PS[suffix] / PS_PER_S if suffix in _DURATION_PS else (1.0 if not suffix else None)
    prefixes = {**_PREFIXES, **_BINARY_PREFIXES} if unit in ("B", "B/s") else _PREFIXES
    if suffix in prefixes:
        return prefixes[suffix]
    for name, scale in _UNIT_NAMES[unit]:
        if name and suffix.endswith(name) and suffix.removesuffix(name).strip() in prefixes:
            return prefixes[suffix.removesuffix(name).strip()] * scale
    return None


def _significant(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.0f}"
    return text
