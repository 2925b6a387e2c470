"""Which instructions are the two halves of one asynchronous operation, by the operands of the HLO.

The numbers in names need not agree. A done half follows its start half through updates, through the fusions that
carry a collective along, and around a loop: a start half of one iteration can end in the next one, or behind the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tpuprof.hlo import HloModule, Instruction
from tpuprof.tables.opclass import OpClass
from tpuprof.tables.rows import OpInfo

MAX_VISITED = 128  # instructions between the halves of a pair: longer ways do not occur
_PASSED_ON = ("bitcast", "copy", "get-tuple-element", "opt-barrier", "parameter", "tuple", "while")

_Value = tuple[Instruction, tuple[int, ...]]  # an instruction, and which part of its (nested) tuple is meant


@dataclass(frozen=True, slots=True)
class PairGroup:
    """Registry rows of halves that belong together: almost always one start and one done half."""

    starts: tuple[int, ...]
    updates: tuple[int, ...]
    dones: tuple[int, ...]


def pair_groups(used: Sequence[int], infos: Sequence[OpInfo]) -> list[PairGroup]:
    """Start halves with the done halves that end them, and the updates in between.

    Around a loop several belong together: one start half before it and one inside it that the same done half ends;
    their transfers end in the order of their issue all the same.

    Args:
        used: the registry rows in question.
        infos: the registry.
    """
    by_name = {(infos[row].module, infos[row].name): row for row in used}
    starts_of = {row: _starts(infos[row], by_name, infos) for row in used if infos[row].cls.phase in ("update", "done")}
    groups: list[tuple[set[int], set[int]]] = []
    for row, starts in starts_of.items():
        if not starts or infos[row].cls.phase != "done":
            continue
        joined, others = (set(starts), {row}), list[tuple[set[int], set[int]]]()
        for group in groups:
            if group[0] & joined[0]:
                joined = (joined[0] | group[0], joined[1] | group[1])
            else:
                others.append(group)
        groups = [*others, joined]
    return [
        PairGroup(
            tuple(sorted(starts)),
            tuple(row for row, of in starts_of.items() if of & starts and infos[row].cls.phase == "update"),
            tuple(sorted(dones)),
        )
        for starts, dones in groups
    ]


def _starts(done: OpInfo, by_name: dict[tuple[str | None, str], int], infos: Sequence[OpInfo]) -> set[int]:
    """The start halves that a done half may end."""
    if done.instruction is None:
        return set()
    if done.program is None or not done.instruction.computation:
        return _without_program(done, by_name, infos)
    found: set[int] = set()
    for name in _start_instructions(done.instruction, done.program, done.module, by_name, infos):
        row = by_name.get((done.module, name))
        if row is not None:
            found.add(row)
    return found


def _without_program(done: OpInfo, by_name: dict[tuple[str | None, str], int], infos: Sequence[OpInfo]) -> set[int]:
    """From the texts of the ops alone: through first operands, as long as they are ops of the trace."""
    instruction = done.instruction
    for _ in range(MAX_VISITED):
        if instruction is None or not instruction.operands:
            break
        row = by_name.get((done.module, instruction.operands[0]))
        if row is None:
            break
        if infos[row].cls.phase == "start":
            return {row}
        instruction = infos[row].instruction
    return set()


def _start_instructions(
    done: Instruction,
    module: HloModule,
    label: str | None,
    by_name: dict[tuple[str | None, str], int],
    infos: Sequence[OpInfo],
) -> Iterator[str]:
    """Names of start halves that a done half's operands lead back to.

    A done half that is an opcode of its own has its start in its first operand. A fused one may take other values
    too, which lead nowhere or to other collectives: its start is the nearest one of its channel.
    """
    pending: list[tuple[_Value, int]] = [((each, ()), 1) for each in _first(done, module)]
    seen: set[tuple[str, tuple[int, ...]]] = set()
    channels = _channels(done, module)
    nearest: int | None = None
    while pending and len(seen) < MAX_VISITED:
        (instruction, path), distance = pending.pop(0)
        key = (f"{instruction.computation}/{instruction.name}", path)
        if key in seen or (nearest is not None and distance > nearest):
            continue
        seen.add(key)
        row = by_name.get((label, instruction.name))
        cls = infos[row].cls if row is not None else None
        phase = cls.phase if cls is not None else "sync"
        if phase == "start":
            other = _channels(instruction, module)
            if not channels or not other or channels & other:
                nearest = distance if done.opcode == "fusion" else None
                yield instruction.name
        elif instruction.opcode in _PASSED_ON:
            # Values that are handed on unchanged are the same place; the next half or fusion is one further away.
            pending.extend(((each, rest), distance) for each, rest in _handed_on(instruction, path, module))
        elif phase == "update" or instruction.opcode.endswith("-update"):
            pending.extend(((each, ()), distance + 1) for each in _first(instruction, module))
        elif done.opcode == "fusion" and instruction.opcode == "fusion" and _carries(cls):
            pending.extend(((each, ()), distance + 1) for each in module.operands(instruction))


def _carries(cls: OpClass | None) -> bool:
    """Whether a fusion can carry a part of a collective that was begun before it."""
    if cls is None or cls.detail == "async_collective_fusion":
        return True
    return cls.kind == "collective" and cls.phase == "sync"


def _channels(instruction: Instruction, module: HloModule) -> set[int]:
    """The channels of the collectives inside a fused half; empty where it names none."""
    if instruction.opcode != "fusion":
        return set()
    inside = (each for computation in module.inside(instruction) for each in computation.instructions)
    return {each.channel_id for each in inside if each.channel_id is not None}


def _first(instruction: Instruction, module: HloModule) -> Iterable[Instruction]:
    operands = module.operands(instruction)
    return operands if instruction.opcode == "fusion" else operands[:1]


def _handed_on(instruction: Instruction, path: tuple[int, ...], module: HloModule) -> list[_Value]:
    """Where the value comes from that an instruction only hands on; the result of a loop comes from its body."""
    operands = module.operands(instruction)
    if instruction.opcode == "get-tuple-element":
        return [(operands[0], (instruction.tuple_index or 0, *path))]
    if instruction.opcode == "tuple":
        if path:
            return [(operands[path[0]], path[1:])] if path[0] < len(operands) else []
        return [(each, ()) for each in operands]
    if instruction.opcode == "while":
        # Behind a loop: what its last iteration handed on, or what went in if it never ran.
        bodies = [module.computation(name).root for name in instruction.called_by_role("body")]
        return [*((root, path) for root in bodies), *((each, path) for each in operands[:1])]
    if instruction.opcode == "parameter":
        return _into_loop(instruction, path, module)
    return [(each, path) for each in operands[:1]]


def _into_loop(parameter: Instruction, path: tuple[int, ...], module: HloModule) -> list[_Value]:
    """What a loop's body is given: what went into the loop, and what the iteration before handed on."""
    values: list[_Value] = []
    for caller in module.callers.get(parameter.computation, ()):
        if caller.opcode == "while" and parameter.computation in caller.called_by_role("body"):
            values.extend((each, path) for each in module.operands(caller)[:1])
            values.append((module.computation(parameter.computation).root, path))
    return values
