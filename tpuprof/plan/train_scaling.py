"""Strong scaling: the same batch on more and more chips, until communication or memory ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuprof.errors import UsageError
from tpuprof.hardware import Chip, make_slice
from tpuprof.hardware.slices import default_shape
from tpuprof.hardware.topology import Slice
from tpuprof.plan.remat import RematPolicy
from tpuprof.plan.train_layout import Job
from tpuprof.plan.train_profile import Efficiency
from tpuprof.plan.train_search import Candidate, search


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """The best layout of a number of chips.

    Args:
        best: null with a reason if there is none.
        efficiency: throughput per chip over that of the smallest point that fits.
    """

    chips: int
    slice: str
    best: Candidate | None
    efficiency: float | None
    reason: str = ""


def strong_scaling(
    job: Job, where: Slice, *, sizes: Sequence[int] | None = None, policies: Sequence[RematPolicy] | None = None,
    profile: Efficiency | None = None,
) -> tuple[ScalingPoint, ...]:  # fmt: skip
    """The curve over slices of the usual shapes; several slices stay as many.

    Args:
        sizes: chips of one slice; from a sixteenth of the given slice to four times its size if not given.
    """
    own = where.chips_per_slice
    wanted = sorted(set(sizes) if sizes else {max(1, own * 4 // 2**power) for power in range(7)})
    points: list[ScalingPoint] = []
    base: float | None = None
    for size in wanted:
        made = where if size == own else _slice(where.chip, size, where.slices)
        if isinstance(made, str):
            points.append(ScalingPoint(size * where.slices, "", None, None, made))
            continue
        try:
            plan = search(job, made, policies=policies, profile=profile)
        except UsageError as error:
            points.append(ScalingPoint(made.n_chips, made.name, None, None, error.what))
            continue
        if not plan.candidates:
            reason = plan.rejected[0].why if plan.rejected else "no layout"
            points.append(ScalingPoint(made.n_chips, made.name, None, None, reason))
            continue
        best = plan.candidates[0]
        base = base if base is not None else best.step.tokens_per_s_per_chip
        points.append(ScalingPoint(made.n_chips, made.name, best, best.step.tokens_per_s_per_chip / base))
    return tuple(points)


def _slice(chip: Chip, size: int, slices: int) -> Slice | str:
    try:
        return make_slice(chip, default_shape(chip, size), slices=slices)
    except UsageError as error:
        return f"{error.what} {error.why}".strip()
