"""What an op is: from the HLO first, then from the category that the trace states, then from its name.

The answer always says which of the three decided, so that a report can say how far it rests on names.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, Instruction, parse_instruction_text
from tpuprof.hlo.targets import COLLECTIVE_OPCODES
from tpuprof.tables.hlo_kinds import of_instruction, of_opcode
from tpuprof.tables.kind_tables import (
    CATEGORIES,
    COLLECTIVE_CATEGORIES,
    KERNELS,
    KIND_TABLE_VERSION,
    PRIMITIVE_COLLECTIVES,
    VAGUE_CATEGORIES,
    kinds_of_words,
)
from tpuprof.tables.opclass import KINDS, RANK, OpClass, Phase, pair_class, split_phase

__all__ = ["KINDS", "KIND_TABLE_VERSION", "OpClass", "classify_event", "classify_instruction"]

_UNKNOWN = OpClass("other_compute", "none")
# Numbers and marks that compilers append to a name: fusion.3, copy.4.remat, wrapped_add.kd
_SUFFIX = re.compile(r"(?:\.(?:\d+|cloned|remat\d*|kd))+\Z")
_HALF = re.compile(r"(?P<base>[A-Za-z][\w\-]*?)(?:\.[\w.]*?)?(?:\.call)?-(?P<phase>start|update|done)\Z")
_ASYNC_CATEGORIES = ("async-start", "async-update", "async-done")


def classify_instruction(instr: Instruction, module: HloModule | None) -> OpClass:
    """The class of an HLO instruction.

    Args:
        instr: the instruction.
        module: the module that holds it; without it a fusion cannot be looked into.

    Raises:
        HloError: an attribute that the answer needs cannot be read.
    """
    return of_instruction(instr, module) or _UNKNOWN


def classify_event(
    *, name: str, text: str | None, category: str | None, instr: Instruction | None, module: HloModule | None
) -> OpClass:
    """The class of an op of a trace.

    Args:
        name: the instruction's name, or the kernel's where no instruction is known.
        text: the instruction's text (TPU), or the kernel's name (GPU).
        category: the category that the trace states.
        instr: the instruction in the program's HLO.
        module: that program.
    """
    if text and instr is not None and (kernel := _of_kernel(text)) is not None and kernel.kind == "host_transfer":
        return kernel  # the copy's own name tells its direction, which an HLO copy does not
    found = _of_hlo(instr, module)
    if found is None and text and text.lstrip().startswith(("%", "ROOT ")):
        found = _of_text(text)
    if found is None and category:
        found = _of_category(category.lower(), name)
    return found or _of_name(name) or (_of_kernel(text) if text else None) or _UNKNOWN


def _of_hlo(instr: Instruction | None, module: HloModule | None) -> OpClass | None:
    if instr is None:
        return None
    try:
        return of_instruction(instr, module)
    except HloError:
        return None  # a damaged attribute: the category or the name must do


def _of_text(text: str) -> OpClass | None:
    try:
        return of_instruction(parse_instruction_text(text), None)
    except HloError:
        return None


def _of_category(category: str, name: str) -> OpClass | None:
    if category in CATEGORIES:
        return OpClass(CATEGORIES[category], "category")
    if category in COLLECTIVE_CATEGORIES:
        phase = _phase_of_name(name)
        collective = COLLECTIVE_CATEGORIES[category]
        return OpClass("collective", "category", "", collective, phase, pair_class("collective", phase))
    if category in _ASYNC_CATEGORIES:
        _, phase = split_phase(category)
        return _half_by_name(name, phase)
    if category in VAGUE_CATEGORIES:
        vague = OpClass(VAGUE_CATEGORIES[category], "category")
        named = _of_name(name)
        return named if named is not None and named.kind != vague.kind else vague
    found = of_opcode(category)
    return None if found is None else replace(found, source="category")


def _of_name(name: str) -> OpClass | None:
    stem = _SUFFIX.sub("", name.removeprefix("%"))
    if stem in PRIMITIVE_COLLECTIVES:
        return OpClass("collective", "name", "", PRIMITIVE_COLLECTIVES[stem])
    found = of_opcode(stem)
    if found is not None:
        return replace(found, source="name")
    if stem == "custom-call":
        return OpClass("custom_kernel", "name")
    if stem == "async-copy":  # what the line of asynchronous work calls a copy in flight
        return OpClass("dma_wait", "name", "", None, "sync", "dma")
    kernel = _of_kernel(stem)
    if kernel is not None:
        return kernel
    phase = _phase_of_name(name)
    if phase != "sync":
        half = _half_by_name(name, phase)
        if half.detail != "async_unknown":
            return half
    kinds = kinds_of_words(stem)
    return OpClass(min(kinds, key=RANK.__getitem__), "name") if kinds else None


def _of_kernel(name: str) -> OpClass | None:
    for pattern, kind, collective in KERNELS:
        if pattern.search(name):
            return OpClass(kind, "name", "", collective)
    return None


def _phase_of_name(name: str) -> Phase:
    _, phase = split_phase(_SUFFIX.sub("", name.removeprefix("%")))
    return phase


def _half_by_name(name: str, phase: Phase) -> OpClass:
    """A half of a generic asynchronous pair of which only the name is known, e.g. ``slice-start.3``."""
    match = _HALF.match(_SUFFIX.sub("", name.removeprefix("%")))
    base = match["base"] if match else ""
    if base == "async-collective" or base in COLLECTIVE_OPCODES:
        return OpClass("collective", "name", "", COLLECTIVE_OPCODES.get(base), phase, "collective")
    known = of_opcode(base) is not None
    kind = "data_movement" if phase == "start" else "dma_wait"
    return OpClass(kind, "name", "" if known else "async_unknown", None, phase, "dma")
