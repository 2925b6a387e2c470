"""What the compiler did differently: shapes, types, layouts, fusions, collectives and recomputation of programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, cast

from tpuprof.compare.circumstances import MOST_TEXT, Difference
from tpuprof.compare.explanation import Explanation
from tpuprof.compare.rows import Row
from tpuprof.compare.side import Item, Side
from tpuprof.compare.signature import dtype_and_rank
from tpuprof.dtypes import DTYPE_BITS
from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction, Shape
from tpuprof.hlo.groups import Mesh
from tpuprof.tables.rows import OpInfo

MOST_PARAMETERS = 5
_ALGORITHM = ("algorithm", "strategy", "strategies", "ring_type", "emitter", "barrier_type", "color")
_COPIES = ("copy", "transpose", "copy-start", "reshape", "bitcast-convert")
_MAX_DEPTH = 16


def program_differences(explanation: Explanation) -> list[Difference]:
    """The differences of what ran, those of the ops that changed most first within each kind."""
    if explanation.sides is None:
        return []
    base, new = explanation.sides
    found = [*_of_ops(explanation.rows)]
    for name in _common_modules(base, new):
        ours, theirs = _of_module(base, name), _of_module(new, name)
        found += _fusions(name, ours, theirs, base, new, explanation)
        found += _collectives(name, ours, theirs, base, new, explanation)
        found += _recomputed(name, ours, theirs, base, new)
        one, other = _program(ours), _program(theirs)
        if one is not None and other is not None:
            found += _hlo(name, one, other)
    return found


def _of_ops(rows: Iterable[Row]) -> Iterator[Difference]:
    """Types, sizes, layouts and algorithms of matched ops, also of those that take as long as before."""
    for row in rows:
        if row.ops is None or not row.ops.matched:
            continue
        one, other = row.ops.base[0], row.ops.new[0]
        if len(row.ops.base) == len(row.ops.new):
            # Of several the pair that changed most speaks.
            pairs = zip(row.ops.base, row.ops.new, strict=True)
            one, other = max(pairs, key=lambda pair: abs(pair[1].ps - pair[0].ps))
        weight, related = abs(row.delta_ps), (row.group,)
        old, fresh = one.signature.shapes, other.signature.shapes
        if old is not None and fresh is not None and old != fresh and row.change not in ("split", "merged"):
            dtypes = [{dtype_and_rank(shape)[0] for shape in shapes} for shapes in (old, fresh)]
            kind = "dtype" if dtypes[0] != dtypes[1] else "shape"
            yield Difference(kind, _what(row), _joined(old), _joined(fresh), weight, related)
        a, b = one.info.instruction, other.info.instruction
        if a is None or b is None:
            continue
        inputs = _operand_types(one.info, a), _operand_types(other.info, b)
        if inputs[0] and inputs[1] and inputs[0] != inputs[1] and old == fresh:
            yield Difference(
                "dtype", f"operands of {_what(row)}", _joined(inputs[0]), _joined(inputs[1]), weight, related
            )
        if old == fresh and a.opcode == b.opcode and _layouts(a.shape) != _layouts(b.shape):
            yield Difference("layout", _what(row), _short(str(a.shape)), _short(str(b.shape)), weight, related)
        if row.ops.new[0].signature.role == "collective":
            yield from _algorithms(row, a, b, weight)


def _algorithms(row: Row, a: Instruction, b: Instruction, weight: float) -> Iterator[Difference]:
    one, other = _algorithm(a), _algorithm(b)
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            what = f"{name} of {_what(row)}"
            yield Difference("algorithm", what, one.get(name), other.get(name), weight, (row.group,))


def _algorithm(instruction: Instruction) -> dict[str, str]:
    """What the backend's configuration says of how a collective is done: values by their key."""
    found: dict[str, Counter[str]] = {}

    def visit(value: Any, key: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, dict):
            for name, inner in cast("dict[str, Any]", value).items():
                visit(inner, name, depth + 1)
        elif isinstance(value, list):
            for inner in cast("list[Any]", value):
                visit(inner, key, depth + 1)
        elif any(word in key for word in _ALGORITHM):
            found.setdefault(key, Counter())[str(value)] += 1

    try:
        visit(instruction.backend_config_json, "", 0)
    except HloError:
        return {}
    return {key: _short(", ".join(f"{n} x {v}" for v, n in sorted(values.items()))) for key, values in found.items()}


