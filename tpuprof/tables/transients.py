"""Steps at the start of a capture that took long because the cores did not begin to be recorded together.

Profilers of a pod start seconds apart. A program that runs meanwhile is held up by the start itself: the cores that
are recorded first wait in their first collective for those whose profiler is still starting. Such a step says
nothing of the steady state. It can be told by when the cores began it: as far apart as the step is too long, and as
they never are again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.steps import Steps
from tpuprof.text import number_ranges
from tpuprof.units import format_ps

MIN_EXCESS = 0.05
"""A step counts as held up if it is this share of the median step longer."""
EXPLAINED = 0.5
"""The share of the excess that the spread of the cores' starts must reach."""
UNUSUAL = 3
"""How many times as far apart as in any later step the cores must start."""
MAX_STEPS = 3
MIN_LATER = 3  # with fewer steps behind it there is no steady state that a first one could differ from


def without_start(steps: Steps, devices: Sequence[str], component: Sequence[int]) -> Steps:
    """The steps with those of the capture's start left out of statistics; a quality entry tells which and why.

    Args:
        steps: the steps of all cores, on clocks that agree within a component.
        devices: the id of each core.
        component: for each core a number that cores with a common clock share.
    """
    every = [set(ints(core.number[core.counted])) for core in steps.cores]
    counted = [numbers for numbers in every if numbers]
    if len(counted) < 2:
        return steps
    numbers = sorted(counted[0].intersection(*counted[1:]))
    if len(numbers) <= MIN_LATER:
        return steps
    rows = [core.counted & np.isin(core.number, numbers) for core in steps.cores]
    used = [at for at, core in enumerate(rows) if core.any()]
    start = np.stack([steps.cores[at].start[rows[at]] for at in used])
    length = np.stack([(steps.cores[at].end - steps.cores[at].start)[rows[at]] for at in used]).max(axis=0)
    spread, late = _spread(start, np.array([component[at] for at in used]))
    first = 0
    while first < MAX_STEPS and first + MIN_LATER < len(numbers):
        median = float(np.median(length[first + 1 :]))
        excess = float(length[first]) - median
        held_up = excess > MIN_EXCESS * median
        explained = spread[first] >= EXPLAINED * excess and spread[first] > UNUSUAL * spread[first + 1 :].max()
        if not (held_up and explained):
            break
        first += 1
    if not first:
        return steps
    left_out = numbers[:first]
    cores = tuple(replace(core, counted=core.counted & ~np.isin(core.number, left_out)) for core in steps.cores)
    names = [devices[used[int(row)]] for row in late[:first]]
    median = float(np.median(length[first:]))
    told = _entry(left_out, list(dict.fromkeys(names)), int(spread[0]), int(length[0]), median)
    return replace(steps, cores=cores, transient=tuple(left_out), quality=(*steps.quality, told))


def _spread(
    start: np.ndarray[tuple[int, ...], np.dtype[np.int64]], component: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """For each step how far apart cores with one clock begin it, the largest of the clocks; and the last core there."""
    spread = np.zeros(start.shape[1], np.int64)
    late = np.zeros(start.shape[1], np.intp)
    for number in np.unique(component):
        mine = np.flatnonzero(component == number)
        here = start[mine].max(axis=0) - start[mine].min(axis=0)
        larger = here > spread
        spread = np.where(larger, here, spread)
        late = np.where(larger, mine[start[mine].argmax(axis=0)], late)
    return spread, late


def _entry(numbers: list[int], late: list[str], spread_ps: int, length_ps: int, median_ps: float) -> Quality:
    which = f"Step {numbers[0]} is" if len(numbers) == 1 else f"Steps {number_ranges(numbers)} are"
    return Quality(
        "capture_start_transient",
        "info",
        f"{which} left out of statistics: at the start of the capture {', '.join(late[:3])} began "
        f"{format_ps(spread_ps)} after the first core, so that others waited. Step {numbers[0]} took "
        f"{format_ps(length_ps)}; the median of the later ones is {format_ps(median_ps)}.",
        len(numbers),
        {"steps": numbers, "devices": late, "spread_ps": spread_ps, "duration_ps": length_ps},
    )
