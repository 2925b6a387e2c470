"""Memory from plain numbers: state of so many parameters, checkpoints of so many tokens, sums that fit or do not.

Formulas: scaling book, chapters "Training parallelism" and "Training LLaMA".
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from tpuprof.dtypes import packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.state import TRAINING, StateTypes


def bytes_per_param(types: StateTypes) -> Derivation:
    """Bytes of persistent state per parameter."""
    each = types.bytes_per_param
    inputs = {"types": Quantity(types.text())}
    steps = tuple(Step(name, "bytes of its types", value, "B/param") for name, value in each.items())
    return Derivation(
        sum(each.values()), "B/param", "weights + gradients + optimizer", inputs, None, (), steps, TRAINING
    )


def state_of_params(params: float, types: StateTypes | float, split: int = 1) -> dict[str, Derivation]:
    """``state`` of so many parameters, and where types are given its ``weights``, ``gradients`` and ``optimizer``.

    Args:
        types: of what is kept, or bytes per parameter.
        split: devices over which it is spread evenly.

    Raises:
        UsageError: a number is out of range.
    """
    inputs = {"P": Quantity(not_negative("The number of parameters", params), "param")}
    if isinstance(types, StateTypes):
        each = bytes_per_param(types)
        parts = types.bytes_per_param
    else:
        each = Derivation(positive("The bytes per parameter", types), "B/param", "given")
        parts = {}
    inputs["b"] = Quantity(each.number(), "B/param", "" if not parts else str(each.inputs["types"].value))
    inputs["N"] = Quantity(counted("The number of devices", split), "device")
    share = params / split
    found = {"state": Derivation(share * each.number(), "B", "P * b / N", inputs, None, (), each.steps, TRAINING)}
    for name, value in parts.items():
        found[name] = Derivation(share * value, "B", f"P * bytes of {name} / N", inputs, None, (), (), TRAINING)
    return found


def checkpoint_bytes(tokens: float, layers: int, elements: float, dtype: str = "bf16") -> Derivation:
    """Bytes of activations that are kept for the backward pass.

    Args:
        elements: per token and layer, such as D + 2F, or the number of checkpoints times D.

    Raises:
        UsageError: a number is out of range, or the type is unknown.
    """
    value = packed_bytes(dtype, not_negative("The number of tokens", tokens) * counted("The number of layers", layers)
                         * not_negative("The number of elements", elements))  # fmt: skip
    inputs = {
        "B": Quantity(tokens, "token"), "L": Quantity(layers, "layer"),
        "e": Quantity(elements, "element per token and layer"), "b": Quantity(packed_bytes(dtype, 1), "B", dtype),
    }  # fmt: skip
    return Derivation(value, "B", "b * B * L * e", inputs, source=TRAINING)


def checkpoint_elements(width: int, hidden: int | None = None, per_layer: int | None = None) -> float:
    """Elements per token and layer: of checkpoints of the model's width, or after the three MLP matmuls (D + 2F).

    Raises:
        UsageError: neither or both are said, or a number is below 1.
    """
    counted("The width", width)
    if (hidden is None) == (per_layer is None):
        raise UsageError(
            "Either the hidden width or the number of checkpoints per layer is needed.",
            hint="Give --d-ff for checkpoints after the MLP matmuls, or --checkpoints.",
        )
    if per_layer is not None:
        return width * counted("The number of checkpoints", per_layer)
    assert hidden is not None
    return width + 2 * counted("The hidden width", hidden)


def memory_of_parts(
    parts: Mapping[str, float], *, chips: int | None = None, capacity: float | None = None
) -> dict[str, Derivation]:
    """The sum of parts; with chips ``per-chip``; with a capacity of one chip ``chips``, ``fits`` and ``free``.

    Args:
        chips: over which everything is spread evenly.
        capacity: bytes of one chip.

    Raises:
        UsageError: there is no part, or a number is out of range.
    """
    if not parts:
        raise UsageError("There is nothing to add up.", hint="Give at least one number of bytes.")
    for name, value in parts.items():
        not_negative(f"The bytes of {name}", value)
    inputs = {name: Quantity(value, "B") for name, value in parts.items()}
    total = Derivation(sum(parts.values()), "B", " + ".join(parts), inputs, source=TRAINING)
    found = {"total": total}
    if chips is not None:
        named = {**inputs, "N": Quantity(counted("The number of chips", chips), "chip")}
        assumed = ("everything is spread evenly",)
        each = Derivation(
            total.number() / chips, "B", "total / N", named, None, assumed, (total.as_step("total"),), TRAINING
        )
        found = {"per-chip": each, **found}
    if capacity is not None:
        named = {**inputs, "HBM": Quantity(positive("The memory of a chip", capacity), "B")}
        need = ceil(total.number() / capacity)
        steps = (total.as_step("total"),)
        found["chips"] = Derivation(max(need, 1), "chip", "ceil(total / HBM)", named, None, (), steps, TRAINING)
        held = total.number() / (chips or 1)
        found["fits"] = Derivation(held <= capacity, "", "total / N <= HBM", named | (
            {"N": Quantity(chips or 1, "chip")}), None, (), steps, TRAINING)  # fmt: skip
        found["free"] = Derivation(
            capacity - held, "B", "HBM - total / N", found["fits"].inputs, None, (), steps, TRAINING
        )
    return found


def largest_model(capacity: float, per_param: float) -> Derivation:
    """The most parameters whose state fits one chip, activations left out.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The memory of a chip", capacity) / positive("The bytes per parameter", per_param)
    inputs = {"HBM": Quantity(capacity, "B"), "b": Quantity(per_param, "B/param")}
    return Derivation(value, "param", "HBM / b", inputs, None, ("activations are left out",), (), TRAINING)
