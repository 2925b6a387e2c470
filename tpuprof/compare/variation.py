"""How much a row's time varies from step to step, and so how far its difference can be chance.

Steps of one capture share what the machine did while it ran, so that captures of one program differ by more than their
steps suggest. With one capture a side this is assumed, as for verdicts: a share of the scatter of single steps, and
more in proportion to the noise where steps scatter by more than on a calm machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpuprof.compare.claims import Claims
from tpuprof.compare.contrast import CALM
from tpuprof.compare.outcome import Thresholds
from tpuprof.formats.xspace import I64
from tpuprof.tables.build import Core
from tpuprof.tables.schemas import IDLE_CAUSES, PARTS
from tpuprof.tables.sweep import BOOL

CAPTURE_SPREAD = Thresholds().capture_spread
MOST_SPREAD = 1.0
"""Captures are not taken to differ by more than their single steps do, however restless the machine is."""

MOST_CELLS = 20_000_000
"""Of larger runs (steps x ops) the variation is not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class PerStep:
    """Times by step, summed over cores.

    Args:
        ops: shape (steps, rows of the registry): what each op claims, counted where it starts.
        parts: shape (steps, len(PARTS)).
        causes: shape (steps, len(IDLE_CAUSES)).
        pairs: the number of cores per step.
    """

    ops: I64
    parts: I64
    causes: I64
    pairs: I64

    @property
    def between(self) -> float:
        """By what the variance of a mean over steps is multiplied to hold what captures differ by."""
        n = len(self.pairs)
        if n < 2:
            return 1.0
        steps = self.parts.sum(axis=1) / self.pairs
        scatter = float(steps.std(ddof=1)) / float(steps.mean()) if steps.any() else 0.0
        spread = min(MOST_SPREAD, CAPTURE_SPREAD * max(1.0, scatter / CALM))
        return 1 + n * spread**2

    def variance(self, times: npt.NDArray[np.int64]) -> float | None:
        """The variance of the mean over steps of a time by step; null with fewer than two steps."""
        if len(self.pairs) < 2:
            return None
        means = times / self.pairs
        return float(means.var(ddof=1)) / len(means)

    def of_ops(self, rows: Sequence[int]) -> float | None:
        """The variance of the mean time of some ops, by their rows of the registry."""
        return self.variance(self.ops[:, list(rows)].sum(axis=1))


class StepTimes:
    """Sums by step, while the cores are gone through."""

    def __init__(self, numbers: Sequence[I64], n_infos: int) -> None:
        self._numbers = np.unique(np.concatenate(numbers)) if len(numbers) else np.zeros(0, np.int64)
        n = len(self._numbers)
        self._kept = n * n_infos <= MOST_CELLS
        self._ops = np.zeros((n if self._kept else 0, n_infos), np.int64)
        self._parts = np.zeros((n, len(PARTS)), np.int64)
        self._causes = np.zeros((n, len(IDLE_CAUSES)), np.int64)
        self._pairs = np.zeros(n, np.int64)

    def add(self, core: Core, mask: BOOL, claimed: Claims) -> None:
        """Adds the chosen steps of a core."""
        if not self._kept or not mask.any():
            return
        at = np.searchsorted(self._numbers, core.steps.number[mask])
        np.add.at(self._pairs, at, 1)
        np.add.at(self._parts, at, core.partition.parts[mask])
        np.add.at(self._causes, at, core.partition.idle_causes[mask])
        start = core.steps.start[mask]
        for times, infos, begin in (
            (claimed.of_row, core.record.ops.info, core.record.ops.start),
            (claimed.of_window, core.windows.info, core.windows.start),
        ):
            rows = np.flatnonzero(times)
            # What began before the first chosen step counts there.
            step = at[np.maximum(np.searchsorted(start, begin[rows], side="right") - 1, 0)]
            np.add.at(self._ops, (step, infos[rows]), times[rows])

    def result(self) -> PerStep | None:
        """The sums; null if there would be too many."""
        return PerStep(self._ops, self._parts, self._causes, self._pairs) if self._kept else None


@dataclass(frozen=True, slots=True)
class Errors:
    """Standard errors of a difference of means; null if they are not known.

    Args:
        steps: from how steps vary.
        captures: with what captures are taken to differ by.
    """

    steps: float | None = None
    captures: float | None = None


NO_ERRORS = Errors()


def errors_of(base: PerStep | None, new: PerStep | None, one: float | None, other: float | None) -> Errors:
    """Of a difference, from the variances of both means over steps."""
    if base is None or new is None or one is None or other is None:
        return NO_ERRORS
    return Errors(math.sqrt(one + other), math.sqrt(one * base.between + other * new.between))
