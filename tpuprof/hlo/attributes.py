"""Attribute texts of an instruction: one spelling of each, and the same texts from an instruction message.

HLO text and the protobuf form say the same things differently. The model keeps attributes as the texts that
XLA prints, so this module writes those texts from the message's fields, and brings texts into one form
(defaults left out, marks removed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tpuprof.hlo.dims import ConvDims, WindowDim, dim_labels_text, window_text
from tpuprof.hlo.enums import (
    ALGORITHMS,
    API_VERSIONS,
    DISTRIBUTIONS,
    FFT_TYPES,
    GATHER_DIMS,
    GROUPED,
    PADDING_TYPES,
    PRECISIONS,
    RNG_ALGORITHMS,
    SCATTER_DIMS,
    SCHEDULES,
    TRANSPOSES,
    name_in,
)
from tpuprof.hlo.groups_proto import groups_of
from tpuprof.hlo.scan import quote, unquote, without_comments
from tpuprof.hlo.shape_proto import shape_from_bytes
from tpuprof.hlo.sharding import sharding_text

_KEPT_EMPTY = frozenset({"replica_groups", "operand_layout_constraints", "source_target_pairs"})
_DEFAULTS = {"feature_group_count": "1", "batch_group_count": "1", "api_version": "API_VERSION_ORIGINAL"}

_Put = dict[str, str]


def canonical(opcode: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The attribute texts of HLO text in the one form that the model keeps."""
    del opcode
    found: dict[str, str] = {}
    for key, text in texts.items():
        value = text.strip()
        if value.startswith('"'):
            value = quote(unquote(value))
        elif key != "sharding":
            value = without_comments(value)
        if value in ("", "false") or (value == "{}" and key not in _KEPT_EMPTY) or _DEFAULTS.get(key) == value:
            continue
        found[key] = value
    return found


def attributes_of(message: Any, opcode: str) -> dict[str, str]:
    """The attribute texts of a full instruction message.

    Raises:
        HloError: fields contradict each other.
    """
    found: _Put = {}
    for descriptor, value in message.ListFields():
        reader = _READERS.get(descriptor.name)
        if reader is not None:
            reader(found, value)
    if opcode == "parameter":
        found["parameter_number"] = str(message.parameter_number)
    elif opcode == "get-tuple-element":
        found["index"] = str(message.tuple_index)
    elif opcode in GROUPED:
        found["replica_groups"] = str(groups_of(message))
    elif opcode in _FIXES:
        _FIXES[opcode](found, message)
    for extra in message.extra_attributes:
        found[extra.name.decode("utf-8", "replace")] = extra.text.decode("utf-8", "replace")
    return found


