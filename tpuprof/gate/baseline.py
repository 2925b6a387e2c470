"""Baselines of the run store as a side of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tpuprof.compare.samples import Samples
from tpuprof.errors import UnlikeRunsError
from tpuprof.tables.schemas import PARTS

if TYPE_CHECKING:
    from tpuprof.history import Run, Store
    from tpuprof.trace import Trace


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store gives to compare with.

    Args:
        samples: the step times of each run of the baseline; empty if nothing is like the run.
        unlike: why nothing is like the run; empty if something is.
        notes: what else to know.
        parts: by part of the step (mean of the baseline, this run) in ps, where both are known.
    """

    samples: tuple[Samples, ...]
    unlike: str = ""
    notes: tuple[str, ...] = ()
    parts: Mapping[str, tuple[float, float]] | None = None


def stored_side(store: Store, name: str, run: Trace | Samples, tags: Mapping[str, str] | None = None) -> Stored:
    """The runs of a baseline that are like a run.

    Step times alone say nothing of program and hardware; for them the name must have one baseline only.

    Raises:
        UsageError: there is no baseline of that name, or several and nothing says which.
        StoreError: the store cannot be read.
    """
    if isinstance(run, Samples):
        baseline = store.baseline(name)
        runs, notes = (
            baseline.runs,
            ("Step times alone do not say on what they were taken: make sure it was the same.",),
        )
        return Stored(_samples(store, runs), notes=notes)
    from tpuprof.history.facts import run_facts

    facts = run_facts(run, dict(tags or {}))
    try:
        baseline = store.baseline(name, like=facts)
    except UnlikeRunsError as error:
        return Stored((), unlike=" ".join(part for part in (error.what, error.why) if part))
    others = tuple(stored for stored in baseline.runs if stored.key != facts.key)
    notes = ()
    if len(others) < len(baseline.runs):
        notes = ("The run is part of its own baseline" + (" and was left out of it." if others else "."),)
    runs = others or baseline.runs
    mine = {metric.name: metric.value for metric in facts.metrics}
    return Stored(_samples(store, runs), notes=notes, parts=_parts(store, runs, mine))


def _samples(store: Store, runs: tuple[Run, ...]) -> tuple[Samples, ...]:
    return tuple(
        Samples(tuple(float(sample.time_ps) for sample in store.samples(run)), f"{run.name} (run {run.id})")
        for run in runs
    )


def _parts(store: Store, runs: tuple[Run, ...], mine: Mapping[str, float | None]) -> dict[str, tuple[float, float]]:
    metrics = store.metrics(runs)
    found: dict[str, tuple[float, float]] = {}
    for part in PARTS:
        name = f"{part}_ps"
        values = [metrics[run.id][name].value for run in runs if name in metrics[run.id]]
        known = [value for value in values if value is not None and math.isfinite(value)]
        new = mine.get(name)
        if known and len(known) == len(runs) and new is not None:
            found[part] = (float(np.mean(known)), new)
    return found
