"""Memory over time by brute force: values are followed edge by edge, memory is painted byte by byte.

Independent of the views and the interval tree of the package, and slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tpuprof.hlo import HloModule, Instruction, Shape
from tpuprof.hlo.buffers import BufferAssignment

Node = tuple[str, str, tuple[int, ...]]  # computation, instruction, shape index
SAME = ("bitcast", "optimization-barrier", "add-dependency", "domain", "all-reduce-done", "async-update")


def bytes_over_time(module: HloModule, assignment: BufferAssignment, memory_space: int) -> list[int]:
    """Bytes in use at every position of the schedule."""
    order = list(expanded(module, module.entry_name, set()))
    lives = ranges(module, assignment, order)
    totals = [0] * len(order)
    for allocation in assignment.allocations:
        if allocation.memory_space != memory_space or allocation.kind == "thread_local":
            continue
        for now in range(len(order)):
            if allocation.kind in ("parameter", "constant"):
                totals[now] += allocation.size
                continue
            paint = bytearray(allocation.size)
            for buffer in assignment.buffers:
                if buffer.allocation == allocation.index and buffer.id in lives:
                    first, last = lives[buffer.id]
                    if first <= now <= last:
                        paint[buffer.offset : buffer.offset + buffer.size] = b"\1" * buffer.size
            totals[now] += sum(paint)
    return totals


def ranges(module: HloModule, assignment: BufferAssignment, order: list[Instruction]) -> dict[int, tuple[int, int]]:
    """First and last position of every buffer that the schedule defines."""
    at = {(i.computation, i.name): now for now, i in enumerate(order)}
    run = {i.computation for i in order}
    owners: dict[Node, int] = {
        (b.instruction.computation, b.instruction.name, b.shape_index): b.id
        for b in assignment.buffers
        if b.instruction is not None and b.instruction.computation in run
    }
    edges: dict[Node, set[Node]] = defaultdict(set)
    for instruction in order:
        for source, target in passed_on(module, instruction):
            if target not in owners:
                edges[source].add(target)
    used_at: dict[Node, set[int]] = defaultdict(set)
    for instruction in order:
        for node in uses(module, instruction):
            used_at[node].add(at[instruction.computation, instruction.name])
    for name in run:
        computation = module.computation(name)
        last = max(now for (c, _), now in at.items() if c == name)
        for index in indices(computation.root.shape):
            used_at[name, computation.root_name, index].add(last)
    found: dict[int, tuple[int, int]] = {}
    for start, owner in owners.items():
        seen, pending = {start}, [start]
        while pending:
            for target in edges[pending.pop()] - seen:
                seen.add(target)
                pending.append(target)
        times = {at[start[0], start[1]]} | {time for node in seen for time in used_at[node]}
        found[owner] = (min(times), max(times))
    return found


def expanded(module: HloModule, name: str, placed: set[str]) -> Iterator[Instruction]:
    placed.add(name)
    for instruction in module.computation(name).instructions:
        if instruction.opcode in ("while", "conditional", "call", "async-start"):
            for _, callee in instruction.called:
                if callee not in placed:
                    yield from expanded(module, callee, placed)
        yield instruction


def passed_on(module: HloModule, i: Instruction) -> Iterator[tuple[Node, Node]]:
    """Pairs of places between which a value is passed on unchanged."""
    operands = module.operands(i)

    def edge(of: Instruction, source: tuple[int, ...], to: Instruction, target: tuple[int, ...]) -> tuple[Node, Node]:
        return (of.computation, of.name, source), (to.computation, to.name, target)

    if i.opcode == "tuple":
        for number, operand in enumerate(operands):
            yield from (edge(operand, x, i, (number, *x)) for x in indices(operand.shape))
    elif i.opcode == "get-tuple-element":
        yield from (edge(operands[0], (i.tuple_index or 0, *x), i, x) for x in indices(i.shape))
    elif i.opcode in SAME:
        yield from (edge(operands[0], x, i, x) for x in indices(i.shape))
    elif i.opcode == "copy-start":
        yield edge(operands[0], (), i, (1,))
    elif i.opcode == "copy-done":
        yield edge(operands[0], (0,), i, ())
    elif i.opcode == "while":
        yield from (edge(operands[0], x, i, x) for x in indices(i.shape))
        for _, name in i.called:
            (parameter,) = module.computation(name).parameters
            yield from (edge(operands[0], x, parameter, x) for x in indices(i.shape))
    elif i.opcode == "conditional":
        for number, (_, name) in enumerate(i.called):
            (parameter,) = module.computation(name).parameters
            root = module.computation(name).root
            yield from (edge(operands[number + 1], x, parameter, x) for x in indices(parameter.shape))
            yield from (edge(root, x, i, x) for x in indices(i.shape))
    elif i.opcode == "call":
        computation = module.computation(i.called[0][1])
        for operand, parameter in zip(operands, computation.parameters, strict=True):
            yield from (edge(operand, x, parameter, x) for x in indices(parameter.shape))
        yield from (edge(computation.root, x, i, x) for x in indices(i.shape))


def uses(module: HloModule, i: Instruction) -> Iterator[Node]:
    operands = module.operands(i)
    if i.opcode == "conditional":
        operands = operands[:1]
    elif i.opcode == "call":
        operands = ()
    only_top = i.opcode in ("tuple", "get-tuple-element", "bitcast", "optimization-barrier", "add-dependency", "domain")
    for operand in operands:
        for index in ((),) if only_top else indices(operand.shape):
            yield operand.computation, operand.name, index


def indices(shape: Shape) -> Iterator[tuple[int, ...]]:
    yield ()
    for number, part in enumerate(shape.tuple_shapes):
        yield from ((number, *rest) for rest in indices(part))
