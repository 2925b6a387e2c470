"""What the targets of custom calls, and names of kernels, say: data that classification and cost share."""

from __future__ import annotations

import re

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
