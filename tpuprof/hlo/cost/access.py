"""What a fusion reads of its operands and writes of its results.

A fused computation is evaluated element by element: an operand of which it only takes slices is read only there, and
a result that updates an operand in place is written only there. Without this a layer of a scanned model would seem to
read the weights of all layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuprof.errors import HloError
from tpuprof.hlo.cost.memory import padded_bytes, partial_bytes
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.scan import integer
from tpuprof.hlo.shapes import Shape

# Through these a slice of the result is a slice of the operand.
_TRANSPARENT = frozenset({
    "bitcast", "bitcast-convert", "convert", "copy", "negate", "reshape", "reverse", "transpose",
})  # fmt: skip
_RENAMED = frozenset({"bitcast", "reshape"})
_MAX_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes read per parameter and written per array of the result; null where it is the whole array."""

    reads: tuple[int | None, ...]
    writes: tuple[int | None, ...]


_UNKNOWN = Access((), ())  # fits no fusion: operands and results then count as a whole


@dataclass
class AccessTable:
    """The accesses of the fused computations of a module, each found once."""

    module: HloModule
    _found: dict[str, Access] = field(default_factory=dict[str, Access])

    def of(self, computation: Computation) -> Access:
        """What the fused computation reads and writes. Nested fusions must have been asked for before."""
        found = self._found.get(computation.name)
        if found is None:
            try:
                found = _access(computation, self)
            except HloError:
                found = _UNKNOWN
            self._found[computation.name] = found
        return found

    def nested(self, fusion: Instruction) -> Access | None:
        """What a fusion inside of another one accesses; null if it is not known yet."""
        names = fusion.called_by_role("calls")
        return self._found.get(names[0]) if len(names) == 1 else None


def slice_bytes(source: Shape, taken: Shape) -> int | None:
    """Bytes that a slice of an array takes out of it."""
    if len(source.dims) == len(taken.dims):
        return partial_bytes(source, taken.dims)
    return gathered_bytes(source, taken)


def gathered_bytes(source: Shape, taken: Shape) -> int | None:
    """Bytes of the elements that a gather takes, at most those of the whole array."""
    elements, bits, whole = taken.elements, source.bits_per_element, padded_bytes(source)
    if elements is None or bits is None or whole is None:
        return None
    return min(whole, -(-elements * bits // 8))


def _access(computation: Computation, table: AccessTable) -> Access:
    users: dict[str, list[tuple[Instruction, int]]] = {}
    by_name: dict[str, Instruction] = {}
    for instruction in computation.instructions:
        by_name[instruction.name] = instruction
        for position, operand in enumerate(instruction.operands):
            users.setdefault(operand, []).append((instruction, position))
    root = computation.root
    results = [by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
    in_place: dict[str, int] = {}
    writes: list[int | None] = []
    for result in results:
        writes += _written(result, by_name, table, in_place)
    reads = [_read(parameter, users, in_place, root, table) for parameter in _parameters(computation)]
    return Access(tuple(reads), tuple(writes))


def _parameters(computation: Computation) -> list[Instruction]:
    """The parameters by number, without keeping what is read for it: a large program has very many of them."""
    found = [each for each in computation.instructions if each.opcode == "parameter"]
    if len(found) > 1:
        numbers = {each.name: each.source.decode(each.shape).attributes.get("parameter_number", "0") for each in found}
        found.sort(key=lambda each: integer(numbers[each.name], "parameter_number"))
    return found


def _written(
    result: Instruction, by_name: dict[str, Instruction], table: AccessTable, in_place: dict[str, int]
) -> list[int | None]:
    current = _renamed(result, by_name)
    if current.opcode == "dynamic-update-slice" and len(current.operands) >= 2:
        return [_updated(current, by_name, in_place)]
    if current.opcode == "scatter" and len(current.operands) >= 3:
        count = (len(current.operands) - 1) // 2
        arrays = [_renamed(by_name[name], by_name) for name in current.operands[:count]]
        if all(array.opcode == "parameter" for array in arrays):
            updates = (by_name[name].shape for name in current.operands[count + 1 :])
            updated = [gathered_bytes(*pair) for pair in zip(current.shape.leaves(), updates, strict=False)]
            in_place[current.name] = updated[0] or 0
            return updated
    if current.opcode == "fusion" and not current.shape.is_tuple:
        access = table.nested(current)
        if access is not None and len(access.writes) == 1 and access.writes[0] is not None:
            in_place[current.name] = 0
            return [access.writes[0]]
    return [None] * sum(1 for _ in result.shape.leaves())


def _renamed(value: Instruction, by_name: dict[str, Instruction]) -> Instruction:
    """The value that bitcasts show under another shape."""
    while value.opcode in _RENAMED and value.operands:
        value = by_name[value.operands[0]]
    return value


def _updated(update: Instruction, by_name: dict[str, Instruction], in_place: dict[str, int]) -> int | None:
    """Bytes that a chain of updates writes into a parameter; null if what they update is made here, so all is written.

    Of each update in the chain it is noted that it leaves the rest of the parameter alone.
    """
    total = 0
    found: list[str] = []
    current = update
    while current.opcode == "dynamic-update-slice" and len(current.operands) >= 2:
        size = slice_bytes(current.shape, by_name[current.operands[1]].shape)
        if size is None:
            return None
        total += size
        found.append(current.name)
        current = _renamed(by_name[current.operands[0]], by_name)
    if current.opcode != "parameter":
        return None
    in_place.update(dict.fromkeys(found, 0))
    return total


def _read(
    parameter: Instruction,
    users: dict[str, list[tuple[Instruction, int]]],
    in_place: dict[str, int],
    root: Instruction,
    table: AccessTable,
) -> int | None:
    shape = parameter.shape
    whole = padded_bytes(shape)
    if not shape.is_array or whole is None:
        return None
    total = 0
    pending = [parameter]
    seen: set[str] = set()
    while pending:
        value = pending.pop()
        if value.name in seen:
            continue
        seen.add(value.name)
        if value is root or len(seen) > _MAX_STEPS:
            return None
        for user, position in users.get(value.name, ()):
            touched = _touched(value, user, position, in_place, table)
            if touched is None:
                if user.opcode not in _TRANSPARENT:
                    return None
                pending.append(user)
                continue
            total += _scaled(touched, value.shape, shape)
            if total >= whole:
                return None
    return total


def _touched(
    value: Instruction, user: Instruction, position: int, in_place: dict[str, int], table: AccessTable
) -> int | None:
    """Bytes that one use touches, in the type of ``value``; null for all of it."""
    opcode = user.opcode
    if opcode in ("slice", "dynamic-slice") and position == 0:
        return slice_bytes(value.shape, user.shape)
    if opcode == "gather" and position == 0:
        return gathered_bytes(value.shape, user.shape)
    if opcode in ("dynamic-update-slice", "scatter") and user.name in in_place:
        if opcode == "dynamic-update-slice":
            return 0 if position == 0 else None
        # A scatter reads what it combines with the updates.
        return in_place[user.name] if position < (len(user.operands) - 1) // 2 else None
    if opcode == "fusion":
        access = table.nested(user)
        return access.reads[position] if access is not None and position < len(access.reads) else None
    return None


def _scaled(touched: int, value: Shape, parameter: Shape) -> int:
    """Bytes in the type of the parameter: what lies between may have changed it."""
    of_value, of_parameter = value.bits_per_element, parameter.bits_per_element
    if not of_value or not of_parameter or of_value == of_parameter:
        return touched
    return -(-touched * of_parameter // of_value)
