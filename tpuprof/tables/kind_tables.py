"""What opcodes, category stats and names say about the kind of an op: data, not code.

The name table is the last resort and the one that ages, so it carries a version; results say how much device time
was decided by it.
"""

from __future__ import annotations

import re

from tpuprof.hlo.targets import ATTENTION

KIND_TABLE_VERSION = 1
"""Raised with every change of the name table, so that stored results tell by which one they were made."""

ELEMENTWISE_OPCODES = frozenset({
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan2", "atanh", "bitcast-convert", "broadcast", "cbrt",
    "ceil", "clamp", "compare", "complex", "convert", "cosine", "cosh", "count-leading-zeros", "divide", "erf",
    "exponential", "exponential-minus-one", "floor", "imag", "iota", "is-finite", "log", "log-plus-one", "logistic",
    "map", "maximum", "minimum", "multiply", "mulhi", "negate", "not", "or", "popcnt", "power", "real",
    "reduce-precision", "remainder", "rng", "rng-bit-generator", "rng-get-and-update-state", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
    "sine", "sinh", "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor",
})  # fmt: skip
MOVEMENT_OPCODES = frozenset({
    "bitcast", "concatenate", "copy", "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "pad", "reshape",
    "reverse", "set-dimension-size", "slice", "transpose",
})  # fmt: skip
# What takes no part in the kind of a fusion: it moves and computes nothing.
FREE_OPCODES = frozenset({
    "add-dependency", "after-all", "bitcast", "constant", "domain", "get-tuple-element", "opt-barrier", "parameter",
    "partition-id", "replica-id", "tuple",
})  # fmt: skip
COMPUTE_OPCODES: dict[str, str] = {
    **dict.fromkeys(("dot", "ragged-dot", "scaled-dot"), "matmul"),
    **dict.fromkeys(("reduce", "reduce-window"), "reduction"),
    **dict.fromkeys(("gather", "scatter"), "gather_scatter"),
    **dict.fromkeys(ELEMENTWISE_OPCODES, "elementwise"),
    **dict.fromkeys(MOVEMENT_OPCODES, "data_movement"),
}
OTHER_OPCODES = FREE_OPCODES | {
    "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "cholesky", "fft", "get-dimension-size", "scan",
    "select-and-scatter", "sort", "topk", "triangular-solve",
}  # fmt: skip
CONTAINER_OPCODES = frozenset({"while", "conditional", "call"})

# Category stat -> kind, or "opcode" where the category is an opcode and is looked up as one. A category that says too
# little (what a custom or output fusion holds) is left to the name, and stands as given here if the name is silent.
CATEGORIES: dict[str, str] = {
    "convolution fusion": "matmul",
    "convolution": "convolution",
    "convolution base-dilated": "convolution",
    "convolution window-dilated": "convolution",
    "loop fusion": "elementwise",
    "input fusion": "reduction",
    "gather fusion": "gather_scatter",
    "scatter fusion": "gather_scatter",
    "non-fusion elementwise": "elementwise",
    "data formatting": "data_movement",
    "host send": "host_transfer",
    "host send-done": "host_transfer",
    "host recv": "host_transfer",
    "host recv-done": "host_transfer",
    "sparsecorev0 infeed": "host_transfer",
    "sparsecorev0 outfeed": "host_transfer",
    "sparsecorev0 infeed transform": "host_transfer",
}
VAGUE_CATEGORIES: dict[str, str] = {
    "custom fusion": "other_compute",
    "output fusion": "other_compute",
    "megacore fusion": "other_compute",
    "fusion": "other_compute",
    "custom-call": "custom_kernel",
}
COLLECTIVE_CATEGORIES: dict[str, str] = {
    "all-reduce fusion": "all_reduce",
    "all-gather fusion": "all_gather",
    "reduce-scatter fusion": "reduce_scatter",
    "all-reduce-scatter fusion": "reduce_scatter",
    "all-to-all fusion": "all_to_all",
    "collective-permute fusion": "collective_permute",
}

# Kernels of GPU libraries and compilers, and what profilers call copies. First match wins: (pattern, kind, collective).
_KERNEL_PATTERNS: tuple[tuple[str, str, str | None], ...] = (
    (r"memcpy ?(?:h2d|d2h|htod|dtoh)|copy(?:hosttodevice|devicetohost)", "host_transfer", None),
    (r"memcpy ?(?:p2p|peer)|copypeertopeer", "collective", "send_recv"),
    (r"memcpy|memset|copydevicetodevice|__amd_rocclr_(?:copy|fill)", "data_movement", None),
    (r"(?:nccl|rccl).*allreduce", "collective", "all_reduce"),
    (r"(?:nccl|rccl).*allgather", "collective", "all_gather"),
    (r"(?:nccl|rccl).*reducescatter", "collective", "reduce_scatter"),
    (r"(?:nccl|rccl).*alltoall", "collective", "all_to_all"),
    (r"(?:nccl|rccl).*broadcast", "collective", "collective_broadcast"),
    (r"(?:nccl|rccl).*(?:send|recv)", "collective", "send_recv"),
    (r"(?:nccl|rccl)\w*kernel", "collective", None),
    (ATTENTION.pattern, "attention", None),
    (
        r"cudnn.*(?:fprop|dgrad|wgrad|conv)|implicit_?gemm|winograd|im2col|(?:fprop|dgrad|wgrad)_|miopen.*conv"
        r"|igemm_(?:fwd|bwd|wrw)|convolve_",
        "convolution",
        None,
    ),
    (r"cijk_|gemm|gemv|cutlass|cublas|(?:^|_)xmma_|nvjet|matmul|dot_kernel|splitkreduce", "matmul", None),
)
KERNELS = tuple((re.compile(pattern, re.IGNORECASE), kind, name) for pattern, kind, name in _KERNEL_PATTERNS)

# Words in names of instructions and fusions, JAX's primitives among them.
_WORD_LISTS = {
    "matmul": "dot gemm matmul einsum ynn convolution",
    "convolution": "conv",
    "reduction": "reduce argmax argmin cumsum cumprod cummax",
    "elementwise": "abs add and broadcast clamp compare convert cosine divide elementwise erf exp exponential floor "
    "iota log logistic maximum minimum mul multiply negate not or power remainder rng rsqrt select shift sign sine "
    "sqrt sub subtract tanh threefry2x32 xor",
    "gather_scatter": "gather scatter",
    "data_movement": "concatenate copy pad reshape reverse slice squeeze transpose update",
}
_WORDS = {word: kind for kind, words in _WORD_LISTS.items() for word in words.split()}
PRIMITIVE_COLLECTIVES: dict[str, str] = {
    "psum": "all_reduce",
    "psum_invariant": "all_reduce",
    "pmax": "all_reduce",
    "pmin": "all_reduce",
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_invariant": "all_gather",
    "psum_scatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "ragged_all_to_all": "ragged_all_to_all",
    "ppermute": "collective_permute",
    "collective_permute": "collective_permute",
    "pbroadcast": "collective_broadcast",
}


def kinds_of_words(name: str) -> set[str]:
    """The kinds that the words of a name speak of, e.g. of ``multiply_reduce_fusion``."""
    words = re.split(r"[_\-.\d]+", name.lower())
    kinds = {_WORDS[word] for word in words if word in _WORDS}
    # XLA's GPU compiler puts the form of a fusion first.
    return kinds or ({"elementwise"} if words[0] == "loop" and words[-1] == "fusion" else set())
