"""The slice that options name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuprof.errors import UsageError

if TYPE_CHECKING:
    from tpuprof.hardware import Chip
    from tpuprof.hardware.topology import Slice


def slice_of(chip: Chip, topology: str | None, chips: int | None, slices: int = 1) -> Slice:
    """The slice of ``--topology`` or ``--chips``.

    Raises:
        UsageError: none or both are given, or there is no such slice.
    """
    from tpuprof.hardware import make_slice
    from tpuprof.hardware.slices import default_shape
    from tpuprof.hardware.topology import TORUS_AXES

    if (topology is None) == (chips is None):
        raise UsageError("The slice is given " + ("nowhere." if chips is None else "twice."),
                         hint="Give either --topology or --chips.")  # fmt: skip
    if chips is not None:
        if chips < 1:
            raise UsageError(f"{chips} chips are none.", hint="Give --chips of 1 or more.")
        return make_slice(chip, default_shape(chip, chips), slices=slices)
    text = topology or ""
    twisted = text.endswith("_twisted")
    parts = text.removesuffix("_twisted").split("x")
    if len(parts) > len(TORUS_AXES) or not all(part.isdecimal() and len(part) < 7 for part in parts):
        raise UsageError(f"{text[:60]!r} is no topology.", hint="Write it like 16x16 or 8x16x16.")
    return make_slice(chip, tuple(map(int, parts)), twisted=twisted, slices=slices)
