"""Critical batch sizes: from how many tokens on a step is bound by arithmetic, for memory, ICI, DCN and experts.

alpha is the critical intensity of a chip: its peak rate over the bandwidth that carries the bytes. On TPUs W_ici is the
bandwidth of one axis in both directions, and holds on axes that close to rings; on GPUs it is one-way egress.
Formulas: scaling book, chapters "Rooflines", "Training parallelism", "Inference", "GPUs".
"""

from __future__ import annotations

import math

from tpuprof.dtypes import hlo_dtype, packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity

ROOFLINES = "scaling book, rooflines and inference"
TRAINING = "scaling book, training parallelism"
GPUS = "scaling book, GPUs"
OVERLAP = "communication and computation overlap perfectly"
RINGS = "the axes close to rings"
BF16 = "bf16 weights and activations, or both and the rate scaled alike"


def weight_batch(
    alpha: float, weights: str = "bf16", *, experts: int | None = None, top_k: int | None = None
) -> Derivation:
    """The tokens per copy of the weights from which a matmul is bound by arithmetic and not by reading its weights.

    The same rule holds for whatever carries the weights: HBM, VMEM, or PCIe from the host's memory.

    Args:
        alpha: peak of the type that is multiplied over the bandwidth, FLOP/B.
        weights: type in which weights are kept, which may be narrower.
        experts, top_k: of a mixture of experts, whose every expert is read.

    Raises:
        UsageError: a number is out of range, or the type is unknown.
    """
    size = packed_bytes(weights, 1)
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "w": Quantity(size, "B", hlo_dtype(weights)),
    }
    spread, formula = _experts(inputs, experts, top_k, "w/2 * alpha")
    assumed = ("activations are small beside the weights",)
    return Derivation(size / 2 * alpha * spread, "token", formula, inputs, None, assumed, (), ROOFLINES)


def data_parallel_tokens(
    alpha: float, axes: float = 1, *, experts: int | None = None, top_k: int | None = None, members: int | None = None
) -> Derivation:
    """The tokens per chip from which data parallelism, sharded (FSDP) or not, is bound by arithmetic.

    Args:
        alpha: peak over the bandwidth of one axis of ICI, or of the egress of a GPU or node.
        axes: physical axes that carry it.
        experts, top_k: of a mixture of experts, whose gradients are those of all experts.
        members: of a group on a switch, whose reduction moves (n-1)/n of the bytes; rings move all as the book counts.

    Raises:
        UsageError: a number is out of range.
    """
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "M": Quantity(positive("The axes", axes), "axis"),
    }
    spread, formula = _experts(inputs, experts, top_k, "alpha / M")
    if members is not None:
        inputs["X"] = Quantity(counted("The number of members", members), "member")
        spread *= (members - 1) / members
        formula += " * (X-1)/X"
    assumed = (OVERLAP, RINGS, BF16, "attention is left out")
    return Derivation(alpha / axes * spread, "token/chip", formula, inputs, None, assumed, (), TRAINING)


def slice_tokens(alpha: float) -> Derivation:
    """The tokens per slice from which data parallelism over the data-centre network is bound by arithmetic.

    Args:
        alpha: peak of a chip over its share of the network.

    Raises:
        UsageError: the intensity is not above zero.
    """
    inputs = {"alpha": Quantity(positive("The intensity", alpha), "FLOP/B")}
    assumed = (OVERLAP, BF16, "every chip of a slice sends its share", "there are many slices")
    return Derivation(alpha, "token/slice", "C / W_dcn", inputs, None, assumed, (), TRAINING)