def _fusions(
    name: str, ours: Sequence[Item], theirs: Sequence[Item], base: Side, new: Side, explanation: Explanation
) -> Iterator[Difference]:
    if any(item.info.instruction is None for item in (*ours, *theirs)):
        return  # opcodes that were guessed from names say nothing
    for kind, what, opcodes in (
        ("fusion", "fusions per step", ("fusion",)),
        ("layout", "copies and transposes per step", _COPIES),
    ):
        counts = _executed(ours, opcodes, base.pairs), _executed(theirs, opcodes, new.pairs)
        if counts[0] != counts[1]:
            rows = _rows_of(explanation, name, opcodes)
            yield Difference(kind, f"{what} of {name}", _number(counts[0]), _number(counts[1]), *_weight(rows))


def _collectives(
    name: str, ours: Sequence[Item], theirs: Sequence[Item], base: Side, new: Side, explanation: Explanation
) -> Iterator[Difference]:
    transfers = [item for item in (*ours, *theirs) if item.signature.role == "collective"]
    with_groups = all(item.signature.groups is not None for item in transfers)
    with_bytes = all(item.signature.shapes is not None for item in transfers)
    one, other = (
        _transfers(items, side.pairs, with_groups=with_groups, with_bytes=with_bytes)
        for items, side in ((ours, base), (theirs, new))
    )
    for key in sorted({*one, *other}):
        if one.get(key) != other.get(key):
            rows = _rows_of(explanation, name, (key[0],))
            what = f"{key[0]} of {name}" + (f" in groups {key[1]}" if key[1] else "")
            yield Difference("collective", what, one.get(key), other.get(key), *_weight(rows))


def _transfers(items: Sequence[Item], pairs: int, *, with_groups: bool, with_bytes: bool) -> dict[tuple[str, str], str]:
    """How many collectives of each opcode and grouping a step has, and how large their results are together.

    Args:
        items: the ops of a program.
        pairs: counted (core, step) pairs.
        with_groups: whether both sides know the groups of all.
        with_bytes: whether both sides know the results of all.
    """
    counts: dict[tuple[str, str], list[int]] = {}
    for item in items:
        if item.signature.role == "collective" and item.count:
            groups = (item.signature.groups or "") if with_groups else ""
            found = counts.setdefault((item.signature.opcode, groups), [0, 0])
            found[0] += item.count
            found[1] += item.count * _bytes(item.signature.shapes or ())
    return {
        key: f"{_number(n / pairs)} per step" + (f", {_number(size / pairs)} B" if with_bytes else "")
        for key, (n, size) in counts.items()
    }


def _bytes(shapes: Sequence[str]) -> int:
    total = 0
    for shape in shapes:
        dtype, _, rest = shape.partition("[")
        sizes = [size for size in rest.rstrip("]").split(",") if size]
        if all(size.isdigit() for size in sizes):
            total += prod(map(int, sizes)) * DTYPE_BITS.get(dtype, 0) // 8
    return total


def _recomputed(name: str, ours: Sequence[Item], theirs: Sequence[Item], base: Side, new: Side) -> Iterator[Difference]:
    """Ops that rematerialisation runs again, the program's own or the compiler's."""
    one, other = _again(ours), _again(theirs)
    counts = sum(item.count for item in one) / base.pairs, sum(item.count for item in other) / new.pairs
    if counts[0] != counts[1]:
        times = sum(item.ps for item in one) / base.pairs, sum(item.ps for item in other) / new.pairs
        labels = tuple(sorted({item.signature.label for item in (other or one)}))[:5]
        texts = [f"{_number(count)} ops per step" for count in counts]
        yield Difference("recomputation", name, texts[0], texts[1], abs(times[1] - times[0]), labels)


def _again(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if "recomputed" in item.signature.marks or ".remat" in item.info.name]


