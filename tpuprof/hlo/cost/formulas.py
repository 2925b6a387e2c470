"""Formulas for custom calls: those of the user, then what the kernel states, then the families that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points

from tpuprof.errors import UsageError
from tpuprof.hlo.cost.model import Bound, MatmulShape
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.literals import Number
from tpuprof.hlo.shapes import Shape

GROUP = "tpuprof.costs"
"""Entry-point group. An entry is a function from a `CustomCall` to a `CallCost`, or to null for other calls; if it has
an attribute ``pattern``, it is only asked for calls that the pattern matches."""


@dataclass(frozen=True, slots=True)
class CustomCall:
    """A custom call as formulas see it.

    Args:
        instruction: the call.
        target: its ``custom_call_target``.
        operands: shapes of the operands.
        results: the arrays of the result.
        names: what it is called: instruction, last part of the framework's op name, names in its configuration.
        constants: the elements of operands that are small constants, null each for others; empty if not looked for.
        peers: all custom calls of the program, by instruction name; of a lone instruction none.
    """

    instruction: Instruction
    target: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    names: tuple[str, ...] = ()
    constants: tuple[tuple[Number, ...] | None, ...] = ()
    peers: Mapping[str, CustomCall] = field(default_factory=dict[str, "CustomCall"])


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a formula says of one execution of a custom call.

    Args:
        matmul_flops: work of the matrix unit, in operands of type ``dtype``.
        bytes_read, bytes_written: by memory space; null means operands and results are read and written as a whole.
        note: what to know of the numbers.
        family: what kind of kernel it is.
        bound: whether the FLOPs are exact or a bound.
    """

    matmul_flops: float = 0
    dtype: str = "bf16"
    vector_flops: float = 0
    transcendentals: float = 0
    bytes_read: Mapping[str, int] | None = None
    bytes_written: Mapping[str, int] | None = None
    note: str | None = None
    family: str | None = None
    bound: Bound = "exact"
    matmuls: tuple[MatmulShape, ...] = ()


Formula = Callable[[CustomCall], CallCost | None]


@dataclass(frozen=True, slots=True)
class RegisteredFormula:
    """A user's formula and the calls that it is for."""

    pattern: re.Pattern[str]
    function: Formula
    name: str

    def matches(self, call: CustomCall) -> bool:
        """Whether the pattern is found in the target or in one of the names."""
        return any(self.pattern.search(text) for text in (call.target, *call.names))


_registered: list[RegisteredFormula] = []


def register_formula(pattern: str, function: Formula) -> None:
    """Makes a formula known to all later cost analyses of this process; of several that match, the last one counts.

    Args:
        pattern: a regular expression that is looked for in the target and the names of a custom call.
        function: gives the cost of a call, or null if it cannot tell.

    Raises:
        UsageError: the pattern is no regular expression.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"The pattern {pattern!r} of a cost formula is no regular expression: {error}.",
            hint="Escape characters such as '$' and '(' with a backslash.",
        ) from error
    _registered.append(RegisteredFormula(compiled, function, getattr(function, "__name__", pattern)))


def formulas() -> tuple[RegisteredFormula, ...]:
    """The formulas in the order in which they are asked: those registered last first, then those of entry points.

    Raises:
        UsageError: an entry point cannot be loaded.
    """
    return (*reversed(_registered), *_installed())


@lru_cache(maxsize=1)
def _installed() -> tuple[RegisteredFormula, ...]:
    found: list[RegisteredFormula] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            function = entry.load()
            pattern = re.compile(getattr(function, "pattern", ""))
        except Exception as error:  # whatever the import of a foreign package does
            raise UsageError(
                f"The cost formula {entry.name!r} ({entry.value}) cannot be loaded: {error}.",
                hint="Repair or uninstall the package that brings it.",
            ) from error
        found.append(RegisteredFormula(pattern, function, entry.name))
    return tuple(found)
