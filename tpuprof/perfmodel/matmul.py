"""A matmul on one device: operations, exact bytes, padding to the matrix unit, and the time they take.

Formulas: scaling book, chapters "Rooflines" and "TPUs".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import ceil, isqrt, prod

from tpuprof.dtypes import DTYPE_BITS, hlo_dtype, packed_bytes
from tpuprof.errors import UsageError
from tpuprof.perfmodel.arrays import Array, parse_array
from tpuprof.perfmodel.checks import counted
from tpuprof.text import clean

SUBLANES = 8
"""Rows that a matrix unit of a TPU takes at a time, in 32-bit registers."""
_HLO_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([0-9,]*)\]")


@dataclass(frozen=True, slots=True)
class Matmul:
    """``batch`` products [m,k]x[k,n] of one device.

    Args:
        lhs_dtype, rhs_dtype, out_dtype: element types by the names of HLO.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    lhs_dtype: str = "bf16"
    rhs_dtype: str = "bf16"
    out_dtype: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            counted(f"The size {name} of the matmul", getattr(self, name))
        for name in ("lhs_dtype", "rhs_dtype", "out_dtype"):
            object.__setattr__(self, name, hlo_dtype(getattr(self, name)))

    @property
    def flops(self) -> int:
        """Operations: a multiplication and an addition for each of m*n*k terms."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def bytes_by_operand(self) -> dict[str, float]:
        """Bytes of both inputs, read once, and of the output, written once."""
        return {
            "lhs": packed_bytes(self.lhs_dtype, self.batch * self.m * self.k),
            "rhs": packed_bytes(self.rhs_dtype, self.batch * self.k * self.n),
            "out": packed_bytes(self.out_dtype, self.batch * self.m * self.n),
        }

    @property
    def bytes(self) -> float:
        """The sum of the bytes by operand."""
        return sum(self.bytes_by_operand.values())

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes

    @property
    def compute_dtype(self) -> str:
        """The type that the matrix unit multiplies: the wider operand's, since the other one is converted to it."""
        return max(self.lhs_dtype, self.rhs_dtype, key=lambda dtype: (DTYPE_BITS[dtype], dtype))

    def padded_flops(self, mxu_size: int) -> int:
        """Operations that a TPU does after padding to its matrix unit.

        The stationary operand fills squares of the unit's edge, and the other one streams through in rows of 8. The
        compiler may swap the operands; the better of the two is taken.

        Raises:
            UsageError: the size is below 1.
        """
        edge = counted("The size of the matrix unit", mxu_size)
        k = _up(self.k, edge)
        ways = (_up(self.m, SUBLANES) * _up(self.n, edge), _up(self.m, edge) * _up(self.n, SUBLANES))
        return 2 * self.batch * k * min(ways)

    def padding_waste(self, mxu_size: int) -> float:
        """The share of the padded operations that multiply padding, from 0 to below 1."""
        return 1 - self.flops / self.padded_flops(mxu_size)


def matmul_of(
    lhs: Array, rhs: Array, *, out_dtype: str | None = None, contract: tuple[int, int] | None = None
) -> Matmul:
    """The matmul of two arrays: the last dimension of the first with the first of the second, or the two given.

    The other dimensions of each are taken together, so ``[32,1024,8192] x [8192,32768]`` has m = 32768.

    Args:
        out_dtype: of the output; that of the wider floating input if not given.
        contract: the dimensions that are summed over, counted from 0.

    Raises:
        UsageError: they do not fit, or a size or type is not known.
    """
    left, right = contract if contract is not None else (len(lhs.dims) - 1, 0)
    for array, dim in ((lhs, left), (rhs, right)):
        if not 0 <= dim < len(array.dims):
            raise UsageError(f"{array} has no dimension {dim} to sum over.", hint="Count dimensions from 0.")
        if array.dtype is None:
            raise UsageError("The element type is not known.", where=str(array), hint=f"Write bf16{array}.")
        if array.axes or array.partial:
            raise UsageError(
                f"{array} is sharded, but this is the matmul of one device.",
                hint="Give the shapes of one device, or ask `tpuprof calc sharded-matmul`.",
            )
    if lhs.shape[left] != rhs.shape[right]:
        raise UsageError(
            f"{lhs} and {rhs} do not fit: the sizes {lhs.shape[left]} and {rhs.shape[right]} are summed over.",
            hint="Say with --contract which dimensions are summed over, such as --contract 1,1.",
        )
    k = lhs.shape[left]
    if k == 0 or 0 in lhs.shape or 0 in rhs.shape:
        raise UsageError("A dimension of the matmul is 0.", where=f"{lhs} x {rhs}")
    made = Matmul(prod(lhs.shape) // k, prod(rhs.shape) // k, k, 1, lhs.dtype or "", rhs.dtype or "", lhs.dtype or "")
    return replace(made, out_dtype=hlo_dtype(out_dtype) if out_dtype else made.compute_dtype)


def matmul_of_line(text: str) -> Matmul:
    """The matmul of an HLO line whose output and first two operands are its matrices, such as
    ``bf16[8,1024,16384] = fusion(bf16[8,1024,8192], bf16[8192,16384])``.

    The contracted size follows from the three sizes alone, whatever order the dimensions are in, as long as there are
    no batch dimensions: k² = lhs * rhs / out.

    Raises:
        UsageError: there are fewer than three arrays, or no matmul has these sizes.
    """
    found = [parse_array(f"{dtype}[{dims}]") for dtype, dims in _HLO_ARRAY.findall(text[:100_000])[:3]]
    if len(found) < 3:
        raise UsageError(
            f"{clean(text)[:200]!r} names fewer than three arrays.",
            hint="Write the line with its operand shapes, like bf16[8,16] = fusion(bf16[8,4], bf16[4,16]).",
        )
    out, lhs, rhs = (prod(array.shape) for array in found)
    square = lhs * rhs // out if out else 0
    k = isqrt(square)
    if not out or square * out != lhs * rhs or k * k != square or not k or lhs % k or rhs % k:
        raise UsageError(
            "No matmul without batch dimensions has these sizes.",
            where=clean(text)[:200],
            hint="Give the two operands as arrays instead.",
        )
    types = [array.dtype or "" for array in found]
    return Matmul(lhs // k, rhs // k, k, 1, types[1], types[2], types[0])


def _up(size: int, multiple: int) -> int:
    return ceil(size / multiple) * multiple
