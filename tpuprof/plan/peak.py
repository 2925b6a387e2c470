"""Memory of a training step where it is highest, by what it holds.

A step has two peaks. One is at the loss, when all kept activations, the logits and the gathered output matrix are there
and no gradients yet; the other in the first layers' backward passes, when activations are still there, the buffer of
all gradients is, and one layer's tensors are computed again. Which of them is higher depends on the vocabulary.

That this is how XLA's TPU compiler lays out a scanned Transformer was read off its memory analysis of compiled steps:
docs/accuracy.md holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import not_negative
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.model import Layer, ModelConfig
from tpuprof.plan.params import layer_params, param_counts
from tpuprof.plan.remat import RematPolicy, activation_bytes, offloaded_bytes, working_bytes
from tpuprof.plan.state import TRAINING, StateTypes, TrainingSplit, state_bytes


@dataclass(frozen=True, slots=True)
class Buffers:
    """What a framework holds beside state and activations.

    Args:
        logits: types of the arrays over the vocabulary that are alive at once.
        layers: whose gathered weights are alive at once under ZeRO-3; of routed experts those of one layer are.
        ends: the gathered embedding and output matrix are there during the whole step.
        copies: weights of more bits than the matmuls have are converted once for all layers, not layer by layer.
        overlapped: collectives run so far beside the backward pass of a layer that its recomputed tensors and their
            gradients are alive together, as they are with tensor parallelism everywhere.
        ahead: transfers from the host's memory run so far ahead that they have the same effect.
    """

    logits: tuple[str, ...] = ("bf16",)
    layers: int = 1
    ends: bool = False
    copies: bool = True
    overlapped: bool = False
    ahead: bool = True

    @property
    def tight(self) -> Buffers:
        """The same where the compiler's scheduler has no memory left to overlap with."""
        return replace(self, layers=1, overlapped=False, ahead=False)


XLA = Buffers()
"""Logits become their gradient in place, and the conversion of weights is moved out of the loop over layers."""
SPARSE_CORE = Buffers(layers=2, overlapped=True)
"""The same on tpu7x, where the SparseCore does the collectives and the next layer's weights come ahead."""
TORCH = Buffers(("f32", "f32", "f32", "bf16"), layers=2, ends=True, copies=False)
"""PyTorch with FSDP2 and an uncompiled loss: what log-softmax keeps, two gradients, and the block of the logits, which
the allocator has no other use for; the root's weights stay gathered, and the next layer's are fetched ahead."""
TORCH_LOSS_PARALLEL = Buffers(("f32",) * 4 + ("bf16",), layers=2, ends=True, copies=False)
"""The same with logits split over tensor parallelism, whose loss has one more intermediate."""


def buffers_on(chip: str) -> Buffers:
    """What the compiler of a chip, by its name, is known to hold."""
    return SPARSE_CORE if chip == "tpu7x" else XLA


def training_memory(
    model: ModelConfig, tokens: float, policy: RematPolicy, *, split: TrainingSplit | None = None,
    types: StateTypes | None = None, dtype: str = "bf16", buffers: Buffers = XLA,
) -> dict[str, float]:  # fmt: skip
    """Bytes per device of a training step at its peak, by what they hold.

    ``weights``, ``gradients`` and ``optimizer`` are the state.
    ``activations`` are kept from the forward to the backward pass, ``gathered`` are weights in the type of the matmuls:
    those of ZeRO-3 that are gathered whole, and the converted copy of the device's own. ``workspace`` is what the peak
    needs beside all that: one layer's backward pass, or, if that is more, the logits as far as they exceed the buffer
    of gradients, which is not in use yet. ``host`` is in the host's memory and no part of the total. The first pipeline
    stage is meant, which holds the most microbatches, with the output matrix of the last.

    Args:
        tokens: of one microbatch over all devices.

    Raises:
        UsageError: a number is out of range, or there are more stages than layers.
    """
    split, types = split or TrainingSplit(), types or StateTypes()
    if split.pipeline > len(model.layers):
        raise UsageError(f"{split.pipeline} pipeline stages are more than {len(model.layers)} layers.")
    replicas = split.data * split.context
    local = not_negative("The number of tokens", tokens) / replicas
    found = _state(model, split, types)
    # Gradients of earlier microbatches are there at the loss, and without a pipeline new ones are added from a buffer.
    unused = found["gradients"] if max(split.microbatches, split.in_flight) == 1 else 0.0
    found["gradients"] *= 2 if split.microbatches > 1 and split.pipeline == 1 else 1
    kept = away = 0.0
    for layer, count in model.layer_counts.items():
        share = count * split.in_flight / split.pipeline
        kept += share * activation_bytes(layer, policy, local, dtype=dtype, tensor=split.tensor)
        away += share * offloaded_bytes(layer, policy, local, dtype=dtype, tensor=split.tensor)
    work = max(_work(layer, policy, local, dtype, split.tensor, buffers) for layer in model.layer_counts)
    # The head's input is whole, whatever tensor parallelism splits elsewhere.
    head = packed_bytes(dtype, local * model.width)
    head += sum(packed_bytes(each, local * model.vocab) for each in buffers.logits) / split.tensor
    layers, ends = _gathered(model, split, dtype, buffers)
    copies = _copies(model, split, types, dtype) if buffers.copies else 0.0
    moments = {
        "layer": (work, layers + (ends if buffers.ends else 0.0)),
        "loss": (max(0.0, head - unused), ends),
    }
    workspace, gathered = max(moments.values(), key=sum)
    return {**found, "activations": kept, "gathered": gathered + copies, "workspace": workspace, "host": away}


