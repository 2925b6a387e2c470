"""The sizes of a fused matrix product of which only the fusion's line and its number of operations are known."""

from __future__ import annotations

from collections.abc import Sequence

from tpuprof.hlo.cost import MatmulShape
from tpuprof.hlo.cost.contraction import result_array
from tpuprof.hlo.shapes import Shape

LEAST = 0.95
"""Of the stated operations the product must be at least this share: the rest is what else is fused to it."""


def inferred_matmul(result: Shape, operands: Sequence[Shape | None], flops: float) -> MatmulShape | None:
    """The one product [m, k] x [k, n] that an operand [k, n], the result and the operations allow.

    Null if there is none, or several. Products with a batch dimension are not found.

    Args:
        result: of the fusion; of a tuple its first array.
        operands: of the fusion; null where the text has none.
        flops: of one execution, elementwise work of the fusion included.
    """
    out = result_array(result)
    elements = out.elements if out.is_array else None
    if not elements or elements < 0 or flops <= 0:
        return None
    found: dict[tuple[int, int, int], MatmulShape] = {}
    arrays = sorted((shape for shape in operands if shape is not None and shape.is_array), key=_size, reverse=True)
    for shape in arrays:
        sizes = [size for size in shape.dims if size != 1]
        if len(sizes) != 2 or min(sizes) < 1:
            continue
        for k, n in (sizes, sizes[::-1]):
            m, product = elements // n, 2.0 * elements * k
            if m * n != elements or not LEAST * flops <= product <= flops * (1 + 1e-9):
                continue
            other = next((a.dtype for a in arrays if a is not shape and a.elements == m * k), shape.dtype)
            # The operands may be found either way round; that of the larger one counts.
            found.setdefault((k, min(m, n), max(m, n)), MatmulShape(1, m, n, k, other, shape.dtype, out.dtype))
    return next(iter(found.values())) if len(found) == 1 else None


def _size(shape: Shape) -> int:
    return shape.byte_size or 0
