"""State of training: weights, gradients and optimizer state, per device under ZeRO and model parallelism.

Formulas: scaling book, chapters "Training parallelism" and "Training LLaMA".
"""

from __future__ import annotations

from dataclasses import dataclass

from tpuprof.dtypes import hlo_dtype, packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative

TRAINING = "scaling book, training parallelism"
STAGES = (0, 1, 2, 3)
"""ZeRO stages: nothing split over the data axes, optimizer state, also gradients, also weights (FSDP)."""


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
        microbatches: of one optimizer step, whose gradients are added up.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    zero: int = 3
    in_flight: int = 1
    microbatches: int = 1

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "context", "expert", "in_flight", "microbatches"):
            counted(f"The degree {name}", getattr(self, name))
        if self.data * self.context % self.expert:
            raise UsageError(f"{self.expert} expert-parallel devices are not part of {self.data * self.context}.",
                             hint="It must divide the product of data and context parallelism.")  # fmt: skip
        if self.zero not in STAGES:
            raise UsageError(f"There is no ZeRO stage {self.zero}.", hint="Stages: 0, 1, 2, 3.")

    @property
    def model_split(self) -> int:
        """Devices over which all parameters but routed experts are split, whatever the ZeRO stage."""
        return self.tensor * self.pipeline

    @property
    def shards(self) -> int:
        """Devices over which ZeRO-3 splits what :attr:`model_split` leaves."""
        return self.data * self.context if self.zero == 3 else 1
