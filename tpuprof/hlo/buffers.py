"""The buffer assignment of a compiled program: which value lies where in which allocation.

The compiler records it beside the module in an HloProto. It says nothing about time; `tpuprof.hlo.liveness` adds
when each buffer is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tpuprof.errors import HloError
from tpuprof.hlo.buffer_schema import messages
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import HloModule
from tpuprof.hlo.shapes import MEMORY_SPACES, Shape

AllocationKind = Literal["parameter", "constant", "output", "temp", "thread_local"]
MAX_BYTES = 1 << 56  # no program needs more: 72 PB
_EVENT_KINDS = ("alloc", "free", "share")
_SPACES: Mapping[str, Mapping[int, str]] = {
    "tpu": MEMORY_SPACES,
    "gpu": {0: "hbm", 1: "collective", 2: "temp", 5: "host"},
    "cpu": {0: "main"},
}


@dataclass(frozen=True, slots=True)
class Allocation:
    """One region of memory that the runtime provides for an execution of the program.

    Args:
        index: its number.
        size: bytes, padding included.
        memory_space: the number of its memory space (the compiler's colour): 0 is the default one.
        kind: ``parameter`` (given by the caller, also where an output reuses it), ``constant``, ``output``, ``temp``
            (working memory), or ``thread_local`` (a few bytes inside an op, on the stack or in registers).
        parameter_number, parameter_index: of a parameter: its number, and the place within a tuple.
        is_tuple: it holds the pointers of a tuple.
        live_out: it may hold a result after the execution.
        aliased: a parameter that an output reuses, so that it needs no memory of its own.
    """

    index: int
    size: int
    memory_space: int
    kind: AllocationKind
    parameter_number: int | None = None
    parameter_index: tuple[int, ...] = ()
    is_tuple: bool = False
    live_out: bool = False
    aliased: bool = False


@dataclass(frozen=True, slots=True)
class Buffer:
    """The memory of one value: of an instruction's result, or of one part of it if that is a tuple.

    Args:
        id: the number by which heap events and aliases name it.
        instruction: the instruction that defines the value; null if the module lacks it.
        shape_index: which part of the instruction's shape; empty for the whole.
        allocation: index of the allocation.
        offset: bytes from the start of the allocation.
        size: bytes, padding included.
    """

    id: int
    instruction: Instruction | None
    shape_index: tuple[int, ...]
    allocation: int
    offset: int
    size: int

    @property
    def shape(self) -> Shape | None:
        """The shape of the value; null if the instruction is unknown or has no such part."""
        return None if self.instruction is None else _part(self.instruction.shape, self.shape_index)

    @property
    def unpadded_size(self) -> int | None:
        """Bytes that the elements need, null if unknown; of tuples and handles the size itself."""
        shape = self.shape
        if shape is None:
            return None
        if not shape.is_array:
            return self.size
        size = shape.byte_size
        return None if size is None else min(size, self.size)


@dataclass(frozen=True, slots=True)
class HeapEvent:
    """What the compiler's own simulation of an allocation did: ``alloc``, ``free``, or ``share`` with a buffer."""

    kind: Literal["alloc", "free", "share"]
    buffer: int
    instruction: str
    shared_with: int | None = None


@dataclass(frozen=True, slots=True)
class HeapTrace:
    """The events of one simulated allocation, in order."""

    allocation: int
    whole_module: bool
    events: tuple[HeapEvent, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes of one memory space by use.

    Args:
        arguments: given by the caller.
        output: results, those that reuse an argument included.
        aliased: arguments that are reused for results: part of both figures above.
        temp: working memory.
        constants: constants, kept as long as the program is loaded.
        thread_local: memory inside ops; no part of ``total``.
    """

    arguments: int = 0
    output: int = 0
    aliased: int = 0
    temp: int = 0
    constants: int = 0
    thread_local: int = 0

    @property
    def total(self) -> int:
        """What must be there while the program runs: arguments + output - aliased + temp + constants."""
        return self.arguments + self.output - self.aliased + self.temp + self.constants


@dataclass(frozen=True, eq=False)
class BufferAssignment:
    """All allocations of a program and the buffers in them.

    Args:
        aliases: (buffer id, instruction, shape index) triples: further places at which a buffer is seen.
        heap_traces: the compiler's simulations; often left out by it.
    """

    allocations: tuple[Allocation, ...]
    buffers: tuple[Buffer, ...]
    aliases: tuple[tuple[int, Instruction | None, tuple[int, ...]], ...] = ()
    heap_traces: tuple[HeapTrace, ...] = ()

    def __repr__(self) -> str:
        return f"<BufferAssignment, {len(self.allocations)} allocations, {len(self.buffers)} buffers>"

    @cached_property
    def by_index(self) -> dict[int, Allocation]:
        """The allocations by index."""
        return {allocation.index: allocation for allocation in self.allocations}

    @property
    def memory_spaces(self) -> tuple[int, ...]:
        """The memory spaces with allocations of more than 0 bytes, in order."""
        return tuple(sorted({a.memory_space for a in self.allocations if a.size}))

    def totals(self, memory_space: int | None = None) -> Totals:
        """Bytes by use in one memory space, or in all together."""
        sums: dict[str, int] = {}
        for allocation in self.allocations:
            if memory_space is not None and allocation.memory_space != memory_space:
                continue
            for use in _uses(allocation):
                sums[use] = sums.get(use, 0) + allocation.size
        return Totals(**sums)


def parse_buffers(module: HloModule) -> BufferAssignment | None:
    """The buffer assignment that was recorded with a module; null if none was.

    Raises:
        HloError: it is damaged: no protobuf, negative or impossible sizes, doubled ids, buffers outside of their
            allocation.
    """
    if not module.buffer_assignment:
        return None
    message = _message(module)
    if not message.buffer_allocations:
        return None
    allocations = tuple(_allocation(each) for each in message.buffer_allocations)
    if len({allocation.index for allocation in allocations}) != len(allocations):
        raise _damaged(module, "two allocations have one index")
    if sum(allocation.size for allocation in allocations) > MAX_BYTES:
        raise _damaged(module, f"its allocations are larger than {MAX_BYTES} bytes together")
    defined = {buffer.id: buffer.defined_at for buffer in message.logical_buffers}
    if len(defined) != len(message.logical_buffers):
        raise _damaged(module, "two buffers have one id")
    instructions = {i.id: i for c in module.computations for i in c.instructions}
    buffers: list[Buffer] = []
    for allocation, each in zip(allocations, message.buffer_allocations, strict=True):
        for assigned in each.assigned:
            if not 0 <= assigned.offset <= assigned.offset + assigned.size <= allocation.size or assigned.size < 0:
                raise _damaged(module, f"buffer {assigned.logical_buffer_id} does not fit into its allocation")
            where = defined.pop(assigned.logical_buffer_id, None)
            if where is None:
                raise _damaged(module, f"buffer {assigned.logical_buffer_id} is unknown or assigned twice")
            place = _place(where, instructions, module)
            buffers.append(Buffer(assigned.logical_buffer_id, *place, allocation.index, assigned.offset, assigned.size))
    aliases = tuple(
        (each.source_buffer_id, *_place(each.location, instructions, module)) for each in message.buffer_aliases
    )
    traces = tuple(_trace(each) for each in message.heap_simulator_traces)
    return BufferAssignment(allocations, tuple(buffers), aliases, traces)


def space_name(memory_space: int, platform: str) -> str:
    """What a memory space is called on a platform (``tpu``, ``gpu``, ``cpu``); ``space_N`` if it has no name.

    On TPU: 0 ``hbm``, 1 ``vmem``, 2 ``sync_flags``, 4 ``smem``, 5 ``host``. On GPU: 0 ``hbm``, 1 ``collective``, 5
    ``host``. On CPU: 0 ``main``.
    """
    return _SPACES.get(platform, {}).get(memory_space, f"space_{memory_space}")


def _message(module: HloModule) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return messages().BufferAssignmentProto.FromString(module.buffer_assignment)
    except DecodeError as error:
        raise _damaged(module, "it is no valid protobuf") from error


def _allocation(message: Any) -> Allocation:
    if message.size < 0:
        raise HloError(f"Allocation {message.index} of the buffer assignment has the size {message.size}.")
    parameter = bool(message.is_entry_computation_parameter)
    kind: AllocationKind = "temp"
    if parameter:
        kind = "parameter"
    elif message.is_constant:
        kind = "constant"
    elif message.is_thread_local:
        kind = "thread_local"
    elif message.maybe_live_out:
        kind = "output"
    return Allocation(
        index=message.index,
        size=message.size,
        memory_space=message.color,
        kind=kind,
        parameter_number=message.parameter_number if parameter else None,
        parameter_index=tuple(message.parameter_shape_index),
        is_tuple=message.is_tuple,
        live_out=message.maybe_live_out,
        # Older writers lack the field; there a parameter that is live out is one that an output reuses.
        aliased=parameter and bool(message.is_parameter_aliased_with_output or message.maybe_live_out),
    )


def _uses(allocation: Allocation) -> tuple[str, ...]:
    match allocation.kind:
        case "parameter":
            return ("arguments", "output", "aliased") if allocation.aliased else ("arguments",)
        case "thread_local":
            return ("thread_local",)
        case "constant":
            return ("constants",)
        case "output":
            return ("output",)
        case _:
            return ("temp",)


def _place(
    location: Any, instructions: Mapping[int, Instruction], module: HloModule
) -> tuple[Instruction | None, tuple[int, ...]]:
    """Older writers name the instruction, newer ones give its id."""
    name = location.instruction_name.decode("utf-8", "replace")
    found = module.find(name) if name else instructions.get(location.instruction_id)
    return found, tuple(location.shape_index)


def _trace(message: Any) -> HeapTrace:
    events: list[HeapEvent] = []
    for event in message.events:
        if not 0 <= event.kind < len(_EVENT_KINDS):
            raise HloError(f"A heap event of the buffer assignment has the unknown kind {event.kind}.")
        shared = event.share_with_canonical_id if event.kind == 2 else None
        name = event.instruction_name.decode("utf-8", "replace")
        events.append(HeapEvent(_EVENT_KINDS[event.kind], event.buffer_id, name, shared))
    return HeapTrace(message.buffer_allocation_index, message.whole_module_simulation, tuple(events))


def _part(shape: Shape, index: tuple[int, ...]) -> Shape | None:
    for position in index:
        if not 0 <= position < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[position]
    return shape


def _damaged(module: HloModule, what: str) -> HloError:
    return HloError(
        f"The buffer assignment of {module.name!r} cannot be used: {what}.",
        why="The trace was damaged or written by a version that is not known.",
    )
