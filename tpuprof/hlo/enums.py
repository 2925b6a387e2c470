"""Names of enum values, and which opcodes carry which lists of dimensions."""

from __future__ import annotations

FFT_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")
PRECISIONS = ("default", "high", "highest", "packed_nibble")
ALGORITHMS = (
    "unset", "dot_any_f8_any_f8_f32", "dot_any_f8_any_f8_f32_fast_accum", "dot_f16_f16_f16",
    "dot_f16_f16_f32", "dot_bf16_bf16_bf16", "dot_bf16_bf16_f32", "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32", "dot_tf32_tf32_f32_x3", "dot_f32_f32_f32", "dot_f64_f64_f64", "dot_bf16_bf16_f32_x9",
)  # fmt: skip
DISTRIBUTIONS = ("rng_invalid", "rng_uniform", "rng_normal")
RNG_ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
TRANSPOSES = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI",
)  # fmt: skip
PADDING_TYPES = ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")
GROUPED = frozenset({
    "all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "reduce-scatter", "all-to-all",
    "ragged-all-to-all", "collective-broadcast",
})  # fmt: skip
GATHER_DIMS = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
               "start_indices_batching_dims")  # fmt: skip
SCATTER_DIMS = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
"input_batching_dims",
                "scatter_indices_batching_dims")  # fmt: skip


def name_in(names: tuple[str, ...], number: int) -> str:
    """The name of an enum value, ``unknown(N)`` outside the list."""
    return names[number] if 0 <= number < len(names) else f"unknown({number})"