def _ints(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _put_ints(key: str) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        found[key] = _ints(value)

    return put


def _put_text(key: str) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        found[key] = value.decode("utf-8", "replace")

    return put


def _put_quoted(key: str) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        found[key] = quote(value.decode("utf-8", "surrogateescape"))

    return put


def _put_number(key: str, minimum: int | None = None) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        if minimum is None or value >= minimum:
            found[key] = str(value)

    return put


def _put_flag(key: str) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        del value
        found[key] = "true"

    return put


def _put_enum(key: str, names: tuple[str, ...], skip: int = 0) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        if value != skip:
            found[key] = name_in(names, value)

    return put


def _put_message_ints(keys: tuple[str, ...]) -> Callable[[_Put, Any], None]:
    def put(found: _Put, value: Any) -> None:
        for key in keys:
            numbers = getattr(value, key)
            if numbers:
                found[key] = _ints(numbers)
        found["index_vector_dim"] = str(value.index_vector_dim)

    return put


def _put_window(found: _Put, value: Any) -> None:
    dims = tuple(
        WindowDim(
            d.size,
            d.stride,
            d.padding_low,
            d.padding_high,
            d.base_dilation,
            d.window_dilation,
            d.window_reversal,
        )
        for d in value.dimensions
    )
    if dims:
        found["window"] = window_text(dims)


def _put_conv(found: _Put, value: Any) -> None:
    found["dim_labels"] = dim_labels_text(
        ConvDims(
            value.input_batch_dimension,
            value.input_feature_dimension,
            tuple(value.input_spatial_dimensions),
            value.kernel_input_feature_dimension,
            value.kernel_output_feature_dimension,
            tuple(value.kernel_spatial_dimensions),
            value.output_batch_dimension,
            value.output_feature_dimension,
            tuple(value.output_spatial_dimensions),
        )
    )


def _put_slices(found: _Put, value: Any) -> None:
    strided = any(d.stride != 1 for d in value)
    parts = (f"[{d.start}:{d.limit}" + (f":{d.stride}]" if strided else "]") for d in value)
    found["slice"] = "{" + ", ".join(parts) + "}"


def _put_padding(found: _Put, value: Any) -> None:
    dims = value.dimensions
    interior = any(d.interior_padding for d in dims)
    text = "x".join(
        f"{d.edge_padding_low}_{d.edge_padding_high}" + (f"_{d.interior_padding}" if interior else "") for d in dims
    )
    if text:
        found["padding"] = text


def _put_dot(found: _Put, value: Any) -> None:
    for key in ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch"):
        numbers = getattr(value, f"{key}_dimensions")
        if numbers:
            found[f"{key}_dims"] = _ints(numbers)


def _put_ragged_dot(found: _Put, value: Any) -> None:
    _put_dot(found, value.dot_dimension_numbers)
    for key, numbers in (
        ("lhs_ragged_dims", value.lhs_ragged_dimensions),
        ("rhs_group_dims", value.rhs_group_dimensions),
    ):
        if numbers:
            found[key] = _ints(numbers)


def _put_precision(found: _Put, value: Any) -> None:
    if any(value.operand_precision):
        found["operand_precision"] = "{" + ",".join(name_in(PRECISIONS, p) for p in value.operand_precision) + "}"
    if value.algorithm:
        found["algorithm"] = name_in(ALGORITHMS, value.algorithm)


def _put_pairs(found: _Put, value: Any) -> None:
    found["source_target_pairs"] = "{" + ",".join(f"{{{p.source},{p.target}}}" for p in value) + "}"


def _put_aliasing(found: _Put, value: Any) -> None:
    items = (f"{_ints(a.output_shape_index)}: ({a.operand_index}, {_ints(a.operand_shape_index)})" for a in value)
    found["output_to_operand_aliasing"] = "{" + ", ".join(items) + "}"


def _put_triangular(found: _Put, value: Any) -> None:
    for key in ("left_side", "lower", "unit_diagonal"):
        if getattr(value, key):
            found[key] = "true"
    if value.transpose_a:
        found["transpose_a"] = name_in(TRANSPOSES, value.transpose_a)


def _put_cholesky(found: _Put, value: Any) -> None:
    if value.lower:
        found["lower"] = "true"


def _put_replication(found: _Put, value: Any) -> None:
    if value.replicated_at_leaf_buffers:
        flags = ("true" if each else "false" for each in value.replicated_at_leaf_buffers)
        found["parameter_replication"] = "{" + ",".join(flags) + "}"


def _put_sharding(found: _Put, value: Any) -> None:
    found["sharding"] = sharding_text(value)


def _put_outfeed_shape(found: _Put, value: Any) -> None:
    found["outfeed_shape"] = str(shape_from_bytes(value))


def _put_comparison_type(found: _Put, value: Any) -> None:
    # Text names the type only where it is not the one that follows from the operands.
    if value == b"TOTALORDER":
        found["type"] = "TOTALORDER"


def _fix_iota(found: _Put, message: Any) -> None:
    found.pop("dimensions", None)
    found["iota_dimension"] = str(message.dimensions[0] if message.dimensions else 0)


def _fix_custom_call(found: _Put, message: Any) -> None:
    if message.constrain_layout:
        shapes = (str(shape_from_bytes(shape)) for shape in message.operand_shapes_with_layout)
        found["operand_layout_constraints"] = "{" + ", ".join(shapes) + "}"
    found.pop("constrain_layout", None)
    if message.custom_call_api_version == 0:
        found["api_version"] = API_VERSIONS[0]


def _fix_permute(found: _Put, message: Any) -> None:
    del message
    found.setdefault("source_target_pairs", "{}")


def _fix_copy_start(found: _Put, message: Any) -> None:
    if message.HasField("cross_program_prefetch_index"):
        found["cross_program_prefetch_index"] = str(message.cross_program_prefetch_index)
    elif message.is_cross_program_prefetch:
        found["cross_program_prefetch_index"] = "0"


def _fix_always(key: str, field: str, names: tuple[str, ...] | None = None) -> Callable[[_Put, Any], None]:
    def fix(found: _Put, message: Any) -> None:
        value = getattr(message, field)
        found[key] = name_in(names, value) if names else str(value)

    return fix


def _fix_batch_norm(found: _Put, message: Any) -> None:
    found["epsilon"] = f"{message.epsilon:.6g}"
    found["feature_index"] = str(message.feature_index)


def _fix_topk(found: _Put, message: Any) -> None:
    found["k"] = str(message.k)


def _fix_async(found: _Put, message: Any) -> None:
    # The main thread is what an empty name means.
    if message.async_execution_thread in (b"", b"main"):
        found.pop("async_execution_thread", None)


def _fix_precision_bits(found: _Put, message: Any) -> None:
    found["exponent_bits"] = str(message.exponent_bits)
    found["mantissa_bits"] = str(message.mantissa_bits)


_READERS: dict[str, Callable[[_Put, Any], None]] = {
    "fusion_kind": _put_text("kind"),
    "dimensions": _put_ints("dimensions"),
    "window": _put_window,
    "convolution_dimension_numbers": _put_conv,
    "slice_dimensions": _put_slices,
    "dynamic_slice_sizes": _put_ints("dynamic_slice_sizes"),
    "padding_config": _put_padding,
    "outfeed_config": _put_quoted("outfeed_config"),
    "distribution": _put_enum("distribution", DISTRIBUTIONS),
    "channel_id": _put_number("channel_id", 1),
    "all_reduce_id": _put_number("channel_id", 1),
    "infeed_config": _put_quoted("infeed_config"),
    "custom_call_target": _put_quoted("custom_call_target"),
    "outfeed_shape": _put_outfeed_shape,
    "dot_dimension_numbers": _put_dot,
    "ragged_dot_dimension_numbers": _put_ragged_dot,
    "fft_length": _put_ints("fft_length"),
    "gather_dimension_numbers": _put_message_ints(GATHER_DIMS),
    "gather_slice_sizes": _put_ints("slice_sizes"),
    "sharding": _put_sharding,
    "is_host_transfer": _put_flag("is_host_transfer"),
    "scatter_dimension_numbers": _put_message_ints(SCATTER_DIMS),
    "feature_group_count": _put_number("feature_group_count", 2),
    "batch_group_count": _put_number("batch_group_count", 2),
    "precision_config": _put_precision,
    "source_target_pairs": _put_pairs,
    "constrain_layout": _put_flag("constrain_layout"),
    "triangular_solve_options": _put_triangular,
    "is_stable": _put_flag("is_stable"),
    "parameter_replication": _put_replication,
    "cholesky_options": _put_cholesky,
    "comparison_direction": _put_text("direction"),
    "comparison_type": _put_comparison_type,
    "custom_call_has_side_effect": _put_flag("custom_call_has_side_effect"),
    "indices_are_sorted": _put_flag("indices_are_sorted"),
    "unique_indices": _put_flag("unique_indices"),
    "use_global_device_ids": _put_flag("use_global_device_ids"),
    "output_operand_aliasing": _put_aliasing,
    "padding_type": _put_enum("padding_type", PADDING_TYPES),
    "custom_call_schedule": _put_enum("schedule", SCHEDULES),
    "custom_call_api_version": _put_enum("api_version", API_VERSIONS, 1),
    "async_execution_thread": _put_quoted("async_execution_thread"),
    "largest": _put_flag("largest"),
    "is_composite": _put_flag("is_composite"),
}
_FIXES: dict[str, Callable[[_Put, Any], None]] = {
    "iota": _fix_iota,
    "custom-call": _fix_custom_call,
    "collective-permute": _fix_permute,
    "collective-permute-start": _fix_permute,
    "copy-start": _fix_copy_start,
    "fft": _fix_always("fft_type", "fft_type", FFT_TYPES),
    "rng-bit-generator": _fix_always("algorithm", "rng_algorithm", RNG_ALGORITHMS),
    "rng-get-and-update-state": _fix_always("delta", "delta"),
    "reduce-precision": _fix_precision_bits,
    "batch-norm-training": _fix_batch_norm,
    "batch-norm-inference": _fix_batch_norm,
    "batch-norm-grad": _fix_batch_norm,
    "topk": _fix_topk,
    "async-start": _fix_async,
    "async-update": _fix_async,
    "async-done": _fix_async,
}
