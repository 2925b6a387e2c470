"""Scalars that loops count with: followed to a constant, or to an element of the loop's state plus a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule

_SAME = frozenset({
    "bitcast", "copy", "convert", "reshape", "copy-done", "copy-start", "optimization-barrier", "opt-barrier",
})  # fmt: skip
_INLINE = frozenset({"fusion", "call"})
_MAX_DEPTH = 80
_MAX_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Affine:
    """``element`` of the state of a loop, plus ``offset``; without an element just a number."""

    element: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Scope:
    """The computation of the loop whose state elements speak of, and the arguments of one that is called inline."""

    home: Computation
    argument: Callable[[int], Affine | None] | None = None


@dataclass
class Values:
    """Follows scalars through a module. Every search is bounded: what is too deep is not known."""

    module: HloModule
    _initial: dict[tuple[str, str, int], int | None] = field(default_factory=dict[tuple[str, str, int], "int | None"])
    _kept: dict[tuple[str, int], bool] = field(default_factory=dict[tuple[str, int], bool])
    _steps: int = 0

    def next_state(self, body: Computation, element: int) -> Affine | None:
        """What a body makes of an element of the state."""
        self._steps = 0
        return self._next(body, element, 0)

    def comparison(self, condition: Computation) -> tuple[str, Affine, Affine] | None:
        """Direction and the two sides of the comparison that a condition is; null if it is something else."""
        self._steps = 0
        return self._compare(condition, condition.root, _Scope(condition), 0)

    def initial(self, loop: Instruction, element: int) -> int | None:
        """The number that an element of a loop's state begins with; null if it is none that the program states."""
        self._steps = 0
        return self._initial_of(loop, element, 0)

    def is_kept(self, loop: Instruction, element: int) -> bool:
        """Whether the body passes an element of the state on unchanged."""
        self._steps = 0
        return self._is_kept(loop, element, 0)

    def _is_kept(self, loop: Instruction, element: int, depth: int) -> bool:
        bodies = loop.called_by_role("body")
        if not bodies:
            return False
        key = (bodies[0], element)
        if key not in self._kept:
            self._kept[key] = False  # until it is known: a circle keeps nothing
            self._kept[key] = self._next(self.module.computation(bodies[0]), element, depth) == Affine(element, 0)
        return self._kept[key]

    def _next(self, body: Computation, element: int, depth: int) -> Affine | None:
        root = body.root
        while root.opcode in _SAME and root.operands:
            root = body.instruction(root.operands[0])
        if root.opcode == "parameter":
            return Affine(element, 0)
        if not body.root.shape.is_tuple:
            return self._affine(body, root, _Scope(body), depth + 1)
        if root.opcode != "tuple" or not 0 <= element < len(root.operands):
            return None
        return self._affine(body, body.instruction(root.operands[element]), _Scope(body), depth + 1)

    def _initial_of(self, loop: Instruction, element: int, depth: int) -> int | None:
        key = (loop.computation, loop.name, element)
        if key not in self._initial:
            self._initial[key] = None
            if loop.operands and depth < _MAX_DEPTH:
                computation = self.module.computation(loop.computation)
                self._initial[key] = self._part(computation, loop.operands[0], element, depth + 1)
        return self._initial[key]

    def _part(self, computation: Computation, name: str, element: int, depth: int) -> int | None:
        """The number that an element of a tuple is."""
        value = computation.instruction(name)
        while value.opcode in _SAME and value.operands:
            value = computation.instruction(value.operands[0])
        if not value.shape.is_tuple:
            return self._number(computation, value, depth)
        if value.opcode == "tuple" and 0 <= element < len(value.operands):
            return self._number(computation, computation.instruction(value.operands[element]), depth)
        return self._state_number(computation, value, element, depth)

    def _number(self, computation: Computation, instruction: Instruction, depth: int) -> int | None:
        found = self._affine(computation, instruction, _Scope(computation), depth + 1)
        if found is None or found.element is None:
            return None if found is None else found.offset
        base = self._outer(computation, found.element, depth)
        return None if base is None else base + found.offset

    def _outer(self, computation: Computation, element: int, depth: int) -> int | None:
        """The number that an element of the state of the loop around is, if the loop does not change it."""
        callers = self.module.callers.get(computation.name, ())
        if len(callers) != 1 or depth > _MAX_DEPTH:
            return None
        caller = callers[0]
        if caller.opcode == "while" and self._is_kept(caller, element, depth + 1):
            return self._initial_of(caller, element, depth + 1)
        return None

    def _state_number(self, computation: Computation, value: Instruction, element: int, depth: int) -> int | None:
        if value.opcode == "parameter":
            return self._outer(computation, element, depth)
        if value.opcode == "while" and self._is_kept(value, element, depth + 1):
            return self._initial_of(value, element, depth + 1)
        return None

    def _affine(self, computation: Computation, instruction: Instruction, scope: _Scope, depth: int) -> Affine | None:
        """A scalar as element and offset; the scope gives the parameters of a computation that is called inline."""
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return None
        opcode = instruction.opcode
        if opcode == "constant":
            value = instruction.constant
            whole = isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer())
            return Affine(None, int(value)) if whole and not isinstance(value, complex) and value is not None else None
        operands = [computation.instruction(name) for name in instruction.operands]
        if opcode == "parameter":
            if scope.argument is not None:
                return scope.argument(instruction.parameter_number or 0)
            return None if instruction.shape.is_tuple else Affine(0, 0)
        if opcode == "get-tuple-element" and operands:
            return self._element(computation, operands[0], instruction.tuple_index, scope, depth)
        if opcode in _SAME and len(operands) == 1:
            return self._affine(computation, operands[0], scope, depth + 1)
        if opcode in ("add", "subtract") and len(operands) == 2:
            one = self._affine(computation, operands[0], scope, depth + 1)
            two = self._affine(computation, operands[1], scope, depth + 1)
            return None if one is None or two is None else self._sum(scope.home, one, two, opcode, depth)
        if opcode in _INLINE:
            return self._inline(computation, instruction, None, scope, depth)
        return None

    def _element(
        self, computation: Computation, source: Instruction, index: int | None, scope: _Scope, depth: int
    ) -> Affine | None:
        while source.opcode in _SAME and source.operands:
            source = computation.instruction(source.operands[0])
        if index is None:
            return None
        if source.opcode == "parameter":
            return Affine(index, 0) if scope.argument is None else None
        if source.opcode == "tuple" and 0 <= index < len(source.operands):
            return self._affine(computation, computation.instruction(source.operands[index]), scope, depth + 1)
        if source.opcode in _INLINE:
            return self._inline(computation, source, index, scope, depth)
        if source.opcode == "while" and self._is_kept(source, index, depth + 1):
            number = self._initial_of(source, index, depth + 1)
            return None if number is None else Affine(None, number)
        return None

    def _inline(
        self, computation: Computation, call: Instruction, index: int | None, scope: _Scope, depth: int
    ) -> Affine | None:
        called = self.module.called(call)
        if len(called) != 1:
            return None
        inner, root = called[0], called[0].root
        if index is not None:
            if root.opcode != "tuple" or not 0 <= index < len(root.operands):
                return None
            root = inner.instruction(root.operands[index])

        return self._affine(inner, root, self._inside(computation, call, scope, depth), depth + 1)

    def _inside(self, computation: Computation, call: Instruction, scope: _Scope, depth: int) -> _Scope:
        def argument(number: int) -> Affine | None:
            if not 0 <= number < len(call.operands):
                return None
            return self._affine(computation, computation.instruction(call.operands[number]), scope, depth + 1)

        return _Scope(scope.home, argument)

    def _compare(
        self, computation: Computation, test: Instruction, scope: _Scope, depth: int
    ) -> tuple[str, Affine, Affine] | None:
        if depth > _MAX_DEPTH:
            return None
        if test.opcode in _SAME and len(test.operands) == 1:
            return self._compare(computation, computation.instruction(test.operands[0]), scope, depth + 1)
        if test.opcode in _INLINE:
            called = self.module.called(test)
            if len(called) != 1:
                return None
            return self._compare(called[0], called[0].root, self._inside(computation, test, scope, depth), depth + 1)
        if test.opcode != "compare" or len(test.operands) != 2:
            return None
        sides = [self._affine(computation, computation.instruction(name), scope, depth) for name in test.operands]
        left, right = sides
        return None if left is None or right is None else (test.comparison_direction or "", left, right)

    def _sum(self, computation: Computation, one: Affine, two: Affine, opcode: str, depth: int) -> Affine | None:
        sign = 1 if opcode == "add" else -1
        if one.element is not None and two.element is not None:
            # A loop that keeps its step in its state adds two elements; one of them is a number then.
            for first, second, of_second in ((one, two, True), (two, one, False)):
                number = self._outer(computation, second.element or 0, depth)
                if number is not None and (sign > 0 or of_second):
                    return Affine(first.element, first.offset + sign * (number + second.offset))
            return None
        if two.element is not None and sign < 0:
            return None
        element = one.element if one.element is not None else two.element
        return Affine(element, one.offset + sign * two.offset)
