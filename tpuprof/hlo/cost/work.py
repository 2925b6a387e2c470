"""The computing that an instruction does, or a fused computation as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tpuprof.errors import HloError
from tpuprof.hlo.cost.calls import call_cost, custom_call
from tpuprof.hlo.cost.contraction import contraction
from tpuprof.hlo.cost.elements import APPLIED, COUNTED, MOVES, NOTHING, SPECIAL, TRANSCENDENTAL, applications, special
from tpuprof.hlo.cost.formulas import CallCost, RegisteredFormula
from tpuprof.hlo.cost.model import MatmulShape
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.shapes import Shape

_REMAT_SCOPE = "rematted_computation"
_REMAT_NAME = ".remat"
# Whole programs do this in operations of their own; in what is applied to elements it is work.
_RUNS = frozenset({"call", "conditional", "while"})
_CONTRACTIONS = frozenset({"dot", "ragged-dot", "convolution"})


@dataclass(slots=True)
class Work:
    """Sums of FLOPs, of which ``remat`` repeat earlier ones; ``reasons`` say what is missing in them."""

    matmul: float = 0
    vector: float = 0
    transcendentals: float = 0
    remat: float = 0
    remat_matmul: float = 0
    by_dtype: dict[str, float] = field(default_factory=dict[str, float])
    matmuls: list[MatmulShape] = field(default_factory=list[MatmulShape])
    reasons: list[str] = field(default_factory=list[str])

    def add(self, other: Work, times: int = 1) -> None:
        """Adds other work, several times."""
        self.matmul += times * other.matmul
        self.vector += times * other.vector
        self.transcendentals += times * other.transcendentals
        self.remat += times * other.remat
        self.remat_matmul += times * other.remat_matmul
        for key, flops in other.by_dtype.items():
            self.by_dtype[key] = self.by_dtype.get(key, 0) + times * flops
        if times:
            self.matmuls += [replace(each, count=each.count * times) for each in other.matmuls]
            self.reasons += [reason for reason in other.reasons if reason not in self.reasons]

    def add_matmul(self, flops: float, dtype: str, shape: MatmulShape | None, *, remat: bool) -> None:
        """Adds the work of the matrix unit."""
        self.matmul += flops
        self.by_dtype[dtype] = self.by_dtype.get(dtype, 0) + flops
        if remat:
            self.remat += flops
            self.remat_matmul += flops
        if shape is not None:
            self.matmuls.append(replace(shape, remat=True) if remat else shape)


def is_remat(instruction: Instruction) -> bool:
    """Whether an instruction repeats what was computed before, by its name or by the scope it was traced in.

    ``jax.checkpoint`` puts what it repeats into a scope ``rematted_computation``; XLA's own rematerialisation appends
    ``.remat`` to names.
    """
    return _REMAT_NAME in instruction.name or _REMAT_SCOPE in instruction.details.metadata.get("op_name", "")


@dataclass
class WorkTable:
    """The work of the computations of a module, each counted once.

    Args:
        module: the program.
        formulas: for custom calls that are fused.
        repeated: names of contractions that are known to repeat an earlier one although no mark says so.
    """

    module: HloModule
    formulas: tuple[RegisteredFormula, ...] = ()
    repeated: frozenset[str] = frozenset()
    _found: dict[str, Work] = field(default_factory=dict[str, Work])

    def fused(self, computation: Computation) -> Work:
        """The work of one evaluation of a fused or applied computation. Asked for callees before callers."""
        found = self._found.get(computation.name)
        if found is None:
            shapes = {each.name: each.shape for each in computation.instructions}
            found = Work()
            for instruction in computation.instructions:
                self.instruction(found, instruction, shapes)
            self._found[computation.name] = found
        return found

    def instruction(self, into: Work, instruction: Instruction, shapes: dict[str, Shape]) -> None:
        """Adds the work of one instruction of a computation whose values have these shapes."""
        opcode = instruction.opcode
        if opcode in MOVES or (opcode in NOTHING and opcode not in _RUNS):
            return
        if opcode in COUNTED or opcode in TRANSCENDENTAL:
            elements = instruction.shape.elements
            if elements is None:
                into.reasons.append(f"The shape of {instruction.name} has an unbounded dimension.")
            elif opcode in COUNTED:
                into.vector += elements
            else:
                into.transcendentals += elements
            return
        try:
            self._other(into, instruction, [shapes[name] for name in instruction.operands])
        except HloError as error:
            into.reasons.append(f"{instruction.name}: {error.what}")
        except OverflowError:
            into.reasons.append(f"The shapes of {instruction.name} are absurd.")

    def _other(self, into: Work, instruction: Instruction, operands: list[Shape]) -> None:
        opcode = instruction.opcode
        if opcode in _CONTRACTIONS:
            found = contraction(instruction, operands[0], operands[1]) if len(operands) >= 2 else None
            if found is None:
                into.reasons.append(f"The shapes of the {opcode} {instruction.name} do not fit together.")
                return
            remat = is_remat(instruction) or instruction.name in self.repeated
            into.add_matmul(found.flops, found.dtype, found.shape, remat=remat)
        elif opcode in ("fusion", "call"):
            for computation in self.module.called(instruction):
                into.add(self.fused(computation))
        elif opcode in APPLIED:
            times = applications(instruction, operands)
            if times is None:
                into.reasons.append(f"The shapes of the {opcode} {instruction.name} do not tell how often it applies.")
                return
            for role, count in times:
                for name in instruction.called_by_role(role):
                    into.add(self.fused(self.module.computation(name)), count)
        elif opcode == "custom-call":
            cost = call_cost(custom_call(instruction, tuple(operands)), self.formulas)
            if isinstance(cost, str):
                into.reasons.append(cost)
            else:
                add_call(into, cost[0], remat=is_remat(instruction))
        elif opcode in _RUNS:
            into.reasons.append(f"The {opcode} {instruction.name} is part of an instruction and is not followed.")
        elif opcode in SPECIAL:
            operations = special(instruction, operands)
            if operations is None:
                into.reasons.append(f"The shapes of the {opcode} {instruction.name} do not tell its work.")
            else:
                into.vector += operations
        else:
            into.reasons.append(f"No cost is known for the operation {opcode!r}.")


def add_call(into: Work, cost: CallCost, *, remat: bool) -> None:
    """Adds the work of a custom call."""
    if cost.matmul_flops:
        into.add_matmul(cost.matmul_flops, cost.dtype, None, remat=remat)
    into.matmuls += [replace(each, remat=remat) for each in cost.matmuls]
    into.vector += cost.vector_flops
    into.transcendentals += cost.transcendentals
    if remat:
        into.remat += cost.vector_flops


def combined(reasons: Iterable[str]) -> str:
    """Several reasons as one text, the first three of them."""
    kept = list(dict.fromkeys(reasons))
    more = f" ({len(kept) - 3} more)" if len(kept) > 3 else ""
    return " ".join(kept[:3]) + more
