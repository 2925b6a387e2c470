"""Cost of library calls that are matrix products or convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod

from tpuprof.hlo.cost.configs import axes, mapping
from tpuprof.hlo.cost.contraction import convolution, result_array, type_key
from tpuprof.hlo.cost.formulas import CallCost, CustomCall
from tpuprof.hlo.cost.memory import by_space, padded_bytes
from tpuprof.hlo.cost.model import MatmulShape
from tpuprof.hlo.shapes import Shape
from tpuprof.hlo.targets import CONVOLUTION_TARGETS, GEMM_TARGETS

_CONFIGS = ("gemm_backend_config", "onednn_matmul_config", "triton_gemm_config")


def gemm_cost(call: CustomCall) -> CallCost | None:
    """The cost of a GEMM library call; null if it is none or its shapes do not tell.

    The dimension numbers are in the backend configuration; without them the operands are taken to share their leading
    (batch) dimensions, and the summed size follows from the numbers of elements.
    """
    if not GEMM_TARGETS.match(call.target) or len(call.operands) < 2 or not call.results:
        return None
    lhs, rhs, out = call.operands[0], call.operands[1], call.results[0]
    if any(not each.is_array or min(each.dims, default=0) < 0 for each in (lhs, rhs, out)):
        return None
    sizes = _by_config(call, lhs, rhs) or _by_elements(lhs, rhs, out)
    if sizes is None:
        return None
    shape = MatmulShape(*sizes, lhs.dtype, rhs.dtype, out.dtype)
    return CallCost(
        matmul_flops=shape.flops, dtype=type_key(lhs.dtype, rhs.dtype), family="gemm", matmuls=(shape,),
        bytes_written=_without_workspace(call),
    )  # fmt: skip


def convolution_cost(call: CustomCall) -> CallCost | None:
    """The cost of a convolution library call; null if it is none or its shapes do not tell.

    A gradient does the multiplications of its forward convolution; the window is that of the forward one.
    """
    if not CONVOLUTION_TARGETS.match(call.target) or len(call.operands) < 2 or not call.results:
        return None
    dims = call.instruction.conv_dims
    if dims is None:
        return None
    first, second, out = call.operands[0], call.operands[1], result_array(call.instruction.shape)
    if "BackwardInput" in call.target:
        first, out = out, first
    elif "BackwardFilter" in call.target:
        second, out = out, second
    groups = (call.instruction.feature_group_count, call.instruction.batch_group_count)
    found = convolution(call.instruction.window, dims, groups, first, second, out, call.instruction)
    if found is None:
        return None
    return CallCost(
        matmul_flops=found.flops, dtype=found.dtype, family="convolution", matmuls=(found.shape,),
        bytes_written=_without_workspace(call),
    )  # fmt: skip


def _without_workspace(call: CustomCall) -> Mapping[str, int] | None:
    """Bytes of the results that are no scratch memory: libraries return the workspace as bytes behind them."""
    kept = [shape for at, shape in enumerate(call.results) if at == 0 or shape.dtype not in ("s8", "u8")]
    return by_space((shape, padded_bytes(shape)) for shape in kept)


def _by_config(call: CustomCall, lhs: Shape, rhs: Shape) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) by the dimension numbers of the configuration."""
    config = mapping(call.instruction.backend_config_json)
    found = mapping(
        next((mapping(config[key]) for key in _CONFIGS if key in config), config).get("dot_dimension_numbers")
    )
    summed, batch = axes(found.get("lhs_contracting_dimensions")), axes(found.get("lhs_batch_dimensions"))
    right = [*axes(found.get("rhs_contracting_dimensions")), *axes(found.get("rhs_batch_dimensions"))]
    left = [*summed, *batch]
    if not summed or not all(0 <= axis < len(lhs.dims) for axis in left):
        return None
    if len(right) != len(left) or not all(0 <= axis < len(rhs.dims) for axis in right):
        return None
    return (
        prod(lhs.dims[axis] for axis in batch),
        prod(size for axis, size in enumerate(lhs.dims) if axis not in left),
        prod(size for axis, size in enumerate(rhs.dims) if axis not in right),
        prod(lhs.dims[axis] for axis in summed),
    )


def _by_elements(lhs: Shape, rhs: Shape, out: Shape) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) such that lhs has batch x m x k elements, rhs batch x k x n and the result batch x m x n."""
    batch = 1
    for each in zip(lhs.dims[:-2], rhs.dims[:-2], out.dims[:-2], strict=False):
        if len(set(each)) != 1:
            return None
        batch *= each[0]
    left, right, made = (prod(shape.dims) for shape in (lhs, rhs, out))
    if not left or not right or not made or left % batch or right % batch or made % batch:
        return (batch, 0, 0, 0) if 0 in (left, right, made) else None
    left, right, made = left // batch, right // batch, made // batch
    k = isqrt(left * right // made)
    if k * k * made != left * right or left % k or right % k:
        return None
    return batch, left // k, right // k, k
