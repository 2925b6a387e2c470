"""When each buffer of a scheduled program is in use.

Time is the position of an instruction in the schedule, in which the computations that a `while`, `conditional`,
`call` or asynchronous start runs come directly before it. Fused computations and those applied to elements are part
of their instruction. A computation that is called from several places is placed at the first of them.

Values are followed through instructions that pass them on (tuples, get-tuple-element, bitcasts, loops, asynchronous
pairs …): where the buffer assignment defines no buffer of its own, an instruction shows those of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpuprof.errors import HloError
from tpuprof.hlo.buffers import BufferAssignment
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.shapes import Shape

_PASSED_ON = frozenset({"tuple", "get-tuple-element", "bitcast", "optimization-barrier", "add-dependency", "domain"})
_INLINE = frozenset({"while", "conditional", "call", "async-start"})
_BOUND = frozenset({"call", "conditional", "async-start"})  # their operands are used inside, by the parameters
_WHOLE_DONE = frozenset({"all-reduce-done"})
_FIRST_DONE = frozenset({"copy-done", "recv-done"})
_MAX_NESTING = 500


@dataclass(frozen=True, slots=True)
class Schedule:
    """The instructions in the order of execution, and the span of positions of every computation that is run."""

    instructions: tuple[Instruction, ...]
    spans: Mapping[str, tuple[int, int]]  # first and last position, what it calls included


@dataclass(frozen=True, slots=True)
class View:
    """The buffers that a value shows: ids at its top, and views of its parts if it is a tuple."""

    ids: tuple[int, ...] = ()
    parts: tuple[View, ...] = ()

    def part(self, index: int) -> View:
        """The view of one part; empty if it has no such part."""
        return self.parts[index] if 0 <= index < len(self.parts) else _NOTHING

    def all_ids(self) -> Iterator[int]:
        """The ids at the top and in all parts."""
        yield from self.ids
        for part in self.parts:
            yield from part.all_ids()


_NOTHING = View()


def schedule(module: HloModule) -> Schedule:
    """All instructions that run, in order.

    Raises:
        HloError: computations call each other more than 500 deep.
    """
    order: list[Instruction] = []
    spans: dict[str, tuple[int, int]] = {}

    def place(computation: Computation, depth: int) -> None:
        if depth > _MAX_NESTING:
            raise HloError(f"The computations of {module.name!r} call each other more than {_MAX_NESTING} deep.")
        first = len(order)
        spans[computation.name] = (first, first)
        for instruction in computation.instructions:
            if instruction.opcode in _INLINE:
                for _, name in instruction.called:
                    if name not in spans:
                        place(module.computation(name), depth + 1)
            order.append(instruction)
        spans[computation.name] = (first, max(len(order) - 1, first))

    place(module.entry, 0)
    return Schedule(tuple(order), spans)


def live_ranges(module: HloModule, assignment: BufferAssignment, order: Schedule) -> dict[int, tuple[int, int]]:
    """For each buffer that is defined by an instruction of the schedule: first and last position of its use.

    A range starts where the value is defined and ends at its last use: at the end of the computation for what that
    returns, at the end of a loop for what the loop passes on unchanged.

    Raises:
        HloError: a tuple has parts that make the values impossible to follow.
    """
    return _Follower(module, assignment, order).follow()


class _Follower:
    """One pass over the schedule; keeps the view of every instruction seen so far."""

    def __init__(self, module: HloModule, assignment: BufferAssignment, order: Schedule) -> None:
        self._module = module
        self._order = order
        self._defined: dict[tuple[str, str], dict[tuple[int, ...], int]] = {}
        for buffer in assignment.buffers:
            if buffer.instruction is not None:
                key = (buffer.instruction.computation, buffer.instruction.name)
                self._defined.setdefault(key, {})[buffer.shape_index] = buffer.id
        self._views: dict[tuple[str, str], View] = {}
        self._arguments: dict[str, list[View]] = {}  # by computation, of the parameters
        self._ranges: dict[int, tuple[int, int]] = {}

    def follow(self) -> dict[int, tuple[int, int]]:
        for now, instruction in enumerate(self._order.instructions):
            self._visit(now, instruction)
        for name, (_, last) in self._order.spans.items():
            root = self._views[name, self._module.computation(name).root_name]
            self._use(root, last)
        return self._ranges

    def _visit(self, now: int, instruction: Instruction) -> None:
        operands = [self._views[instruction.computation, name] for name in instruction.operands]
        view = self._with_own(instruction, instruction.shape, (), self._passed(instruction, operands))
        self._views[instruction.computation, instruction.name] = view
        for own in self._defined.get((instruction.computation, instruction.name), {}).values():
            self._ranges.setdefault(own, (now, now))
        if instruction.opcode in _PASSED_ON:
            for operand in operands:
                self._use(View(operand.ids), now)
        else:
            bound = instruction.opcode in _BOUND
            # Of a conditional's operands the first one picks the branch, and no parameter shows it.
            kept = operands[:1] if instruction.opcode == "conditional" else [] if bound else operands
            for operand in kept:
                self._use(operand, now)

    def _use(self, view: View, now: int) -> None:
        for id_ in view.all_ids():
            first, last = self._ranges.get(id_, (now, now))
            self._ranges[id_] = (min(first, now), max(last, now))

    def _with_own(self, instruction: Instruction, shape: Shape, index: tuple[int, ...], passed: View) -> View:
        """The view with the buffers that the instruction itself defines, cut to the parts that the shape has."""
        own = self._defined.get((instruction.computation, instruction.name), {})
        id_ = own.get(index)
        ids = passed.ids if id_ is None else (id_,)
        if not shape.is_tuple:
            return View(ids)
        flat = len(passed.parts) == len(shape.tuple_shapes) and not any(part.parts for part in passed.parts)
        if flat and len(own) == (id_ is not None):
            return View(ids, passed.parts)  # nothing further down is its own
        parts = [
            self._with_own(instruction, part, (*index, at), passed.part(at))
            for at, part in enumerate(shape.tuple_shapes)
        ]
        return View(ids, tuple(parts))

    def _passed(self, instruction: Instruction, operands: list[View]) -> View:
        """What the instruction shows of its operands, were it to define nothing."""
        opcode = instruction.opcode
        if opcode in _INLINE:
            return self._passed_by_calls(instruction, operands)
        if opcode == "parameter":
            bound = self._argument_views(instruction.computation)
            number = instruction.parameter_number or 0
            return bound[number] if 0 <= number < len(bound) else _NOTHING
        if opcode == "tuple":
            return View((), tuple(operands))
        if not operands:
            return _NOTHING
        first = operands[0]
        if opcode == "get-tuple-element":
            return first.part(instruction.tuple_index if instruction.tuple_index is not None else -1)
        if opcode in _WHOLE_DONE or opcode in _PASSED_ON or opcode == "async-update":
            return first
        if opcode in _FIRST_DONE:
            return first.part(0) if opcode == "copy-done" else View((), (first.part(0),))
        if opcode.endswith("-done"):
            return first.part(1)
        if opcode == "copy-start":
            return View((), (_NOTHING, first))
        if opcode.endswith("-start"):
            return View((), (first if len(operands) == 1 else View((), tuple(operands)),))
        return first if opcode == "send" else _NOTHING

    def _passed_by_calls(self, instruction: Instruction, operands: list[View]) -> View:
        results = [
            self._views.get((name, self._module.computation(name).root_name), _NOTHING)
            for role, name in instruction.called
            if role != "condition"
        ]
        if instruction.opcode == "while":
            return operands[0] if operands else _NOTHING
        if instruction.opcode == "async-start":
            return View((), (View((), tuple(operands)), *results[:1]))
        return _merged(results)

    def _argument_views(self, computation: str) -> list[View]:
        """What the parameters of a computation show: the operands of the instruction that runs it."""
        if computation not in self._arguments:
            self._arguments[computation] = []
            for caller in self._module.callers.get(computation, ()):
                known = [self._views.get((caller.computation, name)) for name in caller.operands]
                if caller.opcode not in _INLINE or any(view is None for view in known):
                    continue
                views = [view for view in known if view is not None]
                if caller.opcode == "conditional":  # the first operand picks the branch
                    at = next((n for n, (_, name) in enumerate(caller.called) if name == computation), 0)
                    views = views[at + 1 : at + 2]
                self._arguments[computation] = views
                break
        return self._arguments[computation]


def _merged(views: list[View]) -> View:
    """A value that is one of several: it shows the buffers of all."""
    if len(views) <= 1:
        return views[0] if views else _NOTHING
    width = max(len(view.parts) for view in views)
    ids = tuple(dict.fromkeys(id_ for view in views for id_ in view.ids))
    return View(ids, tuple(_merged([view.part(at) for view in views]) for at in range(width)))
