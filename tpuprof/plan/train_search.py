"""The search for layouts: every split of a slice that the divisors allow, those that fit ranked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice
from tpuprof.plan.model import Experts
from tpuprof.plan.remat import RematPolicy, remat_policy
from tpuprof.plan.train_compute import device_of
from tpuprof.plan.train_layout import Job, Layout, obstacles
from tpuprof.plan.train_profile import Efficiency, efficiency
from tpuprof.plan.train_ranking import ranked
from tpuprof.plan.train_step import StepEstimate, estimate, memory_of

POLICIES = ("no-checkpoint", "matmul-outputs-and-context", "matmul-outputs", "matmul-outputs-but-mlp", "block-inputs")
"""Policies of rematerialisation that a search tries, from the most memory to the least."""
MEMORY = "memory"
"""The kind of reason of a layout that is possible and does not fit."""
_LARGEST = {"tensor": 64, "context": 16, "pipeline": 32, "expert": 64}
_MOST_ACCUMULATION = 64
_REJECTED_PER_REASON = 1
_NUMBER = re.compile(r"\d[\d.]*")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout with its policy and its estimate.

    Args:
        squeezed: faster numbers of microbatches did not fit.
    """

    job: Job
    step: StepEstimate
    squeezed: bool = False

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.step.seconds


