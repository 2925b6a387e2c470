"""What an op is, in words that survive another compilation: the same op of two runs has the same signature.

Instruction numbers, fusion numbers, ids of programs and layouts change with every compilation and are left out; so
are the numbers in scope names, so that the layers of an unrolled model are one group whatever their number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tpuprof.errors import HloError
from tpuprof.hlo import Instruction, Shape
from tpuprof.tables.opclass import split_phase
from tpuprof.tables.programs import split_module_name
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.schemas import COMPUTE_KINDS
from tpuprof.tables.scopes import split_scope

MOST_SHAPES = 16
LONGEST_NAME = 200
MOST_COMBINED = 256
COMBINED = "(combined)"
"""Stands for the operation in the scope of an op that was combined from several."""

_MARKS = {"transpose": "backward", "rematted_computation": "recomputed"}
_REMAT = frozenset({"checkpoint", "remat", "remat2", "rematted_computation"})
_COMBINED = re.compile(r"(?P<outer>(?:.*?/)?)\((?P<inner>.*:.*)\)\Z", re.DOTALL)
_SUFFIXES = re.compile(r"(?:\.(?:\d+|remat\d*|clone|cloned|sunk|kd)|_\d+)+\Z")
_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+|\d+\Z")
_CATEGORY_OPCODES = {"fusion": "fusion", "data formatting": "copy"}
# Of a start half these shapes are operand, result and bookkeeping; the result is what the done half gives.
_RESULT_SECOND = ("all-gather", "collective-permute", "async", "ragged-all-to-all", "all-to-all", "reduce-scatter")


@dataclass(frozen=True, slots=True)
class Signature:
    """What two runs of one program have in common of an op.

    Args:
        module: the program's function name; null if unknown.
        scope: the names of its scope path without numbers, the operation last; null if unknown.
        marks: ``backward`` and ``recomputed``, as far as they hold.
        kind: the op's kind.
        opcode: the HLO opcode; both halves of a collective have that of the collective.
        name: the instruction's name without numbers.
        shapes: dtype and sizes of the results; null if unknown.
        groups: how many groups of how many devices a collective has; null for others or if unknown.
    """

    module: str | None
    scope: tuple[str, ...] | None
    marks: tuple[str, ...]
    kind: str
    opcode: str
    name: str
    shapes: tuple[str, ...] | None
    groups: str | None

    @property
    def role(self) -> str:
        """What the op does in a step: ``compute``, or its kind."""
        return "compute" if self.kind in COMPUTE_KINDS else self.kind

    @property
    def place(self) -> tuple[str, ...]:
        """The scope without the operation; empty if unknown."""
        return self.scope[:-1] if self.scope else ()

    @property
    def operation(self) -> str | None:
        """The last name of the scope: what the program calls the operation; null if unknown."""
        return self.scope[-1] if self.scope else None

    @property
    def label(self) -> str:
        """For people: the name and what it makes."""
        shapes = self.shapes or ()
        made = ", ".join(shapes[:2]) + (", …" if len(shapes) > 2 else "")
        text = self.name if self.opcode in self.name else f"{self.name} ({self.opcode})"
        marks = f" [{', '.join(self.marks)}]" if self.marks else ""
        return " ".join(part for part in (text, made) if part) + marks

    @property
    def sorting(self) -> str:
        """A text that orders signatures the same way every time."""
        return repr((self.module, self.scope, self.marks, self.kind, self.opcode, self.name, self.shapes, self.groups))


def signature_of(info: OpInfo, module: str | None = None) -> Signature:
    """The signature of an op.

    Args:
        info: what is known of the op.
        module: the program in whose run it was seen, for ops that do not say which program they belong to.
    """
    instruction = info.instruction
    opcode = _opcode(info)
    name = plain_name(instruction.name if instruction is not None and instruction.name else info.name)
    if info.cls.kind == "collective":
        name, opcode = split_phase(name)[0], (info.cls.collective or split_phase(opcode)[0]).replace("_", "-")
    label = info.module if info.module is not None else module
    scope, marks = _scope(info.scope)
    return Signature(
        module=split_module_name(label)[0] if label is not None else None,
        scope=scope,
        marks=marks,
        kind=info.cls.kind,
        opcode=opcode,
        name=name,
        shapes=result_shapes(instruction),
        groups=_groups(info),
    )


def plain_name(name: str) -> str:
    """A name without the numbers and suffixes that compilation adds: ``fusion.12.remat2`` is ``fusion``."""
    short = name[:LONGEST_NAME]
    return _SUFFIXES.sub("", short) or short


def plain_scope(name: str) -> str:
    """One name of a scope path with its index replaced: ``layers_12`` is ``layers_*``; ``conv2d`` stays."""
    return _NUMBER.sub("*", name)


def result_shapes(instruction: Instruction | None) -> tuple[str, ...] | None:
    """dtype and sizes of what an instruction makes, without layouts; of a start half, of what the pair makes.

    Null if the instruction is not known or its text was cut off.
    """
    if instruction is None or instruction.shape.dtype == "unknown":
        return None
    shape, (base, phase) = instruction.shape, split_phase(instruction.opcode)
    if phase != "sync" and phase != "done" and shape.tuple_shapes:
        if base == "copy":
            shape = shape.tuple_shapes[0]
        elif base in _RESULT_SECOND and len(shape.tuple_shapes) > 1:
            shape = shape.tuple_shapes[1]
    leaves: list[str] = []
    _leaves(shape, leaves)
    return tuple(leaves)


def dtype_and_rank(shape: str) -> tuple[str, int]:
    """``bf16[8,128]`` is (``bf16``, 2)."""
    dtype, _, rest = shape.partition("[")
    sizes = rest.rstrip("]")
    return dtype, sizes.count(",") + 1 if sizes else 0


def _leaves(shape: Shape, found: list[str]) -> None:
    if len(found) >= MOST_SHAPES:
        return
    if shape.tuple_shapes:
        for part in shape.tuple_shapes:
            _leaves(part, found)
    elif shape.is_array:
        found.append(f"{shape.dtype}[{','.join(map(str, shape.dims))}]")


def _opcode(info: OpInfo) -> str:
    if info.instruction is not None and info.instruction.opcode:
        return info.instruction.opcode
    category = (info.category or "").lower()
    for word, opcode in _CATEGORY_OPCODES.items():
        if word in category:
            return opcode
    # HLO names begin with their opcode or end with "fusion" unless somebody named them.
    name = plain_name(info.name)
    return "fusion" if name.endswith("fusion") else category.replace(" ", "-") or name


@lru_cache(maxsize=1 << 14)
def scope_names(path: str) -> tuple[str, ...]:
    """The names of a scope path, the operation last.

    Under ``jax.checkpoint`` the backward pass repeats the scopes around it, once for itself and once for the forward
    pass that it belongs to; they are told once, so that an op keeps its place when recomputation is turned on.
    """
    split = split_scope(path)
    names = split.names
    if _REMAT.isdisjoint(split.marks):
        return names
    for n in range(len(names) // 2, 0, -1):
        if names[:n] == names[n : 2 * n]:
            return names[n:]
    return names


def common_place(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names with which all paths begin; none without paths."""
    common = paths[0] if paths else ()
    for path in paths[1:]:
        same = [a == b for a, b in zip(common, path, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    return common


@lru_cache(maxsize=1 << 14)
def _scope(path: str | None) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names without numbers and marks; null without a path."""
    if not path:
        return None, ()
    splits = [split_scope(each) for each in combined_scopes(path)]
    words = [(word, sum(mark in split.marks for split in splits)) for mark, word in _MARKS.items()]
    marks = tuple(word for word, count in words if 2 * count > len(splits))
    if len(splits) == 1:
        return tuple(map(plain_scope, scope_names(path))), marks
    return _common([tuple(map(plain_scope, scope_names(each))) for each in combined_scopes(path)]), marks


def combined_scopes(path: str) -> list[str]:
    """The scope paths of which one is made: of an op that the compiler combined, ``a/(b/c:d)`` is a/b/c and a/d."""
    match = _COMBINED.match(path)
    if match is None:
        return [path]
    parts: list[str] = [""]
    depth = 0
    for character in match["inner"]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return [path]
        if character == ":" and not depth:
            if len(parts) == MOST_COMBINED:
                break
            parts.append("")
        else:
            parts[-1] += character
    return [match["outer"] + part for part in parts if part] or [path] if len(parts) > 1 and not depth else [path]


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The deepest scope that holds more than half of the paths, so that one more layer or loss changes nothing."""
    names: list[str] = []
    inside = list(paths)
    while True:
        depth = len(names)
        following = Counter(path[depth] for path in inside if len(path) > depth + 1)  # the operation is no scope
        name, count = max(following.items(), key=lambda entry: (entry[1], entry[0]), default=("", 0))
        if 2 * count <= len(paths):
            return (*names, COMBINED)
        inside = [path for path in inside if len(path) > depth + 1 and path[depth] == name]
        names.append(name)


def _groups(info: OpInfo) -> str | None:
    instruction = info.instruction
    if instruction is None or info.cls.kind != "collective":
        return None
    try:
        groups = info.replica_groups
        if groups is not None:
            return "all" if groups.is_all else f"{groups.num_groups}x{groups.group_size}"
        pairs = instruction.source_target_pairs
    except HloError:
        return None
    return f"{len(pairs)} pairs" if pairs is not None else None
