"""What each op of a trace costs: from its HLO, else from what the trace states, else unknown with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule
from tpuprof.hlo.cost import MatmulShape, OpCost, ProgramCost, instruction_cost, program_cost
from tpuprof.roofline.inferred import inferred_matmul
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.stated import StatedCost

_NO_COST = "Neither its HLO nor a cost is in the trace."
_STATED_ZERO = "The trace states 0 FLOPs and 0 bytes for it, as it does for every custom call: its work is not known."
_WITHOUT_BODY = ("fusion", "map", "async-start")
_MATMUL_KINDS = ("matmul", "convolution", "attention")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one execution of an op, wherever it comes from; null is unknown and ``reason`` says why.

    Args:
        source: one of ``schemas.COST_SOURCES``.
        flops: executed operations.
        matmul_flops: those of matrix products, convolutions and attention.
        model_matmul_flops: these without what repeats an earlier computation.
        by_dtype: ``matmul_flops`` by operand type, ``f32@highest`` where a precision is asked for.
        vector_flops: the rest of ``flops``.
        bytes: read and written, by memory space.
        remat: the op as a whole repeats an earlier computation.
        lower_bound: the FLOPs are a lower bound.
        upper_bound: the FLOPs are an upper bound, so that no time follows from them.
        whole_operands: the bytes are an upper bound, since the op may read less of its operands.
    """

    source: str | None = None
    flops: float | None = None
    matmul_flops: float | None = None
    model_matmul_flops: float | None = None
    by_dtype: Mapping[str, float] = field(default_factory=dict[str, float])
    vector_flops: float = 0.0
    bytes: Mapping[str, int] | None = None
    remat: bool = False
    lower_bound: bool = False
    upper_bound: bool = False
    matmuls: tuple[MatmulShape, ...] = ()
    estimated_cycles: int | None = None
    whole_operands: bool = False
    reason: str | None = None
    note: str | None = None


class ProgramCosts:
    """Costs of programs, computed when a program is first asked for."""

    def __init__(self) -> None:
        self._of: dict[int, ProgramCost | str] = {}

    def of(self, program: HloModule) -> ProgramCost | str:
        """The program's cost, or why it cannot be told."""
        found = self._of.get(id(program))
        if found is None:
            try:
                found = program_cost(program)
            except HloError as error:
                found = f"Its HLO cannot be read: {error}"
            self._of[id(program)] = found
        return found


def op_cost(infos: Sequence[OpInfo], programs: ProgramCosts) -> Cost:
    """The cost of the op that these facts describe (several on GPUs, where one instruction has several kernels)."""
    first = infos[0]
    program = first.program
    if program is not None and first.instruction is not None and first.instruction.computation:
        costs = programs.of(program)
        if isinstance(costs, str):
            return Cost(reason=costs)
        found = costs.ops.get(first.name)
        if found is not None and (found.flops is not None or found.bytes is not None):
            return _from_hlo(found)
        if found is not None:
            return _better(Cost(reason=found.reason or _NO_COST, note=found.note, remat=found.remat), infos)
    return _better(_from_text(first), infos)


def _from_hlo(cost: OpCost) -> Cost:
    return Cost(
        source=cost.source,
        flops=cost.flops,
        matmul_flops=cost.matmul_flops,
        model_matmul_flops=cost.model_matmul_flops,
        by_dtype=cost.flops_by_dtype,
        vector_flops=cost.vector_flops or 0.0,
        bytes=cost.bytes,
        remat=cost.remat,
        lower_bound=cost.bound == "lower",
        upper_bound=cost.bound == "upper",
        matmuls=cost.matmuls,
        estimated_cycles=cost.estimated_cycles,
        reason=cost.reason,
        note=cost.note,
    )


def _from_text(info: OpInfo) -> Cost:
    """From the lone instruction that a trace event carries as its text; what a fusion holds is not in it."""
    if info.instruction is None:
        return Cost(reason=_NO_COST)
    try:
        found = _from_hlo(instruction_cost(info.instruction))
        return replace(found, whole_operands=info.instruction.opcode in _WITHOUT_BODY and found.bytes is not None)
    except HloError as error:
        return Cost(reason=f"Its HLO text cannot be read: {error}")


def _better(known: Cost, infos: Sequence[OpInfo]) -> Cost:
    """A cost completed by what the trace states: FLOPs if they are unknown, bytes likewise."""
    stated = next((info.stated for info in infos if info.stated is not None), None)
    if stated is None:
        return known
    info = infos[0]
    opaque = info.cls.kind in ("custom_kernel", "attention") or (info.cls.kind in _MATMUL_KINDS and known.flops is None)
    if opaque and not stated.flops and not stated.bytes_accessed:
        return known if known.reason else Cost(reason=_STATED_ZERO, note=known.note, remat=known.remat)
    flops, bytes_ = known.flops, known.bytes
    whole = known.whole_operands and stated.bytes is None and stated.bytes_accessed is None
    if stated.bytes is not None and (bytes_ is None or info.program is None):
        bytes_ = dict(stated.bytes)
    elif bytes_ is not None and info.program is None:
        bytes_ = _at_least(bytes_, stated.bytes_accessed)
    if flops is not None or stated.flops is None:
        source = known.source if flops is not None else ("trace" if bytes_ is not None else None)
        return replace(known, source=source, bytes=bytes_, whole_operands=whole)
    return replace(_stated_flops(known, info, stated, bytes_), whole_operands=whole)


def _stated_flops(known: Cost, info: OpInfo, stated: StatedCost, bytes_: Mapping[str, int] | None) -> Cost:
    total = float(stated.flops or 0)
    products = info.cls.kind in _MATMUL_KINDS
    dtype = _operand_dtype(info) if products and total else None
    inferred = None
    if info.cls.kind == "matmul" and info.instruction is not None and not known.matmuls:
        inferred = inferred_matmul(info.instruction.shape, info.instruction.operand_shapes, total)
    return Cost(
        source="trace",
        flops=total,
        matmul_flops=total if products else 0.0,
        model_matmul_flops=0.0 if known.remat else (total if products else 0.0),
        by_dtype={dtype: total} if dtype is not None else {},
        vector_flops=0.0 if products else total,
        bytes=bytes_,
        remat=known.remat,
        matmuls=known.matmuls if inferred is None else (inferred,),
        note=_note(inferred) if products else known.note,
        reason=known.reason if bytes_ is None else None,
    )


def _note(inferred: MatmulShape | None) -> str:
    sizes = "" if inferred is None else " The sizes of the product follow from it and the operands."
    return f"The compiler's count, elementwise work of the fusion included.{sizes}"


def _at_least(bytes_: Mapping[str, int], accessed: int | None) -> Mapping[str, int]:
    """HBM bytes where operands are known but not how much of them is read: no more than the compiler counts in all."""
    others = sum(size for space, size in bytes_.items() if space != "hbm")
    if accessed is None or others + bytes_.get("hbm", 0) <= accessed:
        return bytes_
    return {**bytes_, "hbm": max(accessed - others, 0)}


def _operand_dtype(info: OpInfo) -> str:
    """The type of the largest operands of a fused product: what its matrix unit works on, as far as the text shows."""
    if info.instruction is None:
        return "bf16"
    shapes = [shape for shape in info.instruction.operand_shapes if shape is not None and len(shape.dims) > 1]
    sized = [(shape.byte_size or 0, shape.dtype) for shape in shapes]
    return max(sized)[1] if sized else info.instruction.shape.dtype
