"""A search seen as a map of mesh shapes: tensor parallelism against the devices that share the batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tpuprof.plan.train_layout import Layout
from tpuprof.plan.train_search import MEMORY, Candidate, Plan, Rejected


@dataclass(frozen=True, slots=True)
class Cell:
    """All layouts with one degree of tensor parallelism and one number of devices that take different sequences.

    What the two leave of a slice is context and pipeline parallelism.

    Args:
        tensor: the degree.
        batch_devices: data and FSDP together, inside a slice.
        layouts: how many were looked at.
        best: the fastest that fits; null if none does.
        nearest: without one, the layout that lacked the least; what is possible and does not fit comes first.
    """

    tensor: int
    batch_devices: int
    layouts: int
    best: Candidate | None
    nearest: Rejected | None


def mesh_cells(plan: Plan) -> tuple[Cell, ...]:
    """The cells of a search, by tensor parallelism and then by the devices of the batch."""
    best: dict[tuple[int, int], Candidate] = {}
    refused: dict[tuple[int, int], list[Rejected]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for one in sorted(plan.candidates, key=lambda one: one.seconds):  # a map of times; the ranking looks at more
        best.setdefault(_place(one.step.layout), one)
        seen[_place(one.step.layout)] += 1
    for rejected in plan.refused:
        refused.setdefault(_place(rejected.layout), []).append(rejected)
        seen[_place(rejected.layout)] += 1
    return tuple(
        Cell(*place, number, best.get(place), None if place in best else _nearest(refused[place]))
        for place, number in sorted(seen.items())
    )


def _place(layout: Layout) -> tuple[int, int]:
    return layout.tensor, layout.data * layout.fsdp


def _nearest(refused: list[Rejected]) -> Rejected:
    """Of layouts that lack as little, one that lacks what most of them do."""
    common = Counter(one.kinds for one in refused)
    return min(refused, key=lambda one: (MEMORY not in one.kinds, len(one.kinds), -common[one.kinds]))