def mixed_tokens(alpha: float, hidden: float, axes: tuple[float, float] = (2, 1)) -> dict[str, Derivation]:
    """The tokens per chip from which FSDP with tensor parallelism, split in the best way, is bound by arithmetic.

    ``overlapping`` if the traffic of both, which is on different axes, overlaps; ``one-after-the-other`` is four times
    that.

    Args:
        hidden: width of the MLP, F.
        axes: physical axes of FSDP and of tensor parallelism.

    Raises:
        UsageError: a number is not above zero.
    """
    x, y = axes
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "F": Quantity(positive("The hidden width", hidden), "element"),
        "M_X": Quantity(positive("The axes", x), "axis"), "M_Y": Quantity(positive("The axes", y), "axis"),
    }  # fmt: skip
    value = alpha * alpha / (x * y * hidden)
    assumed = (
        OVERLAP,
        RINGS,
        BF16,
        "the split takes its best value even if that is no integer",
        "attention is left out",
    )
    both = "the traffic of both overlaps, on different axes"
    return {
        "overlapping": Derivation(
            value, "token/chip", "alpha^2 / (M_X*M_Y*F)", inputs, None, (*assumed, both), (), TRAINING
        ),
        "one-after-the-other": Derivation(
            4 * value, "token/chip", "4 * alpha^2 / (M_X*M_Y*F)", inputs, None, assumed, (), TRAINING
        ),
    }


def context_tokens(alpha: float, group: float = 1, axes: float = 1) -> Derivation:
    """The tokens of a sequence per chip from which ring attention is bound by arithmetic.

    While a chip works on one block of keys and values it passes another one on: 4 s² N H operations (half with a causal
    mask, if the work is balanced) beside 4 s K H bytes in one direction of each axis.

    Args:
        group: query heads per KV head, N/K.

    Raises:
        UsageError: a number is out of range.
    """
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "G": Quantity(positive("The group", group), "query head per KV head"),
        "M": Quantity(positive("The axes", axes), "axis"),
    }  # fmt: skip
    assumed = (
        OVERLAP,
        RINGS,
        "bf16 keys and values",
        "all pairs of tokens count; twice as many tokens with a causal mask",
        "blocks travel in both directions",
    )
    return Derivation(alpha / (group * axes), "token/chip", "alpha / (G*M)", inputs, None, assumed, (), TRAINING)


def expert_width(alpha: float, ways: float, top_k: float, node: int = 8) -> Derivation:
    """The width of an expert from which expert parallelism over GPU nodes is bound by arithmetic.

    Args:
        alpha: peak of a GPU over the egress of a node.
        ways: GPUs over which experts are spread; infinite for the limit.
        top_k: experts per token.
        node: GPUs of a node.

    Raises:
        UsageError: a number is out of range.
    """
    counted("The size of a node", node)
    if not (ways > 0 and top_k > 0):
        raise UsageError("The degree of expert parallelism and the experts per token must be above zero.")
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"), "Z": Quantity(ways, "way"),
        "k": Quantity(top_k, "expert per token"), "node": Quantity(node, "GPU"),
    }  # fmt: skip
    assumed = (OVERLAP, "tokens are spread evenly over experts", "two matrices per expert", BF16)
    if ways <= node:
        return Derivation(
            0.0, "element", "0", inputs, "inside a node", (*assumed, "what stays inside a node is free"), (), GPUS
        )
    # T_comms / T_math = alpha/k * (Z - node)/F * min(node*k/Z, 1)
    if math.isinf(ways) or node * top_k < ways:
        value = node * alpha * (1 if math.isinf(ways) else (ways - node) / ways)
        formula = "node * alpha * (Z - node)/Z"
        return Derivation(
            value, "element", formula, inputs, "wide: a token reaches few of the nodes", assumed, (), GPUS
        )
    value = alpha * (ways - node) / top_k
    formula = "alpha * (Z - node) / k"
    return Derivation(value, "element", formula, inputs, "narrow: a token reaches all nodes", assumed, (), GPUS)


