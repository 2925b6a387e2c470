"""Dimension numbers of dots, convolutions, slices and pads, read from the text of the attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpuprof.errors import HloError
from tpuprof.hlo.scan import integer, integers, split_top_level

_DIM_LABELS = re.compile(r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)\Z")
_SLICE = re.compile(r"\[(\d{1,19}):(\d{1,19})(?::(\d{1,19}))?\]\Z")


@dataclass(frozen=True, slots=True)
class DotDims:
    """Which dimensions of the two operands are summed over, and which are batch dimensions."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One spatial dimension of the window of a convolution or a reduce-window."""

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Dimension numbers of a convolution: batch, feature and spatial ones of input, kernel and output."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input: int
    kernel_output: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


def parse_window(text: str) -> tuple[WindowDim, ...]:
    """The dimensions of ``{size=3x3 pad=0_1x0_1 stride=2x2 …}``.

    Raises:
        HloError: a part has another number of dimensions than the sizes, or is no number.
    """
    parts: dict[str, list[str]] = {}
    for item in text.strip("{} ").split():
        key, _, value = item.partition("=")
        parts[key] = value.split("x")
    sizes = parts.get("size", [])
    rank = len(sizes)
    known = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"}
    if any(len(values) != rank for values in parts.values()) or not parts.keys() <= known:
        raise HloError(f"window={text[:80]!r} is no window.")
    dims: list[WindowDim] = []
    for i in range(rank):
        low, separator, high = parts["pad"][i].partition("_") if "pad" in parts else ("0", "_", "0")
        if not separator:
            raise HloError(f"window={text[:80]!r}: a padding is written low_high.")
        dims.append(
            WindowDim(
                size=integer(sizes[i], "window size"),
                stride=integer(parts["stride"][i], "window stride") if "stride" in parts else 1,
                pad_low=integer(low, "window padding"),
                pad_high=integer(high, "window padding"),
                base_dilation=integer(parts["lhs_dilate"][i], "lhs_dilate") if "lhs_dilate" in parts else 1,
                window_dilation=integer(parts["rhs_dilate"][i], "rhs_dilate") if "rhs_dilate" in parts else 1,
                reversal="rhs_reversal" in parts and integer(parts["rhs_reversal"][i], "rhs_reversal") != 0,
            )
        )
    return tuple(dims)


def window_text(dims: tuple[WindowDim, ...]) -> str:
    """The text of a window; parts that are at their defaults in all dimensions are left out."""
    if not dims:
        return "{}"
    parts = ["size=" + "x".join(str(d.size) for d in dims)]
    if any(d.stride != 1 for d in dims):
        parts.append("stride=" + "x".join(str(d.stride) for d in dims))
    if any(d.pad_low or d.pad_high for d in dims):
        parts.append("pad=" + "x".join(f"{d.pad_low}_{d.pad_high}" for d in dims))
    if any(d.base_dilation != 1 for d in dims):
        parts.append("lhs_dilate=" + "x".join(str(d.base_dilation) for d in dims))
    if any(d.window_dilation != 1 for d in dims):
        parts.append("rhs_dilate=" + "x".join(str(d.window_dilation) for d in dims))
    if any(d.reversal for d in dims):
        parts.append("rhs_reversal=" + "x".join(str(int(d.reversal)) for d in dims))
    return "{" + " ".join(parts) + "}"


def parse_dim_labels(text: str) -> ConvDims:
    """The dimension numbers of ``b01f_01io->b01f``: letters and digits stand at the dimension they name.

    Raises:
        HloError: a letter is missing or doubled.
    """
    match = _DIM_LABELS.match(text.strip())
    if match is None:
        raise HloError(f"dim_labels={text[:60]!r} is not of the form b01f_01io->b01f.")
    lhs, rhs, out = match[1], match[2], match[3]
    return ConvDims(*_labelled(lhs, "b", "f", text), *_labelled(rhs, "i", "o", text), *_labelled(out, "b", "f", text))


def dim_labels_text(dims: ConvDims) -> str:
    """The text of dimension numbers."""
    return (
        _labels(dims.input_batch, dims.input_feature, dims.input_spatial, "bf")
        + "_"
        + _labels(dims.kernel_input, dims.kernel_output, dims.kernel_spatial, "io")
        + "->"
        + _labels(dims.output_batch, dims.output_feature, dims.output_spatial, "bf")
    )


def parse_slices(text: str) -> tuple[tuple[int, int, int], ...]:
    """(start, limit, stride) per dimension of ``{[0:8], [0:4:2]}``.

    Raises:
        HloError: a part is no slice.
    """
    slices: list[tuple[int, int, int]] = []
    for item in split_top_level(text.strip()[1:-1]):
        match = _SLICE.match(item)
        if match is None:
            raise HloError(f"slice={text[:80]!r}: {item[:40]!r} is no slice.")
        slices.append((int(match[1]), int(match[2]), int(match[3] or 1)))
    return tuple(slices)


def parse_padding(text: str) -> tuple[tuple[int, int, int], ...]:
    """(low, high, interior) per dimension of ``0_1x0_0_2``.

    Raises:
        HloError: a part is no padding.
    """
    result: list[tuple[int, int, int]] = []
    for item in text.strip().split("x") if text.strip() else []:
        numbers = [integer(part, "padding") for part in item.split("_")]
        if len(numbers) not in (2, 3):
            raise HloError(f"padding={text[:80]!r}: {item[:40]!r} is not low_high or low_high_interior.")
        result.append((numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0))
    return tuple(result)


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """The pairs of ``{{0,1},{1,2}}``.

    Raises:
        HloError: an item is no pair of numbers.
    """
    pairs: list[tuple[int, int]] = []
    for item in split_top_level(text.strip()[1:-1]):
        numbers = integers(item, "source_target_pairs")
        if len(numbers) != 2:
            raise HloError(f"source_target_pairs={text[:80]!r}: {item[:40]!r} is no pair.")
        pairs.append((numbers[0], numbers[1]))
    return tuple(pairs)


def _labelled(labels: str, first: str, second: str, text: str) -> tuple[int, int, tuple[int, ...]]:
    digits = [label for label in labels if label.isdecimal()]
    if labels.count(first) != 1 or labels.count(second) != 1 or len(set(digits)) != len(digits):
        raise HloError(f"dim_labels={text[:60]!r}: {labels!r} must hold {first!r} and {second!r} once.")
    spatial = tuple(labels.index(digit) for digit in sorted(digits))
    return labels.index(first), labels.index(second), spatial


def _labels(first: int, second: int, spatial: tuple[int, ...], letters: str) -> str:
    size = max(first, second, *spatial) + 1 if spatial else max(first, second) + 1
    if min(first, second, *spatial, 0) < 0 or size > 99:
        raise HloError(f"Dimension numbers {first}, {second}, {spatial} of a convolution are out of range.")
    labels = ["?"] * size
    for index, dimension in enumerate(spatial):
        labels[dimension] = str(index)
    labels[first], labels[second] = letters[0], letters[1]
    return "".join(labels)
