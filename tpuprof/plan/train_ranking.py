"""The order of layouts: by time where estimates tell layouts apart, by room and simplicity where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import ceil

from tpuprof.plan.train_layout import AXES
from tpuprof.plan.train_step import StepEstimate

ALIKE = 0.005
"""Layouts whose times differ by no larger share are taken to be as fast.

Errors that layouts share cancel, but those of what tells two layouts apart do not: a different share of hidden
communication moves most steps by more than this.
"""
_ROOMY = 0.5
"""Below this share of the memory it does not matter how full a device is."""
_TENTHS = 10


def ranked(steps: Sequence[StepEstimate]) -> list[int]:
    """The places of the steps in the order of preference.

    The fastest and what is within :data:`ALIKE` of it come first, then the fastest of the others with what is within
    the same share of it, and so on. Of steps that are as fast, the one with more room comes first, since memory is
    known less well than time and a layout that does not fit is worth nothing; then the one with fewer axes; then the
    faster one.
    """
    left = sorted(range(len(steps)), key=lambda place: (steps[place].seconds, *_last(steps[place])))
    order: list[int] = []
    while left:
        limit = steps[left[0]].seconds * (1 + ALIKE)
        band = list(takewhile(lambda place: steps[place].seconds <= limit, left))  # noqa: B023, it is used at once
        left = left[len(band) :]
        order += sorted(
            band,
            key=lambda place: (
                crowding(steps[place]), axes(steps[place]), steps[place].seconds, *_last(steps[place])
            ),
        )  # fmt: skip
    return order


def crowding(step: StepEstimate) -> int:
    """Tenths of the memory that are filled, from half on; 0 if less is, or if the memory is not known."""
    return 0 if not step.usable else max(0, ceil(_TENTHS * (step.memory["total"] / step.usable - _ROOMY)))


def axes(step: StepEstimate) -> int:
    """Kinds of parallelism that a layout mixes, gradient accumulation included."""
    return sum(getattr(step.layout, name) > 1 for name in (*AXES, "expert", "accumulation"))


def _last(step: StepEstimate) -> tuple[float, str]:
    return step.memory["total"], step.layout.text()
