"""Which steps of different cores are the same step, where no step number says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.formats.xspace import I64
from tpuprof.quality import Quality
from tpuprof.tables.rows import CoreRecord
from tpuprof.tables.runs import Runs

if TYPE_CHECKING:
    from tpuprof.tables.steps import CoreSteps

MAX_SHIFT = 8


def match_by_order(
    cores: Sequence[CoreSteps], records: Sequence[CoreRecord], runs: Sequence[Runs], quality: list[Quality]
) -> list[CoreSteps]:
    """Steps of all cores with common numbers.

    Executions carry no common number: run ids count per device. Cores leave a collective together, so the shift
    between two cores is the one with the smallest spread of the ends of their steps' last collectives; without
    collectives, and with equal numbers of steps, steps match in order.
    """
    reference = max(range(len(cores)), key=lambda i: (len(cores[i]), -i)) if cores else 0
    result = list(cores)
    unverified = 0
    ends = [_collective_ends(steps, record) for steps, record in zip(cores, records, strict=True)]
    for index, steps in enumerate(cores):
        if index == reference or not len(steps):
            continue
        same_clock = records[index].device.host == records[reference].device.host
        shift = _best_shift(ends[reference], ends[index], same_clock)
        if shift is None:
            unverified += len(steps) != len(cores[reference]) or len(cores) > 1
            shift = 0
        if shift:
            result[index] = replace(steps, number=steps.number + shift)
    lowest = min((int(steps.number[0]) for steps in result if len(steps)), default=0)
    if lowest < 0:
        result = [replace(steps, number=steps.number - lowest) if len(steps) else steps for steps in result]
    if unverified:
        quality.append(
            Quality(
                "steps_matched_by_order",
                "info",
                f"The steps of {unverified + 1} cores are matched in order: nothing in the trace (step numbers, "
                "collectives) tells which belong together.",
                unverified + 1,
                {},
            )
        )
    return result


def _collective_ends(steps: CoreSteps, record: CoreRecord) -> I64:
    """For each step the end of its last collective, on the core's clock; the smallest integer where it has none."""
    nothing = np.iinfo(np.int64).min
    ends = np.full(len(steps), nothing)
    rows = record.collective_rows
    if rows is None or not len(rows) or not len(steps):
        return ends
    start, end = record.ops.start[rows], record.ops.end[rows]
    at = np.searchsorted(steps.start, start, side="right") - 1
    inside = (at >= 0) & (start < steps.end[np.maximum(at, 0)])
    np.maximum.at(ends, at[inside], end[inside])
    return ends


def _best_shift(reference: I64, other: I64, same_clock: bool) -> int | None:
    """The number to add to the other core's step numbers, null if collectives cannot tell.

    With one clock the ends themselves must agree; with two clocks of unknown offset only their spread can.
    """
    nothing = np.iinfo(np.int64).min
    best: tuple[float, int] | None = None
    for shift in sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs):
        low, high = max(0, shift), min(len(reference), len(other) + shift)
        if high - low < max(1, min(len(reference), len(other)) // 2):
            continue
        a, b = reference[low:high], other[low - shift : high - shift]
        both = (a != nothing) & (b != nothing)
        if not both.any():
            continue
        difference = (a[both] - b[both]).astype(np.float64)
        center = 0.0 if same_clock else float(np.median(difference))
        spread = float(np.median(np.abs(difference - center)))
        if best is None or spread < best[0]:
            best = (spread, shift)
    return best[1] if best else None
