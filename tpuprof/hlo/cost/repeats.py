"""Matmuls of a backward pass that repeat one of the forward pass without any mark that says so.

Losses over a large vocabulary and other hand-written gradients compute the products of the forward pass once more
instead of keeping them. ``jax.checkpoint`` marks what it repeats; these are found by their operands: a contraction of
the backward pass (in a scope ``transpose(…)``) that combines the same two values as one of the forward pass.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from tpuprof.errors import HloError
from tpuprof.hlo.cost.values import Values
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule

_BACKWARD_SCOPE = "transpose("
# Copies of the value, in another type, order or place.
_SAME = frozenset({
    "all-gather-done", "async-update", "bitcast", "convert", "copy", "copy-done", "copy-start", "opt-barrier",
    "optimization-barrier", "reshape", "transpose",
})  # fmt: skip
# Functions of one value, told apart by their attributes.
_OF_ONE = frozenset({"all-gather", "all-gather-start", "dynamic-slice", "pad", "slice"})
_INLINE = frozenset({"async-start", "call", "fusion"})
_CONTRACTIONS = frozenset({"convolution", "dot"})
_MAX_DEPTH = 80
_MAX_CONTRACTIONS = 20_000
_Token = tuple[object, ...]
_Place = tuple[Computation, Instruction]


def repeated_contractions(module: HloModule) -> frozenset[str]:
    """Names of the contractions of the backward pass that repeat one of the forward pass."""
    forward: dict[_Token, list[_Place]] = {}
    backward: dict[_Token, list[_Place]] = {}
    for computation in module.reachable:
        for instruction in computation.instructions:
            if instruction.opcode in _CONTRACTIONS and len(instruction.operands) == 2:
                with suppress(HloError):
                    name = instruction.details.metadata.get("op_name", "")
                    scope = backward if _BACKWARD_SCOPE in name else forward
                    scope.setdefault(_sizes(computation, instruction), []).append((computation, instruction))
    origins = _Origins(module)
    found: set[str] = set()
    for sizes in forward.keys() & backward.keys():  # values are followed only where the sizes agree
        if len(forward[sizes]) + len(backward[sizes]) <= _MAX_CONTRACTIONS:
            known = {origins.values(*place) for place in forward[sizes]} - {None}
            found.update(place[1].name for place in backward[sizes] if origins.values(*place) in known)
    return frozenset(found)


def _sizes(computation: Computation, contraction: Instruction) -> _Token:
    """The numbers of elements of the two operands, whichever stands first, and of the result."""
    counts = sorted(each.shape.elements or 0 for each in computation.operands(contraction))
    return (*counts, contraction.shape.elements)


@dataclass
class _Origins:
    """Names values by what they are copies or parts of. A value that is computed is named by its instruction."""

    module: HloModule
    _numbers: dict[_Token, int] = field(default_factory=dict[_Token, int])
    _known: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def __post_init__(self) -> None:
        self._values = Values(self.module)

    def values(self, computation: Computation, contraction: Instruction) -> _Token | None:
        """The two values of a contraction, whichever stands first; null if they cannot be read."""
        try:
            return tuple(sorted(self._origin(computation, each, 0) for each in computation.operands(contraction)))
        except HloError:
            return None

    def _number(self, token: _Token) -> int:
        return self._numbers.setdefault(token, len(self._numbers))

    def _origin(self, computation: Computation, value: Instruction, depth: int) -> int:
        place = (computation.name, value.name)
        if place not in self._known:
            found = self._followed(computation, value, depth + 1) if depth < _MAX_DEPTH else None
            self._known[place] = self._number(("value", *place)) if found is None else found
        return self._known[place]

    def _followed(self, computation: Computation, value: Instruction, depth: int) -> int | None:
        """The origin of what a value is a copy or part of; null if it is computed here."""
        opcode = value.opcode
        if opcode == "parameter":
            return self._argument(computation, value, depth)
        if opcode == "constant":
            return None if value.constant is None else self._number(("constant", repr(value.constant)))
        if not value.operands:
            return None
        source = computation.instruction(value.operands[0])
        if opcode in _SAME:
            return self._origin(computation, source, depth)
        if opcode == "async-done":
            return self._origin(computation, self.module.async_start(value), depth)
        if opcode == "get-tuple-element":
            return self._element(computation, source, value.tuple_index or 0, depth)
        if opcode in _OF_ONE:
            return self._of_one(computation, value, depth)
        if opcode in _INLINE:
            called = self.module.called(value)
            return self._origin(called[0], called[0].root, depth) if len(called) == 1 else None
        return None

    def _of_one(self, computation: Computation, value: Instruction, depth: int) -> int:
        operands = computation.operands(value)
        first = self._origin(computation, operands[0], depth)
        if value.opcode == "dynamic-slice":
            # Where a loop takes its slices is the same question in both passes: only fixed positions tell apart.
            fixed = [str(each.constant) if each.opcode == "constant" else "" for each in operands[1:]]
            return self._number(("slice", first, tuple(fixed), value.shape.dims))
        parts = ("slice", "padding", "dimensions")
        texts = tuple(value.attributes.get(part, "") for part in parts)
        rest = tuple(self._origin(computation, each, depth) for each in operands[1:])
        return self._number((value.opcode.removesuffix("-start"), first, rest, texts, value.shape.elements))

    def _element(self, computation: Computation, source: Instruction, index: int, depth: int) -> int | None:
        if source.opcode == "tuple" and index < len(source.operands):
            return self._origin(computation, computation.instruction(source.operands[index]), depth)
        if source.opcode == "while":
            return self._state(source, index, depth)
        if source.opcode == "parameter":
            callers = self.module.callers.get(computation.name, ())
            return self._state(callers[0], index, depth) if len(callers) == 1 and callers[0].opcode == "while" else None
        if source.opcode == "fusion":
            (body,) = self.module.called(source)
            if body.root.opcode == "tuple" and index < len(body.root.operands):
                return self._origin(body, body.instruction(body.root.operands[index]), depth)
        return None

    def _state(self, loop: Instruction, index: int, depth: int) -> int | None:
        """An element of the state of a loop that keeps it is what the loop was given."""
        if not self._values.is_kept(loop, index):
            return self._number(("state", loop.name, index))
        outer = self.module.computation(loop.computation)
        return self._element(outer, outer.instruction(loop.operands[0]), index, depth)

    def _argument(self, computation: Computation, parameter: Instruction, depth: int) -> int | None:
        callers = self.module.callers.get(computation.name, ())
        number = parameter.parameter_number or 0
        if len(callers) != 1 or callers[0].opcode not in _INLINE or number >= len(callers[0].operands):
            return None
        outer = self.module.computation(callers[0].computation)
        return self._origin(outer, outer.instruction(callers[0].operands[number]), depth)
