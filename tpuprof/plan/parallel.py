"""Which parallelism, and how much of it: limits of tensor parallelism, the best mixed split, bubbles, smallest slices.

Formulas: scaling book, chapters "Training parallelism", "Inference", "Sharded matrices", "GPUs".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod, sqrt

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.limits import BF16, GPUS, OVERLAP, RINGS, TRAINING

INFERENCE = "scaling book, inference"


def tensor_parallel_limit(hidden: float, alpha: float, axes: float = 1, *, node: int | None = None) -> Derivation:
    """The degree of tensor parallelism up to which it is bound by arithmetic, whatever the batch.

    Args:
        hidden: width of the MLP, F.
        alpha: peak over the bandwidth of one axis, or over the egress of a node where a node is given.
        axes: physical axes that carry it.
        node: GPUs of a node, if the group spans exactly two: what stays inside a node is free.

    Raises:
        UsageError: a number is not above zero.
    """
    inputs = {
        "F": Quantity(positive("The hidden width", hidden), "element"),
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "M": Quantity(positive("The axes", axes), "axis"),
    }  # fmt: skip
    value, formula, source = axes * hidden / alpha, "M * F / alpha", TRAINING
    if node is not None:
        inputs["node"] = Quantity(counted("The size of a node", node), "GPU")
        value, formula, source = value + node, "M * F / alpha + node", GPUS
    return Derivation(value, "way", formula, inputs, None, (OVERLAP, RINGS, BF16), (), source)


def tensor_parallel_width(ways: float, alpha: float, axes: float = 1) -> Derivation:
    """The width of the MLP from which so many ways of tensor parallelism are bound by arithmetic.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The degree", ways) * positive("The intensity", alpha) / positive("The axes", axes)
    inputs = {"Y": Quantity(ways, "way"), "alpha": Quantity(alpha, "FLOP/B"), "M": Quantity(axes, "axis")}
    return Derivation(value, "element", "Y * alpha / M", inputs, None, (OVERLAP, RINGS, BF16), (), TRAINING)


def best_split(batch: float, hidden: float, chips: float, axes: tuple[float, float] = (2, 1)) -> dict[str, Derivation]:
    """The split of chips over FSDP (``fsdp``) and tensor parallelism (``tensor``) with the least communication.

    Args:
        batch: tokens of all chips.
        hidden: width of the MLP, F.
        axes: physical axes of each.

    Raises:
        UsageError: a number is not above zero.
    """
    x, y = axes
    inputs = {
        "B": Quantity(positive("The batch", batch), "token"),
        "F": Quantity(positive("The hidden width", hidden), "element"),
        "N": Quantity(positive("The number of chips", chips), "chip"),
        "M_X": Quantity(positive("The axes", x), "axis"), "M_Y": Quantity(positive("The axes", y), "axis"),
    }  # fmt: skip
    best = sqrt(batch / hidden * x / y * chips)
    assumed = ("real numbers: round to divisors of the slice", RINGS, BF16)
    regime = "mixed" if 1 <= best <= chips else "tensor only" if best < 1 else "FSDP only"
    value = min(max(best, 1.0), chips)
    first = Derivation(value, "way", "sqrt(B/F * M_X/M_Y * N)", inputs, regime, assumed, (), TRAINING)
    second = Derivation(chips / value, "way", "N / X", inputs, regime, assumed, (first.as_step("X"),), TRAINING)
    return {"fsdp": first, "tensor": second}


def mlp_choice(tokens: float, width: int, hidden: int, chips: int, capacity: float, dtype: str = "bf16") -> Derivation:
    """Whether a two-matrix MLP is better split by FSDP or by tensor parallelism over some chips with little memory.

    FSDP gathers both weight matrices, one after the other; tensor parallelism gathers and scatters activations. What
    sends fewer bytes wins, if it fits the memory.

    Raises:
        UsageError: a number is out of range, or neither fits.
    """
    weights = packed_bytes(dtype, counted("The width", width) * counted("The hidden width", hidden))
    counted("The number of chips", chips)
    activations = packed_bytes(dtype, positive("The number of tokens", tokens) * width)
    inner = packed_bytes(dtype, tokens * hidden)
    positive("The memory of a chip", capacity)
    held = 2 * weights / chips
    sent = {"fsdp": 2 * weights, "tensor_parallel": 2 * activations}
    need = {
        "fsdp": held + weights + (activations + inner) / chips,
        "tensor_parallel": held + activations + inner / chips,
    }
    inputs = {
        "B": Quantity(tokens, "token"), "D": Quantity(width, "element"), "F": Quantity(hidden, "element"),
        "N": Quantity(chips, "chip"), "memory": Quantity(capacity, "B"), "dtype": Quantity(dtype),
    }  # fmt: skip
    steps = tuple(
        Step(f"{name}: {what}", formula, value, "B")
        for name in sent
        for what, formula, value in (
            ("bytes sent", "2*w*D*F" if name == "fsdp" else "2*a*B*D", sent[name]),
            ("bytes needed", "held + gathered", need[name]),
        )
    )  # fmt: skip
    fitting = [name for name in sent if need[name] <= capacity]
    if not fitting:
        raise UsageError(
            f"Neither fits: FSDP needs {need['fsdp']:.3g} B per chip, tensor parallel {need['tensor_parallel']:.3g}.",
            hint="Give more chips or more memory.",
        )
    choice = min(fitting, key=lambda name: sent[name])
    regime = "fewer bytes are sent" if len(fitting) == 2 else "the other does not fit"
    assumed = ("one gathered matrix is held at a time",)
    return Derivation(choice, "", "the fewest bytes sent among those that fit", inputs, regime, assumed, steps,
                      "scaling book, sharded matrices")  # fmt: skip


