"""Memory of training: weights, gradients, optimizer state, activations; per device under ZeRO and model parallelism.

Formulas: scaling book, chapters "Training parallelism" and "Training LLaMA".
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.dtypes import hlo_dtype, packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.params import param_counts
from tpuprof.plan.remat import RematPolicy, activation_bytes, offloaded_bytes, working_bytes

TRAINING = "scaling book, training parallelism"
STAGES = (0, 1, 2, 3)
"""ZeRO stages: nothing split over the data axes, optimizer state, also gradients, also weights (FSDP)."""
_BOOK_NOTE = "fragmentation, buffers of collectives and the program itself are left out"


@dataclass(frozen=True, slots=True)
class StateTypes:
    """Element types of what is kept per parameter.

    Args:
        weights: that the forward pass multiplies with.
        gradients: null if no buffer for all of them exists at once.
        moments: of the optimizer, two for Adam, one for momentum, none for SGD.
        master: a second copy of the weights that the optimizer updates; null if there is none.
    """

    weights: str = "bf16"
    gradients: str | None = "bf16"
    moments: tuple[str, ...] = ("f32", "f32")
    master: str | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "gradients", "master"):
            dtype = getattr(self, name)
            if dtype is not None:
                object.__setattr__(self, name, hlo_dtype(dtype))
        object.__setattr__(self, "moments", tuple(hlo_dtype(dtype) for dtype in self.moments))

    @property
    def bytes_per_param(self) -> dict[str, float]:
        """Bytes per parameter of ``weights``, ``gradients`` and ``optimizer`` (moments and master weights)."""
        kept = [*self.moments, *([] if self.master is None else [self.master])]
        return {
            "weights": packed_bytes(self.weights, 1),
            "gradients": 0.0 if self.gradients is None else packed_bytes(self.gradients, 1),
            "optimizer": sum(packed_bytes(dtype, 1) for dtype in kept),
        }

    def text(self) -> str:
        """The types in words."""
        words = [f"{self.weights} weights"]
        words += [f"{self.gradients} gradients"] if self.gradients else []
        words += [f"{self.master} master weights"] if self.master else []
        return ", ".join([*words, *([f"moments {'+'.join(self.moments)}"] if self.moments else [])])


def state_bytes(
    params: float, types: StateTypes, *, zero: int = 0, data: int = 1, model_split: int = 1
) -> dict[str, float]:
    """Bytes per device of ``weights``, ``gradients`` and ``optimizer``.

    Args:
        params: of the whole model, or of a group of parameters that is split in the same way.
        zero: one of :data:`STAGES`.
        data: devices over which the stage splits: data and FSDP axes.
        model_split: devices over which the parameters are split anyway: tensor, pipeline and expert axes.

    Raises:
        UsageError: a number is out of range.
    """
    if zero not in STAGES:
        raise UsageError(f"There is no ZeRO stage {zero}.", hint="Stages: 0, 1, 2, 3.")
    counted("The number of data-parallel devices", data)
    share = not_negative("The number of parameters", params) / counted("The split of the model", model_split)
    each = types.bytes_per_param
    return {
        "weights": share * each["weights"] / (data if zero >= 3 else 1),
        "gradients": share * each["gradients"] / (data if zero >= 2 else 1),
        "optimizer": share * each["optimizer"] / (data if zero >= 1 else 1),
    }


@dataclass(frozen=True, slots=True)
class TrainingSplit:
    """How a training step is spread over devices, as far as memory goes.

    Args:
        data: devices over which the batch is split: data and FSDP axes.
        tensor: degree of tensor parallelism.
        pipeline: stages; layers are split over them.
        context: devices over which sequences are split.
        expert: devices over which routed experts are split; they share the data axis with the rest of the model.
        zero: ZeRO stage over the data and context axes.
        in_flight: microbatches whose activations a stage holds at once.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    zero: int = 3
    in_flight: int = 1

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "context", "expert", "in_flight"):
            counted(f"The degree {name}", getattr(self, name))
        if self.data * self.context % self.expert:
            raise UsageError(f"{self.expert} expert-parallel devices are not part of {self.data * self.context}.",
                             hint="It must divide the product of data and context parallelism.")  # fmt: skip
        if self.zero not in STAGES:
            raise UsageError(f"There is no ZeRO stage {self.zero}.", hint="Stages: 0, 1, 2, 3.")


