"""What every number means, for tooltips: from the schemas of tables, and here for figures that are in no table."""

from __future__ import annotations

from functools import cache

FIGURES = {
    "step": "Time of a step, on the slowest core. The mean over the counted steps.",
    "step_p50": "Half of the steps took no longer than this. Per step the slowest core counts.",
    "step_p95": "95 of 100 steps took no longer than this. Per step the slowest core counts.",
    "mfu": "Model FLOP/s utilisation: FLOPs of matmuls, convolutions and attention, recomputation left out, over what "
    "the chip could do in the time of the step.",
    "hfu": "Hardware FLOP/s utilisation: as MFU, with recomputation counted.",
    "exposed": "Share of the step in which a core does nothing but communicate.",
    "hidden": "Communication behind which the core computed; it costs no time of its own.",
    "idle": "Share of the step in which nothing ran on the core.",
    "memory_peak": "Most memory that a program of the run needs at once, per device, as its compiler assigned it.",
    "change": "How much longer the step takes than before, with the interval that holds the true change.",
    "step_delta": "Difference of the mean steps of the captures that are explained; the rows below sum to it.",
    "p_value": "How likely steps like these would differ so much if nothing had changed.",
    "matched": "Share of the ops' time in groups that both runs have.",
    "compute": "Share of the step in which the core computed.",
    "wait": "Share of the step in which the core waited for other cores, for copies or for the host.",
}


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
