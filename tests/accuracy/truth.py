"""What is true of a synthetic program, from the way it was built: tpuprof takes no part in it.

A case is built event by event, and beside each event it is noted what goes on. The parts of a step are then read off
these notes instant by instant (``tests.tables.oracle``). The numbers that make the case what it is are stated a
second time by hand, and a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.tables.oracle import COMPUTE, HOST_CAUSES, Core, Span, divide, idle_by_cause, under_compute
from tpuprof.testing import TraceBuilder

IDLE = tuple(f"idle: {cause}" for cause in (*HOST_CAUSES, "dma_in_flight", "intra_program", "unexplained"))
QUANTITIES = (
    "step",
    "matmul",
    "compute",
    "collective exposed",
    "collective hidden",
    "each exposed",
    "each hidden",
    "host transfer",
    "dma wait",
    "dma hidden",
    "barrier wait",
    "idle",
    *IDLE,
)


@dataclass(frozen=True)
class Case:
    """A synthetic program and the truth about it.

    Args:
        name: a short name.
        what: one sentence: what is hard about it.
        trace: the trace as recorded.
        cores: what each core did, on one clock.
        windows: for each core the counted steps, as (start, end) in ps.
        by_hand: the numbers that make the case, in microseconds per step, worked out with pencil and paper.
        host: what the host did by cause of idle time, on the cores' clock.
        runs: executions of programs on every core, for idle time inside a program.
        causes: whether the trace lets idle time be explained by the host.
        occasions: how many executions of steps on cores the file holds, counted or not.
        unknowable: quantities that nobody can tell from what was recorded.
    """

    name: str
    what: str
    trace: TraceBuilder
    cores: Mapping[str, Core]
    windows: Mapping[str, tuple[tuple[int, int], ...]]
    by_hand: Mapping[str, float]
    host: tuple[Span, ...] = ()
    runs: Mapping[str, tuple[Span, ...]] = field(default_factory=dict[str, tuple[Span, ...]])
    causes: bool = False
    occasions: int = 0
    unknowable: tuple[str, ...] = ()


def truth_of(case: Case) -> dict[str, float]:
    """Quantities in ps, means over the counted steps of all cores."""
    total = dict.fromkeys(QUANTITIES, 0)
    count = 0
    for device, windows in case.windows.items():
        for start, end in windows:
            count += 1
            parts = divide(case.cores[device], start, end)
            total["step"] += end - start
            total["matmul"] += parts["matmul"]
            total["compute"] += sum(parts[kind] for kind in COMPUTE)
            total["collective exposed"] += parts["collective_exposed"]
            total["collective hidden"] += parts["hidden_collective"]
            total["host transfer"] += parts["host_transfer"]
            total["dma wait"] += parts["dma_wait"]
            total["dma hidden"] += parts["hidden_dma"]
            total["barrier wait"] += parts["barrier_wait"]
            total["idle"] += parts["idle"]
            runs = case.runs.get(device, ())
            for cause, time in idle_by_cause(case.cores[device], start, end, case.host, runs).items():
                total[f"idle: {cause}"] += time
    each = _each_collective(case)
    total["each exposed"], total["each hidden"] = each["exposed"], each["hidden"]
    result = {name: value / count for name, value in total.items()}
    unknown = (*case.unknowable, *(() if case.causes else IDLE))
    return {name: value for name, value in result.items() if name not in unknown}


def _each_collective(case: Case) -> dict[str, int]:
    """Windows of collectives that begin in counted steps, each by itself: without and under compute, in ps.

    The halves of an asynchronous collective are part of its window and no collectives of their own.
    """
    result = {"exposed": 0, "hidden": 0}
    for device, windows in case.windows.items():
        core = case.cores[device]
        flying = [span for span in core.in_flight if span.what == "collective"]
        for span in (*flying, *(s for s in core.ops if s.what == "collective" and not _is_part(s, flying))):
            if any(start <= span.start < end for start, end in windows):
                hidden = under_compute(core, span)
                result["exposed"] += span.end - span.start - hidden
                result["hidden"] += hidden
    return result


def _is_part(op: Span, flying: list[Span]) -> bool:
    """Whether an op is the start or the done half of one of the windows."""
    return any(op.start == window.start or op.end == window.end for window in flying)


def concurrent_collectives(case: Case) -> bool:
    """Whether windows of two collectives overlap anywhere, so that sums over them differ from unions."""
    for core in case.cores.values():
        flying = sorted((s.start, s.end) for s in core.in_flight if s.what == "collective" and s.end > s.start)
        spans = [Span(a, b, "") for a, b in flying]
        alone = [(s.start, s.end) for s in core.ops if s.what == "collective" and not _is_part(s, spans)]
        every = sorted([*flying, *alone])
        if any(right[0] < left[1] for left, right in pairwise(every)):
            return True
    return False
