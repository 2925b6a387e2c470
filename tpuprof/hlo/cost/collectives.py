"""The collectives of a program and the data that they move, each transfer once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tpuprof.errors import HloError
from tpuprof.hlo.cost.model import CollectiveCost
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.shapes import Shape
from tpuprof.hlo.targets import COLLECTIVE_OPCODES

_KINDS = {**COLLECTIVE_OPCODES, "send": "send_recv"}
_OPCODES = frozenset(_KINDS) | {f"{opcode}-start" for opcode in _KINDS if opcode != "send"}
_WOVEN = "AsyncCollectiveStart"


def collectives(
    module: HloModule, running: Iterable[Computation], executions: Mapping[str, int]
) -> tuple[CollectiveCost, ...]:
    """The collectives of the computations that run, also those inside fusions and asynchronous starts.

    A collective that the compiler weaves into matmuls appears, under one channel, in the fusion that starts it and in
    each that carries it on: it counts once, as often as its start runs.

    Args:
        module: the program.
        running: its computations that run by themselves.
        executions: how often each of their instructions runs.
    """
    table = _Table(module)
    found: list[tuple[CollectiveCost, bool]] = []
    for computation in running:
        for op in computation.instructions:
            if op.opcode in _OPCODES or op.opcode in ("fusion", "async-start", "custom-call"):
                woven, inner = table.of(op, computation)
                times = executions.get(op.name, 0)
                found += [(_cost(module, each, holder, op, times), woven) for each, holder in inner]
    return _once(found)


class _Table:
    """The collectives inside of computations, each computation looked into once."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._inside: dict[str, tuple[bool, list[tuple[Instruction, Computation]]]] = {}
        for computation in module.reachable:  # callees first
            woven, inner = False, list[tuple[Instruction, Computation]]()
            for op in computation.instructions:
                if op.called or op.opcode in _OPCODES or op.opcode == "custom-call":
                    of_op = self.of(op, computation)
                    woven = woven or of_op[0]
                    inner += of_op[1]
            self._inside[computation.name] = (woven, inner)

    def of(self, op: Instruction, holder: Computation) -> tuple[bool, list[tuple[Instruction, Computation]]]:
        """Whether a woven collective starts in it, and the collectives in it with what holds them."""
        try:
            if op.opcode in _OPCODES:
                return False, [] if op.opcode == "send" and op.is_host_transfer else [(op, holder)]
            if op.opcode == "custom-call":
                return op.custom_call_target == _WOVEN, []
        except HloError:
            return False, []
        woven, inner = False, list[tuple[Instruction, Computation]]()
        if op.opcode in ("fusion", "async-start", "call"):
            for _, name in op.called:
                of_called = self._inside.get(name, (False, []))
                woven = woven or of_called[0]
                inner = [*inner, *of_called[1]]
        return woven, inner


def _once(found: list[tuple[CollectiveCost, bool]]) -> tuple[CollectiveCost, ...]:
    woven = {each.channel_id for each, starts in found if starts and each.channel_id is not None}
    kept: list[CollectiveCost] = []
    first: dict[int, int] = {}
    for each, starts in found:
        channel = each.channel_id
        if channel is None or channel not in woven:
            kept.append(each)
        elif channel not in first:
            first[channel] = len(kept)
            kept.append(each)
        elif starts:
            kept[first[channel]] = each
    return tuple(kept)


def _cost(
    module: HloModule, instruction: Instruction, holder: Computation, op: Instruction, executions: int
) -> CollectiveCost:
    base = instruction.opcode.removesuffix("-start")
    operands = [each.shape for each in holder.operands(instruction)]
    kind, results = _KINDS[base], _results(instruction)
    if base == "send":
        operands = operands[:1]
    given, made = _total(operands), _total(results)
    if kind == "all_reduce" and _keeps_a_part(instruction, holder):
        kind = "reduce_scatter"
    full, shard = given, given
    if kind == "all_gather":
        full, shard = made, given
    size = _group_size(module, instruction)
    if kind == "reduce_scatter":
        shard = made if base == "reduce-scatter" else (given // size if given is not None and size else None)
    return CollectiveCost(
        instruction.name, op.name, kind, _channel(instruction), full, shard, size, executions
    )  # fmt: skip


def _keeps_a_part(instruction: Instruction, holder: Computation) -> bool:
    """Whether it is a reduce-scatter that is written as an all-reduce of which each device keeps its part."""
    if instruction.opcode != "all-reduce" or holder.root_name == instruction.name:
        return False
    inside = {each.opcode for each in holder.instructions}
    fused = not inside & {"while", "fusion", "async-start", "async-done", "copy-start"}
    return fused and any(
        each.opcode == "dynamic-slice" and each.operands[:1] == (instruction.name,) for each in holder.instructions
    )


def _results(instruction: Instruction) -> list[Shape]:
    shape = instruction.shape
    if not instruction.opcode.endswith("-start") or not shape.is_tuple:
        return [shape]
    if instruction.opcode == "all-reduce-start":
        return [shape]
    return [shape.tuple_shapes[1]] if len(shape.tuple_shapes) >= 2 else [shape]


def _total(shapes: Iterable[Shape]) -> int | None:
    total = 0
    for shape in shapes:
        size = shape.byte_size
        if size is None:
            return None
        total += size
    return total


def _channel(instruction: Instruction) -> int | None:
    try:
        return instruction.channel_id
    except HloError:
        return None


def _group_size(module: HloModule, instruction: Instruction) -> int | None:
    try:
        groups = instruction.replica_groups
    except HloError:
        return None
    if groups is None:
        return None
    return module.num_partitions * module.replica_count if groups.is_all else groups.group_size