def decode_tensor_limit(hidden: float, batch: float, beta: float, axes: float = 1) -> Derivation:
    """The degree of tensor parallelism in decode above which communication takes longer than reading the weights.

    Args:
        hidden: width of the MLP, F.
        batch: sequences, each of one token.
        beta: bandwidth of HBM over that of one ICI axis.

    Raises:
        UsageError: a number is not above zero.
    """
    inputs = {
        "F": Quantity(positive("The hidden width", hidden), "element"),
        "B": Quantity(positive("The batch", batch), "seq"), "beta": Quantity(positive("The ratio", beta), "x"),
        "M": Quantity(positive("The axes", axes), "axis"),
    }  # fmt: skip
    assumed = ("reading weights bounds the step", RINGS, "latency of hops is left out")
    return Derivation(axes * hidden / (batch * beta), "way", "M * F / (B * beta)", inputs, None, assumed, (), INFERENCE)


def weight_stationary_crossover(ratio: float, axes: float = 3) -> Derivation:
    """The chips above which weights split over both dimensions communicate less than with 1D tensor parallelism.

    Args:
        ratio: hidden width over model width, F/D.
        axes: physical axes that the one-dimensional split uses.

    Raises:
        UsageError: a number is not above zero.
    """
    value = 32 * positive("The ratio F/D", ratio) * (positive("The axes", axes) / 4) ** 2
    inputs = {"F/D": Quantity(ratio, "ratio"), "M": Quantity(axes, "axis")}
    steps = (
        Step("one-dimensional", "4*B*D / (M*W)", None, "s"),
        Step("two-dimensional", "sqrt(32*F/D)*B*D / (sqrt(N)*W)", None, "s"),
    )
    return Derivation(
        value, "chip", "32 * F/D * (M/4)^2", inputs, None, ("2 bytes per element", RINGS), steps, INFERENCE
    )


def bubble(stages: int, microbatches: int, rounds: int = 1) -> Derivation:
    """The share of a pipelined step in which a device waits for the first and after the last microbatch.

    Args:
        rounds: pieces of the model on each device, visited in turn (interleaved schedule).

    Raises:
        UsageError: a number is below 1.
    """
    counted("The number of stages", stages)
    work = counted("The number of microbatches", microbatches) * counted("The number of rounds", rounds)
    inputs = {
        "Z": Quantity(stages, "stage"), "m": Quantity(microbatches, "microbatch"), "v": Quantity(rounds, "round"),
    }  # fmt: skip
    assumed = ("stages take equal time", "handing on activations takes none", "the schedule is not a zero-bubble one")
    value = (stages - 1) / (work + stages - 1)
    return Derivation(value, "fraction", "(Z-1) / (m*v + Z-1)", inputs, None, assumed, (),
                      "pipeline schedules (GPipe, 1F1B, interleaved); the scaling book gives no formula")  # fmt: skip


def smallest_slice(size: float, capacity: float, slices: Sequence[int]) -> Derivation:
    """The smallest of some slices whose memory holds so many bytes.

    Args:
        capacity: bytes of one chip.
        slices: chips of each.

    Raises:
        UsageError: a number is out of range, or none is large enough.
    """
    need = not_negative("The number of bytes", size) / positive("The memory of a chip", capacity)
    if not slices or min(slices) < 1:
        raise UsageError("There are no slices to choose from.", hint="Give their chips, such as 1,4,8,16.")
    fitting = [chips for chips in slices if chips >= need]
    if not fitting:
        raise UsageError(f"It takes {ceil(need):,} chips, more than the largest slice of {max(slices):,}.")
    inputs = {
        "V": Quantity(size, "B"), "HBM": Quantity(capacity, "B"), "slices": Quantity(list(slices), "chip"),
    }  # fmt: skip
    steps = (Step("chips needed", "V / HBM", need, "chip"),)
    return Derivation(min(fitting), "chip", "next slice from V / HBM", inputs, None, (), steps, INFERENCE)


def chips_to_read(size: float, bandwidth: float, limit: float) -> Derivation:
    """The fewest chips that read so many bytes once within a time.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The number of bytes", size) / (positive("The bandwidth", bandwidth) * positive("The time", limit))
    inputs = {"V": Quantity(size, "B"), "W": Quantity(bandwidth, "B/s"), "t": Quantity(limit, "s")}
    return Derivation(
        ceil(value), "chip", "ceil(V / (W * t))", inputs, None, ("every chip reads an equal share",), (), INFERENCE
    )


def mesh_devices(mesh: dict[str, int]) -> Derivation:
    """The devices of a layout, from its degrees.

    Raises:
        UsageError: there is no axis, or one is below 1.
    """
    if not mesh:
        raise UsageError("The layout has no axis.", hint="Write it like expert=64,pipeline=16,data=2.")
    inputs = {name: Quantity(counted(f"The axis {name}", size), "way") for name, size in mesh.items()}
    return Derivation(prod(mesh.values()), "device", " * ".join(mesh), inputs, source=TRAINING)
