"""How much compute of a program could run beside an instruction: what neither feeds it nor needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tpuprof.hlo import HloModule, Instruction


def independent_ps(program: HloModule, op: str, times: Mapping[str, float]) -> float | None:
    """Time of the instructions in the same computation that do not depend on an op, nor it on them.

    Args:
        program: the program.
        op: the instruction's name.
        times: mean self time per occurrence of each op, in ps; ops that are missing take none.

    Returns:
        The sum in ps; loops count with one pass through what they call. Null if the program has no such instruction.
    """
    found = program.find(op)
    if found is None or not found.computation:
        return None
    members = {i.name: i for i in program.computation(found.computation).instructions}
    users: dict[str, list[str]] = {name: [] for name in members}
    for instruction in members.values():
        for operand in (*instruction.operands, *instruction.control_predecessors):
            if operand in users:
                users[operand].append(instruction.name)
    before = _reach(op, {n: (*i.operands, *i.control_predecessors) for n, i in members.items()})
    bound = before | _reach(op, users) | {op}
    return sum(_time(program, i, times) for name, i in members.items() if name not in bound)


def _reach(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for name in edges.get(todo.pop(), ()):
            if name in edges and name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def _time(program: HloModule, instruction: Instruction, times: Mapping[str, float]) -> float:
    if instruction.opcode not in ("while", "conditional", "call"):
        return times.get(instruction.name, 0.0)
    return sum(times.get(i.name, 0.0) for c in program.inside(instruction) for i in c.instructions)