def expert_width_torus(alpha: float, longest: float, matrices: int = 2) -> Derivation:
    """The width of an expert from which expert parallelism over axes of a torus is bound by arithmetic.

    Two all-to-alls of 2 b k D bytes per chip, each byte of which takes longest/(4 W), beside 2 n b k D F operations.

    Args:
        alpha: peak of a chip over the bandwidth of one axis, both directions.
        longest: chips along the longest of the axes over which experts are spread.
        matrices: of an expert; 3 if gated.

    Raises:
        UsageError: a number is out of range.
    """
    inputs = {
        "alpha": Quantity(positive("The intensity", alpha), "FLOP/B"),
        "A": Quantity(positive("The length of the axis", longest), "chip"),
        "n": Quantity(counted("The number of matrices", matrices), "matrix"),
    }
    assumed = (
        OVERLAP,
        RINGS,
        BF16,
        "tokens are spread evenly over experts",
        "every copy of a token travels, even two to one chip",
    )
    value = alpha * longest / (2 * matrices)
    source = "scaling book, sharded matrices (all-to-all on a torus); the condition is ours"
    return Derivation(value, "element", "alpha * A / (2*n)", inputs, None, assumed, (), source)


def batch_of(
    *, batch: float | None = None, chips: float | None = None, per_chip: float | None = None,
    sequences: float | None = None, sequence: float | None = None,
) -> dict[str, Derivation]:  # fmt: skip
    """What follows from ``batch``, ``chips`` and ``per-chip`` tokens, and from ``sequences`` and their length.

    Raises:
        UsageError: nothing follows, or numbers contradict each other.
    """
    given = {"B": (batch, "token"), "N": (chips, "chip"), "b": (per_chip, "token/chip"),
             "S": (sequences, "seq"), "T": (sequence, "token/seq")}  # fmt: skip
    inputs = {
        name: Quantity(positive(f"The number {name}", value), unit)
        for name, (value, unit) in given.items()
        if value is not None
    }
    found: dict[str, Derivation] = {}

    def made(value: float, unit: str, formula: str) -> Derivation:
        return Derivation(value, unit, formula, inputs, source=TRAINING)

    whole = batch
    if batch is None and sequences is not None and sequence is not None:
        whole = sequences * sequence
        found["batch"] = made(whole, "token", "S * T")
    elif batch is None and chips is not None and per_chip is not None:
        whole = chips * per_chip
        found["batch"] = made(whole, "token", "N * b")
    if whole is not None:
        if per_chip is not None and chips is None:
            found["chips"] = made(whole / per_chip, "chip", "B / b")
        if chips is not None and per_chip is None:
            found["per-chip"] = made(whole / chips, "token/chip", "B / N")
        if sequence is not None and sequences is None:
            found["sequences"] = made(whole / sequence, "seq", "B / T")
        if sequences is not None and sequence is None:
            found["sequence"] = made(whole / sequences, "token/seq", "B / S")
    if not found:
        raise UsageError("Nothing follows from these numbers.", hint="Give a batch with chips, tokens per chip or a "
                         "sequence length; or two of them without the batch.")  # fmt: skip
    return found


def enough(batch: float, minimum: float) -> Derivation:
    """Whether a batch reaches the smallest one that is bound by arithmetic.

    Raises:
        UsageError: a number is negative.
    """
    inputs = {
        "B": Quantity(not_negative("The batch", batch), "token"),
        "B_min": Quantity(not_negative("The minimum", minimum), "token"),
    }  # fmt: skip
    return Derivation(batch >= minimum, "", "B >= B_min", inputs, source=TRAINING)


def _experts(inputs: dict[str, Quantity], experts: int | None, top_k: int | None, formula: str) -> tuple[float, str]:
    if (experts is None) != (top_k is None):
        raise UsageError("Experts are given without those per token, or the other way round.",
                         hint="Give --experts and --top-k.")  # fmt: skip
    if experts is None or top_k is None:
        return 1.0, formula
    if counted("The experts per token", top_k) > counted("The number of experts", experts):
        raise UsageError(f"A token cannot go to {top_k} of {experts} experts.")
    inputs |= {"E": Quantity(experts, "expert"), "k": Quantity(top_k, "expert per token")}
    return experts / top_k, f"{formula} * E/k"
