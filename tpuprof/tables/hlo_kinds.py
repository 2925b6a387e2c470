"""The kind of an op from the HLO: its opcode, what it calls, and what it was started by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tpuprof.hlo import Computation, HloModule, Instruction, Shape
from tpuprof.hlo.targets import (
    ATTENTION,
    COLLECTIVE_OPCODES,
    CONVOLUTION_TARGETS,
    FREE_TARGETS,
    GEMM_TARGETS,
    KERNEL_TARGETS,
)
from tpuprof.tables.conv_kind import is_matmul
from tpuprof.tables.kind_tables import (
    COMPUTE_OPCODES,
    CONTAINER_OPCODES,
    FREE_OPCODES,
    OTHER_OPCODES,
)
from tpuprof.tables.opclass import RANK, OpClass, Phase, pair_class, split_phase

_FREE = "free"
_NAME_IN_CONFIG = re.compile(r'name"?\s*[:=]\s*"([^"]{1,200})"')
_MAX_CHAIN = 64


def of_instruction(instr: Instruction, module: HloModule | None) -> OpClass | None:
    """The class of an instruction, null where its structure does not tell (a fusion without its module)."""
    opcode = instr.opcode
    if opcode == "fusion":
        return _fusion(instr, module) if module is not None else None
    if opcode == "custom-call":
        return _custom_call(instr)
    if opcode == "convolution":
        return _convolution(instr, module)
    if opcode in ("async-start", "async-update", "async-done"):
        return _generic_async(instr, module)
    return of_opcode(opcode, instr, module)


def of_opcode(opcode: str, instr: Instruction | None = None, module: HloModule | None = None) -> OpClass | None:
    """The class of an opcode that says all by itself."""
    base, phase = split_phase(opcode)
    if base in COLLECTIVE_OPCODES:
        return OpClass("collective", "hlo", "", COLLECTIVE_OPCODES[base], phase, pair_class("collective", phase))
    if base in ("send", "recv"):
        host = instr is not None and _is_host_transfer(instr, module)
        kind = "host_transfer" if host else "collective"
        return OpClass(kind, "hlo", "", None if host else "send_recv", "done" if phase == "done" else "start",
                       "host_transfer" if host else "collective")  # fmt: skip
    if base == "copy" and phase != "sync":
        kind = "dma_wait" if phase == "done" else "data_movement"
        return OpClass(kind, "hlo", _memory_detail(instr, module), None, phase, "dma")
    if opcode in ("infeed", "outfeed"):
        return OpClass("host_transfer", "hlo", opcode)
    if opcode in CONTAINER_OPCODES:
        return OpClass("container", "hlo")
    free = _FREE if opcode in FREE_OPCODES else ""
    if opcode in COMPUTE_OPCODES:
        return OpClass(COMPUTE_OPCODES[opcode], "hlo", _memory_detail(instr, module) if opcode == "copy" else free)
    if opcode in OTHER_OPCODES:
        return OpClass("other_compute", "hlo", free)
    return None


def _convolution(instr: Instruction, module: HloModule | None) -> OpClass:
    shapes = operand_shapes(instr, module)
    return OpClass("matmul" if is_matmul(instr, shapes) else "convolution", "hlo")


def _custom_call(instr: Instruction) -> OpClass | None:
    target = instr.custom_call_target
    if target is None:
        return None
    half = re.match(r"AsyncCollective(Start|Done)\Z", target)
    if half:
        phase: Phase = "start" if half[1] == "Start" else "done"
        return OpClass("collective", "hlo", "", None, phase, "collective")
    if GEMM_TARGETS.match(target):
        return OpClass("matmul", "hlo", target)
    if CONVOLUTION_TARGETS.match(target):
        return OpClass("convolution", "hlo", target)
    if _is_attention(instr, target):
        return OpClass("attention", "hlo", target)
    return OpClass("custom_kernel", "hlo", target)


def _is_attention(instr: Instruction, target: str) -> bool:
    if ATTENTION.search(target):
        return True
    if not KERNEL_TARGETS.match(target):
        # Calls into the compiler's own helpers may lie in the scope of a kernel and carry its name.
        return False
    names = [instr.name, instr.metadata.op_name, *instr.frontend_attributes.values()]
    names += _NAME_IN_CONFIG.findall(instr.backend_config)
    return any(ATTENTION.search(name) for name in names)


def _fusion(instr: Instruction, module: HloModule) -> OpClass | None:
    bodies = [module.computation(name) for name in instr.called_by_role("calls")]
    if not bodies:
        return None
    body = list(_body(bodies, module))
    classes = _classes(body, module)
    compute = {each.kind for each in classes if RANK[each.kind] <= RANK["other_compute"]}
    if "reduction" in compute and not _shrinks(instr, module):
        compute.discard("reduction")
        compute.add("elementwise")  # it is applied along the way, and the result is as large as the input
    collectives = [each for each in classes if each.kind == "collective"]
    heavy = compute & {"matmul", "attention", "convolution"}
    if collectives and not heavy:
        return _collective_fusion(instr, module, body, collectives)
    transfers = [each for each in classes if each.kind == "host_transfer"]
    if transfers and not compute:
        return replace(transfers[0], phase="sync", async_class=None)
    kind = min(compute, key=RANK.__getitem__) if compute else "data_movement"
    return OpClass(kind, "hlo", "async_collective_fusion" if collectives else "")


def _collective_fusion(
    instr: Instruction, module: HloModule, body: list[Instruction], collectives: list[OpClass]
) -> OpClass:
    named = [each.collective for each in collectives if each.collective is not None]
    halves = {each.phase for each in collectives if each.collective is None}
    phase: Phase = "sync"
    if halves:
        phase = "start" if "start" in halves else "done"
    elif {each.phase for each in collectives} in ({"start"}, {"done"}):
        phase = collectives[0].phase
    kind = named[0] if named else None
    if kind == "all_reduce" and phase == "sync" and any(each.opcode == "dynamic-slice" for each in body):
        kind = "reduce_scatter"  # written as an all-reduce of which each device keeps its part
    if kind is None:
        kind = _collective_upstream(instr, module)
    return OpClass("collective", "hlo", "", kind, phase, pair_class("collective", phase))


def _collective_upstream(instr: Instruction, module: HloModule) -> str | None:
    """The collective that a done half ends: the one named by the fusions before it, nearest first."""
    seen: set[str] = set()
    pending = list(module.operands(instr))
    for _ in range(_MAX_CHAIN):
        if not pending:
            return None
        each = pending.pop(0)
        if each.name in seen:
            continue
        seen.add(each.name)
        if each.opcode == "fusion":
            for inner in _body(module.called(each), module):
                base, _ = split_phase(inner.opcode)
                if base in COLLECTIVE_OPCODES:
                    return COLLECTIVE_OPCODES[base]
        pending.extend(module.operands(each))
    return None


def _generic_async(instr: Instruction, module: HloModule | None) -> OpClass | None:
    _, phase = split_phase(instr.opcode)
    start = module.async_start(instr) if module is not None else instr
    wrapped = start.wrapped_opcode or instr.wrapped_opcode
    classes: list[OpClass] = []
    if module is not None and start.opcode == "async-start":
        classes = _classes(_body(module.called(start), module), module)
    if not classes and wrapped:
        found = of_opcode(wrapped)
        classes = [found] if found is not None else []
    collective = next((each for each in classes if each.kind == "collective"), None)
    if collective is not None:
        return OpClass("collective", "hlo", "", collective.collective, phase, "collective")
    if any(each.kind == "host_transfer" for each in classes):
        return OpClass("host_transfer", "hlo", "", None, phase, "host_transfer")
    if not classes:
        return None
    sparse = start.async_execution_thread == "sparsecore"
    kind = "data_movement" if phase == "start" else "dma_wait"  # to issue work is not to wait for it
    return OpClass(kind, "hlo", "sparsecore" if sparse else _memory_detail(start, module), None, phase, "dma")


def _classes(body: Iterable[Instruction], module: HloModule) -> list[OpClass]:
    """The classes of the instructions of a body that do something."""
    found = [
        of_instruction(each, module)
        for each in body
        if each.opcode not in FREE_OPCODES and each.custom_call_target not in FREE_TARGETS
    ]
    return [each for each in found if each is not None and each.kind != "container"]


def _body(computations: Iterable[Computation], module: HloModule) -> Iterable[Instruction]:
    """The instructions of the computations and of fusions, calls and custom calls in them.

    What a reduce, sort or scatter applies to single elements is part of that operation and no op of its own.
    """
    pending = list(computations)
    seen: set[str] = set()
    while pending:
        computation = pending.pop()
        if computation.name in seen:
            continue
        seen.add(computation.name)
        for instruction in computation.instructions:
            if instruction.opcode in ("fusion", "call", "custom-call", "async-start", "while", "conditional"):
                pending.extend(module.called(instruction))
            if instruction.opcode != "fusion":
                yield instruction


def _shrinks(instr: Instruction, module: HloModule) -> bool:
    inputs = [shape.elements for shape in operand_shapes(instr, module)]
    largest = max((count for count in inputs if count is not None), default=0)
    output = instr.shape.elements
    return output is not None and output < largest


def operand_shapes(instr: Instruction, module: HloModule | None) -> list[Shape]:
    """The shapes of the operands: from their instructions, else as they are written beside the operands."""
    if module is not None and instr.computation:
        return [operand.shape for operand in module.operands(instr)]
    return [shape for shape in instr.operand_shapes if shape is not None]


def _is_host_transfer(instr: Instruction, module: HloModule | None) -> bool:
    if instr.is_host_transfer or module is None:
        return instr.is_host_transfer
    return module.async_start(instr).is_host_transfer


def _memory_detail(instr: Instruction | None, module: HloModule | None) -> str:
    if instr is None:
        return ""
    start = module.async_start(instr) if module is not None and instr.computation else instr
    shapes = [instr.shape, start.shape, *operand_shapes(instr, module), *operand_shapes(start, module)]
    spaces = {leaf.memory_space for shape in shapes for leaf in shape.leaves()}
    return "host_memory" if 5 in spaces else "vmem" if 1 in spaces else ""
