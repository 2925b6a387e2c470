"""The cost of a whole program: every operation once, times how often it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import isfinite

from tpuprof.errors import HloError, UsageError
from tpuprof.hlo.cost.attention import is_attention
from tpuprof.hlo.cost.calls import custom_call
from tpuprof.hlo.cost.collectives import collectives
from tpuprof.hlo.cost.constants import constant_values
from tpuprof.hlo.cost.formulas import CustomCall, RegisteredFormula, formulas
from tpuprof.hlo.cost.model import OpCost, ProgramCost, TripCount
from tpuprof.hlo.cost.operation import OpTable
from tpuprof.hlo.cost.sums import Sum
from tpuprof.hlo.cost.trips import trip_counts
from tpuprof.hlo.cost.values import Values
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.module import Computation, HloModule

_RUN_BY = {"while": ("body", "condition"), "conditional": ("branch",), "call": ("to_apply",)}


def program_cost(
    module: HloModule,
    *,
    trips: Mapping[str, int] | None = None,
    user_formulas: tuple[RegisteredFormula, ...] | None = None,
) -> ProgramCost:
    """What a program costs on one device.

    Loops count their bodies as often as they run; of a conditional the dearest branch counts, and ``low`` has the
    cheapest one. FLOPs and bytes of a loop, call or conditional are those of the operations inside, not of itself;
    those of an asynchronous computation are its start's.

    Args:
        module: the program. Its shapes are those of one device.
        trips: iterations of loops by name, for those of which the program does not tell.
        user_formulas: formulas for custom calls; null for those registered and installed.

    Raises:
        UsageError: an installed formula cannot be loaded, or a number of iterations is negative.
        HloError: the loops would run more often than a number can hold.
    """
    running = _running(module)
    for name, count in (trips or {}).items():
        if count < 0:
            raise UsageError(f"The loop {name!r} cannot run {count} times.", hint="Give 0 or more iterations.")
    executed = {**running, **_asynchronous(module, running)}
    loops = [op for computation in executed.values() for op in computation.instructions if op.opcode == "while"]
    counts = trip_counts(module, loops, trips or {})
    chosen = formulas() if user_formulas is None else user_formulas
    table = OpTable(module, chosen, _peers(module))
    try:
        sums = _added(module, executed, table, counts)
    except OverflowError as error:
        raise HloError(
            f"The loops of {module.name!r} would run more often than can be counted.",
            why="The module is damaged, or a trip count that was given is wrong.",
        ) from error
    high, low = sums.of(module.entry_name)
    executions = _executions(module, running, counts, sums.dearest)
    reasons = [f"{name}: {count.reason}" for name, count in counts.items() if count.reason is not None]
    # Names are unique in what XLA writes; if not, the entry computation, which comes last, wins.
    ops = {name: cost for each in running for name, cost in sums.ops[each].items()}
    return ProgramCost(
        ops=ops,
        executions=executions,
        trip_counts=counts,
        totals=high.totals(),
        low=low.totals(),
        collectives=collectives(module, running.values(), executions),
        lower_bound_reasons=(*reasons, *high.reasons),
    )


def _added(
    module: HloModule, executed: Mapping[str, Computation], table: OpTable, counts: Mapping[str, TripCount]
) -> _Sums:
    """All computations added up.

    Raises:
        OverflowError: a sum is larger than a float can be.
    """
    sums = _Sums(table, counts)
    for computation in module.reachable:  # callees first
        if computation.name in executed:
            sums.add(computation)
        else:
            table.fused(computation)
    high, _ = sums.of(module.entry_name)
    if not isfinite(high.flops) or not isfinite(high.transcendentals):
        raise OverflowError
    return sums


def _callees(op: Instruction) -> list[str]:
    """The computations that an instruction runs as part of the program, not as part of itself."""
    roles = _RUN_BY.get(op.opcode, ())
    return [name for role, name in op.called if role in roles]


def _running(module: HloModule) -> dict[str, Computation]:
    """The computations whose instructions are operations of the program, callees first."""
    names = {module.entry_name}
    for computation in reversed(module.reachable):
        if computation.name in names:
            for op in computation.instructions:
                names.update(_callees(op))
    return {each.name: each for each in module.reachable if each.name in names}


def _asynchronous(module: HloModule, running: Mapping[str, Computation]) -> dict[str, Computation]:
    """The computations that asynchronous starts run: their work is that of the start."""
    names: set[str] = set()
    for computation in reversed(module.reachable):
        for op in computation.instructions:
            if op.opcode == "async-start" and (computation.name in running or computation.name in names):
                names.update(name for _, name in op.called)
            elif computation.name in names:
                names.update(_callees(op))
    return {each.name: each for each in module.reachable if each.name in names and each.name not in running}


def _peers(module: HloModule) -> Mapping[str, CustomCall]:
    """The custom calls of a program by name, without those that cannot be read."""
    found: dict[str, CustomCall] = {}
    values = Values(module)
    for computation in module.reachable:
        for op in computation.instructions:
            if op.opcode == "custom-call":
                with suppress(HloError):
                    operands = computation.operands(op)
                    call = custom_call(op, tuple(each.shape for each in operands))
                    if is_attention(call):  # its mask may be among them
                        given = (constant_values(module, values, computation, each) for each in operands)
                        call = replace(call, constants=tuple(given))
                    found[op.name] = call
    return found


class _Sums:
    """Costs of the operations of computations that run, and the sums over one run of each."""

    def __init__(self, table: OpTable, counts: Mapping[str, TripCount]) -> None:
        self._table = table
        self._counts = counts
        self._sums: dict[str, tuple[Sum, Sum]] = {}
        self.ops: dict[str, dict[str, OpCost]] = {}
        self.dearest: dict[tuple[str, str], str] = {}  # the branch of a conditional that counts

    def of(self, computation: str) -> tuple[Sum, Sum]:
        """The sums with the dearest and with the cheapest branches."""
        return self._sums[computation]

    def add(self, computation: Computation) -> None:
        """Adds up a computation whose callees have been added before."""
        high, low = Sum(), Sum()
        ops = self.ops.setdefault(computation.name, {})
        shapes = {each.name: each.shape for each in computation.instructions}
        for op in computation.instructions:
            if op.opcode == "async-start":
                inner = [self._sums[name] for _, name in op.called if name in self._sums]
                ops[op.name] = self._table.asynchronous(op, [each[0] for each in inner])
                for pair in inner:
                    high.add_sum(pair[0], 1)
                    low.add_sum(pair[1], 1)
                continue
            cost = ops[op.name] = self._table.cost(op, shapes)
            high.add_op(op.name, cost)
            low.add_op(op.name, cost)
            self._add_callees(computation, op, high, low)
        self._sums[computation.name] = (high, low)

    def _add_callees(self, computation: Computation, op: Instruction, high: Sum, low: Sum) -> None:
        names = _callees(op)
        if op.opcode == "conditional" and names:
            dearest = max(names, key=lambda name: self._sums[name][0].weight)
            cheapest = min(names, key=lambda name: self._sums[name][1].weight)
            self.dearest[computation.name, op.name] = dearest
            high.add_sum(self._sums[dearest][0], 1)
            low.add_sum(self._sums[cheapest][1], 1)
            return
        for name in names:
            times = _times(op, name, self._counts)
            high.add_sum(self._sums[name][0], times)
            low.add_sum(self._sums[name][1], times)


def _times(op: Instruction, callee: str, counts: Mapping[str, TripCount]) -> int:
    if op.opcode != "while":
        return 1
    trips = counts[op.name].trips
    return trips + 1 if callee in op.called_by_role("condition") else trips


def _executions(
    module: HloModule, running: Mapping[str, Computation], counts: Mapping[str, TripCount],
    dearest: Mapping[tuple[str, str], str],
) -> dict[str, int]:  # fmt: skip
    runs = dict.fromkeys(running, 0)
    runs[module.entry_name] = 1
    found: dict[str, int] = {}
    for computation in reversed(module.reachable):  # callers first
        if computation.name not in running:
            continue
        times = runs[computation.name]
        for op in computation.instructions:
            # As for the costs, the entry computation wins; it comes first here.
            found.setdefault(op.name, times)
            for name in _callees(op):
                if op.opcode != "conditional" or dearest.get((computation.name, op.name)) == name:
                    runs[name] += times * _times(op, name, counts)
    return found
