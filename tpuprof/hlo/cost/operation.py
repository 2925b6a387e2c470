"""The cost of one execution of one operation of a computation that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tpuprof.errors import HloError
from tpuprof.hlo.cost.access import AccessTable, gathered_bytes, slice_bytes
from tpuprof.hlo.cost.calls import call_cost, custom_call
from tpuprof.hlo.cost.configs import count, mapping
from tpuprof.hlo.cost.elements import NOTHING
from tpuprof.hlo.cost.formulas import CustomCall, RegisteredFormula
from tpuprof.hlo.cost.memory import by_space, padded_bytes
from tpuprof.hlo.cost.model import FREE, OpCost, unknown_cost
from tpuprof.hlo.cost.repeats import repeated_contractions
from tpuprof.hlo.cost.sums import Sum
from tpuprof.hlo.cost.work import Work, WorkTable, add_call, combined, is_remat
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.shapes import Shape

_TRUSTED_MODEL = "COST_MODEL_TYPE_CLASSIC"
_MIN_CYCLES = 10_000
_MAX_CYCLES = 1 << 62
_Moved = tuple[Mapping[str, int] | None, Mapping[str, int] | None]


class OpTable:
    """Costs of the operations of a module; what is fused is counted once and remembered.

    Args:
        module: the program.
        formulas: for custom calls, in the order in which they are asked.
        peers: the custom calls of the program by name.
    """

    def __init__(
        self, module: HloModule, formulas: tuple[RegisteredFormula, ...], peers: Mapping[str, CustomCall]
    ) -> None:
        self._work = WorkTable(module, formulas, repeated_contractions(module))
        self._access = AccessTable(module)
        self._module = module
        self._formulas = formulas
        self._peers = peers

    def fused(self, computation: Computation) -> None:
        """Counts a computation that is part of an instruction, callees before callers."""
        self._work.fused(computation)
        self._access.of(computation)

    def cost(self, op: Instruction, shapes: Mapping[str, Shape]) -> OpCost:
        """The cost of one execution.

        Args:
            op: the operation.
            shapes: the shapes of the values of its computation.
        """
        if op.opcode in NOTHING:
            return FREE
        try:
            return self._cost(op, shapes)
        except HloError as error:
            return unknown_cost(error.what)

    def _cost(self, op: Instruction, shapes: Mapping[str, Shape]) -> OpCost:
        operands = [shapes[name] for name in op.operands]
        if op.opcode == "custom-call":
            call = self._peers.get(op.name) or custom_call(op, tuple(operands))
            return custom_cost(call, self._formulas, self._peers)
        work = Work()
        self._work.instruction(work, op, dict(zip(op.operands, operands, strict=True)))
        access = None
        if op.opcode == "fusion" and len(op.called) == 1:
            access = self._access.of(self._module.called(op)[0])
        read, written = moved(op, operands, None if access is None else (access.reads, access.writes))
        return finished(op, work, read, written)

    def asynchronous(self, op: Instruction, inner: list[Sum]) -> OpCost:
        """The cost of an asynchronous start: that of the computations that it runs."""
        total = Sum()
        for each in inner:
            total.add_sum(each, 1)
        unknown = total.unknown > 0
        return OpCost(
            flops=None if unknown else total.flops,
            model_flops=None if unknown else total.model,
            matmul_flops=None if unknown else total.matmul,
            model_matmul_flops=None if unknown else total.model_matmul,
            vector_flops=None if unknown else total.vector,
            transcendentals=None if unknown else total.transcendentals,
            flops_by_dtype=dict(total.by_dtype),
            bytes_read=dict(total.read),
            bytes_written=dict(total.written),
            remat=_remat(op),
            source=None if unknown else "hlo",
            reason=combined(total.reasons) if unknown else None,
        )


def finished(
    op: Instruction,
    work: Work,
    read: Mapping[str, int] | None,
    written: Mapping[str, int] | None,
    note: str | None = None,
) -> OpCost:
    """The cost of an operation from its work and its bytes."""
    remat = _remat(op)
    all_again = remat and (op.opcode != "fusion" or ".remat" in op.name)
    again = work.matmul + work.vector if all_again else work.remat + (work.vector if remat else 0)
    again_matmul = work.matmul if all_again else work.remat_matmul
    # A matmul is worth knowing even if something else in its fusion is not known.
    unknown = bool(work.reasons) and not work.matmul
    reasons = list(work.reasons)
    if read is None or written is None:
        reasons.append("A shape of it does not tell its bytes.")
    flops = work.matmul + work.vector
    again = min(again, flops)  # what is recomputed in a custom call is in both parts
    return OpCost(
        flops=None if unknown else flops,
        model_flops=None if unknown else flops - again,
        matmul_flops=None if unknown else work.matmul,
        model_matmul_flops=None if unknown else work.matmul - again_matmul,
        vector_flops=None if unknown else work.vector,
        transcendentals=None if unknown else work.transcendentals,
        flops_by_dtype=work.by_dtype,
        bytes_read=read,
        bytes_written=written,
        remat=remat,
        source=None if unknown else "hlo",
        reason=combined(reasons) if reasons else None,
        note=note,
        matmuls=tuple(work.matmuls),
        estimated_cycles=estimated_cycles(op),
        bound="lower" if work.reasons and not unknown else "exact",
    )


def custom_cost(call: CustomCall, formulas: tuple[RegisteredFormula, ...], peers: Mapping[str, CustomCall]) -> OpCost:
    """The cost of a custom call; all null with a reason if nothing is known of it."""
    op = call.instruction
    if peers:
        call = replace(call, peers=peers)
    try:
        found = call_cost(call, formulas)
    except HloError as error:
        found = error.what
    except OverflowError:
        found = f"The shapes of {op.name} are absurd."
    if isinstance(found, str):
        return unknown_cost(found, remat=_remat(op))
    cost, source = found
    remat = _remat(op)
    work = Work()
    add_call(work, cost, remat=remat)
    read, written = cost.bytes_read, cost.bytes_written
    if read is None:
        read = by_space((leaf, padded_bytes(leaf)) for shape in call.operands for leaf in shape.leaves())
    if written is None:
        written = by_space((leaf, padded_bytes(leaf)) for leaf in call.results)
    flops = work.matmul + work.vector
    return OpCost(
        flops=flops,
        model_flops=flops - work.remat,
        matmul_flops=work.matmul,
        model_matmul_flops=work.matmul - work.remat_matmul,
        vector_flops=work.vector,
        transcendentals=work.transcendentals,
        flops_by_dtype=work.by_dtype,
        bytes_read=read,
        bytes_written=written,
        remat=remat,
        source=source,
        note=cost.note,
        matmuls=tuple(work.matmuls),
        family=cost.family,
        bound=cost.bound,
    )


def moved(
    op: Instruction, operands: list[Shape], access: tuple[tuple[int | None, ...], tuple[int | None, ...]] | None = None
) -> _Moved:
    """Bytes that an operation reads and writes, by memory space.

    Args:
        op: the operation, no custom call and nothing that is free.
        operands: the shapes of its operands.
        access: of a fusion, what it touches of each operand and of each array of its result; null each for the whole.
    """
    opcode = op.opcode
    taken: list[int | None] = [None] * len(operands)
    results = _results(op)
    made: list[int | None] = [None] * len(results)
    if access is not None and len(access[0]) == len(operands):
        taken = list(access[0])
        made = list(access[1]) if len(access[1]) == len(results) else made
    elif opcode in ("slice", "dynamic-slice") and operands and results:
        taken[0] = slice_bytes(operands[0], results[0])
    elif opcode == "gather" and operands and results:
        taken[0] = gathered_bytes(operands[0], results[0])
    elif opcode == "dynamic-update-slice" and len(operands) >= 2:
        taken[0], made[0] = 0, slice_bytes(operands[0], operands[1])
    elif opcode == "scatter" and len(operands) >= 3:
        count = (len(operands) - 1) // 2
        for at in range(min(count, len(made))):
            taken[at] = made[at] = gathered_bytes(operands[at], operands[count + 1 + at])
    seen: set[str] = set()
    for at, name in enumerate(op.operands):
        if taken[at] is None and name in seen:
            taken[at] = 0  # the same value once more
        seen.add(name)
    read = [
        (leaf, padded_bytes(leaf) if size is None else size)
        for shape, size in zip(operands, taken, strict=True)
        for leaf in ([shape] if size is not None else shape.leaves())
    ]
    written = [(leaf, padded_bytes(leaf) if size is None else size) for leaf, size in zip(results, made, strict=True)]
    return by_space(read), by_space(written)


def _results(op: Instruction) -> list[Shape]:
    """The arrays that an operation writes: of a start half without the operand that it shows again."""
    shape = op.shape
    if shape.is_tuple and len(shape.tuple_shapes) >= 2:
        if op.opcode in ("copy-start", "recv"):
            return list(shape.tuple_shapes[0].leaves())
        if op.opcode == "send":
            return []
        if op.opcode.endswith("-start") and op.opcode != "all-reduce-start":
            return list(shape.tuple_shapes[1].leaves())
    return list(shape.leaves())


def estimated_cycles(op: Instruction) -> int | None:
    """The compiler's estimate for an operation; null unless it is known to be good.

    Only estimates of the classic model are (those of matmul fusions), and only from about ten thousand cycles up: a
    fixed part of it is too large for small operations. Other models, and the largest integer, say nothing.
    """
    if op.opcode != "fusion" or "estimated_cycles" not in op.backend_config:
        return None
    window = mapping(mapping(op.backend_config_json).get("window_config"))
    cycles = count(window.get("estimated_cycles"))
    if cycles is None or window.get("cost_model_type") != _TRUSTED_MODEL:
        return None
    return cycles if _MIN_CYCLES <= cycles < _MAX_CYCLES else None


def _remat(op: Instruction) -> bool:
    try:
        return is_remat(op)
    except HloError:
        return False
