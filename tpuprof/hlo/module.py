"""The HLO module as data: its computations, and the lookups that analyses need.

The same model is read from HLO text and from HloProto bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tpuprof.errors import HloError
from tpuprof.hlo.frames import StackFrames
from tpuprof.hlo.groups import Mesh
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.meshes import named_meshes

_COMPARED = (
    "name",
    "entry_name",
    "is_scheduled",
    "num_partitions",
    "replica_count",
    "input_output_alias",
    "buffer_donor",
    "entry_layout",
    "frontend_attributes",
)
_ASYNC = ("async-start", "async-update", "async-done")


@dataclass(frozen=True)
class Computation:
    """A computation: its instructions in their order, which is execution order in a scheduled module."""

    name: str
    instructions: tuple[Instruction, ...]
    root_name: str
    execution_thread: str = ""
    id: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return f"<Computation {self.name}, {len(self.instructions)} instructions>"

    @cached_property
    def _by_name(self) -> dict[str, Instruction]:
        return {instruction.name: instruction for instruction in self.instructions}

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name, with or without ``%``.

        Raises:
            KeyError: there is none.
        """
        return self._by_name[name.removeprefix("%")]

    @property
    def root(self) -> Instruction:
        """The instruction whose value is that of the computation."""
        return self._by_name[self.root_name]

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """The parameters by number."""
        found = [instruction for instruction in self.instructions if instruction.opcode == "parameter"]
        return tuple(sorted(found, key=lambda instruction: instruction.parameter_number or 0))

    @property
    def layout_text(self) -> str:
        """The shapes of its parameters and its result, as the head of a module states those of the entry."""
        parameters = ", ".join(str(parameter.shape) for parameter in self.parameters)
        return f"{{({parameters})->{self.root.shape}}}"

    def operands(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instructions that are the operands of one of this computation's instructions."""
        return tuple(self._by_name[name] for name in instruction.operands)


@dataclass(frozen=True, eq=False)
class HloModule:
    """A compiled program.

    Two modules are equal if what text and protobuf both carry is equal: ids, buffers and the device
    assignment do not count, nor does the order of computations, nor computations that nothing calls (text
    leaves them out).

    Args:
        name: e.g. ``jit_train_step``.
        computations: in the order of the source, callees before callers.
        entry_name: the name of the computation that runs.
        id: the id of the module in its process or the program id it was given, modulo 2^64; 0 if unknown.
        is_scheduled: whether the order of instructions is execution order.
        num_partitions: devices over which the program is partitioned.
        replica_count: copies of the partitioned program.
        input_output_alias: which outputs reuse which parameters, as text.
        buffer_donor: which parameters may be overwritten, as text.
        entry_layout: the shapes of parameters and result with their layouts, as text; those of the entry
            computation where the source states none.
        attributes: further attributes of the module as text; most are in text only.
        frontend_attributes: attributes set by the framework.
        stack_frames: the tables that stack frame ids point into.
        device_assignment: device ids by [partition][replica], null if not recorded.
        buffer_assignment: the serialised BufferAssignmentProto, empty if not recorded.
    """

    name: str
    computations: tuple[Computation, ...]
    entry_name: str
    id: int = field(default=0)
    is_scheduled: bool = False
    num_partitions: int = 1
    replica_count: int = 1
    input_output_alias: str = ""
    buffer_donor: str = ""
    entry_layout: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    frontend_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    stack_frames: StackFrames = field(default_factory=StackFrames)
    device_assignment: tuple[tuple[int, ...], ...] | None = None
    buffer_assignment: bytes = b""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloModule):
            return NotImplemented
        same = all(getattr(self, part) == getattr(other, part) for part in _COMPARED)
        return same and {c.name: c for c in self.reachable} == {c.name: c for c in other.reachable}

    def __hash__(self) -> int:
        return hash((self.name, self.entry_name, len(self.entry.instructions)))

    def __repr__(self) -> str:
        total = sum(len(computation.instructions) for computation in self.computations)
        return f"<HloModule {self.name}, {len(self.computations)} computations, {total} instructions>"

    @cached_property
    def _computations(self) -> dict[str, Computation]:
        return {computation.name: computation for computation in self.computations}

    @cached_property
    def _instructions(self) -> dict[str, Instruction]:
        found: dict[str, Instruction] = {}
        for computation in self.computations:
            for instruction in computation.instructions:
                found.setdefault(instruction.name, instruction)
        # Names are unique within a module that XLA has written; if not, the entry computation wins.
        found.update({instruction.name: instruction for instruction in self.entry.instructions})
        return found

    @property
    def entry(self) -> Computation:
        """The computation that runs."""
        return self._computations[self.entry_name]

    @cached_property
    def reachable(self) -> tuple[Computation, ...]:
        """The computations that the entry computation calls, directly or not, and itself; callees first."""
        order: list[str] = []
        seen: set[str] = set()
        stack = [(self.entry_name, iter(self._callees(self.entry_name)))]
        while stack:
            name, callees = stack[-1]
            for callee in callees:
                if callee not in seen:
                    seen.add(callee)
                    stack.append((callee, iter(self._callees(callee))))
                    break
            else:
                order.append(name)
                stack.pop()
        return tuple(self._computations[name] for name in order)

    def _callees(self, name: str) -> list[str]:
        return [callee for i in self._computations[name].instructions for _, callee in i.called]

    def computation(self, name: str) -> Computation:
        """The computation of that name, with or without ``%``.

        Raises:
            KeyError: there is none.
        """
        return self._computations[name.removeprefix("%")]

    def instruction(self, name: str) -> Instruction:
        """The instruction of that name, with or without ``%``.

        Raises:
            KeyError: there is none.
        """
        return self._instructions[name.removeprefix("%")]

    def find(self, name: str) -> Instruction | None:
        """The instruction of that name, null if there is none."""
        return self._instructions.get(name.removeprefix("%"))

    def operands(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """The instructions that are the operands."""
        return self._computations[instruction.computation].operands(instruction)

    def called(self, instruction: Instruction) -> tuple[Computation, ...]:
        """The computations that the instruction calls, in order."""
        return tuple(self._computations[name] for _, name in instruction.called)

    def inside(self, instruction: Instruction) -> tuple[Computation, ...]:
        """The computations that the instruction calls, directly or not, each once, callers first."""
        found = dict.fromkeys(name for _, name in instruction.called)
        pending = list(found)
        while pending:
            for name in self._callees(pending.pop()):
                if name not in found:
                    found[name] = None
                    pending.append(name)
        return tuple(self._computations[name] for name in found)

    @cached_property
    def callers(self) -> Mapping[str, tuple[Instruction, ...]]:
        """For every computation that is called: the instructions that call it."""
        found: dict[str, list[Instruction]] = {}
        for computation in self.computations:
            for instruction in computation.instructions:
                for _, name in instruction.called:
                    found.setdefault(name, []).append(instruction)
        return {name: tuple(instructions) for name, instructions in found.items()}

    @cached_property
    def meshes(self) -> tuple[Mesh, ...]:
        """The device meshes that the program names; usually empty or one."""
        every = (instruction for computation in self.computations for instruction in computation.instructions)
        return named_meshes(every, self.frontend_attributes)

    def async_start(self, instruction: Instruction) -> Instruction:
        """The start half of the pair that an update or done half belongs to, found through its operand.

        An instruction that is no update or done half is returned itself.
        """
        current = instruction
        while current.opcode.endswith(("-done", "-update")) and current.operands:
            operand = self.operands(current)[0]
            if operand.opcode == "get-tuple-element" or not operand.opcode.endswith(
                ("-start", "-update", "send", "recv")
            ):
                break
            current = operand
        return current

    def async_opcode(self, instruction: Instruction) -> str | None:
        """What a generic async op wraps, e.g. ``slice``; null if it is none."""
        if instruction.opcode not in _ASYNC:
            return None
        start = self.async_start(instruction)
        if start.wrapped_opcode or instruction.wrapped_opcode:
            return start.wrapped_opcode or instruction.wrapped_opcode
        called = self.called(start)
        return called[0].root.opcode if called else None


def check_module(module: HloModule) -> HloModule:
    """The module if it is well formed, with what its source leaves out.

    Raises:
        HloError: names are doubled, the entry or a called computation is missing, or computations call
            each other in a circle.
    """
    names = [computation.name for computation in module.computations]
    if len(set(names)) != len(names):
        raise HloError(f"Module {module.name!r} holds two computations of one name.")
    known = set(names)
    if module.entry_name not in known:
        raise HloError(f"Module {module.name!r} has no entry computation {module.entry_name!r}.")
    calls: dict[str, set[str]] = {}
    for computation in module.computations:
        targets = {name for instruction in computation.instructions for _, name in instruction.called}
        missing = targets - known
        if missing:
            raise HloError(f"Computation {computation.name!r} calls {min(missing)!r}, which the module lacks.")
        calls[computation.name] = targets
    _check_acyclic(calls)
    return module if module.entry_layout else replace(module, entry_layout=module.entry.layout_text)


def _check_acyclic(calls: Mapping[str, set[str]]) -> None:
    pending = {name: len(targets) for name, targets in calls.items()}
    callers: dict[str, list[str]] = {name: [] for name in calls}
    for name, targets in calls.items():
        for target in targets:
            callers[target].append(name)
    ready = [name for name, count in pending.items() if count == 0]
    done = 0
    while ready:
        done += 1
        for caller in callers[ready.pop()]:
            pending[caller] -= 1
            if pending[caller] == 0:
                ready.append(caller)
    if done != len(calls):
        raise HloError("Computations call each other in a circle.")
