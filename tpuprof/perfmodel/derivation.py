"""How a number was come by: one class for the answer of every calculator, with its formula, inputs and assumptions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

Value: TypeAlias = "float | int | str | bool | Sequence[Value] | Mapping[str, Value] | None"
"""What an answer, an input or a step can be: a number, a text, a yes or no, or lists and named groups of them."""

INFINITY = "infinity"
"""How an infinite number is written where JSON has no word for it."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, and where it was taken from if it is no input of the user.

    Args:
        value: in SI base units (bytes, seconds, FLOP/s, B/s) unless the unit says otherwise; null is unknown.
        unit: such as ``B/s``; empty for a pure number or a text.
        source: where a figure of the hardware comes from; empty for what the user gave.
    """

    value: Value
    unit: str = ""
    source: str = ""

    def number(self) -> float:
        """The value as a number.

        Raises:
            TypeError: it is none.
        """
        return _number(self.value, "quantity")

    def to_json(self) -> dict[str, object]:
        """``value`` and ``unit``, and ``source`` where there is one."""
        known: dict[str, object] = {"value": plain(self.value), "unit": self.unit}
        return {**known, "source": self.source} if self.source else known


@dataclass(frozen=True, slots=True)
class Step:
    """One intermediate result on the way to the answer.

    Args:
        what: what the number is, in words.
        formula: in the symbols of the derivation's inputs and of earlier steps.
    """

    what: str
    formula: str
    value: Value
    unit: str = ""

    def to_json(self) -> dict[str, object]:
        """The four fields."""
        return {"what": self.what, "formula": self.formula, "value": plain(self.value), "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Derivation:
    """An answer with everything that is needed to check it by hand.

    Args:
        value: the answer in SI base units; null if it cannot be known, and then an assumption says why.
        unit: its unit; empty for a pure number.
        formula: in the symbols that ``inputs`` and ``steps`` explain.
        inputs: by symbol or name.
        regime: which of several formulas held, such as ``ring`` or ``latency``; null if there is only one.
        assumptions: what must be true for the formula to hold, one sentence each.
        steps: intermediate results in order.
        source: the document and section whose formula it is.
    """

    value: Value
    unit: str
    formula: str
    inputs: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])
    regime: str | None = None
    assumptions: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        # A read-only copy, so that a derivation can be shared and kept.
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only mapping has no pickle of its own, and derivations cross process borders in searches.
        named = (dict(self.inputs), self.regime, self.assumptions, self.steps, self.source)
        return (Derivation, (self.value, self.unit, self.formula, *named))

    def number(self) -> float:
        """The answer as a number.

        Raises:
            TypeError: it is a text, a list, a yes or no, or unknown.
        """
        return _number(self.value, "answer")

    def as_step(self, what: str) -> Step:
        """This answer as one step of a larger derivation."""
        return Step(what, self.formula, self.value, self.unit)

    def assuming(self, *sentences: str) -> Derivation:
        """The same with more assumptions; those that are there already are not repeated."""
        new = tuple(sentence for sentence in dict.fromkeys(sentences) if sentence not in self.assumptions)
        return replace(self, assumptions=self.assumptions + new)

    def to_json(self) -> dict[str, object]:
        """``answer``, ``regime``, ``formula``, ``inputs``, ``assumptions``, ``steps`` of the contract, and ``source``.

        Everything in it is plain JSON; an infinite number is the text ``infinity``, an undefined one is null.
        """
        return {
            "answer": {"value": plain(self.value), "unit": self.unit},
            "regime": self.regime,
            "formula": self.formula,
            "inputs": {name: quantity.to_json() for name, quantity in self.inputs.items()},
            "assumptions": list(self.assumptions),
            "steps": [step.to_json() for step in self.steps],
            "source": self.source,
        }


def plain(value: Value) -> object:
    """The value in the types of JSON: tuples become lists, infinity its name, NaN null."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("-" if value < 0 else "") + INFINITY
    return value


def _number(value: Value, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"the {what} is no number but {value!r}")
    return float(value)