@dataclass(frozen=True, slots=True)
class Rejected:
    """A layout that is not possible, and why.

    Args:
        kinds: what does not work out, as in ``Obstacle``, or ``memory``, or ``placement`` on the torus.
        more: layouts that were rejected for the same reason and are not listed.
    """

    layout: Layout
    policy: str
    why: str
    kinds: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a search found.

    Args:
        candidates: that fit, the fastest first; those that are about as fast by room and simplicity (``ranked``).
        rejected: with reasons; of equal reasons the first few.
        tried: layouts and policies that were considered.
        refused: all that were rejected.
    """

    where: Slice
    job: Job
    profile: Efficiency
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    tried: int
    refused: tuple[Rejected, ...] = ()


def search(
    job: Job, where: Slice, *, policies: Sequence[RematPolicy] | None = None, profile: Efficiency | None = None,
    only: Layout | None = None,
) -> Plan:  # fmt: skip
    """All layouts of a slice for a job.

    Of one layout the policy that is fastest among those that fit is kept. Microbatches are as few as memory allows, and
    with a pipeline several multiples of the stages are tried.

    Args:
        policies: to choose from; :data:`POLICIES` if not given.
        only: the one layout to judge, whose accumulation is taken as it is.

    Raises:
        UsageError: a rate of the chip is not known.
    """
    profile = profile or efficiency(where.chip.name)
    device_of(where.chip, job.dtype)
    chosen = tuple(policies) if policies else tuple(map(remat_policy, POLICIES))
    found: list[Candidate] = []
    refused: list[Rejected] = []
    tried = 0
    for layout in [only] if only is not None else layouts(job, where):
        best: Candidate | None = None
        reasons: list[Rejected] = []
        for policy in chosen:
            tried += 1
            result = _judge(replace(job, policy=policy), layout, where, profile, fixed=only is not None)
            if isinstance(result, Rejected):
                reasons.append(result)
            elif best is None or result.seconds < best.seconds:
                best = result
            if reasons and not _is_memory(reasons[-1]):
                break  # no policy makes an impossible layout possible
            if policies is None and isinstance(result, Candidate) and not result.squeezed:
                break  # the others keep less and compute more
        if best is not None:
            found.append(best)
        else:
            refused.append(reasons[-1])
    order = [found[place] for place in ranked([one.step for one in found])]
    return Plan(where, job, profile, tuple(order), _few(refused), tried, tuple(refused))


def layouts(job: Job, where: Slice) -> Iterator[Layout]:
    """Every split of a slice over the axes; impossible ones included, so that their reasons are told.

    The devices that tensor, context and pipeline parallelism leave are FSDP, or replicas of FSDP groups, or ZeRO-1.
    """
    devices = where.devices_per_slice
    experts = [layer.mlp.count for layer in job.model.layer_counts if isinstance(layer.mlp, Experts)]
    for tensor in _divisors(devices, _LARGEST["tensor"]):
        for context in _divisors(devices // tensor, _LARGEST["context"]):
            for pipeline in _divisors(devices // (tensor * context), _LARGEST["pipeline"]):
                left = devices // (tensor * context * pipeline)
                for fsdp, zero in _data_splits(left):
                    base = Layout(
                        data=left // fsdp, fsdp=fsdp, tensor=tensor, context=context, pipeline=pipeline,
                        slices=where.slices, zero=zero,
                    )  # fmt: skip
                    yield base
                    if experts and zero == 3 and base.data == 1:
                        for expert in _divisors(fsdp, min(_LARGEST["expert"], *experts)):
                            if expert > 1:
                                yield replace(base, expert=expert)


def _data_splits(left: int) -> list[tuple[int, int]]:
    splits = [(left, 3)]
    if left > 1:
        splits += [(left, 1), (left, 2)]
        splits += [(left // data, 3) for data in (2, 4, 8, 16) if left % data == 0 and left > data]
    return splits


def _judge(job: Job, layout: Layout, where: Slice, profile: Efficiency, *, fixed: bool) -> Candidate | Rejected:
    """The layout with the fewest microbatches that fit, or the best of a few with a pipeline."""
    found = obstacles(job, replace(layout, accumulation=max(layout.accumulation, layout.pipeline)), where)
    if found:
        kinds = tuple(dict.fromkeys(one.kind for one in found))
        return Rejected(layout, job.policy.name, "; ".join(one.why for one in found), kinds)
    best: Candidate | None = None
    squeezed = False
    least = float("inf")
    steps = [layout.accumulation] if fixed else _accumulations(job, layout)
    for micro in steps:
        one = replace(layout, accumulation=micro)
        held = memory_of(job, one, where)
        least = min(least, held["total"])
        usable = where.chip.device_hbm_usable_bytes or where.chip.device_hbm_bytes
        if usable is not None and held["total"] > usable.value:
            squeezed = True
            continue
        try:
            made = Candidate(job, estimate(job, one, where, profile, memory=held), squeezed)
        except UsageError as error:
            return Rejected(layout, job.policy.name, f"{error.what} {error.why}".strip(), ("placement",))
        if best is None or made.seconds < best.seconds:
            best = made
        if layout.pipeline == 1:
            break  # more microbatches only repeat gathers and shorten matmuls
    if best is not None:
        return best
    usable = where.chip.device_hbm_usable_bytes or where.chip.device_hbm_bytes
    limit = 0.0 if usable is None else usable.value
    return Rejected(
        layout,
        job.policy.name,
        f"does not fit: at least {least / 1e9:.1f} GB of {limit / 1e9:.1f} GB per device",
        (MEMORY,),
    )


def _accumulations(job: Job, layout: Layout) -> list[int]:
    most = min(_MOST_ACCUMULATION * layout.pipeline, job.sequences // layout.batch_ways)
    return [
        micro for micro in (layout.pipeline * 2**power for power in range(7))
        if micro <= most and job.sequences % (layout.batch_ways * micro) == 0
    ] or [layout.pipeline]  # fmt: skip


def _is_memory(found: Rejected) -> bool:
    return MEMORY in found.kinds


def _few(refused: Sequence[Rejected]) -> tuple[Rejected, ...]:
    """The first of each kind of reason, with how many more there are; numbers do not tell reasons apart.

    What most layouts fail for comes first.
    """
    groups: dict[str, list[Rejected]] = {}
    for one in refused:
        kind = "does not fit" if _is_memory(one) else _NUMBER.sub("#", one.why)
        groups.setdefault(kind, []).append(one)
    found: list[Rejected] = []
    for same in sorted(groups.values(), key=len, reverse=True):
        shown = same[:_REJECTED_PER_REASON]
        found += [replace(shown[0], more=len(same) - len(shown)), *shown[1:]]
    return tuple(found)


def _divisors(number: int, most: int) -> list[int]:
    return [size for size in range(1, min(number, most) + 1) if number % size == 0]
