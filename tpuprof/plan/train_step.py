"""The estimate of one training step: time, memory, utilisation and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log2

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice
from tpuprof.plan.flops import Flops, model_flops
from tpuprof.plan.matmuls import Masking
from tpuprof.plan.params import param_counts
from tpuprof.plan.peak import XLA, Buffers, buffers_on, training_memory
from tpuprof.plan.state import state_bytes
from tpuprof.plan.train_comm import Traffic, traffic
from tpuprof.plan.train_compute import LayerTime, device_of, head_time, layer_time
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_placement import Piece, place
from tpuprof.plan.train_profile import Efficiency, efficiency

PARTS = (
    "matmul", "attention", "elementwise", "dispatch", "recompute", "head", "optimizer", "communication", "network",
    "bubble", "offload", "overhead",
)  # fmt: skip
"""Parts of a step that add up to it: computation first, then exposed communication, and what else is waited for."""
_COMPUTE = ("matmul", "attention", "elementwise", "dispatch", "recompute", "head", "optimizer")


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A training step on a slice.

    Args:
        layout: the degrees.
        placed: torus axes of each mesh axis.
        parts: seconds by :data:`PARTS`; they add up to the step.
        collectives: each kind of collective of a step.
        memory: bytes per device by what they hold, ``total`` included, ``host`` not.
        usable: bytes of a device that a program can use; null if not known.
        low, high: seconds of the step for the spread of the efficiencies and for more or less overlap.
        mfu: model FLOPs with causal attention over the peak of bf16, 0 to 1.
        mfu_full: the same with all pairs of attention counted, as older publications do.
        hfu: with what is computed again.
        tokens_per_s_per_chip: of the global batch.
    """

    layout: Layout
    placed: Mapping[str, tuple[Piece, ...]]
    parts: Mapping[str, float]
    collectives: tuple[Traffic, ...]
    memory: Mapping[str, float]
    usable: float | None
    low: float
    high: float
    mfu: float
    mfu_full: float
    hfu: float
    tokens_per_s_per_chip: float

    @property
    def seconds(self) -> float:
        """Of the step."""
        return sum(self.parts.values())

    @property
    def compute(self) -> float:
        """Seconds of computation."""
        return sum(self.parts[name] for name in _COMPUTE)

    @property
    def exposed(self) -> dict[str, float]:
        """Seconds of collectives that add to the step, by what they are for; layers of all kinds together."""
        return self._by_name({moved: moved.exposed for moved in self.collectives})

    @property
    def hidden(self) -> dict[str, float]:
        """Seconds of collectives that run behind computation, by what they are for."""
        return self._by_name({moved: moved.seconds - moved.exposed for moved in self.collectives})

    def _by_name(self, seconds: Mapping[Traffic, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for moved, value in seconds.items():
            found[moved.name] = found.get(moved.name, 0.0) + value
        return found

    @property
    def fits(self) -> bool | None:
        """Whether the total is within what a program can use; null if that is not known."""
        return None if self.usable is None else self.memory["total"] <= self.usable

    @property
    def bound_by(self) -> str:
        """What a step spends the most on: ``compute``, ``memory``, ``communication``, ``bubble`` or ``host``."""
        named = {
            "compute": sum(self.parts[name] for name in ("matmul", "attention", "recompute", "head")),
            "memory": sum(self.parts[name] for name in ("elementwise", "dispatch", "optimizer")),
            "communication": self.parts["communication"] + self.parts["network"],
            "bubble": self.parts["bubble"],
            "host": self.parts["offload"],
        }
        return max(named, key=lambda name: named[name])


def memory_of(job: Job, layout: Layout, where: Slice | None = None) -> dict[str, float]:
    """Bytes per device by what they hold, as :func:`training_memory` has them; ``total`` is their sum without ``host``.

    Args:
        where: whose compiler is meant, if the job does not say what it holds. Its scheduler overlaps transfers with
            computation as far as the memory of a device allows; what needs more is counted without.

    Raises:
        UsageError: a number is out of range.
    """
    replicas = layout.data * layout.slices * layout.accumulation
    if where is None or job.buffers is not None:
        return _memory(job, layout, replicas, job.buffers or XLA)
    buffers = buffers_on(where.chip.name)
    found = _memory(job, layout, replicas, buffers)
    usable = where.chip.device_hbm_usable_bytes or where.chip.device_hbm_bytes
    if usable is None or found["total"] <= usable.value:
        return found
    return _memory(job, layout, replicas, buffers.tight)


def _memory(job: Job, layout: Layout, replicas: int, buffers: Buffers) -> dict[str, float]:
    found = training_memory(
        job.model, job.tokens / replicas, job.policy, split=layout.split(), types=job.types, buffers=buffers
    )
    if job.offload_optimizer:
        found["host"] += found["optimizer"]
        found["optimizer"] = 0.0
    total = sum(value for name, value in found.items() if name != "host")
    return {**found, "total": total}


def estimate(
    job: Job, layout: Layout, where: Slice, profile: Efficiency | None = None, *,
    memory: Mapping[str, float] | None = None,
) -> StepEstimate:  # fmt: skip
    """The step of a layout that is possible on the slice.

    Args:
        profile: what the chip reaches; that of :func:`efficiency` if not given.
        memory: if it is known already.

    Raises:
        UsageError: a rate of the chip is not known, or the layout does not fit the slice.
    """
    profile = profile or efficiency(where.chip.name)
    device = device_of(where.chip, job.dtype)
    placed = place(layout, where)
    held = memory_of(job, layout, where) if memory is None else memory
    micro = layout.accumulation
    tokens = job.tokens / (layout.batch_ways * layout.context * micro)
    sums = {"matmul": 0.0, "attention": 0.0, "elementwise": 0.0, "dispatch": 0.0, "recompute": 0.0}
    for layer, number in job.model.layer_counts.items():
        one: LayerTime = layer_time(
            layer, device, profile, tokens, job.sequence, layout.tensor, layout.expert, job.policy, job.capacity
        )
        count = number / layout.pipeline * micro
        sums["matmul"] += count * one.matmuls
        sums["attention"] += count * one.attention
        sums["elementwise"] += count * one.elementwise
        sums["dispatch"] += count * one.dispatch
        sums["recompute"] += count * one.recompute
    # With a pipeline the last stage has the head; the others wait for it as for any slow stage.
    sums["head"] = micro * head_time(job.model.width, job.model.vocab, device, profile, tokens, layout.tensor)
    beside = sum(sums.values())
    sums["optimizer"] = optimizer_bytes(job, layout) / (device.bandwidth * profile.memory)
    moved = traffic(job, layout, where, placed, profile, beside)
    own = sum(found.exposed for found in moved if found.name != "network_gradients")
    network = sum(found.exposed for found in moved if found.name == "network_gradients")
    idle = (layout.pipeline - 1) / micro
    sums |= {"communication": own, "network": network, "bubble": (beside + own) * idle}
    sums["offload"] = offload_seconds(held["host"], job, layout, where, profile, beside)
    doublings = log2(where.slices)
    sums["overhead"] = sum(sums.values()) * profile.per_doubling_of_slices * doublings + profile.idle_s
    seconds = sum(sums.values())
    low, high = _interval(sums, moved, profile)
    usable = where.chip.device_hbm_usable_bytes or where.chip.device_hbm_bytes
    counted = _model_flops(job, "causal")
    rate = where.n_devices * device.attention_peak * seconds
    return StepEstimate(
        layout, placed, {name: sums[name] for name in PARTS}, moved, held, None if usable is None else usable.value,
        low, high, counted.training / rate, _model_flops(job, "full").training / rate, counted.hardware / rate,
        job.tokens / seconds / where.n_chips,
    )  # fmt: skip


def optimizer_bytes(job: Job, layout: Layout) -> float:
    """Bytes that the update of the weights reads and writes on a device."""
    counts = param_counts(job.model)
    zero = layout.zero if layout.fsdp > 1 else 0
    held = state_bytes(
        counts.all, job.types, zero=max(zero, 1) if zero else 0, data=layout.fsdp,
        model_split=layout.tensor * layout.pipeline,
    )  # fmt: skip
    shard = layout.fsdp if zero else 1
    moving = held["optimizer"] * 2 + (held["weights"] + held["gradients"]) * 1.5
    if zero in (1, 2):  # only the own share of the weights is updated
        moving = (
            held["optimizer"] * 2 + (held["weights"] / shard + held["gradients"] / (shard if zero == 1 else 1)) * 1.5
        )
    return moving


def offload_seconds(
    host_bytes: float, job: Job, layout: Layout, where: Slice, profile: Efficiency, compute_s: float
) -> float:
    """Exposed seconds of transfers to and from the host's memory; both directions at once.

    Raises:
        UsageError: something is offloaded and the bandwidth is not known.
    """
    if not host_bytes:
        return 0.0
    chip = where.chip
    figure = chip.host_dma_bandwidth or chip.pcie_bandwidth
    bandwidth = profile.host_bandwidth if figure is None else figure.value
    if bandwidth is None:
        raise UsageError(
            f"The bandwidth between {chip.name} and its host is not known.",
            hint="Choose a policy that offloads nothing, or give figures with --hardware FILE.",
        )
    repeats = 1 if job.offload_optimizer else layout.accumulation
    share = 1.0 if chip.host_dma_bandwidth else profile.offload_share
    seconds = host_bytes * repeats * chip.devices_per_chip / (bandwidth * share)
    # Out in the forward pass, a third of the time, and in again in the backward pass.
    return seconds * (1 - profile.offload_hidden) + max(0.0, seconds * profile.offload_hidden - compute_s / 3)


def _interval(sums: Mapping[str, float], moved: tuple[Traffic, ...], profile: Efficiency) -> tuple[float, float]:
    """The step if computation is as much faster or slower as the spread says, and all or nothing more is hidden."""
    work = sum(sums[name] for name in _COMPUTE)
    seconds = sum(sums.values())
    shown = sum(found.exposed for found in moved)
    hidden = sum(found.seconds for found in moved) - shown
    low = seconds - work * profile.spread / (1 + profile.spread) - shown / 2
    return low, seconds + work * profile.spread + hidden / 4


@lru_cache(maxsize=256)
def _model_flops(job: Job, masking: Masking) -> Flops:
    return model_flops(job.model, job.sequences, job.sequence, masking=masking, remat=job.policy)
