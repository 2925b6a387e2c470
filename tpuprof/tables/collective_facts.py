"""What the HLO says of a collective: its kind, who takes part, and how many bytes.

A collective may stand inside a fusion, or inside the computation that a generic asynchronous pair calls; then the
instruction in there is the one that counts. A done half says nothing itself and has the facts of its start half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction
from tpuprof.hlo.meshes import axes_of_groups, axes_of_pairs, stated_axes
from tpuprof.hlo.targets import COLLECTIVE_OPCODES
from tpuprof.tables.opclass import Phase, split_phase
from tpuprof.tables.rows import OpInfo

MAX_VISITED = 256  # instructions that are looked at in search of a collective
MAX_MEMBERS = 1 << 22

_SUMMED_OVER_REPLICAS = ("all-reduce", "all-gather", "reduce-scatter")
_KINDS = {**COLLECTIVE_OPCODES, "send": "send_recv", "recv": "send_recv"}


@dataclass(frozen=True, slots=True)
class CollectiveFacts:
    """What the HLO says of one collective.

    Args:
        kind: the opcode's kind, ``send_recv`` for send and recv; null if nothing tells.
        groups: the global device ids that take part together, one tuple per group; null if unknown.
        participants: devices of a group, the largest if groups differ; null if unknown.
        bytes: full (gathered) size of what one group works on; null if unknown.
        shard_bytes: the share of it that one device contributes or keeps; null if unknown.
        mesh_axes: the axes of the program's device mesh along which it goes; null if unknown.
        pairs: of a permute the global device ids that send and receive, source first.
    """

    kind: str | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    participants: int | None = None
    bytes: int | None = None
    shard_bytes: int | None = None
    mesh_axes: tuple[str, ...] | None = None
    pairs: tuple[tuple[int, int], ...] | None = None


def collective_facts(info: OpInfo) -> CollectiveFacts:
    """The facts of an op that is a collective, or a half of one; what its HLO does not tell is null."""
    instruction = info.instruction
    if instruction is None:
        return CollectiveFacts(info.cls.collective)
    try:
        inner = _collective_of(instruction, info.program, info.cls.phase) or instruction
        kind = info.cls.collective or _KINDS.get(split_phase(inner.opcode)[0])
        groups = _groups(inner, info.program)
        size = max(map(len, groups)) if groups else _size(inner, info.program)
        full = _full_bytes(inner, info.program, kind, size)
        pairs = _pairs(inner, info.program)
    except (HloError, KeyError):
        return CollectiveFacts(info.cls.collective)  # a damaged attribute: nothing is known
    axes = _mesh_axes(inner, info.program)
    return CollectiveFacts(kind, groups, size, full, _shard(kind, full, size), axes, pairs)


def _base(instruction: Instruction) -> str:
    return split_phase(instruction.opcode)[0]


def _collective_of(instruction: Instruction, module: HloModule | None, phase: Phase) -> Instruction | None:
    """The instruction that does the communication of an op: itself, one in what it calls, or its start half's."""
    if module is None or not instruction.computation:
        return instruction if _base(instruction) in _KINDS else None
    start = _start_of(instruction, module)
    if _base(start) in _KINDS:
        return start
    inside = _inside(start, module)
    if inside is not None or start.opcode != "fusion":
        return inside
    # Of fused halves it is the fusions in between that hold the collective: after a start half, before a done half.
    near = _downstream(start, module) if phase == "start" else _upstream(start, module)
    found = (_inside(each, module) for each in near if each.opcode == "fusion")
    return next((each for each in found if each is not None), None)


def _start_of(instruction: Instruction, module: HloModule) -> Instruction:
    """The start half of a done half or update, through what only hands its value on; any other is itself."""
    current = instruction
    for _ in range(MAX_VISITED):
        half = current.opcode.endswith(("-done", "-update")) or current.opcode in ("bitcast", "get-tuple-element")
        if not half or not current.operands:
            break
        current = module.operands(current)[0]
    return current if current.opcode.endswith(("-start", "send", "recv")) else instruction


def _inside(instruction: Instruction, module: HloModule) -> Instruction | None:
    for computation in module.inside(instruction):
        for each in computation.instructions:
            if _base(each) in COLLECTIVE_OPCODES:
                return each
    return None


def _upstream(instruction: Instruction, module: HloModule) -> Iterator[Instruction]:
    """What an instruction depends on, nearest first."""
    yield from _walk(module.operands(instruction), module.operands)


def _downstream(instruction: Instruction, module: HloModule) -> Iterator[Instruction]:
    """What depends on an instruction within its computation, nearest first."""
    users: dict[str, list[Instruction]] = {}
    for each in module.computation(instruction.computation).instructions:
        for name in each.operands:
            users.setdefault(name, []).append(each)
    yield from _walk(users.get(instruction.name, []), lambda each: users.get(each.name, []))


def _walk(
    first: Iterable[Instruction], following: Callable[[Instruction], Iterable[Instruction]]
) -> Iterator[Instruction]:
    pending, seen = list(first), set[str]()
    while pending and len(seen) < MAX_VISITED:
        each = pending.pop(0)
        if each.name not in seen:
            seen.add(each.name)
            yield each
            pending.extend(following(each))


def _size(instruction: Instruction, module: HloModule | None) -> int | None:
    """Devices per group where the groups themselves are not known."""
    groups = instruction.replica_groups
    return None if groups is None or module is not None else groups.group_size