def memory_answers(
    model: ModelConfig, tokens: float, policy: RematPolicy, split: TrainingSplit, types: StateTypes,
    capacity: Quantity | None = None,
) -> dict[str, Derivation]:  # fmt: skip
    """``memory`` per device and each of its parts, and with a capacity whether it fits and the chips that would.

    Raises:
        UsageError: as :func:`training_memory`.
    """
    parts = training_memory(model, tokens, policy, split=split, types=types)
    inputs = {
        "model": Quantity(model.name, "", model.source), "P": Quantity(param_counts(model).all, "param"),
        "B": Quantity(tokens, "token"), "remat": Quantity(policy.name), "types": Quantity(types.text()),
        "data": Quantity(split.data, "way"), "tensor": Quantity(split.tensor, "way"),
        "pipeline": Quantity(split.pipeline, "way"), "context": Quantity(split.context, "way"),
        "expert": Quantity(split.expert, "way"), "ZeRO": Quantity(split.zero, "stage"),
    }  # fmt: skip
    if capacity is not None:
        inputs["HBM"] = capacity
    host = parts.pop("host")
    steps = tuple(Step(name, FORMULAS[name], value, "B") for name, value in parts.items())
    total = sum(parts.values())

    def made(value: float | bool, unit: str, formula: str) -> Derivation:
        return Derivation(value, unit, formula, inputs, None, _ASSUMED, steps, TRAINING)

    found = {"memory": made(total, "B", "sum of the parts")}
    if capacity is not None:
        found["fits"] = made(total <= capacity.number(), "", "memory <= HBM")
        found["headroom"] = made(capacity.number() - total, "B", "HBM - memory")
    found |= {name: made(value, "B", FORMULAS[name]) for name, value in parts.items()}
    return found | {"host": made(host, "B", FORMULAS["host"])}


def _state(model: ModelConfig, split: TrainingSplit, types: StateTypes) -> dict[str, float]:
    counts = param_counts(model)
    routed = counts.total.get("routed-experts", 0)
    replicas = split.data * split.context
    dense = state_bytes(counts.all - routed, types, zero=split.zero, data=replicas, model_split=split.model_split)
    experts = state_bytes(
        routed, types, zero=split.zero, data=replicas // split.expert, model_split=split.model_split * split.expert
    )
    return {name: dense[name] + experts[name] for name in dense}


def _work(layer: Layer, policy: RematPolicy, tokens: float, dtype: str, tensor: int, buffers: Buffers) -> float:
    """Bytes of a layer's backward pass beside what is kept.

    Of what comes from the host's memory two layers' tensors are there, the one at work and the next; where transfers
    run ahead, also those of the layer at work as they came, before they are laid out for use.
    """
    moved = offloaded_bytes(layer, policy, tokens, dtype=dtype, tensor=tensor)
    overlapped = buffers.overlapped or (moved > 0 and buffers.ahead)
    work = working_bytes(layer, policy, tokens, dtype=dtype, tensor=tensor, overlapped=overlapped)
    return work + (3 if buffers.ahead else 2) * moved


def _gathered(model: ModelConfig, split: TrainingSplit, dtype: str, buffers: Buffers) -> tuple[float, float]:
    """Bytes of gathered layers, and of the gathered output matrix or of both ends."""
    if split.zero < 3 or split.data * split.context == 1:
        return 0.0, 0.0
    layers = max(
        buffers.layers * dense + routed
        for dense, routed in (_in_matmuls(layer, split, dtype) for layer in model.layer_counts)
    )
    matrix = packed_bytes(dtype, model.vocab * model.width / split.tensor)
    return layers, matrix * (2 if buffers.ends and not model.tied else 1)


def _copies(model: ModelConfig, split: TrainingSplit, types: StateTypes, dtype: str) -> float:
    """Bytes of the device's weights of all layers in the type of the matmuls, where they are kept in a wider one."""
    if packed_bytes(types.weights, 1) <= packed_bytes(dtype, 1):
        return 0.0
    whole = sum(count * sum(_in_matmuls(layer, split, dtype)) for layer, count in model.layer_counts.items())
    return whole / split.pipeline / (split.data * split.context if split.zero == 3 else 1)


def _in_matmuls(layer: Layer, split: TrainingSplit, dtype: str) -> tuple[float, float]:
    """Bytes of a layer's weights in the type of the matmuls, gathered by ZeRO-3: all but routed experts, and these."""
    found = layer_params(layer)
    routed = found.get("routed-experts", 0)
    dense = sum(found.values()) - routed
    return packed_bytes(dtype, dense / split.tensor), packed_bytes(dtype, routed / split.expert / split.tensor)


_ASSUMED = (
    "fragmentation, the program itself and buffers of collectives but gathered weights are left out",
    "stages and tensor parallelism split all weights evenly",
    "attention scores stay inside the kernel",
    "the residual path is split over tensor parallelism",
    "logits become their gradient in place",
)
FORMULAS = {
    "weights": "P * bytes of weights / splits",
    "gradients": "P * bytes of gradients / splits, twice with microbatches",
    "optimizer": "P * bytes of optimizer state / splits",
    "activations": "kept tensors * tokens * layers",
    "gathered": "b * (one layer, or V * D if the peak is at the loss), and own weights where they are converted",
    "workspace": "one layer's backward pass, or at the loss b * (V + D) * tokens - gradients",
    "host": "offloaded tensors * tokens * layers",
}
"""Of the parts of :func:`training_memory`."""