def training_memory(
    model: ModelConfig, tokens: float, policy: RematPolicy, *, split: TrainingSplit | None = None,
    types: StateTypes | None = None, dtype: str = "bf16", logits: str = "f32",
) -> dict[str, float]:  # fmt: skip
    """Bytes per device of a training step by what they hold.

    ``weights``, ``gradients`` and ``optimizer`` are the state.
    ``activations`` are kept from the forward to the backward pass, ``working`` is what one layer's backward pass needs
    beside them, ``logits`` are two arrays over the vocabulary, the values and their gradient. ``host`` is in the host's
    memory and no part of the total. The first pipeline stage is meant, which holds the most microbatches.

    Args:
        tokens: of one microbatch over all devices.

    Raises:
        UsageError: a number is out of range, or there are more stages than layers.
    """
    split, types = split or TrainingSplit(), types or StateTypes()
    if split.pipeline > len(model.layers):
        raise UsageError(f"{split.pipeline} pipeline stages are more than {len(model.layers)} layers.")
    counts = param_counts(model)
    routed = counts.total.get("routed-experts", 0)
    replicas = split.data * split.context
    dense = state_bytes(
        counts.all - routed, types, zero=split.zero, data=replicas, model_split=split.tensor * split.pipeline
    )
    experts = state_bytes(
        routed, types, zero=split.zero, data=replicas // split.expert,
        model_split=split.tensor * split.pipeline * split.expert,
    )  # fmt: skip
    found = {name: dense[name] + experts[name] for name in dense}
    local = not_negative("The number of tokens", tokens) / replicas
    kept = away = 0.0
    for layer, count in model.layer_counts.items():
        share = count * split.in_flight / split.pipeline
        kept += share * activation_bytes(layer, policy, local, dtype=dtype, tensor=split.tensor)
        away += share * offloaded_bytes(layer, policy, local, dtype=dtype, tensor=split.tensor)
    kinds = model.layer_counts
    keeps_all = policy.saved is None
    most = 0.0 if keeps_all else max(working_bytes(kind, local, dtype=dtype, tensor=split.tensor) for kind in kinds)
    head = 2 * packed_bytes(logits, local * model.vocab) / split.tensor
    return {**found, "activations": kept, "working": most, "logits": head, "host": away}


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
    assumed = (
        _BOOK_NOTE,
        "stages and tensor parallelism split all weights evenly",
        "attention scores stay inside the kernel",
        "the residual path is split over tensor parallelism",
    )
    steps = tuple(Step(name, _PARTS[name], value, "B") for name, value in parts.items())
    total = sum(parts.values())

    def made(value: float | bool, unit: str, formula: str) -> Derivation:
        return Derivation(value, unit, formula, inputs, None, assumed, steps, TRAINING)

    found = {"memory": made(total, "B", "sum of the parts")}
    if capacity is not None:
        found["fits"] = made(total <= capacity.number(), "", "memory <= HBM")
        found["headroom"] = made(capacity.number() - total, "B", "HBM - memory")
    found |= {name: made(value, "B", _PARTS[name]) for name, value in parts.items()}
    return found | {"host": made(host, "B", _PARTS["host"])}


_PARTS = {
    "weights": "P * bytes of weights / splits",
    "gradients": "P * bytes of gradients / splits",
    "optimizer": "P * bytes of optimizer state / splits",
    "activations": "kept tensors * tokens * layers",
    "working": "what one layer's backward pass needs",
    "logits": "2 * V * tokens",
    "host": "offloaded tensors * tokens * layers",
}
