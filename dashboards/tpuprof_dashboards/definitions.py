"""What every number means, for tooltips: from the schemas of tables, and here for figures that are in no table."""

from __future__ import annotations

from functools import cache

FIGURES = {
    "step": "Time of a step, on the slowest core. The mean over the counted steps.",
    "recorded": "From the first to the last op of a core, as the trace marks no steps. The mean over cores.",
    "step_p50": "Half of the steps took no longer than this. Per step the slowest core counts.",
    "step_p95": "95 of 100 steps took no longer than this. Per step the slowest core counts.",
    "step_p99": "99 of 100 steps took no longer than this. Per step the slowest core counts.",
    "step_min": "The shortest counted step, on its slowest core.",
    "step_max": "The longest counted step, on its slowest core.",
    "step_cv": "How much step times vary: their standard deviation over their mean.",
    "mfu": "Model FLOP/s utilisation: FLOPs of matmuls, convolutions and attention, recomputation left out, over what "
    "the chip could do in the time of the step.",
    "hfu": "Hardware FLOP/s utilisation: as MFU, with recomputation counted.",
    "hbm_utilisation": "Bytes that ops read from and write to HBM, over what it could move in the time of the step.",
    "without_cost": "Share of the step in ops of whose FLOPs and bytes nothing is known: the figures beside leave them "
    "out.",
    "exposed": "Share of the step in which a core does nothing but communicate.",
    "hidden": "Communication behind which the core computed; it costs no time of its own.",
    "idle": "Share of the step in which nothing ran on the core.",
    "idle_cause": "What the host did, or the device waited for, in most of the idle time; see the list below.",
    "gaps": "Stretches inside steps in which nothing ran on a core.",
    "gap_longest": "The longest of them, on one core.",
    "gap_total": "All of them, summed over cores and steps.",
    "barrier": "Time in which cores wait at a barrier before a collective for the last one. Not part of exposed time.",
    "collective_ops": "Different instructions, however often they ran.",
    "largest_collective": "The collective that is exposed longest in all: its kind, its mean exposed time, its size.",
    "bus_bandwidth": "What every member of a group moves over the transfer time, to be set against a link's bandwidth. "
    "Of the most exposed collective.",
    "memory_peak": "Most memory that a program of the run needs at once, per device, as its compiler assigned it.",
    "change": "How much longer the step takes than before, with the interval that holds the true change.",
    "step_delta": "Difference of the mean steps of the captures that are explained; the rows below sum to it.",
    "p_value": "How likely steps like these would differ so much if nothing had changed.",
    "matched": "Share of the ops' time in groups that both runs have.",
    "compute": "Share of the step in which the core computed.",
    "wait": "Share of the step in which the core waited for other cores, for copies or for the host.",
}

IDLE_MEANINGS = {
    "compile": "The host compiled a program.",
    "garbage_collection": "Python collected garbage.",
    "checkpoint": "The host wrote a checkpoint.",
    "host_sync": "The host fetched a value from the device and waited for it.",
    "input": "The host read, prepared or copied input.",
    "dispatch": "The host launched programs: their arguments, their enqueueing.",
    "host_python": "The host ran Python code that is none of the above.",
    "dma_in_flight": "A copy was in flight; known without the host's clock.",
    "intra_program": "A gap inside the execution of a program; known without the host's clock.",
    "unexplained": "Nothing that was recorded explains it.",
}
"""What each cause of idle time means."""

WAIT_REASONS = {
    "half_missing": "A half of each collective is missing from the trace.",
    "groups_unknown": "The groups of the collectives, or the ids of the cores, are not in the trace.",
    "peers_not_traced": "The other cores of each group were not traced: capture on all hosts.",
    "not_matched": "What the cores did at these places does not match.",
    "no_common_clock": "The clocks of the hosts could not be aligned: their collectives do not show one moment.",
}
"""Why the waits of collectives are not known, as sentences."""


@cache
def meanings() -> dict[str, str]:
    """Column name → what it means, from all table schemas; the first table that has it wins."""
    from tpuprof.roofline.schemas import MATMULS, ROOFLINE
    from tpuprof.tables.schemas import TABLES

    found: dict[str, str] = {}
    for schema in (*TABLES.values(), ROOFLINE, MATMULS):
        for column in schema:
            found.setdefault(column.name, column.meaning)
    return found


def meaning(name: str) -> str | None:
    """What a column or figure means; null where nothing says."""
    return FIGURES.get(name) or meanings().get(name)
