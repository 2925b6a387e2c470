"""Whether a convolution is a matrix multiplication in disguise.

TPU writes every matmul as a convolution. Batch dimensions and dimensions of which an operand has no part become
spatial dimensions of the window, with strides, dilations and padding such that no output position ever combines
several input positions with several kernel positions. A real convolution slides: some output position, of several,
sums over more than one pair of input and kernel positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tpuprof.hlo import Instruction, Shape, WindowDim

_MAX_POSITIONS = 1 << 14


def is_matmul(convolution: Instruction, operands: Sequence[Shape]) -> bool:
    """Whether no dimension of the convolution has a real window over input positions.

    Args:
        convolution: the instruction.
        operands: the shapes of input and kernel; if they are not known, only windows of size 1 count as no window.
    """
    dims = convolution.conv_dims
    window = convolution.window
    if dims is None:
        return not any(dim.size > 1 for dim in window)
    for index, dim in enumerate(window):
        if dim.size <= 1:
            continue
        if not operands or index >= len(dims.input_spatial) or index >= len(dims.output_spatial):
            return False
        axis, out_axis = dims.input_spatial[index], dims.output_spatial[index]
        if axis >= len(operands[0].dims) or out_axis >= len(convolution.shape.dims):
            return False
        if slides(dim, operands[0].dims[axis], convolution.shape.dims[out_axis]):
            return False
    return True


def slides(dim: WindowDim, inputs: int, outputs: int) -> bool:
    """Whether an output position, of several, sums over more than one (input, kernel) pair in this dimension."""
    if dim.size <= 1 or outputs <= 1 or inputs < 1:
        return False
    return any(_pairs_are_several(dim, inputs, position) for position in range(min(outputs, _MAX_POSITIONS)))


def _pairs_are_several(dim: WindowDim, inputs: int, position: int) -> bool:
    # Kernel position k meets input i where position * stride + k * window_dilation - pad_low = i * base_dilation.
    step, base = max(1, dim.window_dilation), max(1, dim.base_dilation)
    origin = position * dim.stride - dim.pad_low
    low = max(0, -(origin // step))  # the first k with origin + k * step >= 0
    high = min(dim.size - 1, ((inputs - 1) * base - origin) // step)
    common = gcd(step, base)
    if high <= low or origin % common:
        return False
    period = base // common
    first = (-origin // common) * pow(step // common, -1, period) % period if period > 1 else 0
    first += -(-(low - first) // period) * period if first < low else 0
    return first + period <= high
