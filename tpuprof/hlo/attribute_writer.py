"""Attribute texts, written into the fields of an instruction message: the reverse of `attributes_of`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tpuprof.errors import HloError
from tpuprof.hlo.attributes import attributes_of
from tpuprof.hlo.dims import parse_dim_labels, parse_padding, parse_pairs, parse_slices, parse_window
from tpuprof.hlo.enums import (
    ALGORITHMS,
    API_VERSIONS,
    DISTRIBUTIONS,
    FFT_TYPES,
    GATHER_DIMS,
    PADDING_TYPES,
    PRECISIONS,
    RNG_ALGORITHMS,
    SCATTER_DIMS,
    SCHEDULES,
    TRANSPOSES,
)
from tpuprof.hlo.groups import parse_replica_groups
from tpuprof.hlo.groups_proto import fill_groups
from tpuprof.hlo.proto_schema import messages
from tpuprof.hlo.scan import integer, integers, split_top_level, unquote
from tpuprof.hlo.shape_proto import shape_bytes
from tpuprof.hlo.shapes import parse_shape
from tpuprof.hlo.sharding import fill_sharding

_Writer = Callable[[Any, str], None]


def write_attributes(message: Any, opcode: str, attributes: Mapping[str, str]) -> dict[str, str]:
    """Fills the fields of an instruction message; returns the attributes that no field can hold.

    An attribute counts as held only if reading the message gives its text back.
    """
    if opcode == "custom-call" and "api_version" not in attributes:
        message.custom_call_api_version = 1  # what text leaves out
    extras: dict[str, str] = {}
    written: dict[str, str] = {}
    for key, text in attributes.items():
        writer = _WRITERS_BY_OPCODE.get((opcode, key)) or _WRITERS.get(key)
        if writer is None:
            extras[key] = text
            continue
        trial = messages().HloInstructionProto()
        try:
            writer(trial, text)
        except (HloError, ValueError, IndexError):
            extras[key] = text
            continue
        message.MergeFrom(trial)
        written[key] = text
    back = attributes_of(message, opcode)
    return extras | {key: text for key, text in written.items() if back.get(key) != text}


def _into_ints(field: str) -> _Writer:
    def write(message: Any, text: str) -> None:
        getattr(message, field).extend(integers(text, field))

    return write


def _into_number(field: str) -> _Writer:
    def write(message: Any, text: str) -> None:
        setattr(message, field, integer(text, field))

    return write


def _into_text(field: str) -> _Writer:
    def write(message: Any, text: str) -> None:
        setattr(message, field, unquote(text).encode("utf-8", "surrogateescape"))

    return write


def _into_flag(field: str) -> _Writer:
    def write(message: Any, text: str) -> None:
        setattr(message, field, text == "true")

    return write


def _into_enum(field: str, names: tuple[str, ...]) -> _Writer:
    def write(message: Any, text: str) -> None:
        setattr(message, field, names.index(text))

    return write


def _into_part(part: str, field: str) -> _Writer:
    """A list or number of a sub-message."""

    def write(message: Any, text: str) -> None:
        target = getattr(message, part)
        if text.startswith("{"):
            getattr(target, field).extend(integers(text, field))
        elif text in ("true", "false"):
            setattr(target, field, text == "true")
        else:
            setattr(target, field, integer(text, field))

    return write


def _window(message: Any, text: str) -> None:
    for dim in parse_window(text):
        message.window.dimensions.add(
            size=dim.size,
            stride=dim.stride,
            padding_low=dim.pad_low,
            padding_high=dim.pad_high,
            window_dilation=dim.window_dilation,
            base_dilation=dim.base_dilation,
            window_reversal=dim.reversal,
        )


def _dim_labels(message: Any, text: str) -> None:
    dims = parse_dim_labels(text)
    target = message.convolution_dimension_numbers
    target.input_batch_dimension, target.input_feature_dimension = dims.input_batch, dims.input_feature
    target.kernel_input_feature_dimension = dims.kernel_input
    target.kernel_output_feature_dimension = dims.kernel_output
    target.output_batch_dimension, target.output_feature_dimension = dims.output_batch, dims.output_feature
    target.input_spatial_dimensions.extend(dims.input_spatial)
    target.kernel_spatial_dimensions.extend(dims.kernel_spatial)
    target.output_spatial_dimensions.extend(dims.output_spatial)


def _slices(message: Any, text: str) -> None:
    for start, limit, stride in parse_slices(text):
        message.slice_dimensions.add(start=start, limit=limit, stride=stride)


def _padding(message: Any, text: str) -> None:
    for low, high, interior in parse_padding(text):
        message.padding_config.dimensions.add(edge_padding_low=low, edge_padding_high=high, interior_padding=interior)


def _pairs(message: Any, text: str) -> None:
    for source, target in parse_pairs(text):
        message.source_target_pairs.add(source=source, target=target)


def _precision(message: Any, text: str) -> None:
    names = [item.strip() for item in text.strip("{}").split(",")]
    message.precision_config.operand_precision.extend(PRECISIONS.index(name) for name in names)


def _algorithm(message: Any, text: str) -> None:
    message.precision_config.algorithm = ALGORITHMS.index(text)


def _transpose(message: Any, text: str) -> None:
    message.triangular_solve_options.transpose_a = TRANSPOSES.index(text)


def _replication(message: Any, text: str) -> None:
    flags = (item.strip() == "true" for item in text.strip("{}").split(","))
    message.parameter_replication.replicated_at_leaf_buffers.extend(flags)


def _sharding(message: Any, text: str) -> None:
    fill_sharding(message.sharding, text)


def _comparison_type(message: Any, text: str) -> None:
    message.comparison_type = text.encode()


def _groups(message: Any, text: str) -> None:
    fill_groups(message, parse_replica_groups(text))


def _aliasing(message: Any, text: str) -> None:
    for item in split_top_level(text.strip()[1:-1]):
        output, _, operand = item.partition(":")
        index, operand_index = split_top_level(operand.strip()[1:-1])
        message.output_operand_aliasing.add(
            output_shape_index=integers(output, "aliasing"),
            operand_index=integer(index, "aliasing"),
            operand_shape_index=integers(operand_index, "aliasing"),
        )


def _operand_layouts(message: Any, text: str) -> None:
    message.constrain_layout = True
    for item in split_top_level(text.strip()[1:-1]):
        message.operand_shapes_with_layout.append(shape_bytes(parse_shape(item)))


def _outfeed_shape(message: Any, text: str) -> None:
    message.outfeed_shape = shape_bytes(parse_shape(text))


def _epsilon(message: Any, text: str) -> None:
    message.epsilon = float(text)


_FLAGS = (
    "constrain_layout", "custom_call_has_side_effect", "indices_are_sorted", "is_composite",
    "is_host_transfer", "is_stable", "largest", "unique_indices", "use_global_device_ids",
)  # fmt: skip
_NUMBERS = (
    "batch_group_count", "channel_id", "cross_program_prefetch_index", "delta", "exponent_bits",
    "feature_group_count", "feature_index", "k", "mantissa_bits", "parameter_number",
)  # fmt: skip
_WRITERS: dict[str, _Writer] = {
    **{key: _into_flag(key) for key in _FLAGS},
    **{key: _into_number(key) for key in _NUMBERS},
    **{f"{key}_dims": _into_part("dot_dimension_numbers", f"{key}_dimensions")
       for key in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")},
    **{key: _into_part("gather_dimension_numbers", key) for key in GATHER_DIMS},
    **{key: _into_part("scatter_dimension_numbers", key) for key in SCATTER_DIMS},
    **{key: _into_part("triangular_solve_options", key) for key in ("left_side", "lower", "unit_diagonal")},
    "algorithm": _algorithm,
    "api_version": _into_enum("custom_call_api_version", API_VERSIONS),
    "async_execution_thread": _into_text("async_execution_thread"),
    "custom_call_target": _into_text("custom_call_target"),
    "dim_labels": _dim_labels,
    "dimensions": _into_ints("dimensions"),
    "direction": _into_text("comparison_direction"),
    "distribution": _into_enum("distribution", DISTRIBUTIONS),
    "dynamic_slice_sizes": _into_ints("dynamic_slice_sizes"),
    "epsilon": _epsilon,
    "fft_length": _into_ints("fft_length"),
    "fft_type": _into_enum("fft_type", FFT_TYPES),
    "index": _into_number("tuple_index"),
    "infeed_config": _into_text("infeed_config"),
    "iota_dimension": _into_ints("dimensions"),
    "kind": _into_text("fusion_kind"),
    "operand_layout_constraints": _operand_layouts,
    "operand_precision": _precision,
    "outfeed_config": _into_text("outfeed_config"),
    "outfeed_shape": _outfeed_shape,
    "output_to_operand_aliasing": _aliasing,
    "padding": _padding,
    "padding_type": _into_enum("padding_type", PADDING_TYPES),
    "parameter_replication": _replication,
    "replica_groups": _groups,
    "schedule": _into_enum("custom_call_schedule", SCHEDULES),
    "sharding": _sharding,
    "slice": _slices,
    "slice_sizes": _into_ints("gather_slice_sizes"),
    "source_target_pairs": _pairs,
    "transpose_a": _transpose,
    "type": _comparison_type,
    "window": _window,
}  # fmt: skip
_WRITERS_BY_OPCODE: dict[tuple[str, str], _Writer] = {
    ("gather", "index_vector_dim"): _into_part("gather_dimension_numbers", "index_vector_dim"),
    ("scatter", "index_vector_dim"): _into_part("scatter_dimension_numbers", "index_vector_dim"),
    ("cholesky", "lower"): _into_part("cholesky_options", "lower"),
    ("rng-bit-generator", "algorithm"): _into_enum("rng_algorithm", RNG_ALGORITHMS),
}
