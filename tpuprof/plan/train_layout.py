"""How a training step is spread over devices: the degrees of parallelism, and why some of them are impossible."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tpuprof.hardware.topology import Slice
from tpuprof.plan.model import Attention, Experts, ModelConfig
from tpuprof.plan.peak import Buffers
from tpuprof.plan.remat import RematPolicy
from tpuprof.plan.state import StateTypes, TrainingSplit

AXES = ("tensor", "context", "fsdp", "data", "pipeline")
"""Mesh axes inside a slice, from the one that talks the most to the one that talks the least."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism in devices.

    Args:
        data: replicas inside a slice.
        fsdp: devices over which the ZeRO stage splits.
        tensor: splits heads and hidden widths; the residual path is split over its tokens.
        context: splits sequences; keys and values are gathered.
        pipeline: stages of layers.
        expert: devices over which routed experts are split; part of ``fsdp``.
        slices: replicas, joined by the data-centre network.
        zero: ZeRO stage of ``fsdp``: 1, 2 or 3.
        accumulation: microbatches one after the other; those of the pipeline are the same ones.
    """

    data: int = 1
    fsdp: int = 1
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    slices: int = 1
    zero: int = 3
    accumulation: int = 1

    @property
    def devices(self) -> int:
        """Of one slice."""
        return prod(getattr(self, axis) for axis in AXES)

    @property
    def batch_ways(self) -> int:
        """Groups that take different sequences."""
        return self.data * self.fsdp * self.slices

    def mesh(self) -> dict[str, int]:
        """The axes that are longer than 1, and what else tells layouts apart."""
        named = {axis: getattr(self, axis) for axis in reversed(AXES)}
        named |= {"expert": self.expert, "slices": self.slices, "accumulation": self.accumulation}
        found = {name: size for name, size in named.items() if size > 1}
        return found | ({"zero": self.zero} if self.fsdp > 1 else {})

    def text(self) -> str:
        """The layout in one line."""
        return " ".join(f"{name}={size}" for name, size in self.mesh().items()) or "one device"

    def split(self) -> TrainingSplit:
        """What memory needs to know; replicas hold the same state, so only one of them is meant."""
        ahead = min(self.pipeline, self.accumulation)
        zero = self.zero if self.fsdp > 1 else 0
        return TrainingSplit(
            self.fsdp, self.tensor, self.pipeline, self.context, self.expert, zero, ahead, self.accumulation
        )


_MAXTEXT = StateTypes("f32", "f32", ("f32", "f32"))
"""What MaxText keeps: weights, gradients and both moments of Adam in 32 bits."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be trained, whatever the layout.

    Args:
        sequences: of one optimizer step.
        sequence: tokens of each.
        policy: of rematerialisation.
        dtype: of the matmuls: ``bf16``, ``fp8``, ``int8``.
        types: of weights, gradients and optimizer state.
        offload_optimizer: the optimizer state is in the host's memory.
        capacity: rows of an expert over its even share, where what is above is dropped; null if nothing is.
        buffers: what the framework holds beside state and activations; null for the compiler of the chip.
    """

    model: ModelConfig
    sequences: int
    sequence: int
    policy: RematPolicy
    dtype: str = "bf16"
    types: StateTypes = _MAXTEXT
    offload_optimizer: bool = False
    capacity: float | None = None
    buffers: Buffers | None = None

    @property
    def tokens(self) -> int:
        """Of one optimizer step."""
        return self.sequences * self.sequence


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a layout is impossible.

    Args:
        kind: what does not work out: ``devices``, ``layers``, ``heads``, ``experts``, ``width``, ``sequence``,
            ``batch`` or ``pipeline``.
        why: the sentence.
    """

    kind: str
    why: str


def problems(job: Job, layout: Layout, where: Slice) -> list[str]:
    """Why a layout is impossible, as sentences; empty if it is not."""
    return [one.why for one in obstacles(job, layout, where)]


def obstacles(job: Job, layout: Layout, where: Slice) -> list[Obstacle]:
    """Why a layout is impossible, each reason once; empty if it is not."""
    found: list[Obstacle] = []

    def add(kind: str, why: str) -> None:
        found.append(Obstacle(kind, why))

    model = job.model
    if layout.devices != where.devices_per_slice or layout.slices != where.slices:
        add("devices", f"it needs {layout.devices * layout.slices} devices, not {where.n_devices}")
    if layout.pipeline > 1 and len(model.layers) % layout.pipeline:
        add("layers", f"{len(model.layers)} layers cannot be split evenly into {layout.pipeline} stages")
    for layer in model.layer_counts:
        a = layer.attention
        if a.heads % layout.tensor:
            add("heads", f"{a.heads} heads cannot be split evenly over tensor={layout.tensor}")
        elif isinstance(a, Attention) and a.kv_heads % layout.tensor and layout.tensor % a.kv_heads:
            add("heads", f"{a.kv_heads} KV heads and tensor={layout.tensor} do not divide each other")
        mlp = layer.mlp
        if isinstance(mlp, Experts):
            if mlp.count % layout.expert:
                add("experts", f"{mlp.count} experts cannot be split evenly over expert={layout.expert}")
        elif mlp.hidden % layout.tensor:
            add("width", f"the hidden width {mlp.hidden} cannot be split evenly over tensor={layout.tensor}")
    if layout.expert > 1 and not any(isinstance(layer.mlp, Experts) for layer in model.layer_counts):
        add("experts", "the model has no experts to split")
    if layout.fsdp % layout.expert:
        add("experts", f"expert={layout.expert} must divide fsdp={layout.fsdp}, whose devices it uses")
    if job.sequence % layout.context:
        add("sequence", f"sequences of {job.sequence} tokens cannot be split evenly over context={layout.context}")
    ways = layout.batch_ways * layout.accumulation
    if job.sequences % ways:
        small = job.sequences < ways
        noun = "sequence" if job.sequences == 1 else "sequences"
        why = f"only {job.sequences} {noun} for" if small else f"{job.sequences} sequences cannot be split evenly into"
        add("batch", f"{why} {layout.batch_ways} replicas x {layout.accumulation} microbatches")
    if layout.pipeline > 1 and layout.accumulation < layout.pipeline:
        add("pipeline", f"a pipeline of {layout.pipeline} stages needs at least as many microbatches")
    return list(dict.fromkeys(found))