def _hlo(name: str, one: HloModule, other: HloModule) -> Iterator[Difference]:
    """What the programs state of themselves."""
    for what in ("num_partitions", "replica_count"):
        old, fresh = getattr(one, what), getattr(other, what)
        if old != fresh:
            yield Difference("mesh", f"{what} of {name}", str(old), str(fresh))
    try:
        meshes = _meshes(one.meshes), _meshes(other.meshes)
        if meshes[0] != meshes[1] and meshes[0] and meshes[1]:
            yield Difference("mesh", f"meshes of {name}", *meshes)
        yield from _parameters(name, one, other)
    except HloError:  # attributes are read when they are first looked at; the trace has its quality entry
        return


def _parameters(name: str, one: HloModule, other: HloModule) -> Iterator[Difference]:
    ours, theirs = one.entry.parameters, other.entry.parameters
    if len(ours) != len(theirs):
        yield Difference("shape", f"number of arguments of {name}", str(len(ours)), str(len(theirs)))
        return
    changed = [(n, a.shape, b.shape) for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.shape != b.shape]
    for number, a, b in changed[:MOST_PARAMETERS]:
        kind = "dtype" if a.dtype != b.dtype else "layout" if _plain(a) == _plain(b) else "shape"
        yield Difference(kind, f"argument {number} of {name}", _short(str(a)), _short(str(b)))
    if len(changed) > MOST_PARAMETERS:
        yield Difference("shape", f"further arguments of {name}", None, f"{len(changed) - MOST_PARAMETERS} differ")


def _plain(shape: Shape) -> object:
    return shape.dtype, shape.dims, tuple(map(_plain, shape.tuple_shapes))


def _layouts(shape: Shape) -> object:
    return str(shape.layout or ""), tuple(map(_layouts, shape.tuple_shapes))


def _operand_types(info: OpInfo, instruction: Instruction) -> tuple[str, ...]:
    """The types of the operands: as they stand beside them, else as the program defines them; empty if unknown."""
    shapes = [shape for shape in instruction.operand_shapes if shape is not None]
    if not shapes and info.program is not None and instruction.computation:
        try:
            shapes = [operand.shape for operand in info.program.operands(instruction)]
        except KeyError:
            return ()
    return tuple(shape.dtype for shape in shapes if shape.is_array)


def _meshes(meshes: Sequence[Mesh]) -> str:
    return _short("; ".join(", ".join(f"{axis}={size}" for axis, size in mesh.axes) for mesh in meshes))


def _common_modules(base: Side, new: Side) -> list[str]:
    """Programs of both sides, the longest first."""
    times: Counter[str] = Counter()
    sides: list[set[str]] = []
    for side in (base, new):
        names: set[str] = set()
        for item in side.items:
            if item.signature.module is not None:
                names.add(item.signature.module)
                times[item.signature.module] += item.ps
        sides.append(names)
    return sorted(sides[0] & sides[1], key=lambda name: (-times[name], name))


def _of_module(side: Side, name: str) -> list[Item]:
    return [item for item in side.items if item.signature.module == name]


def _program(items: Sequence[Item]) -> HloModule | None:
    """The HLO of the program with most of the time, of several of one name."""
    times: dict[int, int] = {}
    modules: dict[int, HloModule] = {}
    for item in items:
        if item.info.program is not None:
            modules[id(item.info.program)] = item.info.program
            times[id(item.info.program)] = times.get(id(item.info.program), 0) + item.ps
    return modules[max(times, key=lambda key: times[key])] if times else None


def _executed(items: Sequence[Item], opcodes: Sequence[str], pairs: int) -> float:
    return sum(item.count for item in items if item.signature.opcode in opcodes) / pairs


def _rows_of(explanation: Explanation, module: str, opcodes: Sequence[str]) -> list[Row]:
    """The rows of such ops of which there are more or fewer."""

    def concerned(row: Row) -> bool:
        items = (*row.ops.base, *row.ops.new) if row.ops is not None else ()
        if row.count_base == row.count_new:
            return False
        return any(item.signature.module == module and item.signature.opcode in opcodes for item in items)

    return [row for row in explanation.changed if concerned(row)]


def _weight(rows: Sequence[Row]) -> tuple[float, tuple[str, ...]]:
    return sum(abs(row.delta_ps) for row in rows), tuple(row.group for row in rows[:5])


def _what(row: Row) -> str:
    return f"{row.group}{f' in {row.scope}' if row.scope else ''}"


def _joined(texts: Sequence[str]) -> str:
    return _short(", ".join(texts))


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
