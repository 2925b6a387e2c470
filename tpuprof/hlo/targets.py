"""What opcodes of collectives, targets of custom calls and names of kernels say: shared by kinds and costs of ops."""

from __future__ import annotations

import re

# The kind of each collective; halves of asynchronous pairs add -start, -update or -done.
COLLECTIVE_OPCODES: dict[str, str] = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "ragged_all_to_all",
    "collective-permute": "collective_permute",
    "collective-broadcast": "collective_broadcast",
}
# Custom calls by which the compiler talks to itself; they do no work.
FREE_TARGETS = frozenset({
    "AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "Noop", "PrepareAsyncCallDone",
    "PrepareAsyncCallStart", "Sharding", "SliceBitcast", "SPMDFullToShardShape", "SPMDShardToFullShape",
})  # fmt: skip
# Targets, by their beginning. GEMM libraries are matmuls; what is a kernel of a user is not.
GEMM_TARGETS = re.compile(
    r"__cublas\$|__hipblas|__onednn\$matmul|__triton\$gemm|__triton_gemm|.*eigen_?(?:single_threaded_)?(?:matmul|dot)"
    r"|__eigen\$(?:matmul|dot)|__ynn\$(?:matmul|dot)|__xla_cpu_runtime_(?:eigen|acl|mkl)\w*matmul|cublas|.*cutlass_gemm",
    re.IGNORECASE,
)
CONVOLUTION_TARGETS = re.compile(r"__cudnn\$conv|__miopen\$conv|__onednn\$convolution|.*eigen_?conv", re.IGNORECASE)
KERNEL_TARGETS = re.compile(r"tpu_custom_call|mosaic|.*triton|.*pallas", re.IGNORECASE)
ATTENTION = re.compile(
    r"flash[-_ ]?(?:attention|attn|mha|decod|fwd|bwd)|flash_kernel|splash|paged[-_ ]?(?:attention|attn)"
    r"|(?<![a-z])rpa(?![a-z])|fmha|mha_fwd|mha_bwd|fused[-_]?(?:attention|attn)|dot_product_attention|sdpa",
    re.IGNORECASE,
)