def _groups(instruction: Instruction, module: HloModule | None) -> tuple[tuple[int, ...], ...] | None:
    """Global device ids by group, as the compiler's rules for channels and replica groups give them."""
    partitions = module.num_partitions if module is not None else 1
    replicas = module.replica_count if module is not None else 1
    logical = _logical_groups(instruction, module, partitions, replicas)
    if logical is None:
        return None
    return tuple(tuple(_device(flat, module) for flat in group) for group in logical)


def _pairs(instruction: Instruction, module: HloModule | None) -> tuple[tuple[int, int], ...] | None:
    """Global device ids of the pairs of a permute; null for everything else."""
    pairs = instruction.source_target_pairs
    if pairs is None or len(pairs) > MAX_MEMBERS:
        return None
    return tuple((_device(source, module), _device(target, module)) for source, target in pairs)


def _device(flat: int, module: HloModule | None) -> int:
    """The global device id of a flat id, through the device assignment where there is one."""
    assignment = module.device_assignment if module is not None else None
    replica, partition = divmod(flat, module.num_partitions if module is not None else 1)
    if assignment and partition < len(assignment) and replica < len(assignment[partition]):
        return assignment[partition][replica]
    return flat


def _logical_groups(
    instruction: Instruction, module: HloModule | None, partitions: int, replicas: int
) -> Sequence[tuple[int, ...]] | None:
    """Groups of flat ids ``replica * partitions + partition``; null if unknown."""
    base, everyone = _base(instruction), partitions * replicas
    pairs = instruction.source_target_pairs
    if pairs is not None:
        written: Sequence[tuple[int, ...]] = _connected(pairs)
    else:
        stated = instruction.replica_groups
        if stated is None or (stated.is_all and module is None):
            return None
        if stated.is_all:
            return [tuple(range(everyone))] if 0 < everyone <= MAX_MEMBERS else None
        written = stated.groups(everyone)
    top = max((max(group) for group in written if group), default=0)
    if instruction.use_global_device_ids or top >= max(replicas, partitions):
        return written  # flat ids, said to be so or too large for anything else
    if top < replicas and instruction.channel_id is not None and base in _SUMMED_OVER_REPLICAS:
        return [tuple(r * partitions + p for r in group for p in range(partitions)) for group in written]
    if top < replicas and instruction.channel_id is None:
        return [tuple(r * partitions + p for r in group) for group in written for p in range(partitions)]
    return [tuple(r * partitions + p for p in group) for group in written for r in range(replicas)]


def _mesh_axes(instruction: Instruction, module: HloModule | None) -> tuple[str, ...] | None:
    """The mesh axes along which a collective goes: as its groups state them, or as the program's meshes tell."""
    stated = instruction.replica_groups
    axes = None if stated is None else stated_axes(stated)
    if axes is not None or module is None or not module.meshes:
        return axes
    pairs = instruction.source_target_pairs
    if pairs is not None:
        return axes_of_pairs(tuple(pairs), module.meshes)
    logical = _logical_groups(instruction, module, module.num_partitions, module.replica_count)
    return None if logical is None else axes_of_groups(tuple(logical), module.meshes)


def _connected(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Devices that send to each other, directly or through others: what one of them waits for."""
    root: dict[int, int] = {}

    def find(device: int) -> int:
        while root.setdefault(device, device) != device:
            root[device] = root[root[device]]
            device = root[device]
        return device

    for source, target in pairs:
        root[find(source)] = find(target)
    members: dict[int, list[int]] = {}
    for device in sorted(root):
        members.setdefault(find(device), []).append(device)
    return [tuple(group) for group in members.values()]


def _full_bytes(instruction: Instruction, module: HloModule | None, kind: str | None, size: int | None) -> int | None:
    """The gathered size V of one group, see "Collectives" in the metrics."""
    operands = _operand_bytes(instruction, module)
    result = _result_bytes(instruction)
    if kind == "reduce_scatter":
        if operands is not None:
            return operands
        return result * size if result is not None and size else None
    if kind == "all_to_all":
        return result * size if result is not None and size else None
    if kind == "ragged_all_to_all" or kind is None:
        return None  # how much of the buffers is sent is known when it runs
    return result


def _shard(kind: str | None, full: int | None, size: int | None) -> int | None:
    if full is None or kind is None:
        return None
    if kind in ("collective_permute", "collective_broadcast", "send_recv"):
        return full
    return full // size if size else None


def _result_bytes(instruction: Instruction) -> int | None:
    """Bytes of the data that comes out of a collective, without what a start half carries along."""
    base, phase = split_phase(instruction.opcode)
    shape = instruction.shape
    parts = shape.tuple_shapes
    if parts and base in ("send", "recv"):
        shape = parts[0]  # (buffer, context, token)
    elif len(parts) > 1 and phase == "start" and base != "all-reduce":
        shape = parts[1]  # (operands, result, …)
    return shape.byte_size


def _operand_bytes(instruction: Instruction, module: HloModule | None) -> int | None:
    if module is not None and instruction.computation:
        shapes = [operand.shape for operand in module.operands(instruction)]
    else:
        shapes = [shape for shape in instruction.operand_shapes if shape is not None]
    sizes = [shape.byte_size for shape in shapes]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(instruction.operands) == len(sizes) else None
