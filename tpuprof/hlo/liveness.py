"""How much memory a scheduled program uses over time, and what is live where that is most.

Within an allocation the bytes in use at a time are those covered by at least one live buffer: values that share
their memory (the result of an in-place update and its operand, the values of a loop) count once. Arguments and
constants are there all the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tpuprof.hlo.buffers import Allocation, Buffer, BufferAssignment, Totals
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.live_ranges import live_ranges, schedule
from tpuprof.hlo.module import HloModule

_CARRIERS = frozenset({"parameter", "while", "conditional", "call"})


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A stretch of memory in use at the peak.

    Args:
        buffer: the value in it: of several that share the memory the one computed last; null for an argument or
            constant without a defining instruction.
        size: bytes, padding included.
        unpadded_size: bytes that its elements need; null if unknown.
    """

    allocation: Allocation
    buffer: Buffer | None
    size: int
    unpadded_size: int | None


@dataclass(frozen=True, slots=True)
class SpaceUse:
    """The use of one memory space.

    Args:
        timeline: (position, bytes) pairs, ascending: from each position on so many bytes are in use.
        peak: the largest number of bytes in use.
        peak_position: the first position at which that is so.
        peak_instruction: the instruction there.
        live: what is in use there, largest first.
        working_peak: the largest number of bytes in use of ``temp`` allocations alone.
    """

    memory_space: int
    totals: Totals
    timeline: tuple[tuple[int, int], ...]
    peak: int
    peak_position: int
    peak_instruction: Instruction
    live: tuple[LiveBuffer, ...]
    working_peak: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a program by memory space, and the length of its schedule."""

    spaces: tuple[SpaceUse, ...]
    positions: int


def memory_use(module: HloModule, assignment: BufferAssignment) -> MemoryUse | None:
    """The memory that a program uses over time; null if its schedule was not recorded.

    Args:
        module: the program.
        assignment: its buffers, from `parse_buffers`.

    Raises:
        HloError: the module's values cannot be followed.
    """
    if not module.is_scheduled:
        return None
    order = schedule(module)
    ranges = live_ranges(module, assignment, order)
    last = len(order.instructions) - 1
    held: dict[int, list[tuple[Buffer, int, int]]] = defaultdict(list)
    for buffer in assignment.buffers:
        if buffer.id in ranges and buffer.size:
            held[buffer.allocation].append((buffer, *ranges[buffer.id]))
    spaces: list[SpaceUse] = []
    for space in assignment.memory_spaces:
        allocations = [a for a in assignment.allocations if a.memory_space == space and a.size]
        changes: dict[int, int] = defaultdict(int, {0: 0})
        working: dict[int, int] = defaultdict(int, {0: 0})
        for allocation in allocations:
            for at, difference in _changes(allocation, held[allocation.index]):
                changes[at] += difference
                if allocation.kind == "temp":
                    working[at] += difference
        timeline = _running({at: change for at, change in changes.items() if at <= last})
        peak, position = _highest(timeline)
        live = [each for a in allocations for each in _live_at(a, held[a.index], position, assignment)]
        live.sort(key=lambda each: (-each.size, each.allocation.index, each.buffer.offset if each.buffer else 0))
        spaces.append(
            SpaceUse(
                space, assignment.totals(space), timeline, peak, position, order.instructions[position], tuple(live),
                _highest(_running(working))[0],
            )
        )  # fmt: skip
    return MemoryUse(tuple(spaces), last + 1)


def covered_peak(allocation: Allocation, held: Iterable[tuple[Buffer, int, int]]) -> int:
    """The most bytes of an allocation that are in use at one time."""
    changes: dict[int, int] = defaultdict(int, {0: 0})
    for at, difference in _changes(allocation, list(held)):
        changes[at] += difference
    return _highest(_running(changes))[0]


def _changes(allocation: Allocation, held: list[tuple[Buffer, int, int]]) -> list[tuple[int, int]]:
    """(position, difference of the bytes in use) of one allocation, in order of position."""
    if allocation.kind == "thread_local":
        return []
    if allocation.kind in ("parameter", "constant"):
        return [(0, allocation.size)]
    events = [(first, 1, buffer) for buffer, first, _ in held] + [(end + 1, -1, buffer) for buffer, _, end in held]
    events.sort(key=lambda event: event[0])
    cover = _Cover(edge for buffer, _, _ in held for edge in (buffer.offset, buffer.offset + buffer.size))
    found: list[tuple[int, int]] = []
    before = 0
    for at, sign, buffer in events:
        cover.add(buffer.offset, buffer.offset + buffer.size, sign)
        if cover.length != before:
            found.append((at, cover.length - before))
            before = cover.length
    return found


class _Cover:
    """How much of a line is covered by the intervals added so far: a segment tree over their ends."""

    def __init__(self, edges: Iterable[int]) -> None:
        self._edges = sorted(set(edges))
        self._row = {edge: row for row, edge in enumerate(self._edges)}
        self._leaves = max(len(self._edges) - 1, 1)
        size = 1
        while size < self._leaves:
            size *= 2
        self._size = size
        self._count = [0] * (2 * size)
        self._length = [0] * (2 * size)

    @property
    def length(self) -> int:
        """The covered length."""
        return self._length[1]

    def add(self, start: int, stop: int, sign: int) -> None:
        """Adds (1) or takes away (-1) the interval [start, stop), whose ends are among the edges."""
        low, high = self._row[start] + self._size, self._row[stop] + self._size
        touched: list[int] = []
        left, right = low, high
        while left < right:
            if left & 1:
                touched.append(left)
                left += 1
            if right & 1:
                right -= 1
                touched.append(right)
            left //= 2
            right //= 2
        for node in touched:
            self._count[node] += sign
            while node:
                self._update(node)
                node //= 2

    def _update(self, node: int) -> None:
        if self._count[node]:
            self._length[node] = self._span(node)
        elif node >= self._size:
            self._length[node] = 0
        else:
            self._length[node] = self._length[2 * node] + self._length[2 * node + 1]

    def _span(self, node: int) -> int:
        first = last = node
        while first < self._size:
            first, last = 2 * first, 2 * last + 1
        low = min(first - self._size, self._leaves)
        high = min(last - self._size + 1, self._leaves)
        return self._edges[high] - self._edges[low]


def _running(changes: dict[int, int]) -> tuple[tuple[int, int], ...]:
    total = 0
    found: list[tuple[int, int]] = []
    for at in sorted(changes):
        total += changes[at]
        if not found or found[-1][1] != total:
            found.append((at, total))
    return tuple(found)


def _highest(timeline: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """(bytes, first position) of the peak."""
    position, peak = max(timeline, key=lambda entry: (entry[1], -entry[0]))
    return peak, position


def _live_at(
    allocation: Allocation, held: list[tuple[Buffer, int, int]], position: int, assignment: BufferAssignment
) -> list[LiveBuffer]:
    """The stretches of one allocation that are in use at a position; they do not overlap."""
    if allocation.kind == "thread_local":
        return []
    if allocation.kind in ("parameter", "constant"):
        first = _definition(allocation, assignment)
        unpadded = first.unpadded_size if first is not None and first.size == allocation.size else None
        return [LiveBuffer(allocation, first, allocation.size, unpadded)]
    alive = [(buffer, first) for buffer, first, last in held if first <= position <= last]
    # The value defined last names the memory, but rather one that was computed than one that a loop hands round.
    alive.sort(key=lambda each: (_is_carrier(each[0].instruction), -each[1], each[0].id))
    cover = _Cover(edge for buffer, _ in alive for edge in (buffer.offset, buffer.offset + buffer.size))
    found: list[LiveBuffer] = []
    for buffer, _ in alive:
        before = cover.length
        cover.add(buffer.offset, buffer.offset + buffer.size, 1)
        size = cover.length - before  # what no value that was defined later has
        if size:
            found.append(LiveBuffer(allocation, buffer, size, buffer.unpadded_size if size == buffer.size else None))
    return found


def _is_carrier(instruction: Instruction | None) -> bool:
    return instruction is None or instruction.opcode in _CARRIERS


def _definition(allocation: Allocation, assignment: BufferAssignment) -> Buffer | None:
    """The parameter or constant instruction that an allocation is for."""
    inside = [b for b in assignment.buffers if b.allocation == allocation.index and b.instruction is not None]
    opcode = "parameter" if allocation.kind == "parameter" else "constant"
    exact = [
        b
        for b in inside
        if b.instruction is not None
        and b.instruction.opcode == opcode
        and (opcode != "parameter" or b.instruction.parameter_number == allocation.parameter_number)
        and b.size == allocation.size
    ]
    return exact[0] if exact else inside[0] if inside else None
