"""One side of a comparison: the ops of the counted steps with what they claim of them, and the rest of the steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tpuprof.compare.claims import LAST_OF_OPS, Claims, claims, starts_inside
from tpuprof.compare.signature import Signature, signature_of
from tpuprof.compare.variation import PerStep, StepTimes
from tpuprof.tables.arrays import ints
from tpuprof.tables.build import Built, Core
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.schemas import DEVICE_IDLE_CAUSES, IDLE_CAUSES, PARTS
from tpuprof.tables.sweep import BOOL

if TYPE_CHECKING:
    from tpuprof.trace import Trace

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One op of a side; both halves of a collective are one.

    Args:
        signature: what it is.
        info: all that is known of it.
        part: the part of the step that its time belongs to.
        count: occurrences that start in counted steps, on all cores.
        ps: what it claims of counted steps, on all cores.
        window_ps: of collectives and awaited copies the time in flight, on all cores; 0 for others.
        order: rank by first occurrence.
        rows: its rows of the registry.
    """

    signature: Signature
    info: OpInfo
    part: str
    count: int
    ps: int
    window_ps: int
    order: int = 0
    rows: tuple[int, ...] = ()

    @property
    def scope(self) -> str:
        """The scope path as recorded, with its numbers; empty if unknown."""
        return self.info.scope or ""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What one trace brings to a comparison; times are exact sums over its counted (core, step) pairs.

    Args:
        name: the trace's name.
        pairs: counted (core, step) pairs; 0 if there is nothing to compare.
        step_ps: their total length.
        parts: their total time by part.
        items: the ops in order of first occurrence.
        unclaimed: by part of ops the time that no op claims; 0 unless rows contradict each other.
        idle_causes: idle time by cause; null where the host's clock decides and cannot be compared.
        per_step: the same times by step; null if they were not kept.
    """

    name: str
    pairs: int
    step_ps: int
    parts: Mapping[str, int]
    items: tuple[Item, ...]
    unclaimed: Mapping[str, int]
    idle_causes: Mapping[str, int | None]
    per_step: PerStep | None = None

    @property
    def op_ps(self) -> int:
        """What all ops claim together."""
        return sum(item.ps for item in self.items)


def side_of(trace: Trace) -> Side:
    """The side of a trace."""
    built = trace.built
    chosen = [_chosen(core, trace.selected_steps) for core in built.cores]
    parts = np.zeros(len(PARTS), np.int64)
    causes = np.zeros(len(IDLE_CAUSES), np.int64)
    unclaimed = np.zeros(len(PARTS), np.int64)
    total = _Totals(len(built.infos))
    numbers = [core.steps.number[mask] for core, mask in zip(built.cores, chosen, strict=True)]
    by_step = StepTimes(numbers, len(built.infos))
    known = True
    step_ps = 0
    for core, mask in zip(built.cores, chosen, strict=True):
        parts += core.partition.parts[mask].sum(axis=0)
        causes += core.partition.idle_causes[mask].sum(axis=0)
        step_ps += int((core.steps.end - core.steps.start)[mask].sum())
        known = known and (core.clocks.reason is None or not mask.any())
        claimed = claims(core, mask)
        total.add(core, mask, claimed)
        by_step.add(core, mask, claimed)
        unclaimed += claimed.unclaimed
    idle = dict(zip(IDLE_CAUSES, ints(causes), strict=True))
    return Side(
        name=trace.name,
        pairs=sum(int(mask.sum()) for mask in chosen),
        step_ps=step_ps,
        parts=dict(zip(PARTS, ints(parts), strict=True)),
        items=_items(built, total),
        unclaimed=dict(zip(PARTS[: LAST_OF_OPS + 1], ints(unclaimed[: LAST_OF_OPS + 1]), strict=True)),
        idle_causes={cause: ps if known or cause in DEVICE_IDLE_CAUSES else None for cause, ps in idle.items()},
        per_step=by_step.result(),
    )


class _Totals:
    """Sums by row of the registry, while the cores are gone through."""

    def __init__(self, n: int) -> None:
        self.count = np.zeros(n, np.int64)
        self.ps = np.zeros(n, np.int64)
        self.in_flight = np.zeros(n, np.int64)  # exposed collectives beside an empty op line
        self.window_ps = np.zeros(n, np.int64)
        self.transfers = np.zeros(n, np.int64)
        self.first = np.full(n, _NEVER, np.int64)
        self.module: dict[int, str] = {}
        self._other_half: dict[int, int] = {}
        self._rows = 0

    def add(self, core: Core, mask: BOOL, claimed: Claims) -> None:
        """Adds the chosen steps of a core."""
        ops, windows = core.record.ops, core.windows
        np.add.at(self.ps, ops.info, claimed.of_row)
        rows = np.flatnonzero((core.levels >= 0) & starts_inside(ops.start, core, mask))
        np.add.at(self.count, ops.info[rows], 1)
        np.minimum.at(self.first, ops.info[rows], self._rows + rows)
        self._modules_of(core, rows)

        # A transfer is found by its start half; the wait for a copy is an op of its own, its done half.
        owner = np.where(windows.is_collective, windows.info, windows.done_info)
        began = np.flatnonzero(starts_inside(windows.start, core, mask) & (owner >= 0))
        np.add.at(self.window_ps, owner[began], (windows.end - windows.start)[began])
        np.add.at(self.transfers, owner[began], 1)
        np.minimum.at(self.first, owner[began], self._rows + len(ops) + began)
        np.add.at(self.in_flight, windows.info, claimed.of_window)
        self._rows += len(ops) + len(windows)
        halves = windows.is_collective & (windows.done_info >= 0)
        for start, done in set(zip(ints(windows.info[halves]), ints(windows.done_info[halves]), strict=True)):
            self._join(start, done)

    def root(self, info: int) -> int:
        """The half that stands for a collective."""
        while info in self._other_half:
            info = self._other_half[info]
        return info

    def _join(self, start: int, done: int) -> None:
        one, other = self.root(start), self.root(done)
        if one != other:
            self._other_half[max(one, other)] = min(one, other)

    def _modules_of(self, core: Core, rows: npt.NDArray[np.intp]) -> None:
        """The program of ops that do not state theirs: that of the run in which they first occur."""
        modules, run = core.runs.modules, core.runs.of_op
        infos, first = np.unique(core.record.ops.info[rows], return_index=True)
        for info, at in zip(ints(infos), ints(first), strict=True):
            row = int(run[rows[at]])
            if row >= 0:
                self.module.setdefault(info, modules.name[row])


def _chosen(core: Core, selected: frozenset[int] | None) -> BOOL:
    counted = core.steps.counted
    return counted if selected is None else counted & np.isin(core.steps.number, list(selected))


def _items(built: Built, total: _Totals) -> tuple[Item, ...]:
    """One item per op, or per collective."""
    used = np.flatnonzero((total.count > 0) | (total.ps > 0) | (total.in_flight > 0) | (total.transfers > 0))
    members: dict[int, list[int]] = {}
    for info in ints(used):
        members.setdefault(total.root(info), []).append(info)
    ranked = sorted(members.values(), key=lambda rows: (min(int(total.first[row]) for row in rows), rows))
    items = [item for rows in ranked for item in _of_op(built, total, rows)]
    return tuple(replace(item, order=order) for order, item in enumerate(items))


def _of_op(built: Built, total: _Totals, rows: list[int]) -> list[Item]:
    # The done half states what the collective makes without bookkeeping, and often the scope.
    infos = [built.infos[row] for row in rows]
    at = min(range(len(rows)), key=lambda n: (infos[n].cls.phase != "done", infos[n].scope is None, rows[n]))
    info, signature = infos[at], signature_of(infos[at], total.module.get(rows[at]))
    if len(rows) > 1 and (signature.scope is None or signature.groups is None):
        others = [signature_of(each, total.module.get(row)) for each, row in zip(infos, rows, strict=True)]
        scope = next((each for each in others if each.scope is not None), signature)
        groups = next((each.groups for each in others if each.groups is not None), None)
        signature = replace(signature, scope=scope.scope, marks=scope.marks, groups=groups)
    sums = {
        name: int(getattr(total, name)[rows].sum()) for name in ("count", "ps", "in_flight", "window_ps", "transfers")
    }
    collective = info.cls.kind == "collective"
    part = _part_of(info.cls.kind)
    count = sums["transfers"] if collective else sums["count"]
    own = sums["ps"] + (sums["in_flight"] if collective else 0)
    items = [Item(signature, info, part, count, own, sums["window_ps"], rows=tuple(rows))]
    if sums["in_flight"] and not collective:
        # A generic asynchronous op that turned out to be a collective: its own time is not that of the transfer.
        flying = replace(signature, kind="collective")
        items.append(
            Item(flying, info, "collective_exposed", sums["transfers"], sums["in_flight"], 0, rows=tuple(rows))
        )
    return items


def _part_of(kind: str) -> str:
    return "collective_exposed" if kind == "collective" else kind
