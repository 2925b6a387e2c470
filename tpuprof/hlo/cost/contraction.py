"""FLOPs and matrix shapes of dots and convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tpuprof.hardware.dtypes import matmul_passes
from tpuprof.hlo.cost.model import ContractionKind, MatmulShape
from tpuprof.hlo.cost.windows import valid_pairs
from tpuprof.hlo.dims import ConvDims, WindowDim
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.shapes import DTYPE_BITS, Shape

_COMPLEX = ("c64", "c128")
# Algorithms name the type that is multiplied and how many products make one; the rest have the name of a precision.
_ALGORITHMS = {
    "dot_bf16_bf16_bf16": "bf16", "dot_bf16_bf16_f32": "bf16", "dot_bf16_bf16_f32_x3": "f32@high",
    "dot_bf16_bf16_f32_x6": "f32@highest", "dot_bf16_bf16_f32_x9": "f32@bf16_x9", "dot_tf32_tf32_f32": "tf32",
    "dot_tf32_tf32_f32_x3": "f32@tf32_x3", "dot_f16_f16_f16": "f16", "dot_f16_f16_f32": "f16",
    "dot_f32_f32_f32": "f32@highest", "dot_f64_f64_f64": "f64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contraction:
    """FLOPs (2 per multiply-add, 8 if complex) of a dot or convolution, its type key and its matrix shape."""

    flops: int
    dtype: str
    shape: MatmulShape


def mxu_passes(key: str) -> int:
    """Products of the matrix unit that one product of this type key takes on a TPU, of the class that it is made of.

    f32 at default precision is one product of bf16, ``f32@high`` three, ``f32@highest`` six.
    """
    return matmul_passes(key.partition("@")[2] or "default")


def contraction(instruction: Instruction, lhs: Shape, rhs: Shape) -> Contraction | None:
    """The work of a ``dot``, ``ragged-dot`` or ``convolution``; null if its shapes or dimensions do not tell.

    Raises:
        HloError: an attribute cannot be read.
    """
    if instruction.opcode == "convolution" or instruction.conv_dims is not None:
        dims = instruction.conv_dims
        if dims is None:
            return None
        groups = (instruction.feature_group_count, instruction.batch_group_count)
        return convolution(instruction.window, dims, groups, lhs, rhs, result_array(instruction.shape), instruction)
    return _dot(instruction, lhs, rhs)


def convolution(
    window: tuple[WindowDim, ...], dims: ConvDims, groups: tuple[int, int], lhs: Shape, rhs: Shape, out: Shape,
    instruction: Instruction,
) -> Contraction | None:  # fmt: skip
    """The work of a convolution: 2 x output batch x output features x input features per group x valid positions.

    Positions of the window in the padding or in the holes of a dilated input do no work: TPU writes batched matmuls
    as convolutions that hit one real position each.
    """
    if not (_fits(lhs, dims.input_batch, dims.input_feature, *dims.input_spatial)
            and _fits(rhs, dims.kernel_input, dims.kernel_output, *dims.kernel_spatial)
            and _fits(out, dims.output_batch, dims.output_feature, *dims.output_spatial)):  # fmt: skip
        return None
    rank = len(dims.input_spatial)
    if not rank == len(dims.kernel_spatial) == len(dims.output_spatial) or len(window) > rank:
        return None
    features, batch_groups = groups
    count = max(1, features) * max(1, batch_groups)
    m, n, k = out.dims[dims.output_batch], out.dims[dims.output_feature], rhs.dims[dims.kernel_input]
    flops = 2 * m * n * k
    batch, n = count, max(1, n // count) if n else 0
    kind: ContractionKind = "dot"
    for axis in range(rank):
        inputs, outputs = lhs.dims[dims.input_spatial[axis]], out.dims[dims.output_spatial[axis]]
        size = rhs.dims[dims.kernel_spatial[axis]]
        dim = window[axis] if axis < len(window) else WindowDim(size)
        valid = valid_pairs(dim, inputs, outputs)
        if valid is None:
            return None
        flops *= valid
        if valid == 0:
            m = 0
        elif outputs == 1:
            k *= valid
        elif valid == outputs == size and inputs == size:
            batch *= valid  # every output position has its own kernel position
        elif valid == outputs and inputs == 1:
            n *= outputs
        elif valid == outputs:
            m *= outputs
        else:
            m, k, kind = m * outputs, k * size, "convolution"
    return _contraction(instruction, flops, (batch, m, n, k), lhs, rhs, out, kind)


def _dot(instruction: Instruction, lhs: Shape, rhs: Shape) -> Contraction | None:
    dims, out = instruction.dot_dims, result_array(instruction.shape)
    if dims is None or not lhs.is_array or not rhs.is_array or not out.is_array:
        return None
    if not _fits(lhs, *dims.lhs_contracting, *dims.lhs_batch) or not _fits(rhs, *dims.rhs_contracting, *dims.rhs_batch):
        return None
    if out.elements is None:
        return None
    left, right = (*dims.lhs_contracting, *dims.lhs_batch), (*dims.rhs_contracting, *dims.rhs_batch)
    if len(left) != len(right) or len(set(left)) != len(left) or len(set(right)) != len(right):
        return None
    if [lhs.dims[axis] for axis in left] != [rhs.dims[axis] for axis in right]:
        return None
    k = prod(lhs.dims[axis] for axis in dims.lhs_contracting)
    batch = prod(lhs.dims[axis] for axis in dims.lhs_batch)
    taken = {*left}
    m = prod(size for axis, size in enumerate(lhs.dims) if axis not in taken)
    skipped = {*right}
    if instruction.opcode == "ragged-dot":
        # Every row belongs to one of the groups, so the group dimension of the right operand is no work.
        text = instruction.attributes.get("rhs_group_dims", "")
        skipped |= {int(each) for each in text.strip("{} ").split(",") if each.strip().isdecimal()}
    n = prod(size for axis, size in enumerate(rhs.dims) if axis not in skipped)
    if instruction.opcode == "dot" and out.elements != batch * m * n:
        return None
    return _contraction(instruction, 2 * batch * m * n * k, (batch, m, n, k), lhs, rhs, out, "dot")


def _contraction(
    instruction: Instruction, flops: int, sizes: tuple[int, int, int, int], lhs: Shape, rhs: Shape, out: Shape,
    kind: ContractionKind,
) -> Contraction:  # fmt: skip
    precision = _precision(instruction)
    if lhs.dtype in _COMPLEX:
        flops *= 4
    shape = MatmulShape(*sizes, lhs.dtype, rhs.dtype, out.dtype, precision, 1, kind)
    return Contraction(flops, type_key(lhs.dtype, rhs.dtype, precision), shape)


def type_key(lhs: str, rhs: str, precision: str = "default") -> str:
    """The key of `OpCost.flops_by_dtype`: the wider type of the two, with the precision where one is asked for."""
    if precision in _ALGORITHMS:
        return _ALGORITHMS[precision]
    wide = lhs if DTYPE_BITS.get(lhs, 0) >= DTYPE_BITS.get(rhs, 0) else rhs
    return f"{wide}@{precision}" if precision in ("high", "highest") and wide in ("f32", "f64") else wide


def result_array(shape: Shape) -> Shape:
    """The first array of a result: library calls return it together with their workspace."""
    return next((leaf for leaf in shape.leaves() if leaf.is_array), shape)


def _precision(instruction: Instruction) -> str:
    attributes = instruction.attributes
    if "algorithm" in attributes:
        return attributes["algorithm"]
    asked = attributes.get("operand_precision", "").strip("{} ").split(",")
    return "highest" if "highest" in asked else "high" if "high" in asked else "default"


def _fits(shape: Shape, *axes: int) -> bool:
    return shape.is_array and min(shape.dims, default=0) >= 0 and all(0 <= axis < len(shape.dims) for axis in axes)
