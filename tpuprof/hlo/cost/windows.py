"""How often the window of a convolution or a reduce-window meets real input."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from tpuprof.hlo.dims import WindowDim

MAX_STEPS = 1 << 20


@lru_cache(maxsize=4096)
def valid_pairs(dim: WindowDim, inputs: int, outputs: int) -> int | None:
    """Number of (output position, window position) pairs that meet an input element, in one dimension.

    Output position o and window position k meet input i where o x stride + k x window_dilation - pad_low equals
    i x base_dilation; positions in the padding and in the holes of a dilated input meet none. Null if the window is
    too long to count (more than 2^20 positions).
    """
    if inputs <= 0 or outputs <= 0 or dim.size <= 0:
        return 0
    if dim.size == 1 and dim.stride == 1 and dim.base_dilation == 1 and dim.pad_low == 0 and inputs == outputs:
        return outputs
    stride, dilation, base = max(1, dim.stride), max(1, dim.window_dilation), max(1, dim.base_dilation)
    # The relation is symmetric: run over the shorter one, count the other in closed form.
    if min(dim.size, outputs) > MAX_STEPS:
        return None
    total = 0
    if dim.size <= outputs:
        for k in range(dim.size):
            total += _hits(stride, k * dilation - dim.pad_low, base, inputs, outputs)
    else:
        for o in range(outputs):
            total += _hits(dilation, o * stride - dim.pad_low, base, inputs, dim.size)
    return total


def _hits(step: int, origin: int, base: int, inputs: int, count: int) -> int:
    """How many t of 0 … count - 1 make origin + t x step a multiple of ``base`` in [0, (inputs - 1) x base]."""
    low = max(0, -(origin // step))  # the first t with origin + t * step >= 0
    high = min(count - 1, ((inputs - 1) * base - origin) // step)
    if high < low:
        return 0
    common = gcd(step, base)
    if origin % common:
        return 0
    period = base // common
    if period == 1:
        return high - low + 1
    first = (-origin // common) * pow(step // common, -1, period) % period
    first += -(-(low - first) // period) * period
    return (high - first) // period + 1 if first <= high else 0
