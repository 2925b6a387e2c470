"""Quantities that people write: ``197 TFLOP/s``, ``819 GB/s``, ``16 GiB``, ``50 Gb/s``, ``1.5 GHz``, ``1 us``."""

from __future__ import annotations

import math
import re

from tpuprof.errors import UsageError

_QUANTITY = re.compile(r"\s*\$?\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*)?\Z")
_MOST_LETTERS = 64
_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}

# unit → (spellings with what one of them is worth, prefixes); what is not listed here is not a unit of that quantity
_FLOPS = ("FLOP/s", "FLOPS", "FLOPs", "flops", "flop/s", "OP/s", "OPS", "op/s", "ops")
_UNITS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "FLOP/s": (dict.fromkeys(_FLOPS, 1.0), _DECIMAL),
    "FLOP": (dict.fromkeys(("FLOP", "FLOPs", "flops", "OP", "OPs", "ops"), 1.0), _DECIMAL),
    "B/s": ({"B/s": 1.0, "Bps": 1.0, "b/s": 0.125, "bps": 0.125, "bit/s": 0.125}, _DECIMAL | _BINARY),
    "B": ({"B": 1.0}, _DECIMAL | _BINARY),
    "Hz": ({"Hz": 1.0}, _DECIMAL),
    "s": ({"s": 1.0}, _SMALL),
    "W": ({"W": 1.0}, _DECIMAL),
    "USD/h": (dict.fromkeys(("USD/h", "$/h", "USD", "/h"), 1.0), {"": 1.0}),
}
_LEAST = {"FLOP/s": 1e9, "B/s": 1e6}
_EXAMPLES = {
    "FLOP/s": "197 TFLOP/s",
    "FLOP": "1 TFLOP",
    "B/s": "819 GB/s",
    "B": "16 GiB",
    "Hz": "1.5 GHz",
    "s": "1 us",
    "W": "700 W",
    "USD/h": "4.2 USD/h",
}


def parse_quantity(value: object, unit: str, name: str, *, where: str = "") -> float:
    """A positive number in ``unit``, from a number in that unit or a text with a unit of the same kind.

    Args:
        value: such as ``197e12``, ``"197T"``, ``"197 TFLOP/s"``; bits per second are understood (``"50 Gb/s"``).
        unit: ``FLOP/s``, ``FLOP``, ``B/s``, ``B``, ``Hz``, ``s``, ``W`` or ``USD/h``.
        name: what the number is, for messages.
        where: the file or option, for messages.

    Raises:
        UsageError: the value is no such quantity, is not positive or finite, or is too small to be meant so.
    """
    hint = f"Write a number in {unit}, or one with a unit, such as {_EXAMPLES[unit]}."
    if isinstance(value, str):
        number = _parse(value, unit, name, where, hint)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        raise UsageError(f"{name} must be a number or a text, not {value!r}.", where=where, hint=hint)
    if not math.isfinite(number) or number <= 0:
        raise UsageError(f"{name} must be positive and finite, not {value}.", where=where, hint=hint)
    if number < _LEAST.get(unit, 0):
        raise UsageError(
            f"{name} is {value}, which is {number:g} {unit}.",
            where=where,
            why="No accelerator is that slow; a prefix seems to be missing.",
            hint=hint,
        )
    return number


def _parse(text: str, unit: str, name: str, where: str, hint: str) -> float:
    match = _QUANTITY.match(text) if len(text) <= _MOST_LETTERS else None
    if match is None:
        raise UsageError(f"{name}: {text[:_MOST_LETTERS]!r} is no quantity.", where=where, hint=hint)
    number, said = float(match[1]), (match[2] or "").strip()
    prefixes = _UNITS[unit][1]
    factor = prefixes[said] if said in prefixes else _factor(said, unit)  # a bare prefix leaves the unit to the key
    if factor is None:
        others = [other for other in _UNITS if other != unit and _factor(said, other) is not None]
        why = f"{said!r} is a unit of another quantity ({others[0]})." if others else f"{said!r} is no known unit."
        raise UsageError(f"{name} is in {unit}, not {text!r}.", where=where, why=why, hint=hint)
    return number * factor


def _factor(text: str, unit: str) -> float | None:
    """What ``text``, a prefix with a unit, is worth in ``unit``; null if it is a unit of another quantity."""
    spellings, prefixes = _UNITS[unit]
    for spelling, worth in spellings.items():
        if text.endswith(spelling) and text.removesuffix(spelling) in prefixes:
            return worth * prefixes[text.removesuffix(spelling)]
    return None
